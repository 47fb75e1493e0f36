package switches

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
)

// told collects the states of one thread as text. For example, "running 4-97" is a state with the times of its
// beginning and end.
type told struct {
	tid    int32
	doing  string
	fromNS int64
	out    []string
}

func (k *told) changed(c *exact.Change) {
	if c.TID == k.tid {
		k.does(map[sampler.GVLState]string{
			sampler.GVLReleased: "released", sampler.GVLQueued: "waiting", sampler.GVLChosen: "waiting", sampler.GVLHeld: "running",
		}[c.State], c.AtNS)
	}
}

// does records that the thread begins another state (what) at a time (at), in ns.
func (k *told) does(what string, at int64) {
	if what == k.doing {
		return
	}
	if k.doing != "" && at > k.fromNS {
		k.out = append(k.out, fmt.Sprintf("%s %d-%d", k.doing, k.fromNS/1000, at/1000))
	}
	k.doing, k.fromNS = what, at
}

// These are the addresses of the rb_thread_t, and the numbers of the native threads, of the two threads in the tests.
const (
	one, two = 0x1000, 0x2000
	tid1     = 11
	tid2     = 12
)

// us is a microsecond in ns.
const us = 1000

// out returns the record of a thread that lost its CPU. The thread was on the CPU from one time (from) to a later time
// (to), both in µs.
func out(tid int32, from, to int64, set func(*Record)) Record {
	r := Record{Kind: Out, TID: tid, InNS: from * us, NS: to * us, Thread: one, Region: true, Asleep: true, Syscall: 1}
	if tid == tid2 {
		r.Thread = two
	}
	set(&r)
	return r
}

func holds(r *Record)    { r.Owner, r.Linked, r.Region = r.Thread, true, false }
func queued(r *Record)   { r.Queued, r.Region = true, false }
func without(*Record)    {}
func computes(r *Record) { r.Asleep, r.Syscall = false, -1 }

// with returns a function that applies several changes to a record.
func with(of ...func(*Record)) func(*Record) {
	return func(r *Record) {
		for _, f := range of {
			f(r)
		}
	}
}

// TestJoinedWhileStatesWereRead: at the start, ddtop reads the states of all threads. After it has read the state of
// one thread, another thread puts this thread into the queue for the GVL. Until then, the thread has the state that was
// read. From then on, its state is waiting.
func TestJoinedWhileStatesWereRead(t *testing.T) {
	k := told{tid: tid2}
	to := exact.NewMachine(k.changed)
	m := NewMachine(to)
	for tid, thread := range map[int32]uint64{tid1: one, tid2: two} {
		m.Feed(&Record{Kind: Began, NS: 100 * us, TID: tid, Thread: thread, Owner: one, Linked: thread == one, Region: true, Syscall: -1})
	}
	r := out(tid1, 0, 300, with(holds, computes))
	r.Joined[0] = two
	m.Feed(&r)
	m.Advance(1000 * us)
	k.does("", 1000*us)
	if got := strings.Join(k.out, ", "); got != "released 100-200, waiting 200-1000" {
		t.Error(got)
	}
}

// TestRules: from the records of a thread and of other threads, Machine finds the right states of the thread. Times are
// in µs. At time 0, no thread has the GVL.
func TestRules(t *testing.T) {
	clock := func(r *Record) { r.Kind = Clock; computes(r) }
	gave := func(at int64) func(*Record) { return func(r *Record) { r.GaveNS = at * us } }
	called := func(name string) func(*Record) {
		return with(without, func(r *Record) { r.Asleep, r.Name = false, name })
	}
	sends, reads := called("sendto"), called("read")
	large := with(called("write"), func(r *Record) { r.Descriptor, r.Args[2] = true, largeBytes })
	went := func(pc uint64) func(*Record) { return func(r *Record) { r.PC = pc } }
	for _, c := range []struct {
		name    string
		records []Record
		want    string
		want32  string // the result for Ruby up to 3.2, if it differs from want
	}{
		{"a thread that sleeps", nil, "released 0-1000", ""},
		{"comes back, computes and is preempted, computes, sleeps", []Record{
			out(tid1, 100, 200, with(holds, computes)), out(tid1, 300, 400, without),
		}, "released 0-104, running 104-397, released 397-1000", ""},
		{"comes back, computes and sleeps within one interval", []Record{out(tid1, 100, 200, without)},
			"released 0-104, running 104-197, released 197-1000", ""},
		{"comes back, and has to wait", []Record{out(tid1, 100, 110, queued), out(tid1, 300, 400, with(holds, computes))},
			"released 0-107, waiting 107-304, running 304-1000", ""},
		{"hands the GVL over in the midst of an interval", []Record{
			out(tid1, 100, 200, with(holds, computes)), out(tid1, 200, 400, with(gave(250), without)),
		}, "released 0-104, running 104-250, released 250-1000", "released 0-104, running 104-250, released 250-300, running 300-397, released 397-1000"},
		{"hands the GVL over in the midst of an interval to a thread that takes it", []Record{
			out(tid1, 100, 200, with(holds, computes)), out(tid1, 200, 400, with(gave(250), without, func(r *Record) { r.Owner = two })),
		}, "released 0-104, running 104-250, released 250-1000", ""},
		{"sends to a server, loses its CPU to it, and sends again", []Record{
			out(tid1, 100, 200, sends), out(tid1, 300, 400, sends), out(tid1, 500, 600, without),
		}, "released 0-104, running 104-160, released 160-304, running 304-360, released 360-504, running 504-597, released 597-1000", ""},
		{"writes to a server, and loses its CPU to it", []Record{out(tid1, 100, 200, called("write"))},
			"released 0-104, running 104-196, released 196-1000", ""},
		{"is preempted in a large write", []Record{
			out(tid1, 100, 200, large), out(tid1, 300, 400, large), out(tid1, 500, 600, with(large, func(r *Record) { r.Asleep = true })),
		}, "released 0-1000", ""},
		{"is preempted in a long call without the GVL", []Record{
			out(tid1, 100, 200, reads), out(tid1, 300, 400, reads), out(tid1, 500, 600, without),
		}, "released 0-1000", ""},
		{"hands the GVL over in the midst of an interval, and has it again", []Record{
			out(tid1, 100, 200, with(holds, computes)), out(tid1, 200, 800, with(gave(250), holds, computes)),
		}, "released 0-104, running 104-250, released 250-300, running 300-1000", ""},
		{"yields: hands the GVL over and queues", []Record{
			out(tid1, 100, 200, with(holds, computes)), out(tid1, 200, 400, with(gave(396), queued)), out(tid1, 500, 600, with(holds, computes)),
		}, "released 0-104, running 104-396, released 396-397, waiting 397-504, running 504-1000", ""},
		{"waits, and has it within one interval", []Record{out(tid1, 100, 110, queued), out(tid1, 300, 400, without)},
			"released 0-107, waiting 107-304, running 304-397, released 397-1000", ""},
		{"is woken in the queue without having it", []Record{out(tid1, 100, 110, queued), out(tid1, 300, 310, queued)},
			"released 0-107, waiting 107-1000", ""},
		{"has the GVL and sleeps", []Record{out(tid1, 100, 200, holds)}, "released 0-104, running 104-1000", ""},
		{"computes without the GVL", []Record{
			out(tid1, 100, 200, with(clock, went(7))), out(tid1, 100, 300, with(computes, went(7))), out(tid1, 400, 500, with(computes, went(7))),
		}, "released 0-104, running 104-152, released 152-1000", ""},
		{"is woken with the GVL in its hands", []Record{
			out(tid1, 200, 300, with(holds, computes, func(r *Record) { r.WokenNS, r.WakerOwner, r.Waker = 150*us, one, tid2 })),
		}, "released 0-150, waiting 150-204, running 204-1000", ""},
		{"is put into the queue by the thread that holds the GVL", []Record{
			out(tid2, 50, 100, with(holds, computes)),
			out(tid2, 100, 300, with(clock, holds, func(r *Record) { r.Joined[0] = one })),
			out(tid2, 100, 400, with(holds, gave(395), without)),
			out(tid1, 420, 500, with(holds, computes, func(r *Record) { r.WokenNS, r.WakerOwner, r.Waker = 395*us, one, tid2 })),
		}, "released 0-200, waiting 200-424, running 424-1000", ""},
		{"cannot have had the GVL while another thread did", []Record{
			out(tid2, 50, 100, with(holds, computes)), out(tid1, 120, 200, without), out(tid2, 100, 400, with(holds, computes)),
		}, "released 0-1000", ""},
		{"works without the GVL that it gave away, while another thread has it for a moment, and calls", []Record{
			out(tid1, 100, 200, with(holds, computes)), out(tid2, 260, 300, with(holds, computes)), out(tid2, 350, 403, without),
			out(tid1, 200, 603, with(gave(250), without)),
		}, "released 0-104, running 104-250, released 250-1000", "released 0-104, running 104-250, released 250-500, running 500-600, released 600-1000"},
		{"takes the GVL back at once, as another thread sees, and works without it after that thread has had it", []Record{
			out(tid1, 100, 200, with(holds, computes)), out(tid2, 260, 270, with(queued, func(r *Record) { r.Owner = one })),
			out(tid2, 400, 450, with(holds, computes)), out(tid2, 480, 503, without), out(tid1, 200, 603, with(gave(250), without)),
		}, "released 0-104, running 104-250, released 250-1000", "released 0-104, running 104-250, released 250-270, running 270-337, released 337-550, running 550-600, released 600-1000"},
		{"has the GVL unseen, when another thread sees it", []Record{
			out(tid1, 100, 200, with(clock, went(7))), out(tid2, 260, 270, func(r *Record) { r.Owner = one }), out(tid1, 100, 300, with(clock, went(7))),
		}, "released 0-104, running 104-152, released 152-1000", ""},
		{"is without the GVL at two clock ticks, and has run in between", []Record{
			out(tid1, 100, 200, with(clock, went(7))), out(tid1, 100, 300, with(clock, went(8))),
		}, "released 0-104, running 104-152, released 152-225, running 225-228, released 228-1000", ""},
		{"goes on waiting, but has been on a CPU for longer than a wake-up takes", []Record{
			out(tid1, 100, 110, queued), out(tid1, 300, 510, queued),
		}, "released 0-107, waiting 107-304, running 304-405, released 405-507, waiting 507-1000", ""},
		{"its memory could not be read", []Record{out(tid1, 100, 200, with(holds, func(r *Record) { r.Failed = 1 }))}, "released 0-100", ""},
		{"its memory could be read again", []Record{out(tid1, 100, 200, with(holds, func(r *Record) { r.Failed = 1 })), out(tid1, 300, 400, holds)},
			"released 0-100, running 304-1000", ""},
		{"ends", []Record{out(tid1, 100, 200, with(holds, computes)), {Kind: Exited, TID: tid1, NS: 500 * us}, out(tid1, 400, 510, with(holds, computes))},
			"released 0-104, running 104-475, released 475-500", ""},
		{"waits, and ends when it has had the GVL", []Record{out(tid1, 100, 110, queued), {Kind: Exited, TID: tid1, InNS: 300 * us, NS: 400 * us}},
			"released 0-107, waiting 107-304, running 304-375, released 375-400", ""},
		{"ends, having handed the GVL over", []Record{
			out(tid1, 100, 110, queued), {Kind: Exited, TID: tid1, InNS: 300 * us, GaveNS: 350 * us, NS: 400 * us},
		}, "released 0-107, waiting 107-304, running 304-350, released 350-400", ""},
	} {
		for _, before33 := range []bool{false, true} {
			if before33 && strings.Contains(fmt.Sprint(c.name), "into the queue by") || before33 && strings.Contains(c.name, "in its hands") {
				continue // up to Ruby 3.2, no record names the next holder
			}
			k := &told{tid: tid1}
			m := NewMachine(exact.NewMachine(k.changed))
			for _, tid := range []int32{tid1, tid2} {
				r := out(tid, 0, 0, without)
				r.Kind, r.Before33 = Began, before33
				m.Feed(&r)
			}
			for _, r := range c.records {
				r.Before33 = before33
				m.Feed(&r)
				m.Advance(0) // there is no change to pass on at this time
			}
			m.Advance(1000 * us)
			k.does("", 1000*us)
			want := c.want
			if before33 && c.want32 != "" {
				want = c.want32
			}
			if got := strings.Join(k.out, ", "); got != want {
				t.Errorf("%s (before 3.3: %v):\n %s, not\n %s", c.name, before33, got, want)
			}
		}
	}
}

// TestNotGiven: from Ruby 3.3 on, a thread can sleep although it holds the GVL, because it waits for a mutex of the
// scheduler. The thread that wakes it up has given back this mutex, not the GVL.
func TestNotGiven(t *testing.T) {
	k := told{tid: tid1}
	m := NewMachine(exact.NewMachine(k.changed))
	for _, r := range []Record{
		out(tid1, 0, 100, without),
		out(tid2, 100, 200, holds),
		out(tid1, 150, 400, with(computes, func(r *Record) { r.GaveNS, r.Owner = 300*us, two })),
	} {
		m.Feed(&r)
	}
	m.Advance(1000 * us)
	k.does("", 1000*us)
	if got := strings.Join(k.out, ", "); got != "released 100-1000" {
		t.Error(got)
	}
}

// TestUnseenCallsWithoutGVL: a thread gives the GVL away and takes it back between two system calls, so no record shows
// this. At three of four clock ticks the thread does not have the GVL. So ddtop assumes that the thread has no GVL in
// the middle three quarters of each time between two calls. It does not assume this while another thread waits for the
// GVL, because then the thread cannot have given it away.
func TestUnseenCallsWithoutGVL(t *testing.T) {
	for _, c := range []struct {
		other func(*Record)
		want  string
	}{
		{without, "running 1804-1828, released 1828-1972, running 1972-1997, released 1997-2204, " +
			"running 2204-2232, released 2232-2371, running 2371-2428, released 2428-2568, running 2568-2597, released"},
		{queued, "running 1804-1997, released 1997-2204, running 2204-2597, released"},
	} {
		k := told{tid: tid1}
		m := NewMachine(exact.NewMachine(k.changed))
		for i := range int64(2 * leastTicks) {
			tick := out(tid1, 60*i+10, 60*i+30, with(computes, func(r *Record) {
				if r.Kind = Clock; i%4 == 0 {
					holds(r)
				}
			}))
			m.Feed(&tick)
			// ddtop does not count the second tick after a call.
			again := out(tid1, 60*i+10, 60*i+40, with(computes, func(r *Record) { r.Kind = Clock }))
			m.Feed(&again)
			sleeps := out(tid1, 60*i+10, 60*i+50, without)
			m.Feed(&sleeps)
		}
		for _, r := range []Record{
			out(tid2, 1600, 1700, c.other), out(tid1, 1800, 2000, with(without, func(r *Record) { r.PC = 9 })),
			out(tid1, 2200, 2400, with(holds, computes, func(r *Record) { r.Kind = Clock })), out(tid1, 2200, 2600, without),
		} {
			m.Feed(&r)
		}
		m.Advance(3000 * us)
		k.does("", 3000*us)
		if got := strings.Join(k.out, ", "); !strings.Contains(got, c.want) {
			t.Errorf("%s, not\n %s", got, c.want)
		}
	}
}

// TestTicksFade: recent ticks of the clock have more weight than old ones.
func TestTicksFade(t *testing.T) {
	x := &thread{}
	for range 4 * mostTicks {
		x.countTick(true)
	}
	if got := x.without(1000); got != 1000 {
		t.Errorf("all ticks are without the GVL, but %d of 1000 ns are", got)
	}
	for range 4 * mostTicks {
		x.countTick(false)
	}
	if got := x.without(1000); got > 10 {
		t.Errorf("no recent tick is without the GVL, but %d of 1000 ns are", got)
	}
}

// named is a stack that has no name until its field ready is true.
type named struct {
	id    sampler.StackID
	ready bool
	asked int
}

func (n *named) Ready() bool                            { return n.ready }
func (n *named) Name() (stack, resumes sampler.StackID) { n.asked++; return n.id, n.id + 1 }

// TestStacks: when a wait for the GVL ends, its stack is the one that the thread had when it queued. A stack copied at
// a clock tick belongs to the holder of the GVL. If the names of a stack are not known yet, ddtop holds back all later
// changes.
func TestStacks(t *testing.T) {
	waits, runs := &named{id: 10}, &named{id: 20, ready: true}
	var got []string
	m := NewMachine(exact.NewMachine(func(c *exact.Change) {
		if c.Doing == (sampler.Doing{}) {
			got = append(got, fmt.Sprintf("%d %v %d %d", c.AtNS/1000, c.State, c.Stack, c.Resumes))
		}
	}))
	for _, r := range []Record{
		out(tid1, 100, 110, with(queued, func(r *Record) { r.Stack = waits })),
		out(tid1, 300, 400, with(holds, computes, func(r *Record) { r.Kind, r.Stack = Clock, runs })),
		out(tid1, 300, 500, without),
	} {
		m.Feed(&r)
	}
	if until := m.Advance(1000 * us); until != 304*us-100 {
		t.Errorf("changes are known until %d", until)
	}
	if want := "[107 queued 0 0]"; fmt.Sprint(got) != want {
		t.Errorf("before the name is known: %v, not %v", got, want)
	}
	waits.ready = true
	if until := m.Advance(1000 * us); until != 1000*us {
		t.Errorf("changes are known until %d", until)
	}
	if want := "[107 queued 0 0 304 held 10 11 400 held 20 21 497 released 0 0]"; fmt.Sprint(got) != want {
		t.Errorf("%v, not %v", got, want)
	}
	if waits.asked != 1 || runs.asked != 1 {
		t.Errorf("names were asked for %d and %d times", waits.asked, runs.asked)
	}
}
