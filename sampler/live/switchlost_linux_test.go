package live

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/live/internal/stacknames"
	"github.com/ddtop/ddtop/sampler/live/internal/works"
	"github.com/ddtop/ddtop/sampler/switches"
	"github.com/ddtop/ddtop/sampler/switches/tracer"
)

// written is a feed for tests: its records are written by the test, and do not come from the kernel.
type written struct {
	records []switches.Record
	counts  tracer.Counts
}

func (w *written) Drain(emit func(*switches.Record)) error {
	for i := range w.records {
		emit(&w.records[i])
		w.counts.Records++
	}
	w.records = w.records[:0]
	return nil
}

func (w *written) DrainStacks(func(*bpf.Stack)) error { return nil }
func (w *written) Counts() (tracer.Counts, error)     { return w.counts, nil }
func (w *written) Close() error                       { return nil }

// writtenRun returns a switchRun that gets its records from w and not from the kernel.
func writtenRun(w *written) *switchRun {
	x := &switchRun{source: &Source{sampling: sampling{budget: pace.NewBudget(0)}}, feed: w, stacks: stacknames.New(), taken: make(map[instant]stacknames.Taken)}
	x.to = exact.NewMachine(func(c *exact.Change) { x.changes.Changed(c) })
	x.rules, x.changes = switches.NewMachine(x.to), exact.NewCollector(0)
	x.works = works.New()
	return x
}

// TestLostRecordsSayNothing: if records of thread switches were lost, ddtop must report no changes for the time of the
// loss. Each thread's state must be unknown until the thread's next record. If only some words of a record could not be
// read, only the state of this record's thread must be unknown.
func TestLostRecordsSayNothing(t *testing.T) {
	const ms, a, b = 1_000_000, 11, 12
	w := &written{}
	x := writtenRun(w)
	list := exact.NewList(2)
	list.Add(0x1000, 1, a)
	list.Add(0x2000, 2, b)
	record := func(tid int32, from, to int64, holds bool) {
		r := switches.Record{Kind: switches.Out, TID: tid, InNS: from * ms, NS: to * ms, Thread: uint64(tid-a+1) << 12, Region: true, Syscall: -1}
		if holds {
			r.Owner, r.Linked = r.Thread, true
		}
		w.records = append(w.records, r)
	}
	known := make(map[int32]sampler.GVLState)
	sample := func(at int64) *sampler.Changes {
		t.Helper()
		if err := x.drain((at + 30) * ms); err != nil {
			t.Fatal(err)
		}
		x.advance((at + 5) * ms)
		s := sampler.Sample{TimeNS: at * ms}
		x.fill(&s, list, true)
		c := &s.Changes
		if c.Fresh || !c.Known() {
			clear(known)
		}
		for i := range c.List {
			known[c.List[i].TID] = c.List[i].State
		}
		return c
	}
	record(a, 10, 20, true)
	record(b, 12, 22, false)
	if c := sample(100); !c.Known() || known[a] != sampler.GVLHeld || known[b] != sampler.GVLReleased {
		t.Errorf("at first: %+v, %v", c, known)
	}
	w.counts.Lost = 5 // lost between 130 ms, when the ring was drained, and 230 ms
	for _, at := range []int64{200, 300} {
		if c := sample(at); c.Known() {
			t.Errorf("at %d: changes of time in which records were lost: %+v", at, c)
		}
	}
	record(b, 340, 350, true)
	if c := sample(400); !c.Known() || len(known) != 1 || known[b] != sampler.GVLHeld {
		t.Errorf("afterwards: %+v, %v", c, known)
	}
	record(b, 440, 450, true)
	w.records[0].Failed = 3
	if sample(500); known[b] != sampler.GVLGone {
		t.Errorf("a thread whose words could not be read: %v", known)
	}
	record(b, 540, 550, false)
	if c := sample(600); !c.Known() || known[b] != sampler.GVLReleased {
		t.Errorf("and could be read again: %+v, %v", c, known)
	}
}

// TestFetchesBeforeRoomIsFull: if many processes are followed, each has little space for records of thread switches.
// ddtop must fetch the records before they fill more than half of this space.
func TestFetchesBeforeRoomIsFull(t *testing.T) {
	const ms, rate = 1_000_000, 700 // rate is in records per second
	for _, room := range []int{33_000, 500} {
		w := &written{counts: tracer.Counts{Room: room}}
		x := writtenRun(w)
		for now := int64(1000 * ms); now < 4000*ms; now += 100 * ms {
			w.counts.Records += rate / 10
			if err := x.drain(now); err != nil {
				t.Fatal(err)
			}
		}
		if n := rate * x.everyNS.Load() / 1e9; n > int64(room)/2 || x.everyNS.Load() < leastFetch {
			t.Errorf("with room for %d, %d records wait for %v", room, n, time.Duration(x.everyNS.Load()))
		}
	}
}
