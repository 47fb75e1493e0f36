package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// exactFeed feeds a Stream with samples of one or two threads, 10 ms apart, that have changes of the GVL.
type exactFeed struct {
	t    *testing.T
	c    *gvl.Classifier
	s    *Stream
	log  *exactLog
	lane []gvl.LockInterval
	last int64
}

func newExactFeed(t *testing.T, dict *sampler.Dictionary) *exactFeed {
	p := gvltest.ProcOf(sampler.EraSched)
	f := &exactFeed{t: t, c: gvl.NewClassifier(p, dict), s: New(p), log: &exactLog{}}
	f.s.Attach(f.log)
	f.s.Attach(lockFunc(func(i *gvl.LockInterval) { f.lane = append(f.lane, *i) }))
	return f
}

// lockFunc is a function that can be attached as a Consumer. It is called with each interval of a GVL.
type lockFunc func(*gvl.LockInterval)

func (lockFunc) Interval(*gvl.Interval)     {}
func (lockFunc) Waited(*gvl.Wait)           {}
func (f lockFunc) Lock(i *gvl.LockInterval) { f(i) }
func (lockFunc) Collecting(*gvl.GCInterval) {}
func (lockFunc) Ended(int, int64)           {}
func (lockFunc) Tick(*gvl.Tick)             {}

// at feeds a sample that is us µs after the beginning, with the changes up to this time. words describes the changes:
// "1 held 2500" means that thread 1 got the GVL at 2500 µs. "-7" is native thread 7, which no sample has listed. If
// words is "none", no change is known.
func (f *exactFeed) at(us int64, owner sampler.ThreadID, words string, threads ...sampler.Thread) {
	for i := range threads {
		threads[i].Quality |= sampler.StackFresh
	}
	f.feed(gvltest.SampleAt(gvltest.Base+us*1000, owner, threads...), words)
}

// feed does the same as the method at, but for a sample that the caller has made. The sample may already have some
// changes.
func (f *exactFeed) feed(x *sampler.Sample, words string) {
	if words != "none" {
		x.Changes = sampler.Changes{FromNS: f.last, ToNS: x.TimeNS, Fresh: strings.HasPrefix(words, "fresh"), List: x.Changes.List}
		for _, w := range strings.Split(words, ",") {
			var g sampler.Change
			var state string
			if n, _ := fmt.Sscanf(strings.TrimSpace(w), "%d %s %d", &g.TID, &state, &g.AtNS); n < 3 {
				continue
			}
			g.AtNS, g.Thread, g.TID = gvltest.Base+g.AtNS*1000, sampler.ThreadID(max(g.TID, 0)), max(g.TID, -g.TID)
			for g.State = sampler.GVLHeld; g.State > 0 && g.State.String() != strings.TrimSuffix(state, "?"); g.State-- {
			}
			g.Doubtful = strings.HasSuffix(state, "?")
			x.Changes.List = append(x.Changes.List, g)
		}
	}
	f.s.Feed(x, f.c.Classify(x))
	f.last = x.TimeNS
}

// told returns the intervals of a thread as text: "running 0-2500, io 2500-4000". Times are in µs. A ~ marks an
// interval whose beginning is not exact.
func (f *exactFeed) told(id sampler.ThreadID) string {
	list := slices.Clone(f.log.intervals)
	f.s.Pending(id, func(i *gvl.Interval) { list = append(list, *i) })
	var out []string
	var last gvl.Interval
	for _, i := range list {
		if i.Thread != id {
			continue
		}
		if n := len(out); n > 0 && last.State == i.State && (last.ResolutionNS == 0) == (i.ResolutionNS == 0) {
			out, i.FromNS = out[:n-1], last.FromNS
		}
		last = i
		mark := ""
		if i.ResolutionNS != 0 {
			mark = "~"
		}
		out = append(out, fmt.Sprintf("%s%s %d-%d", mark, i.State, (i.FromNS-gvltest.Base)/1000, (i.ToNS-gvltest.Base)/1000))
	}
	return strings.Join(out, ", ")
}

func (f *exactFeed) want(id sampler.ThreadID, want string) {
	f.t.Helper()
	if got := f.told(id); got != want {
		f.t.Errorf("thread %d:\n%s, want\n%s", id, got, want)
	}
}

func TestExactRules(t *testing.T) {
	dict := sampler.NewDictionary()
	sleeps := func(id sampler.ThreadID) sampler.Thread {
		return gvltest.Asleep(id, sampler.Stopped, sampler.BlockSleep)
	}
	locks := func(id sampler.ThreadID) sampler.Thread {
		return gvltest.Asleep(id, sampler.StoppedForever, sampler.BlockMutex)
	}
	asks := func(id sampler.ThreadID) sampler.Thread {
		x := gvltest.Released(id)
		x.Status, x.Bits = sampler.Stopped, sampler.BitBlockingRegion
		return x
	}
	tests := map[string]func(f *exactFeed){
		"a stretch that no sample saw is of the kind of the last one": func(f *exactFeed) {
			f.at(0, 0, "fresh", sleeps(1))
			f.at(10_000, 0, "1 held 1000, 1 released 2000, 1 held 3000, 1 released 4000", locks(1))
			f.at(20_000, 0, "1 held 15000, 1 released 15100, 1 held 15200", gvltest.Holder(1))
			f.want(1, "~sleeping 0-1000, running 1000-2000, sleeping 2000-3000, running 3000-4000, lock 4000-15000, running 15000-15100, "+
				"lock 15100-15200, running 15200-20000")
		},
		"of the kind of the next one where there was none": func(f *exactFeed) {
			f.at(0, 1, "fresh", gvltest.Holder(1))
			f.at(10_000, 1, "1 released 1000, 1 held 2000", gvltest.Holder(1))
			f.at(20_000, 1, "1 released 11000, 1 held 12000", gvltest.Holder(1))
			f.at(30_000, 0, "1 released 25000", locks(1))
			f.want(1, "~running 0-1000, lock 1000-2000, running 2000-11000, lock 11000-12000, running 12000-25000, "+
				"lock 25000-30000")
		},
		"the kernel's answer comes late": func(f *exactFeed) {
			f.at(0, 1, "fresh", gvltest.Holder(1))
			f.at(10_000, 0, "1 released 1000", asks(1))
			f.at(20_000, 0, "x", gvltest.Answered(asks(1), gvltest.Base+15*gvltest.MS, "read", 3, 0))
			f.want(1, "~running 0-1000, io 1000-20000")
		},
		"a sample that says otherwise is not believed": func(f *exactFeed) {
			f.at(0, 1, "fresh", gvltest.Holder(1))
			f.at(10_000, 1, "1 released 9990", gvltest.Holder(1))
			f.at(20_000, 0, "x", sleeps(1))
			f.want(1, "~running 0-9990, sleeping 9990-20000")
		},
		"nor are those of a thread that has no CPU to give the scheduler's mutex back with": func(f *exactFeed) {
			f.at(0, 0, "fresh, 1 released 0", sleeps(1))
			for us := int64(10_000); us <= 200_000; us += 10_000 {
				f.at(us, 1, "x", gvltest.Holder(1))
			}
			f.at(210_000, 0, "1 held 201000, 1 released 201100", sleeps(1))
			f.want(1, "~sleeping 0-201000, running 201000-201100, sleeping 201100-210000")
		},
		"but all over a second are": func(f *exactFeed) {
			f.at(0, 1, "fresh", gvltest.Holder(1))
			f.at(10_000, 1, "1 queued 9000", gvltest.Holder(1))
			for us := int64(20_000); us <= 1_020_000; us += 10_000 {
				f.at(us, 1, "x", gvltest.Holder(1))
			}
			f.want(1, "~running 0-9000, waiting 9000-1010000, ~running 1010000-1020000")
			if w := f.log.waits; len(w) != 1 || w[0].Exact {
				f.t.Errorf("waits %+v", w)
			}
		},
		"a collection is within the turn": func(f *exactFeed) {
			gc := func(us int64, words string, during bool) {
				x := gvltest.SampleAt(gvltest.Base+us*1000, 1, gvltest.Holder(1))
				x.GC.During = during
				f.feed(x, words)
			}
			gc(0, "fresh", false)
			gc(10_000, "x", true)
			gc(20_000, "1 released 14000, 1 held 16000", false)
			f.want(1, "~running 0-5000, ~gc 5000-14000, unknown 14000-16000, running 16000-20000")
		},
		"a collection ends in the middle at the latest": func(f *exactFeed) {
			gc := func(us int64, words string, during bool) {
				x := gvltest.SampleAt(gvltest.Base+us*1000, 1, gvltest.Holder(1))
				x.GC.During = during
				f.feed(x, words)
			}
			gc(0, "fresh", false)
			gc(10_000, "1 released 8000, 1 held 9000", true)
			gc(20_000, "1 released 18000, 1 held 19000", false)
			f.want(1, "~running 0-8000, unknown 8000-9000, gc 9000-15000, ~running 15000-18000, unknown 18000-19000, running 19000-20000")
		},
		"on and off again": func(f *exactFeed) {
			f.at(0, 0, "none", sleeps(1))
			f.at(10_000, 0, "none", sleeps(1))
			f.last = gvltest.Base + 12*gvltest.MS
			f.at(20_000, 0, "fresh, 1 released 12000, 1 queued 19000", gvltest.Queued(1))
			f.at(30_000, 1, "none", gvltest.Holder(1))
			f.at(40_000, 0, "none", sleeps(1))
			f.want(1, "~sleeping 0-19000, waiting 19000-20000, ~waiting 20000-25000, ~running 25000-35000, ~sleeping 35000-40000")
			if w := f.log.waits; len(w) != 1 || w[0].Exact {
				f.t.Errorf("waits %+v", w)
			}
		},
		"changes of before the last sample say states alone": func(f *exactFeed) {
			f.at(0, 0, "none", sleeps(1))
			f.at(10_000, 0, "none", sleeps(1))
			f.last = gvltest.Base + 5*gvltest.MS
			f.at(20_000, 1, "fresh, 1 released 5000, 1 queued 7000, 1 held 15000", gvltest.Holder(1))
			f.want(1, "~sleeping 0-10000, ~waiting 10000-15000, running 15000-20000")
			if w := f.log.waits; len(w) != 1 || w[0].Exact {
				f.t.Errorf("waits %+v", w)
			}
		},
		"a doubtful change": func(f *exactFeed) {
			f.at(0, 1, "fresh", gvltest.Holder(1))
			f.at(10_000, 1, "1 queued 1000, 1 held? 2000, 1 queued 3000, 1 held 4000", gvltest.Holder(1))
			f.want(1, "~running 0-1000, ~waiting 1000-2000, running 2000-3000, waiting 3000-4000, running 4000-10000")
			if w := f.log.waits; len(w) != 2 || w[0].Exact || !w[1].Exact {
				f.t.Errorf("waits %+v", w)
			}
		},
		"a thread that no sample lists": func(f *exactFeed) {
			f.at(0, 0, "fresh", sleeps(1))
			f.at(10_000, 1, "1 queued 1000, 0 held 2000, 0 gone 5000, 1 held 6000", gvltest.Holder(1))
			var unlisted int64
			for _, i := range f.lane {
				if i.Unlisted.Holds {
					unlisted += i.WaitNS()
				}
			}
			if unlisted != 3*gvltest.MS {
				f.t.Errorf("%d ns", unlisted)
			}
			if w := f.log.waits; len(w) != 1 || w[0].FirstHolder != 0 || w[0].LastHolder != 0 || !w[0].Exact {
				f.t.Errorf("waits %+v", w)
			}
		},
		"a thread whose time slice is over has released the GVL for nothing": func(f *exactFeed) {
			f.at(0, 0, "fresh", sleeps(1))
			f.at(10_000, 1, "1 held 1000", gvltest.Holder(1))
			f.at(110_000, 1, "x", gvltest.Holder(1))
			f.at(210_000, 1, "1 released 201000, 1 queued 201020, 1 held 202000, 1 released 202100, 1 held 202200", gvltest.Holder(1))
			f.want(1, "~sleeping 0-1000, running 1000-201000, native 201000-201020, waiting 201020-202000, running 202000-202100, "+
				"sleeping 202100-202200, running 202200-210000")
			if w := f.log.waits; len(w) != 1 || w[0].After != gvl.Running || w[0].Before.State != gvl.Running || w[0].Before.DurationNS() != 200*gvltest.MS {
				f.t.Errorf("waits %+v", w)
			}
		},
		"a sample between the end of a time slice and the queue sees what it likes": func(f *exactFeed) {
			f.at(0, 1, "fresh, 1 held 0", gvltest.Holder(1))
			f.at(110_000, 1, "x", gvltest.Holder(1))
			f.at(201_010, 1, "1 released 201000", gvltest.Holder(1))
			f.at(210_000, 1, "1 queued 201020, 1 held 202000", gvltest.Holder(1))
			f.want(1, "~running 0-201000, native 201000-201020, waiting 201020-202000, running 202000-210000")
			f.s.Finish()
			f.want(1, "~running 0-201000, native 201000-201020, waiting 201020-202000, running 202000-210000")
		},
		"threads that no sample lists wait, and one that the next sample does": func(f *exactFeed) {
			f.at(0, 1, "fresh, 1 held 0", gvltest.Holder(1))
			f.at(10_000, 1, "-7 queued 1000, 1 released 2000, -7 chosen 2000, -7 held 3000, -8 queued 4000, -7 gone 5000, -8 held 5000, -8 gone 6000, "+
				"1 held 7000, -2 queued 8000", gvltest.Holder(1))
			f.at(20_000, 0, "1 released 11000, 2 chosen 11000, 2 held 12000, 2 released 14000", sleeps(1), locks(2))
			f.s.SettleLocks()
			var got []string
			for i := range f.log.waits {
				w := &f.log.waits[i]
				got = append(got, fmt.Sprintf("%d %d-%d after %d behind %d, %d", w.Thread, (w.FromNS-gvltest.Base)/1000, (w.ToNS-gvltest.Base)/1000, w.HandoverNS/1000, w.FirstHolder, w.LastHolder))
			}
			want := []string{"0 1000-3000 after 1000 behind 1, 1", "0 4000-5000 after 0 behind 0, 0", "2 8000-12000 after 1000 behind 1, 1"}
			if !slices.Equal(got, want) {
				f.t.Errorf("waits %q, want %q", got, want)
			}
			var waited, held, most int64
			for _, i := range f.lane {
				waited += i.WaitNS()
				most = max(most, i.Waiters)
				if i.Unlisted.Holds {
					held += i.NS()
				}
			}
			if waited != (2+1+4)*gvltest.MS || held != 3*gvltest.MS || most != 1 {
				f.t.Errorf("waited %d ns, %d at a time; held %d ns by threads that are not listed", waited, most, held)
			}
		},
		"a thread whose end was missed does not wait for ever": func(f *exactFeed) {
			f.at(0, 1, "fresh, 1 held 0", gvltest.Holder(1))
			f.at(10_000, 1, "-7 queued 1000", gvltest.Holder(1))
			for us := int64(20_000); us <= 100_000; us += 10_000 {
				f.at(us, 1, "", gvltest.Holder(1))
			}
			if n := f.s.main.lane().now; n.Waiters != 0 || n.Unlisted.Waiters != 0 || len(f.s.main.waits) != 0 {
				f.t.Errorf("%+v", n)
			}
		},
		"threads come and go": func(f *exactFeed) {
			f.at(0, 0, "fresh", sleeps(1))
			f.at(10_000, 0, "2 queued 2000, 2 held 3000, 2 released 4000", sleeps(1), locks(2))
			f.at(20_000, 0, "2 held 11000, 2 gone 12000", sleeps(1))
			f.want(2, "waiting 2000-3000, running 3000-4000, lock 4000-11000, running 11000-12000")
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(newExactFeed(t, dict)) })
	}
}

// TestExactStacks: a thread waits in two consecutive samples, and holds the GVL in between. The hold must not get the
// stack of these waits. It gets the stack of the thread's last hold that a sample saw.
func TestExactStacks(t *testing.T) {
	dict := sampler.NewDictionary()
	stacks := gvltest.NewWorld(1, 0, 1, dict).Stacks
	f := newExactFeed(t, dict)
	with := func(th sampler.Thread, stack sampler.StackID) sampler.Thread { th.Stack = stack; return th }
	sleeps := gvltest.Asleep(1, sampler.Stopped, sampler.BlockSleep)
	f.at(0, 1, "fresh", with(gvltest.Holder(1), stacks[1]))
	f.at(10_000, 0, "1 released 5000", with(sleeps, stacks[2]))
	f.at(20_000, 0, "1 held 11000, 1 released 12000, 1 held 13000, 1 released 18000", with(sleeps, stacks[3]))
	f.at(30_000, 1, "1 held 21000, 1 released 22000, 1 held 29000", with(gvltest.Holder(1), stacks[4]))
	f.at(40_000, 1, "x", with(gvltest.Holder(1), stacks[5]))
	want := map[gvl.State]map[sampler.StackID]int64{
		gvl.Running:  {stacks[1]: 5000 + 6000, stacks[4]: 1000 + 1000 + 5000, stacks[5]: 5000},
		gvl.Sleeping: {stacks[2]: 5000 + 1000 + 1000, stacks[3]: 2000 + 1000 + 7000},
	}
	got := map[gvl.State]map[sampler.StackID]int64{gvl.Running: {}, gvl.Sleeping: {}}
	for _, i := range f.log.intervals {
		got[i.State][i.Stack] += i.NS() / 1000
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	// The intervals of the GVL itself get the stack from a sample of the same hold. If there is none, they get it from
	// the last sample in which the thread held the GVL.
	lane := map[sampler.StackID]int64{}
	for _, i := range f.lane {
		if i.Thread != 0 {
			lane[i.Stack] += i.NS() / 1000
		}
	}
	if want := (map[sampler.StackID]int64{stacks[1]: 5000 + 6000 + 1000, stacks[4]: 1000 + 5000, stacks[5]: 5000}); fmt.Sprint(lane) != fmt.Sprint(want) {
		t.Errorf("GVL: %v, want %v", lane, want)
	}
}

// TestExactStacksOfWaits: a change can contain the thread's stack at the end of a wait. The wait, and all time without
// the GVL before it, then get this stack, even if samples saw another one. The next hold begins with the Ruby code of
// this stack, until a sample sees the hold itself. But sums by stack use only the stacks of samples.
func TestExactStacksOfWaits(t *testing.T) {
	dict := sampler.NewDictionary()
	var stacks []sampler.StackID
	for i := range 10 {
		stacks = append(stacks, dict.InternStack(0, dict.InternFrame(sampler.Frame{Label: fmt.Sprint("m", i)})))
	}
	f := newExactFeed(t, dict)
	with := func(th sampler.Thread, stack sampler.StackID) sampler.Thread { th.Stack = stack; return th }
	sleeps := func(stack sampler.StackID) sampler.Thread {
		return with(gvltest.Asleep(1, sampler.Stopped, sampler.BlockSleep), stack)
	}
	held := func(us int64, stack, resumes sampler.StackID) sampler.Change {
		return sampler.Change{AtNS: gvltest.Base + us*1000, Thread: 1, State: sampler.GVLHeld, Stack: stack, Resumes: resumes}
	}
	change := func(us int64, state sampler.GVLState) sampler.Change {
		return sampler.Change{AtNS: gvltest.Base + us*1000, Thread: 1, State: state}
	}
	feed := func(us int64, owner sampler.ThreadID, th sampler.Thread, list ...sampler.Change) {
		th.Quality |= sampler.StackFresh
		x := gvltest.SampleAt(gvltest.Base+us*1000, owner, th)
		x.Changes.List = list
		f.feed(x, "")
	}
	f.at(0, 1, "fresh", with(gvltest.Holder(1), stacks[1]))
	f.at(10_000, 0, "1 released 5000", sleeps(stacks[2]))
	feed(20_000, 0, sleeps(stacks[3]),
		change(11_000, sampler.GVLQueued), held(12_000, stacks[6], stacks[7]), change(13_000, sampler.GVLReleased),
		// a hold whose stack is not known
		change(14_000, sampler.GVLQueued), held(15_000, 0, 0), change(16_000, sampler.GVLReleased))
	feed(30_000, 1, with(gvltest.Holder(1), stacks[4]),
		change(21_000, sampler.GVLQueued), held(22_000, stacks[8], stacks[9])) // a hold that a sample sees
	feed(40_000, 1, with(gvltest.Holder(1), stacks[5]))
	want := map[gvl.State]map[sampler.StackID]int64{
		gvl.Running:  {stacks[1]: 5000 + 1000 + 1000, stacks[4]: 8000 + 5000, stacks[5]: 5000},
		gvl.Waiting:  {stacks[6]: 1000, stacks[2]: 1000, stacks[8]: 1000},
		gvl.Sleeping: {stacks[2]: 5000 + 1000, stacks[6]: 1000, stacks[3]: 4000, stacks[8]: 1000},
	}
	got := map[gvl.State]map[sampler.StackID]int64{gvl.Running: {}, gvl.Waiting: {}, gvl.Sleeping: {}}
	for _, i := range f.log.intervals {
		got[i.State][i.Stack] += i.NS() / 1000
	}
	var waits []sampler.StackID
	for _, w := range f.log.waits {
		waits = append(waits, w.Stack)
		if w.Stack != 0 && w.Before.Stack != w.Stack {
			t.Errorf("%+v", w)
		}
	}
	if want := []sampler.StackID{stacks[6], 0, stacks[8]}; !slices.Equal(waits, want) {
		t.Errorf("waits end with the stacks %v, want %v", waits, want)
	}
	turns := map[sampler.StackID]int64{}
	for _, i := range f.lane {
		if i.Thread != 0 {
			turns[i.Turn] += i.NS() / 1000
		}
	}
	if want := (map[sampler.StackID]int64{0: 5000 + 1000, stacks[7]: 1000, stacks[9]: 3000, stacks[4]: 5000 + 5000, stacks[5]: 5000}); fmt.Sprint(turns) != fmt.Sprint(want) {
		t.Errorf("turns: %v, want %v", turns, want)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestChain: the parts of a chain add up to the wait. Each part has the thread, state and stack of the holder, or the
// reason why no thread held the GVL.
func TestChain(t *testing.T) {
	dict := sampler.NewDictionary()
	stack := dict.InternStack(0, dict.InternFrame(sampler.Frame{Label: "Report#build", Path: "r.rb"}))
	stack = dict.InternStack(stack, dict.InternFrame(sampler.Frame{Label: "JSON.generate", C: true}))
	holds := func(id sampler.ThreadID) sampler.Thread { th := gvltest.Holder(id); th.Stack = stack; return th }
	sleeps := func(id sampler.ThreadID) sampler.Thread {
		return gvltest.Asleep(id, sampler.Stopped, sampler.BlockSleep)
	}
	feed := func(f *exactFeed) {
		f.at(0, 2, "fresh", sleeps(1), holds(2))
		f.at(10_000, 2, "1 queued 4000", gvltest.Queued(1), holds(2))
		x := gvltest.SampleAt(gvltest.Base+20*gvltest.MS, 1, gvltest.Holder(1), sleeps(2))
		x.Changes.List = []sampler.Change{
			{AtNS: gvltest.Base + 11*gvltest.MS, Thread: 2, State: sampler.GVLReleased}, {AtNS: gvltest.Base + 12*gvltest.MS, TID: 9, State: sampler.GVLHeld},
			{AtNS: gvltest.Base + 14*gvltest.MS, TID: 9, State: sampler.GVLReleased}, {AtNS: gvltest.Base + 15*gvltest.MS, Thread: 1, State: sampler.GVLChosen},
			{AtNS: gvltest.Base + 18*gvltest.MS, Thread: 1, State: sampler.GVLHeld, NoCPUNS: 2 * gvltest.MS},
		}
		f.feed(x, "")
	}
	f := newExactFeed(t, dict)
	feed(f)
	if len(f.log.waits) != 1 || !f.log.waits[0].Exact {
		t.Fatalf("waits %+v", f.log.waits)
	}
	w := f.log.waits[0]
	again := newExactFeed(t, dict)
	c := NewChain(again.s, &w, dict)
	feed(again)
	got := c.Sum()
	want := ChainSum{
		Parts:      []ChainPart{{Thread: 2, State: gvl.Running, Method: "Report#build → JSON.generate", Stack: stack, NS: 7 * gvltest.MS}},
		UnlistedNS: 2 * gvltest.MS, NoCPUNS: 2 * gvltest.MS, HandoverNS: 1 * gvltest.MS, NobodyNS: 2 * gvltest.MS,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	// A chain that got no samples reports that the whole wait is unknown.
	empty := NewChain(New(gvltest.ProcOf(sampler.EraSched)), &w, dict)
	if got := empty.Sum(); got.UnknownNS != w.NS() || len(got.Parts) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

// TestChainAddsUp: the parts of a chain always add up to its wait: for any samples, and with or without exact changes.
func TestChainAddsUp(t *testing.T) {
	for seed := range uint64(30) {
		dict := sampler.NewDictionary()
		w := newExactWorld(seed, 6, dict)
		w.churn, w.meanNS = .01, 100_000
		p := gvltest.ProcOf(sampler.EraSched)
		c, s, l := gvl.NewClassifier(p, dict), New(p), &exactLog{}
		s.Attach(l)
		var samples []*sampler.Sample
		for n := range 20 {
			x := w.sample(10*gvltest.MS, 50_000)
			x.Changes.Fresh = n == 0
			if seed%3 == 0 && n > 10 {
				x.Changes = sampler.Changes{}
			}
			samples = append(samples, x)
			s.Feed(x, c.Classify(x))
		}
		for k := range min(len(l.waits), 20) {
			wait := l.waits[len(l.waits)-1-k]
			again := New(p)
			chain, class := NewChain(again, &wait, dict), gvl.NewClassifier(p, dict)
			for _, x := range samples[int(seed)%10:] {
				again.Feed(x, class.Classify(x))
			}
			sum := chain.Sum()
			ns := sum.UnlistedNS + sum.OtherNS + sum.NoCPUNS + sum.HandoverNS + sum.NobodyNS + sum.UnknownNS
			for _, part := range sum.Parts {
				ns += part.NS
			}
			if ns != wait.NS() || min(sum.UnlistedNS, sum.NoCPUNS, sum.HandoverNS, sum.NobodyNS, sum.UnknownNS) < 0 {
				t.Fatalf("seed %d: %+v of a wait of %d", seed, sum, wait.NS())
			}
		}
	}
}
