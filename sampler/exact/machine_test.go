package exact

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// told collects the changes that a Machine reports.
type told []Change

func (k *told) changed(c *Change) { *k = append(*k, *c) }

// String returns the changes as text. For example, "100 1 held" means that thread 1 got the GVL at 100.
func (k *told) String() string {
	var all []string
	for _, c := range *k {
		text := fmt.Sprintf("%d %d %v", c.AtNS, c.TID, c.State)
		if c.NoCPUNS > 0 {
			text += fmt.Sprintf(" no CPU %d", c.NoCPUNS)
		}
		if c.Doubtful {
			text += " doubtful"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// These are the threads of the tests. The rb_thread_t threadA belongs to the native thread 1, and so on. timer is the
// timer thread.
const (
	threadA, threadB, threadC = 0xa0, 0xb0, 0xc0
	timer                     = 9
)

func run(at int64, tid int32, thread uint64) Record {
	return Record{NS: at, TID: tid, Kind: Unlocked, Thread: thread, Owner: thread, Linked: true}
}

func queue(at int64, tid int32, thread, owner uint64) Record {
	return Record{NS: at, TID: tid, Kind: Slept, Thread: thread, Owner: owner, Queued: true, Last: thread}
}

func release(at int64, tid int32, thread, next uint64) Record {
	return Record{NS: at, TID: tid, Kind: Signalled, Thread: thread, Owner: next}
}

// old and slept return records in the form that probes make up to Ruby 3.2.
func old(at int64, tid int32, thread, owner uint64) Record {
	return Record{NS: at, TID: tid, Kind: Unlocked, Thread: thread, Owner: owner, Before33: true}
}

func slept(at int64, tid int32, thread, owner uint64) Record {
	return Record{NS: at, TID: tid, Kind: Slept, Thread: thread, Owner: owner, Queued: true, Before33: true}
}

func TestMachine(t *testing.T) {
	for name, c := range map[string]struct {
		records []Record
		want    string
	}{
		"a wait, the queue and the hand-over": {
			[]Record{run(100, 1, threadA), queue(200, 2, threadB, threadA), release(500, 1, threadA, threadB),
				{NS: 505, TID: 1, Kind: Unlocked, Thread: threadA, Owner: threadB}, run(520, 2, threadB)},
			"100 1 held, 200 2 queued, 500 1 released, 505 2 chosen, 520 2 held",
		},
		"one that wakes another puts it into the queue": {
			[]Record{run(100, 1, threadA), {NS: 110, TID: 2, Kind: Slept, Thread: threadB, Owner: threadA},
				{NS: 300, TID: 1, Kind: Unlocked, Thread: threadA, Owner: threadA, Linked: true, Last: threadB}, release(400, 1, threadA, threadB), run(410, 2, threadB)},
			"100 1 held, 110 2 released, 300 2 queued, 400 1 released, 410 2 held",
		},
		"the timer thread wakes one while nobody runs": {
			[]Record{{NS: 100, TID: 1, Kind: Slept, Thread: threadA}, {NS: 200, TID: timer, Kind: Unlocked, Owner: threadA}, run(230, 1, threadA)},
			"100 1 released, 200 1 chosen, 230 1 held",
		},
		"a time slice ends": {
			[]Record{run(100, 1, threadA), queue(150, 2, threadB, threadA),
				{NS: 300, TID: 1, Kind: Signalled, Thread: threadA, Owner: threadB, Queued: true},
				{NS: 302, TID: 1, Kind: Slept, Thread: threadA, Owner: threadB, Queued: true, Last: threadA}, run(350, 2, threadB)},
			"100 1 held, 150 2 queued, 300 1 queued, 302 2 chosen, 350 2 held",
		},
		"time without a CPU": {
			[]Record{{NS: 100, TID: 1, Kind: Unlocked, Thread: threadA, Owner: threadA, Linked: true, DelayNS: 1000},
				{NS: 400, TID: 1, Kind: Unlocked, Thread: threadA, DelayNS: 1120}, {NS: 500, TID: 1, Kind: Unlocked, Thread: threadA, Owner: threadA, Linked: true, DelayNS: 1130}},
			"100 1 held, 400 1 released no CPU 120, 500 1 held no CPU 10",
		},
		"a signal says nothing of one that does not run": {
			[]Record{{NS: 100, TID: 1, Kind: Unlocked, Thread: threadA}, {NS: 200, TID: 1, Kind: Signalled, Thread: threadA, Queued: true}},
			"100 1 released",
		},
		"a turn that did not end is doubtful": {
			[]Record{run(100, 1, threadA), run(300, 2, threadB)},
			"100 1 held, 300 1 released doubtful, 300 2 held",
		},
		"a thread ends, the next one gets its memory": {
			[]Record{run(100, 1, threadA), {NS: 200, TID: 1, Kind: Unlocked, Thread: threadA}, {NS: 220, TID: 1, Kind: Exited},
				{NS: 300, TID: timer, Kind: Unlocked, Owner: threadA}, run(310, 4, threadA)},
			"100 1 held, 200 1 released, 220 1 gone, 310 4 held",
		},
		"an end that was not seen": {
			[]Record{{NS: 100, TID: 1, Kind: Unlocked, Thread: threadA}, run(300, 4, threadA)},
			"100 1 released, 300 1 gone, 300 4 held",
		},
		"a native thread serves another thread": {
			[]Record{run(100, 1, threadA), run(200, 1, threadB)},
			"100 1 held, 200 1 gone, 200 1 held",
		},
		"memory tells how it began, unless a record knows better": {
			[]Record{{NS: 90, TID: 1, Kind: Unlocked, Thread: threadA}, {NS: 100, TID: 1, Kind: Began, Thread: threadA, Owner: threadA, Linked: true},
				{NS: 100, TID: 2, Kind: Began, Thread: threadB, Queued: true}},
			"90 1 released, 100 2 queued",
		},
		"out of order": {
			[]Record{run(300, 1, threadA), {NS: 200, TID: 1, Kind: Unlocked, Thread: threadA}},
			"300 1 held, 300 1 released",
		},
		"up to 3.2: the queue, and nobody is chosen": {
			[]Record{old(100, 1, threadA, threadA), slept(150, 2, threadB, threadA), {NS: 300, TID: 1, Kind: Signalled, Thread: threadA, Before33: true},
				old(305, 1, threadA, 0), old(320, 2, threadB, threadB)},
			"100 1 held, 150 2 queued, 300 1 released, 320 2 held",
		},
		"up to 3.2: a time slice ends": {
			[]Record{old(100, 1, threadA, threadA), slept(150, 2, threadB, threadA), {NS: 300, TID: 1, Kind: Signalled, Thread: threadA, Before33: true},
				slept(303, 1, threadA, 0), old(320, 2, threadB, threadB), slept(325, 1, threadA, threadB), {NS: 400, TID: 2, Kind: Signalled, Thread: threadB, Before33: true},
				old(401, 2, threadB, 0), old(410, 1, threadA, threadA)},
			"100 1 held, 150 2 queued, 300 1 released, 303 1 queued, 320 2 held, 400 2 released, 410 1 held",
		},
		"up to 3.2: a native thread takes it for a new thread, and still names the old one": {
			[]Record{old(100, 1, threadA, threadA), old(200, 1, threadA, 0), slept(210, 2, threadB, 0), old(300, 1, threadA, threadC),
				{NS: 400, TID: 1, Kind: Signalled, Thread: threadC, Before33: true}, old(405, 1, threadC, 0), old(410, 2, threadB, threadB),
				old(500, 1, threadC, threadB)},
			"100 1 held, 200 1 released, 210 2 queued, 300 1 gone, 300 1 held, 400 1 released, 410 2 held",
		},
		"up to 3.2: who owns it is not put into the queue by another": {
			[]Record{old(100, 1, threadA, 0), slept(150, 2, threadB, threadA)},
			"100 1 released, 150 2 queued",
		},
		"up to 2.7: a thread's last release is none of Ruby's": {
			[]Record{old(100, 1, threadA, threadA), {NS: 200, TID: 1, Kind: Unlocked, Before33: true}, old(300, 1, threadB, threadB)},
			"100 1 held, 200 1 gone, 300 1 held",
		},
		"none of Ruby's": {
			[]Record{{NS: 100, TID: timer, Kind: Unlocked}, {NS: 200, TID: timer, Kind: Exited}, {NS: 300, TID: 77, Kind: Exited}},
			"",
		},
	} {
		k := new(told)
		m := NewMachine(k.changed)
		for i := range c.records {
			m.Feed(&c.records[i])
		}
		if got := k.String(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestLostRecordsMakeDoubtful(t *testing.T) {
	k := new(told)
	m := NewMachine(k.changed)
	feed := func(r Record) { m.Feed(&r) }
	feed(run(100, 1, threadA))
	m.Lost(300) // some records from before 300 are missing
	feed(release(250, 1, threadA, threadB))
	feed(run(280, 2, threadB))
	feed(release(400, 2, threadB, threadA))
	feed(run(410, 1, threadA))
	const want = "100 1 held, 250 1 released doubtful, 280 2 held doubtful, 400 2 released doubtful, 410 1 held doubtful"
	if got := k.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestGone: if the record of a thread's end was lost, Gone reports the end. If a thread has made a record after the
// loss, it has not ended.
func TestGone(t *testing.T) {
	k := new(told)
	m := NewMachine(k.changed)
	feed := func(r Record) { m.Feed(&r) }
	feed(run(100, 1, threadA))
	feed(queue(200, 2, threadB, threadA))
	feed(queue(210, 3, threadC, threadA))
	m.Lost(300)
	feed(release(400, 1, threadA, threadC))
	feed(run(410, 3, threadC))
	m.Gone(500, func(tid int32) bool { return tid == 1 }) // thread 3 has made a record since the loss
	const want = "100 1 held, 200 2 queued, 210 3 queued, 400 1 released doubtful, 410 3 held doubtful, 500 2 gone doubtful"
	if got := k.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestComparedWithSampling(t *testing.T) {
	m := NewMachine(nothing)
	feed := func(r Record) { m.Feed(&r) }
	feed(run(1e6, 1, threadA))
	feed(release(5e6, 1, threadA, threadB))
	feed(run(5.1e6, 2, threadB))
	feed(release(9e6, 2, threadB, 0))
	feed(run(20e6, 1, threadA))
	for _, c := range []struct {
		at    int64
		tid   int32
		agree bool
	}{
		{2e6, 1, true}, {5.5e6, 1, true}, {8e6, 1, false}, {4.5e6, 2, true}, {3e6, 2, false}, {8e6, 2, true}, {15e6, 2, false}, {15e6, 1, false},
		{19.5e6, 1, true}, {30e6, 1, true}, {30e6, 3, false},
	} {
		m.compared = comparison{}
		before := m.Checks()
		m.Compare(c.tid, c.at)
		m.Compare(c.tid, c.at+1) // a second comparison for the same sample
		after := m.Checks()
		if got := after.Agreed - before.Agreed; (got == 1) != c.agree || after.Agreed+after.Disagreed != before.Agreed+before.Disagreed+1 {
			t.Errorf("thread %d at %d: %+v after %+v", c.tid, c.at, after, before)
		}
	}
	before := m.Checks()
	feed(Record{NS: 31e6, TID: 2, Kind: Exited})
	m.Compare(2, 32e6) // another thread may have this thread's address now
	if after := m.Checks(); after != before {
		t.Errorf("one that has ended was compared: %+v", after)
	}
	m.Lost(40e6)
	m.Compare(1, 35e6)
	if after := m.Checks(); after != before {
		t.Errorf("what may be missing was compared: %+v", after)
	}
}

func TestPastIsBounded(t *testing.T) {
	m := NewMachine(nothing)
	for i := range int64(3 * maxPast) {
		r := run(2*i*SlackNS, 1, threadA)
		m.Feed(&r)
		r = release((2*i+1)*SlackNS, 1, threadA, 0)
		m.Feed(&r)
	}
	if len(m.past.holds) != maxPast {
		t.Errorf("%d holds are kept", len(m.past.holds))
	}
	m.Compare(1, 100) // this time is before the oldest hold that is kept, so the Machine ignores it
	m.Compare(1, 6*(maxPast-10)*SlackNS)
	if c := m.Checks(); c.Agreed != 1 || c.Disagreed != 0 {
		t.Errorf("%+v", c)
	}
}

func TestThreadsAreBounded(t *testing.T) {
	m := NewMachine(nothing)
	for i := range int32(maxThreads + 10) {
		m.Feed(&Record{NS: int64(i), TID: i + 1, Kind: Unlocked, Thread: uint64(i+1) << 12})
	}
	if len(m.threads) != maxThreads || len(m.tidOf) != maxThreads || m.Checks().Untracked != 10 {
		t.Errorf("%d threads, %d addresses, %d untracked", len(m.threads), len(m.tidOf), m.Checks().Untracked)
	}
	for i := range int32(maxThreads) {
		m.Feed(&Record{NS: 1 << 30, TID: i + 1, Kind: Exited})
	}
	if len(m.threads) != 0 || len(m.tidOf) != 0 {
		t.Errorf("%d threads, %d addresses are left", len(m.threads), len(m.tidOf))
	}
}

// TestSteadyStateAllocatesNothing: after a Machine has seen its threads once, it allocates nothing for further records.
// This matters because a busy process makes 150,000 records a second.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	m := NewMachine(nothing)
	records := []Record{run(0, 1, threadA), queue(0, 2, threadB, threadA), release(0, 1, threadA, threadB), run(0, 2, threadB), queue(0, 1, threadA, threadB),
		release(0, 2, threadB, threadA), {TID: 3, Kind: Unlocked, Thread: threadC}, {TID: 3, Kind: Exited}}
	at := int64(0)
	all := func() {
		for i := range records {
			at += 10
			records[i].NS = at
			m.Feed(&records[i])
		}
	}
	for range maxPast {
		all()
	}
	if n := testing.AllocsPerRun(1000, all); n != 0 {
		t.Errorf("%g allocations for %d records", n, len(records))
	}
}

func nothing(*Change) {}

// FuzzMachine: for any records, the Machine reports changes in order of time. Each change is to another state than
// before. At most one thread holds the GVL at a time.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{1, 1, 1, 1, 3, 1, 2, 2, 2, 1, 1, 0, 3, 3, 1, 2, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		k := new(told)
		m := NewMachine(k.changed)
		at := int64(0)
		for ; len(data) >= 8; data = data[8:] {
			at += int64(int8(data[0])) // time can also go back
			r := Record{
				NS: at, TID: 1 + int32(data[1]%4), Kind: Kind(data[2] % 8), Queued: data[3]&1 != 0, Linked: data[3]&2 != 0, Before33: data[3]&4 != 0,
				Thread: uint64(data[4]%5) << 4, Owner: uint64(data[5]%5) << 4, Last: uint64(data[6]%5) << 4, DelayNS: int64(int8(data[7])),
			}
			if data[3]&0xf0 == 0xf0 {
				m.Lost(at + int64(binary.LittleEndian.Uint16(data[6:])))
			}
			m.Feed(&r)
		}
		states, since := make(map[uint64]sampler.GVLState), make(map[uint64]int64)
		last, holder := int64(math.MinInt64), uint64(0)
		for _, c := range *k {
			was, known := states[c.Life]
			if c.AtNS < last || c.NoCPUNS < 0 || known && c.NoCPUNS > c.AtNS-since[c.Life] {
				t.Fatalf("%+v after %d, in its state since %d", c, last, since[c.Life])
			}
			chosen := was == sampler.GVLQueued && c.State == sampler.GVLChosen
			if waits(was) && waits(c.State) && !chosen || was == c.State && (known || was == sampler.GVLGone) {
				t.Fatalf("%+v changes nothing, it was %v", c, was)
			}
			if c.State == sampler.GVLHeld && holder != 0 {
				t.Fatalf("%+v, and thread %d holds it", c, holder)
			}
			switch {
			case c.State == sampler.GVLHeld:
				holder = c.Life
			case holder == c.Life:
				holder = 0
			}
			if !chosen {
				since[c.Life] = c.AtNS
			}
			states[c.Life], last = c.State, c.AtNS
			if c.State == sampler.GVLGone {
				delete(states, c.Life)
			}
		}
	})
}

// TestFirstTurn: up to Ruby 3.2, a thread's first record lacks the rb_thread_t, because it is not in the thread-local
// storage yet. The Machine finds the thread from the owner of the GVL and from earlier records.
func TestFirstTurn(t *testing.T) {
	for name, c := range map[string]struct {
		began []Record
		owner uint64
		want  sampler.GVLState
	}{
		"listed":                         {[]Record{{NS: 1, TID: 7, Kind: Began, Thread: 0x70, Queued: true, Before33: true}}, 0x70, sampler.GVLHeld},
		"listed, while another holds it": {[]Record{{NS: 1, TID: 7, Kind: Began, Thread: 0x70, Queued: true, Before33: true}}, 0x80, sampler.GVLReleased},
		"listed, after it has queued": {[]Record{
			{NS: 1, TID: 7, Kind: Began, Thread: 0x70, Queued: true, Before33: true},
			{NS: 2, TID: 7, Kind: Slept, Owner: 0x80, Queued: true, Before33: true},
		}, 0x70, sampler.GVLHeld},
		"at its end, no thread of Ruby's any more": {[]Record{{NS: 1, TID: 7, Kind: Unlocked, Thread: 0x70, Owner: 0x70, Before33: true}}, 0, sampler.GVLGone},
		"new":                                {nil, 0x70, sampler.GVLHeld},
		"no thread of Ruby's, nobody has it": {nil, 0, sampler.GVLGone},
		"no thread of Ruby's":                {[]Record{{NS: 1, TID: 8, Kind: Unlocked, Thread: 0x80, Owner: 0x80, Before33: true}}, 0x80, sampler.GVLGone},
	} {
		m := NewMachine(nothing)
		for i := range c.began {
			m.Feed(&c.began[i])
		}
		m.Feed(&Record{NS: 10, TID: 7, Kind: Unlocked, Owner: c.owner, Before33: true})
		got := sampler.GVLGone
		if x := m.threads[7]; x != nil {
			got = x.state
		}
		if got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
