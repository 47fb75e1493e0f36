package exact

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// told keeps what a Machine says, as text and as it is.
type told struct {
	intervals []Interval
	waits     []Wait
}

func (k *told) Interval(i *Interval) { k.intervals = append(k.intervals, *i) }
func (k *told) Waited(w *Wait)       { k.waits = append(k.waits, *w) }

func (k *told) lines() string {
	var b strings.Builder
	for _, i := range k.intervals {
		fmt.Fprintf(&b, "%d %v %d-%d", i.TID, i.State, i.FromNS, i.ToNS)
		if i.NoCPUNS > 0 {
			fmt.Fprintf(&b, " no CPU %d", i.NoCPUNS)
		}
		if i.Doubtful {
			b.WriteString(" doubtful")
		}
		b.WriteByte('\n')
	}
	for _, w := range k.waits {
		fmt.Fprintf(&b, "%d waited %d-%d for %d, then %d, handed over %d", w.TID, w.FromNS, w.ToNS, w.FirstHolder, w.LastHolder, w.HandoverNS)
		if w.InProgress {
			b.WriteString(", still")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// The threads of the tests: rb_thread_t A is of native thread 1, and so on; timer is the timer thread.
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

// old and slept are records of Ruby up to 3.2.
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
			"1 running 100-500\n2 waiting 200-520\n1 released 500-900\n2 running 520-900\n" +
				"2 waited 200-520 for 1, then 1, handed over 15\n",
		},
		"one that wakes another puts it into the queue": {
			[]Record{run(100, 1, threadA), {NS: 110, TID: 2, Kind: Slept, Thread: threadB, Owner: threadA},
				{NS: 300, TID: 1, Kind: Unlocked, Thread: threadA, Owner: threadA, Linked: true, Last: threadB}, release(400, 1, threadA, threadB), run(410, 2, threadB)},
			"2 released 110-300\n1 running 100-400\n2 waiting 300-410\n1 released 400-900\n2 running 410-900\n" +
				"2 waited 300-410 for 1, then 1, handed over 0\n",
		},
		"the timer thread wakes one while nobody runs": {
			[]Record{{NS: 100, TID: 1, Kind: Slept, Thread: threadA}, {NS: 200, TID: timer, Kind: Unlocked, Owner: threadA}, run(230, 1, threadA)},
			"1 released 100-200\n1 waiting 200-230\n1 running 230-900\n1 waited 200-230 for 0, then 0, handed over 30\n",
		},
		"a time slice ends": {
			[]Record{run(100, 1, threadA), queue(150, 2, threadB, threadA),
				{NS: 300, TID: 1, Kind: Signalled, Thread: threadA, Owner: threadB, Queued: true},
				{NS: 302, TID: 1, Kind: Slept, Thread: threadA, Owner: threadB, Queued: true, Last: threadA}, run(350, 2, threadB)},
			"1 running 100-300\n2 waiting 150-350\n1 waiting 300-900\n2 running 350-900\n" +
				"2 waited 150-350 for 1, then 1, handed over 48\n1 waited 300-900 for 2, then 2, handed over 0, still\n",
		},
		"time without a CPU": {
			[]Record{{NS: 100, TID: 1, Kind: Unlocked, Thread: threadA, Owner: threadA, Linked: true, DelayNS: 1000},
				{NS: 400, TID: 1, Kind: Unlocked, Thread: threadA, DelayNS: 1120}, {NS: 500, TID: 1, Kind: Unlocked, Thread: threadA, DelayNS: 1130}},
			"1 running 100-400 no CPU 120\n1 released 400-900 no CPU 10\n",
		},
		"a signal says nothing of one that does not run": {
			[]Record{{NS: 100, TID: 1, Kind: Unlocked, Thread: threadA}, {NS: 200, TID: 1, Kind: Signalled, Thread: threadA, Queued: true}},
			"1 released 100-900\n",
		},
		"a turn that did not end is doubtful": {
			[]Record{run(100, 1, threadA), run(300, 2, threadB)},
			"1 running 100-300 doubtful\n1 released 300-900\n2 running 300-900\n",
		},
		"a thread ends, the next one gets its memory": {
			[]Record{run(100, 1, threadA), {NS: 200, TID: 1, Kind: Unlocked, Thread: threadA}, {NS: 220, TID: 1, Kind: Exited},
				{NS: 300, TID: timer, Kind: Unlocked, Owner: threadA}, run(310, 4, threadA)},
			"1 running 100-200\n1 released 200-220\n4 running 310-900\n",
		},
		"an end that was not seen": {
			[]Record{{NS: 100, TID: 1, Kind: Unlocked, Thread: threadA}, run(300, 4, threadA)},
			"1 released 100-300\n4 running 300-900\n",
		},
		"a native thread serves another thread": {
			[]Record{run(100, 1, threadA), run(200, 1, threadB)},
			"1 running 100-200\n1 running 200-900\n",
		},
		"memory tells how it began, unless a record knows better": {
			[]Record{{NS: 90, TID: 1, Kind: Unlocked, Thread: threadA}, {NS: 100, TID: 1, Kind: Began, Thread: threadA, Owner: threadA, Linked: true},
				{NS: 100, TID: 2, Kind: Began, Thread: threadB, Queued: true}},
			"1 released 90-900\n2 waiting 100-900\n2 waited 100-900 for 0, then 0, handed over 0, still\n",
		},
		"out of order": {
			[]Record{run(300, 1, threadA), {NS: 200, TID: 1, Kind: Unlocked, Thread: threadA}},
			"1 running 300-300\n1 released 300-900\n",
		},
		"up to 3.2: the queue, and nobody is chosen": {
			[]Record{old(100, 1, threadA, threadA), slept(150, 2, threadB, threadA), {NS: 300, TID: 1, Kind: Signalled, Thread: threadA, Before33: true},
				old(305, 1, threadA, 0), old(320, 2, threadB, threadB)},
			"1 running 100-300\n2 waiting 150-320\n1 released 300-900\n2 running 320-900\n2 waited 150-320 for 1, then 1, handed over 20\n",
		},
		"up to 3.2: a time slice ends": {
			[]Record{old(100, 1, threadA, threadA), slept(150, 2, threadB, threadA), {NS: 300, TID: 1, Kind: Signalled, Thread: threadA, Before33: true},
				slept(303, 1, threadA, 0), old(320, 2, threadB, threadB), slept(325, 1, threadA, threadB), {NS: 400, TID: 2, Kind: Signalled, Thread: threadB, Before33: true},
				old(401, 2, threadB, 0), old(410, 1, threadA, threadA)},
			"1 running 100-300\n1 released 300-303\n2 waiting 150-320\n2 running 320-400\n1 waiting 303-410\n1 running 410-900\n2 released 400-900\n" +
				"2 waited 150-320 for 1, then 1, handed over 20\n1 waited 303-410 for 0, then 2, handed over 10\n",
		},
		"up to 3.2: who owns it is not put into the queue by another": {
			[]Record{old(100, 1, threadA, 0), slept(150, 2, threadB, threadA)},
			"1 released 100-900\n2 waiting 150-900\n2 waited 150-900 for 1, then 0, handed over 0, still\n",
		},
		"up to 2.7: a thread's last release is none of Ruby's": {
			[]Record{old(100, 1, threadA, threadA), {NS: 200, TID: 1, Kind: Unlocked, Before33: true}, old(300, 1, threadB, threadB)},
			"1 running 100-200\n1 running 300-900\n",
		},
		"none of Ruby's": {
			[]Record{{NS: 100, TID: timer, Kind: Unlocked}, {NS: 200, TID: timer, Kind: Exited}, {NS: 300, TID: 77, Kind: Exited}},
			"",
		},
	} {
		k := new(told)
		m := NewMachine(k)
		for i := range c.records {
			m.Feed(&c.records[i])
		}
		m.Finish(900)
		if got := k.lines(); got != c.want {
			t.Errorf("%s:\n%swant\n%s", name, got, c.want)
		}
	}
}

func TestLostRecordsMakeDoubtful(t *testing.T) {
	k := new(told)
	m := NewMachine(k)
	feed := func(r Record) { m.Feed(&r) }
	feed(run(100, 1, threadA))
	m.Lost(300) // some of before 300 are missing
	feed(release(250, 1, threadA, threadB))
	feed(run(280, 2, threadB))
	feed(release(400, 2, threadB, threadA))
	feed(run(410, 1, threadA))
	m.Finish(900)
	const want = "1 running 100-250 doubtful\n2 running 280-400 doubtful\n1 released 250-410 doubtful\n1 running 410-900\n2 released 400-900\n"
	if got := k.lines(); got != want {
		t.Errorf("%swant\n%s", got, want)
	}
}

// TestGone: a thread whose end is among the records that were lost is told of no longer; who made a record since is there.
func TestGone(t *testing.T) {
	k := new(told)
	m := NewMachine(k)
	feed := func(r Record) { m.Feed(&r) }
	feed(run(100, 1, threadA))
	feed(queue(200, 2, threadB, threadA))
	feed(queue(210, 3, threadC, threadA))
	m.Lost(300)
	feed(release(400, 1, threadA, threadC))
	feed(run(410, 3, threadC))
	m.Gone(500, func(tid int32) bool { return tid == 1 }) // 3 has been seen since: its end will be told
	m.Finish(900)
	const want = "1 running 100-400 doubtful\n3 waiting 210-410 doubtful\n2 waiting 200-500 doubtful\n1 released 400-900\n3 running 410-900\n" +
		"3 waited 210-410 for 1, then 1, handed over 0\n2 waited 200-500 for 1, then 3, handed over 0\n"
	if got := k.lines(); got != want {
		t.Errorf("%swant\n%s", got, want)
	}
}

func TestComparedWithSampling(t *testing.T) {
	m := NewMachine(new(told))
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
		m.looked = look{}
		before := m.Checks()
		m.Compare(c.tid, c.at)
		m.Compare(c.tid, c.at+1) // is the same look
		after := m.Checks()
		if got := after.Agreed - before.Agreed; (got == 1) != c.agree || after.Agreed+after.Disagreed != before.Agreed+before.Disagreed+1 {
			t.Errorf("thread %d at %d: %+v after %+v", c.tid, c.at, after, before)
		}
	}
	before := m.Checks()
	feed(Record{NS: 31e6, TID: 2, Kind: Exited})
	m.Compare(2, 32e6) // that may be who has its memory now
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
	m := NewMachine(nothing{})
	for i := range int64(3 * maxPast) {
		r := run(2*i*SlackNS, 1, threadA)
		m.Feed(&r)
		r = release((2*i+1)*SlackNS, 1, threadA, 0)
		m.Feed(&r)
	}
	if len(m.past.turns) != maxPast {
		t.Errorf("%d turns are kept", len(m.past.turns))
	}
	m.Compare(1, 100) // long forgotten
	m.Compare(1, 6*(maxPast-10)*SlackNS)
	if c := m.Checks(); c.Agreed != 1 || c.Disagreed != 0 {
		t.Errorf("%+v", c)
	}
}

func TestThreadsAreBounded(t *testing.T) {
	m := NewMachine(new(told))
	for i := range int32(maxThreads + 10) {
		m.Feed(&Record{NS: int64(i), TID: i + 1, Kind: Unlocked, Thread: uint64(i+1) << 12})
	}
	if len(m.threads) != maxThreads || len(m.of) != maxThreads || m.Checks().Untracked != 10 {
		t.Errorf("%d threads, %d addresses, %d untracked", len(m.threads), len(m.of), m.Checks().Untracked)
	}
	for i := range int32(maxThreads) {
		m.Feed(&Record{NS: 1 << 30, TID: i + 1, Kind: Exited})
	}
	if len(m.threads) != 0 || len(m.of) != 0 {
		t.Errorf("%d threads, %d addresses are left", len(m.threads), len(m.of))
	}
}

// TestSteadyStateAllocatesNothing: a busy process makes 150,000 records a second.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	m := NewMachine(nothing{})
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

type nothing struct{}

func (nothing) Interval(*Interval) {}
func (nothing) Waited(*Wait)       {}

// FuzzMachine: whatever the records, a thread's intervals follow each other, at most one thread runs at a time, and a wait is one of the
// intervals.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{1, 1, 1, 1, 3, 1, 2, 2, 2, 1, 1, 0, 3, 3, 1, 2, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		k := new(told)
		m := NewMachine(k)
		at := int64(0)
		for ; len(data) >= 8; data = data[8:] {
			at += int64(int8(data[0])) // back, too
			r := Record{
				NS: at, TID: 1 + int32(data[1]%4), Kind: Kind(data[2] % 8), Queued: data[3]&1 != 0, Linked: data[3]&2 != 0, Before33: data[3]&4 != 0,
				Thread: uint64(data[4]%5) << 4, Owner: uint64(data[5]%5) << 4, Last: uint64(data[6]%5) << 4, DelayNS: int64(int8(data[7])),
			}
			if data[3]&0xf0 == 0xf0 {
				m.Lost(at + int64(binary.LittleEndian.Uint16(data[6:])))
			}
			m.Feed(&r)
		}
		m.Finish(at)
		ends := make(map[int32]int64)
		var running []Interval
		for _, i := range k.intervals {
			if i.ToNS < i.FromNS || i.FromNS < ends[i.TID] || i.NoCPUNS < 0 || i.NoCPUNS > i.NS() || i.State == None {
				t.Fatalf("%+v after %d", i, ends[i.TID])
			}
			ends[i.TID] = i.ToNS
			if i.State == Running && i.NS() > 0 {
				running = append(running, i)
			}
		}
		slices.SortFunc(running, func(a, b Interval) int { return int(a.FromNS - b.FromNS) })
		for n := range running {
			if n > 0 && running[n].FromNS < running[n-1].ToNS {
				t.Fatalf("both run: %+v and %+v", running[n-1], running[n])
			}
		}
		for _, w := range k.waits {
			if !slices.Contains(k.intervals, w.Interval) || w.HandoverNS < 0 || w.HandoverNS > w.NS() || w.FirstHolder == w.TID || w.LastHolder == w.TID {
				t.Fatalf("%+v", w)
			}
		}
	})
}

// TestFirstTurn: up to Ruby 3.2 the record of a thread's first turn is made before its thread-local storage says whose it is.
func TestFirstTurn(t *testing.T) {
	for name, c := range map[string]struct {
		began []Record
		owner uint64
		want  State
	}{
		"listed":                         {[]Record{{NS: 1, TID: 7, Kind: Began, Thread: 0x70, Queued: true, Before33: true}}, 0x70, Running},
		"listed, while another holds it": {[]Record{{NS: 1, TID: 7, Kind: Began, Thread: 0x70, Queued: true, Before33: true}}, 0x80, Released},
		"listed, after it has queued": {[]Record{
			{NS: 1, TID: 7, Kind: Began, Thread: 0x70, Queued: true, Before33: true},
			{NS: 2, TID: 7, Kind: Slept, Owner: 0x80, Queued: true, Before33: true},
		}, 0x70, Running},
		"at its end, no thread of Ruby's any more": {[]Record{{NS: 1, TID: 7, Kind: Unlocked, Thread: 0x70, Owner: 0x70, Before33: true}}, 0, None},
		"new":                                {nil, 0x70, Running},
		"no thread of Ruby's, nobody has it": {nil, 0, None},
		"no thread of Ruby's":                {[]Record{{NS: 1, TID: 8, Kind: Unlocked, Thread: 0x80, Owner: 0x80, Before33: true}}, 0x80, None},
	} {
		m := NewMachine(nothing{})
		for i := range c.began {
			m.Feed(&c.began[i])
		}
		m.Feed(&Record{NS: 10, TID: 7, Kind: Unlocked, Owner: c.owner, Before33: true})
		got := None
		if x := m.threads[7]; x != nil {
			got = x.state
		}
		if got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
