package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// accounted has a Classifier and an Account, and feeds samples to both.
type accounted struct {
	c *gvl.Classifier
	s *stream.Stream
	a *Account
}

func newAccounted(dict *sampler.Dictionary) accounted {
	p := gvltest.ProcOf(sampler.EraSched)
	s := stream.New(p)
	return accounted{gvl.NewClassifier(p, dict), s, New(s, p, dict)}
}

func (x accounted) feed(s *sampler.Sample) { x.s.Feed(s, x.c.Classify(s)) }

func TestStat(t *testing.T) {
	dict := sampler.NewDictionary()
	dict.SetThread(sampler.ThreadInfo{ID: 1, Name: "", HasName: true})
	x := newAccounted(dict)
	at := int64(gvltest.Base)
	step := func(d int64, owner sampler.ThreadID, threads ...sampler.Thread) *sampler.Sample {
		at += d
		return gvltest.SampleAt(at, owner, threads...)
	}
	cpu := func(th sampler.Thread, cpu, delay int64) sampler.Thread {
		th.Kernel.CPUAtNS, th.Kernel.CPUNS, th.Kernel.RunDelayNS = at+1, cpu, delay
		th.Bits |= sampler.BitMain
		return th
	}
	s := step(0, 1, cpu(gvltest.Holder(1), 100, 10), gvltest.Queued(2))
	s.GC = sampler.GC{Valid: true, Count: 10, MinorCount: 8, MajorCount: 2, TimeNS: 50, Allocated: 1000}
	s.Reads = sampler.Reads{Torn: 5, Failed: 1}
	s.Self = sampler.Self{CPUNS: 7, MaxRSSBytes: 1}
	s.Proc = sampler.Proc{AtNS: at, UserNS: 1, SystemNS: 1}
	x.feed(s)
	x.feed(step(4*gvltest.MS, 1, cpu(gvltest.Holder(1), 3*gvltest.MS, 10), gvltest.Queued(2)))
	x.feed(step(4*gvltest.MS, 2, cpu(gvltest.Queued(1), 4*gvltest.MS, 1*gvltest.MS), gvltest.Holder(2)))
	s = step(4*gvltest.MS, 2, cpu(gvltest.Queued(1), 4*gvltest.MS, 3*gvltest.MS), gvltest.Holder(2))
	s.GC = sampler.GC{Valid: true, Count: 14, MinorCount: 11, MajorCount: 3, TimeNS: 80, Allocated: 1500}
	s.Reads = sampler.Reads{Torn: 8, Failed: 1, Partial: 2, Retried: 4, Late: 3}
	s.Self = sampler.Self{CPUNS: 27, MaxRSSBytes: 99}
	s.Proc = sampler.Proc{AtNS: at, UserNS: 11, SystemNS: 5, ThrottledNS: 3, RSSBytes: 4, MajorFaults: 2}
	s.Depth = sampler.LockTick
	x.feed(s)

	st := x.a.Stat()
	if st.DurationNS != 12*gvltest.MS || st.Samples != 4 || st.Torn != 3 || st.Failed != 0 || st.Partial != 2 || st.Retried != 4 || st.Late != 3 {
		t.Errorf("%+v", st)
	}
	one, two := st.Threads[0], st.Threads[1]
	if one.NS.Running != 6*gvltest.MS || one.NS.Waiting != 6*gvltest.MS || two.NS.Waiting != 6*gvltest.MS || two.NS.Running != 6*gvltest.MS {
		t.Errorf("%+v %+v", one.NS, two.NS)
	}
	if *one.CPUNS != 4*gvltest.MS-100 || *one.RunDelayNS != 3*gvltest.MS-10 || one.Waits.RunDelayNS != 2*gvltest.MS {
		t.Errorf("cpu %d, run delay %d, of it waiting %d", *one.CPUNS, *one.RunDelayNS, one.Waits.RunDelayNS)
	}
	if w := one.Waits; w.Count != 1 || w.AtLeast || w.InProgress != 1 || w.Max() != (gvl.Bounded{NS: 8 * gvltest.MS, Bound: gvl.AtMost}) || w.ResolutionNS != 4*gvltest.MS || w.QueueNS != 6*gvltest.MS {
		t.Errorf("wait going on: %+v", w)
	}
	if w := two.Waits; w.Count != 1 || w.AtLeast || w.Max() != (gvl.Bounded{NS: 8 * gvltest.MS, Bound: gvl.AtMost}) || w.P50() != w.Max() {
		t.Errorf("wait that is over: %+v", w)
	}
	if !one.Main || one.Name == nil || *one.Name != "" || two.Name != nil || *two.TID != 102 {
		t.Errorf("%+v %+v", one, two)
	}
	if g := st.GVL[0]; g.HeldShare != 1 || g.WaitingMean != 1 || g.Waits.Count != 2 {
		t.Errorf("%+v", g)
	}
	if g := st.GC; g.Count != 4 || g.Minor != 3 || g.Major != 1 || g.RubyNS != 30 || g.Allocated != 500 {
		t.Errorf("%+v", g)
	}
	if st.Self.MaxRSSBytes != 99 || st.Process.CPUNS != 14 || st.Process.SpanNS != 12*gvltest.MS || st.Process.ThrottledNS != 3 {
		t.Errorf("%+v %+v", st.Self, st.Process)
	}
	if r := st.Rate; r.Lock.Achieved != 250 || r.Stack.Achieved != 187.5 || r.Lock.Asked != 1000 || r.Stack.Asked != 100 {
		t.Errorf("%+v", r)
	}
	if tot, ok := x.a.Thread(1); !ok || tot.NS[gvl.Waiting] != 6*gvltest.MS || tot.Waits.Count != 1 {
		t.Errorf("%+v", tot)
	}
	if _, ok := x.a.Thread(99); ok {
		t.Error("a thread that never was")
	}
	// A second call of Stat returns the same result.
	if again := x.a.Stat(); again.Threads[0].Waits != one.Waits {
		t.Errorf("%+v", again.Threads[0].Waits)
	}
}

// TestThreadMissedOnce: if one sample lacks a thread, the thread does not count as ended. Its last state continues.
func TestThreadMissedOnce(t *testing.T) {
	x := newAccounted(nil)
	x.feed(gvltest.SampleAt(gvltest.Base, 1, gvltest.Holder(1), gvltest.Asleep(2, 1, sampler.BlockSleep)))
	x.feed(gvltest.SampleAt(gvltest.Base+gvltest.MS, 1, gvltest.Holder(1)))
	x.feed(gvltest.SampleAt(gvltest.Base+2*gvltest.MS, 1, gvltest.Holder(1), gvltest.Asleep(2, 1, sampler.BlockSleep)))
	st := x.a.Stat()
	if len(st.Threads) != 2 || st.ThreadsGone != 0 || st.Threads[1].Gone || st.Threads[1].NS.Sleeping != gvltest.MS {
		t.Errorf("%+v", st.Threads)
	}
}

// TestManyShortThreads: a very large number of short threads takes bounded memory. Their time is still in the ractor's
// sums.
func TestManyShortThreads(t *testing.T) {
	x := newAccounted(nil)
	n := maxGoneThreads + 500
	for i := range n {
		th := gvltest.Queued(sampler.ThreadID(i + 2))
		x.feed(gvltest.SampleAt(gvltest.Base+int64(i)*gvltest.MS, 1, gvltest.Holder(1), th))
	}
	st := x.a.Stat()
	if st.ThreadsOmitted != 499 || len(st.Threads) != maxGoneThreads+2 || st.ThreadsGone != n-1 {
		t.Errorf("%d omitted, %d threads, %d gone", st.ThreadsOmitted, len(st.Threads), st.ThreadsGone)
	}
	if g := st.GVL[0]; g.WaitingMean < .9999 || g.WaitingMean > 1.0001 || g.Waits.Count != int64(n) {
		t.Errorf("%+v", g)
	}
}

// TestNoRunDelayFromAGap: the part of a wait without a CPU is never longer than the wait itself. During a gap between
// samples, the kernel's counters continue, but the state of the thread is unknown. So the time without a CPU in the gap
// must not be added to the wait.
func TestNoRunDelayFromAGap(t *testing.T) {
	x := newAccounted(sampler.NewDictionary())
	at := int64(gvltest.Base)
	feed := func(d, delay int64) {
		at += d
		th := gvltest.Queued(1)
		th.TID = 1
		th.Kernel.CPUAtNS, th.Kernel.CPUNS, th.Kernel.RunDelayNS = at, 1, delay
		x.feed(gvltest.SampleAt(at, 2, th, gvltest.Holder(2)))
	}
	feed(0, 0)
	feed(4*gvltest.MS, 3*gvltest.MS)
	feed(2000*gvltest.MS, 1900*gvltest.MS) // a gap between the samples: ddtop had no CPU either
	feed(4*gvltest.MS, 1904*gvltest.MS)
	if w := x.a.Stat().Threads[0].Waits; w.RunDelayNS != 7*gvltest.MS || w.QueueNS != 8*gvltest.MS {
		t.Errorf("%d ns without a CPU in %d ns of waiting", w.RunDelayNS, w.QueueNS)
	}
	feed(4*gvltest.MS, 1910*gvltest.MS) // the counter was read late
	if w := x.a.Stat().Threads[0].Waits; w.RunDelayNS != 12*gvltest.MS || w.QueueNS != 12*gvltest.MS {
		t.Errorf("%d ns without a CPU in %d ns of waiting", w.RunDelayNS, w.QueueNS)
	}
}

// TestOwnCostIsOfTheTimeBetweenReadings: the CPU time that ddtop itself uses is measured between two readings of its
// counter. The counter is read less often than samples are made. In a window without two readings, the CPU time is
// unknown. Readings before the window are not used.
func TestOwnCostIsOfTheTimeBetweenReadings(t *testing.T) {
	for _, c := range []struct {
		name      string
		cpu       []int64 // ddtop's CPU time in each sample; samples are 100 ms apart
		cost      int64
		span      int64
		wantShort bool
	}{
		{"no reading", []int64{0, 0, 0}, 0, 0, true},
		{"read before the window only", []int64{7, 7, 7, 7, 7}, 0, 0, true},
		{"read once", []int64{7, 7, 9, 9, 9}, 0, 0, true},
		{"read twice", []int64{7, 107, 107, 307, 307}, 200, 200 * gvltest.MS, false},
		{"read each time", []int64{7, 100, 200, 300, 400}, 300, 300 * gvltest.MS, false},
	} {
		x := newAccounted(sampler.NewDictionary())
		for i, cpu := range c.cpu {
			s := gvltest.SampleAt(gvltest.Base+int64(i)*100*gvltest.MS, 1, gvltest.Holder(1))
			s.Self.CPUNS = cpu
			x.feed(s)
		}
		self := x.a.Stat().Self
		if short := self.CPUNS == nil; short != c.wantShort || self.SpanNS != c.span || !short && *self.CPUNS != c.cost {
			t.Errorf("%s: %+v", c.name, self)
		}
	}
}

// TestContextSwitchesAreOfTheTimeBetweenReadings: context switches are measured between two readings of their counter.
// For example, a window of about two seconds has only two readings, one second apart. Then the figure has the switches
// of this second.
func TestContextSwitchesAreOfTheTimeBetweenReadings(t *testing.T) {
	for _, c := range []struct {
		name     string
		counted  []int64 // the counter in each sample; samples are 500 ms apart
		switches int64
		span     int64
	}{
		{"too short", []int64{0, 0, 50}, 0, 0},
		{"read twice", []int64{0, 0, 50, 50, 150}, 100, 1000 * gvltest.MS},
		{"attached before", []int64{900, 900, 1000, 1000, 1100}, 100, 1000 * gvltest.MS},
		{"the last reading is old", []int64{0, 50, 50, 150, 150, 150}, 100, 1000 * gvltest.MS},
	} {
		x := newAccounted(sampler.NewDictionary())
		for i, n := range c.counted {
			s := gvltest.SampleAt(gvltest.Base+int64(i)*500*gvltest.MS, 1, gvltest.Holder(1))
			s.Proc = sampler.Proc{AtNS: s.TimeNS, Switches: n}
			x.feed(s)
		}
		if p := x.a.Stat().Process; p.Switches != c.switches || p.SwitchesSpanNS != c.span {
			t.Errorf("%s: %d in %d ns, want %d in %d", c.name, p.Switches, p.SwitchesSpanNS, c.switches, c.span)
		}
	}
}

// TestNoCPUByState: time without a CPU is added to a state only if both readings of the counter found the thread in
// this state. No sample between the readings may show another state. Time around a change of state is added to no
// state.
func TestNoCPUByState(t *testing.T) {
	x := newAccounted(sampler.NewDictionary())
	at := int64(gvltest.Base)
	step := func(th sampler.Thread, delay int64) {
		at += 10 * gvltest.MS
		owner := sampler.ThreadID(0)
		if th.Bits&sampler.BitLinked != 0 {
			owner = 1
		}
		th.Kernel.CPUAtNS, th.Kernel.RunDelayNS, th.TID = at, delay, 101
		x.feed(gvltest.SampleAt(at, owner, th))
	}
	native := func() sampler.Thread {
		return gvltest.Answered(gvltest.Released(1), at+10*gvltest.MS, sampler.SyscallRunning, -1, 0)
	}
	step(native(), 1*gvltest.MS)
	step(native(), 5*gvltest.MS) // 4 ms without a CPU are added to the state native
	step(native(), 5*gvltest.MS)
	step(gvltest.Holder(1), 9*gvltest.MS) // 4 ms without a CPU are added to neither state
	step(gvltest.Holder(1), 16*gvltest.MS)
	step(gvltest.Holder(1), 18*gvltest.MS) // 9 ms without a CPU are added to the state running
	step(native(), 20*gvltest.MS)
	step(native(), 23*gvltest.MS) // 3 ms without a CPU are added to the state native
	th := x.a.Stat().Threads[0]
	if want := (report.StatNoCPU{Running: 9 * gvltest.MS, Native: 7 * gvltest.MS}); th.NoCPU != want || *th.RunDelayNS != 22*gvltest.MS {
		t.Errorf("%+v of %d, want %+v of %d; %+v", th.NoCPU, *th.RunDelayNS, want, 22*gvltest.MS, th.NS)
	}
}

// TestUnheldGVL: the figure for an unheld GVL has only the time in which threads wait for the GVL and no thread holds
// it.
func TestUnheldGVL(t *testing.T) {
	t.Parallel()
	a := New(stream.New(gvltest.ProcOf(sampler.EraSched)), gvltest.ProcOf(sampler.EraSched), nil)
	for _, i := range []gvl.LockInterval{
		{Ractor: 1, Waiters: 3, FromNS: 0, ToNS: 2 * gvltest.MS},
		{Ractor: 1, Waiters: 1, FromNS: 4 * gvltest.MS, ToNS: 5 * gvltest.MS},
		{Ractor: 1, Waiters: 1, Thread: 1, State: gvl.Running, FromNS: 5 * gvltest.MS, ToNS: 6 * gvltest.MS},
		{Ractor: 1, Waiters: 1, Unlisted: gvl.Unlisted{Holds: true}, FromNS: 6 * gvltest.MS, ToNS: 7 * gvltest.MS},
		{Ractor: 1, FromNS: 7 * gvltest.MS, ToNS: 9 * gvltest.MS},
	} {
		a.Lock(&i)
	}
	if g := a.Stat().GVL; len(g) != 1 || g[0].UnheldNS != 3*gvltest.MS {
		t.Errorf("%+v", g)
	}
}
