package live_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// exactTimes keeps the intervals and waits that a stream.Stream reports, by native thread.
type exactTimes struct {
	gvl.Ignore
	tids      map[sampler.ThreadID]int32
	intervals []gvl.Interval
	waits     []gvl.Wait
	// broken is true if samples have a gap: two samples are too far apart, or a thread is missing that an earlier
	// sample listed. It is also true if a sample has no changes although the sample before it had some. known is true
	// if the last sample had changes.
	broken, known bool
}

func (e *exactTimes) Interval(i *gvl.Interval) { e.intervals = append(e.intervals, *i) }
func (e *exactTimes) Waited(w *gvl.Wait)       { e.waits = append(e.waits, *w) }
func (e *exactTimes) Tick(k *gvl.Tick) {
	known := k.Changes.Known()
	e.broken = e.broken || k.Gap || e.known && !known
	e.known = known
	for id := range e.tids {
		e.broken = e.broken || !slices.ContainsFunc(k.Threads, func(t sampler.Thread) bool { return t.ID == id })
	}
	for i := range k.Threads {
		e.tids[k.Threads[i].ID] = k.Threads[i].TID
	}
}

// doing is what a thread does with the GVL: it holds it, waits for it, or has released it.
type doing uint8

const (
	held doing = iota
	waiting
	released
)

// span is an interval in which a native thread did one thing: it held the GVL, waited for it, or had released it.
type span struct {
	tid          int32
	does         doing
	fromNS, toNS int64
}

// spanWait is a wait for the GVL. It names threads by the ids of their native threads.
type spanWait struct {
	tid                  int32
	fromNS, toNS         int64
	handoverNS, noCPUNS  int64
	firstHolder, lastOne int32
}

// replayed computes intervals and waits from the changes in samples, one change after the other. A stream.Stream also
// computes them, and the test compares the results.
type replayed struct {
	unchosen bool // no thread is ever chosen (Ruby up to 3.2)
	threads  map[int32]*replayedThread
	// The field holder is the thread that holds the GVL, chosen is the next holder, and last is the previous holder.
	// Each is zero if there is no such thread. freedNS is when a thread last gave up the GVL.
	holder, chosen, last int32
	freedNS              int64
	spans                []span
	waits                []spanWait
}

// replayedThread is the state of a thread, and what is known about it since its last change.
type replayedThread struct {
	is                sampler.GVLState
	sinceNS, chosenNS int64
	noCPUNS           int64
	first             int32
}

// doingOf returns what a thread in the state g does with the GVL: hold it, wait for it, or have it released.
func doingOf(g sampler.GVLState) doing {
	switch g {
	case sampler.GVLHeld:
		return held
	case sampler.GVLQueued, sampler.GVLChosen:
		return waiting
	}
	return released
}

// take processes the changes of a sample.
func (r *replayed) take(c *sampler.Changes) {
	for i := range c.List {
		g := &c.List[i]
		t := r.threads[g.TID]
		switch {
		case t == nil && g.State == sampler.GVLGone:
			continue
		case t == nil:
			t = &replayedThread{is: g.State, sinceNS: g.AtNS}
			r.threads[g.TID] = t
			r.arrive(g, t)
			continue
		case doingOf(t.is) == waiting:
			t.noCPUNS += g.NoCPUNS
		}
		was := doingOf(t.is)
		if doingOf(g.State) != was || g.State == sampler.GVLGone {
			r.leave(g, t)
			t.sinceNS = g.AtNS
		}
		t.is = g.State
		if doingOf(g.State) != was {
			r.arrive(g, t)
		} else if g.State == sampler.GVLChosen && t.chosenNS == 0 {
			t.chosenNS, r.chosen = g.AtNS, g.TID
		}
		if g.State == sampler.GVLGone {
			delete(r.threads, g.TID)
		}
		// When another thread is chosen, a thread can give up the GVL and queue for it at the same instant. This thread
		// then waits for the chosen thread, so the chosen thread is the first holder during its wait.
		if g.State == sampler.GVLChosen {
			for tid, x := range r.threads {
				if tid != g.TID && doingOf(x.is) == waiting && x.sinceNS == g.AtNS && x.first == 0 {
					x.first = g.TID
				}
			}
		}
	}
}

// leave ends the thread's present span.
func (r *replayed) leave(g *sampler.Change, t *replayedThread) {
	r.spans = append(r.spans, span{g.TID, doingOf(t.is), t.sinceNS, g.AtNS})
	if r.chosen == g.TID {
		r.chosen = 0
	}
	switch doingOf(t.is) {
	case held:
		r.holder, r.last, r.freedNS = 0, g.TID, g.AtNS
	case waiting:
		w := spanWait{tid: g.TID, fromNS: t.sinceNS, toNS: g.AtNS, noCPUNS: t.noCPUNS, firstHolder: t.first}
		if r.unchosen {
			t.chosenNS = r.freedNS
		}
		if t.chosenNS != 0 {
			w.handoverNS = g.AtNS - max(t.chosenNS, t.sinceNS)
		}
		if w.lastOne = r.holder; r.holder == 0 && r.last != g.TID {
			w.lastOne = r.last
		}
		r.waits = append(r.waits, w)
	}
}

// arrive begins the thread's next span.
func (r *replayed) arrive(g *sampler.Change, t *replayedThread) {
	switch doingOf(g.State) {
	case held:
		r.holder = g.TID
	case waiting:
		t.chosenNS, t.noCPUNS, t.first = 0, 0, r.holder
		if r.holder == 0 {
			t.first = r.chosen
		}
		if g.State == sampler.GVLChosen {
			t.chosenNS, r.chosen = g.AtNS, g.TID
		}
	}
}

// finish ends all spans that go on.
func (r *replayed) finish(atNS int64) {
	for tid, t := range r.threads {
		r.spans = append(r.spans, span{tid, doingOf(t.is), t.sinceNS, atNS})
	}
}

// TestExactStream: package gvl computes the times of threads and their waits from samples with changes. The result must
// equal what the test computes from the changes alone, for each thread to the nanosecond. Each wait must have the same
// hand-over, the same time without a CPU, and the same holders of the GVL. The comparison of a thread begins at its
// first change. For a thread that was new when the probes were inserted, this can be long after the first sample with
// the thread.
func TestExactStream(t *testing.T) {
	rubytest.OftenEnough(t)
	for name, load := range map[string]string{
		"computing":    `4.times { Thread.new { n = 0; loop { n += 1 } } }`,
		"short I/O":    `r, w = IO.pipe; 4.times { Thread.new { loop { w.syswrite("x"); r.sysread(1); sleep 0.0002 } } }`,
		"mutex, queue": `m = Mutex.new; q = Queue.new; 4.times { |i| Thread.new { loop { m.synchronize { 100.times { } }; i.odd? ? q.push(1) : q.pop; sleep 0.0005 } } }`,
		"garbage":      `3.times { Thread.new { loop { Array.new(20_000) { |i| "x" * (i % 50) } } } }`,
	} {
		t.Run(name, func(t *testing.T) {
			eachExact(t, func(t *testing.T, r rubytest.Ruby) {
				_, s := openExact(t, r, "$stdout.sync = true\n"+load+"\nputs 'ready'\n$stdin.gets", rubytest.Options{})
				truth := &replayed{unchosen: !r.AtLeast(3, 3), threads: make(map[int32]*replayedThread)}
				if err := s.Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
					t.Fatal(err)
				}
				told := &exactTimes{tids: make(map[sampler.ThreadID]int32)}
				m := measure.New(s.Process(), s.Dictionary(), nil)
				m.Stream().Attach(told)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var until time.Time
				var beginNS, endNS int64
				var fed exactFed
				if err := s.Run(ctx, func(x *sampler.Sample) {
					fed.keep(x, m.Feed(x))
					if !x.Changes.Known() {
						return
					}
					truth.take(&x.Changes)
					if endNS = x.TimeNS; beginNS == 0 {
						beginNS, until = x.TimeNS, time.Now().Add(time.Second)
					}
					whole := 0
					for i := range told.waits {
						if told.waits[i].Exact && told.waits[i].FromNS > beginNS {
							whole++
						}
					}
					if time.Now().After(until) && whole > 0 { // on a full machine Ruby's own timer may fire late
						cancel()
					}
				}); err != nil {
					t.Fatal(err)
				}
				ended, err := s.EndExact()
				if err != nil || ended.Ended != "" || ended.Wrong || ended.Lost != 0 {
					t.Errorf("%+v, %v", ended, err)
				}
				if told.broken {
					rubytest.Skip(t, "on this machine, now, samples were too far apart, a list of threads could be read in part only, or it was in doubt for a time whether the records fit")
				}
				truth.finish(endNS)
				stat := m.Stat(0)
				m.Stream().Finish()
				if checkExactTimes(t, told, truth, beginNS, endNS); t.Failed() {
					fed.show(t, told, truth, beginNS, endNS)
				}
				checkExactWaits(t, told, truth, beginNS, endNS)
				var known report.StatWaits
				for _, g := range stat.GVL {
					known = g.Waits
				}
				rubytest.Report(t, "%d intervals, %d waits, %d of %d turns agreed, known to %d ns, blame %d + %d + %d of %d", len(told.intervals), len(told.waits),
					ended.Checks.Agreed, ended.Checks.Agreed+ended.Checks.Disagreed,
					known.ResolutionNS, stat.Blame.RunningNS, stat.Blame.StalledNS, stat.Blame.GCNS, stat.Blame.TotalNS)
			})
		})
	}
}

// checkExactTimes compares how long each thread held the GVL, waited for it, or had released it between two times.
func checkExactTimes(t *testing.T, told *exactTimes, truth *replayed, beginNS, endNS int64) {
	t.Helper()
	got, want, known := make(map[int32][3]int64), make(map[int32][3]int64), make(map[int32]int64)
	for _, i := range truth.spans {
		if at, ok := known[i.tid]; !ok || i.fromNS < at {
			known[i.tid] = i.fromNS
		}
	}
	add := func(to map[int32][3]int64, tid int32, st doing, fromNS, toNS int64) {
		if from, to_ := max(fromNS, beginNS, known[tid]), min(toNS, endNS); to_ > from {
			v := to[tid]
			v[st] += to_ - from
			to[tid] = v
		}
	}
	for _, i := range truth.spans {
		add(want, i.tid, i.does, i.fromNS, i.toNS)
	}
	for _, i := range told.intervals {
		add(got, told.tids[i.Thread], doingIn(&i), i.FromNS, i.ToNS)
	}
	threads := 0
	for tid, w := range want {
		threads++
		if got[tid] != w {
			t.Errorf("thread %d: held, waiting, released %v ns by the stream, %v by the changes", tid, got[tid], w)
		}
	}
	if threads < 3 {
		rubytest.TooSeldom(t, "%d threads compared, of %d", threads, len(want))
	}
}

// checkExactWaits compares the waits between two times.
func checkExactWaits(t *testing.T, told *exactTimes, truth *replayed, beginNS, endNS int64) {
	t.Helper()
	type key struct {
		tid      int32
		from, to int64
	}
	want := make(map[key]*spanWait)
	for i := range truth.waits {
		if w := &truth.waits[i]; w.fromNS > beginNS && w.toNS <= endNS {
			want[key{w.tid, w.fromNS, w.toNS}] = w
		}
	}
	n, other := len(want), 0
	for i := range told.waits {
		w := &told.waits[i]
		if w.FromNS <= beginNS || w.ToNS > endNS || !w.Exact {
			continue
		}
		k := key{told.tids[w.Thread], w.FromNS, w.ToNS}
		x := want[k]
		if x == nil {
			t.Errorf("%+v is not in the changes", *w)
			continue
		}
		delete(want, k)
		if w.HandoverNS != x.handoverNS || w.NoCPUNS != x.noCPUNS || told.tids[w.FirstHolder] != x.firstHolder || told.tids[w.LastHolder] != x.lastOne {
			if other++; other < 5 {
				t.Errorf("wait %+v, by the changes %+v; first %d, last %d", *w, *x, told.tids[w.FirstHolder], told.tids[w.LastHolder])
			}
		}
	}
	for _, x := range want {
		t.Errorf("%+v is not told", *x)
		break
	}
	if n == 0 || len(want) > 0 || other > 0 {
		t.Errorf("%d waits, %d are not told, %d otherwise", n, len(want), other)
	}
}

// exactFed keeps the samples and states that a stream.Stream got, so that a failing test can print them.
type exactFed struct {
	samples []sampler.Sample
	states  [][]gvl.ThreadState
}

func (f *exactFed) keep(x *sampler.Sample, states []gvl.ThreadState) {
	var s sampler.Sample
	s.CopyFrom(x)
	f.samples, f.states = append(f.samples, s), append(f.states, slices.Clone(states))
}

// doingIn returns what the thread of an interval does with the GVL: hold it, wait for it, or have it released.
func doingIn(i *gvl.Interval) doing {
	switch {
	case i.State.Held():
		return held
	case i.State == gvl.Waiting:
		return waiting
	}
	return released
}

// show logs, for each thread, the first time at which the stream's result differs from the changes. It also logs the
// samples around that time.
func (f *exactFed) show(t *testing.T, told *exactTimes, truth *replayed, beginNS, endNS int64) {
	for id, tid := range told.tids {
		var a, b []span
		for _, i := range told.intervals {
			if i.Thread == id {
				a = append(a, span{tid, doingIn(&i), i.FromNS, i.ToNS})
			}
		}
		for _, i := range truth.spans {
			if i.tid == tid {
				b = append(b, i)
			}
		}
		if len(b) == 0 {
			continue
		}
		at := differ(a, b, max(beginNS, b[0].fromNS), endNS)
		if at == 0 {
			continue
		}
		t.Logf("thread %d (%d): from %d on the stream and the changes differ", id, tid, at)
		for _, i := range told.intervals {
			if i.Thread == id && i.ToNS > at-50e6 && i.FromNS < at+50e6 {
				t.Logf("  stream: %v %v %d to %d, known to %d", i.State, i.Detail.Wait, i.FromNS-at, i.ToNS-at, i.ResolutionNS)
			}
		}
		for _, i := range b {
			if i.toNS > at-50e6 && i.fromNS < at+50e6 {
				t.Logf("  changes: %v %d to %d", i.does, i.fromNS-at, i.toNS-at)
			}
		}
		for k := range f.samples {
			s := &f.samples[k]
			if s.TimeNS < at-60e6 || s.TimeNS > at+60e6 {
				continue
			}
			t.Logf("  sample at %d, read in %d; changes from %d to %d, fresh %v; ractors %+v", s.TimeNS-at, s.ReadNS, s.Changes.FromNS-at, s.Changes.ToNS-at, s.Changes.Fresh, s.Ractors)
			for i, ts := range f.states[k] {
				t.Logf("    %d (%d) %v %v since %d, bits %b status %v", ts.Thread, s.Threads[i].TID, ts.State, ts.Detail.Wait, ts.SinceNS-at, s.Threads[i].Bits, s.Threads[i].Status)
			}
			for _, c := range s.Changes.List {
				if c.AtNS > at-20e6 && c.AtNS < at+20e6 {
					t.Logf("    change at %d: %d (%d) %v, doubtful %v", c.AtNS-at, c.Thread, c.TID, c.State, c.Doubtful)
				}
			}
		}
	}
}

// differ returns the first time at which two lists of spans differ. If they do not differ, it returns zero.
func differ(a, b []span, fromNS, toNS int64) int64 {
	times := []int64{fromNS}
	for _, list := range [][]span{a, b} {
		for _, i := range list {
			times = append(times, i.fromNS, i.toNS)
		}
	}
	slices.Sort(times)
	in := func(list []span, at int64) int {
		k := slices.IndexFunc(list, func(i span) bool { return i.fromNS <= at && at < i.toNS })
		if k < 0 {
			return -1
		}
		return int(list[k].does)
	}
	for _, at := range times {
		if at >= fromNS && at < toNS && in(a, at) != in(b, at) {
			return at
		}
	}
	return 0
}
