package live_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/live"
)

// exactTimes keeps what a gvl.Stream tells, by native thread.
type exactTimes struct {
	gvl.Ignore
	tids      map[sampler.ThreadID]int32
	intervals []gvl.Interval
	waits     []gvl.Wait
	// broken: samples were too far apart, or one did not list a thread that others did before and after, or had no changes.
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

// spansAndWaits are what the records themselves say.
type spansAndWaits struct {
	spans
	waits []exact.Wait
}

func (s *spansAndWaits) Waited(w *exact.Wait) { s.waits = append(s.waits, *w) }

// TestExactStream: what gvl makes of samples with changes is what the records of the same probes say, of each thread to the ns, and each
// wait is the same with its hand-over, its time without a CPU and who held the GVL.
//
// A thread counts from its first record on: that of one which had just been made when the probes were put in can come long after samples list it.
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
				truth := new(spansAndWaits)
				if err := s.Exact(t.Context(), live.ExactOptions{MaxCost: 1, To: truth}); err != nil {
					t.Fatal(err)
				}
				told := &exactTimes{tids: make(map[sampler.ThreadID]int32)}
				m := gvl.NewMeasure(s.Process(), s.Dictionary(), nil)
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
					if endNS = x.TimeNS; beginNS == 0 {
						beginNS, until = x.TimeNS, time.Now().Add(time.Second)
					}
					whole := 0
					for i := range told.waits {
						if told.waits[i].Exact && told.waits[i].FromNS > beginNS {
							whole++
						}
					}
					if time.Now().After(until) && whole > 0 { // on a full machine Ruby's own timer is late
						cancel()
					}
				}); err != nil {
					t.Fatal(err)
				}
				report, err := s.EndExact()
				if err != nil || report.Ended != "" || report.Wrong || report.Lost != 0 {
					t.Errorf("%+v, %v", report, err)
				}
				if told.broken {
					rubytest.Skip(t, "on this machine, now, samples were too far apart, a list of threads could be read in part only, or it was in doubt for a time whether the records fit")
				}
				stat := m.Stat(0)
				m.Stream().Finish()
				if checkExactTimes(t, told, truth, beginNS, endNS); t.Failed() {
					fed.show(t, told, truth, beginNS, endNS)
				}
				checkExactWaits(t, told, truth, beginNS, endNS)
				var known gvl.StatWaits
				for _, g := range stat.GVL {
					known = g.Waits
				}
				rubytest.Report(t, "%d intervals, %d waits, %d of %d turns agreed, known to %d ns, blame %d + %d + %d of %d", len(told.intervals), len(told.waits),
					report.Checks.Agreed, report.Checks.Agreed+report.Checks.Disagreed,
					known.ResolutionNS, stat.Blame.RunningNS, stat.Blame.StalledNS, stat.Blame.GCNS, stat.Blame.TotalNS)
			})
		})
	}
}

// checkExactTimes compares the times of threads between two samples, by running, waiting and released.
func checkExactTimes(t *testing.T, told *exactTimes, truth *spansAndWaits, beginNS, endNS int64) {
	t.Helper()
	got, want, known := make(map[int32][4]int64), make(map[int32][4]int64), make(map[int32]int64)
	for _, i := range truth.kept {
		if at, ok := known[i.TID]; !ok || i.FromNS < at {
			known[i.TID] = i.FromNS
		}
	}
	add := func(to map[int32][4]int64, tid int32, st exact.State, fromNS, toNS int64) {
		if from, to_ := max(fromNS, beginNS, known[tid]), min(toNS, endNS); to_ > from {
			v := to[tid]
			v[st] += to_ - from
			to[tid] = v
		}
	}
	for _, i := range truth.kept {
		add(want, i.TID, i.State, i.FromNS, i.ToNS)
	}
	for _, i := range told.intervals {
		add(got, told.tids[i.Thread], stateOf(&i), i.FromNS, i.ToNS)
	}
	threads := 0
	for tid, w := range want {
		threads++
		if got[tid] != w {
			t.Errorf("thread %d: none, running, waiting, released %v ns by the stream, %v by the records", tid, got[tid], w)
		}
	}
	if threads < 3 {
		rubytest.TooSeldom(t, "%d threads compared, of %d", threads, len(want))
	}
}

// checkExactWaits compares the waits between two samples.
func checkExactWaits(t *testing.T, told *exactTimes, truth *spansAndWaits, beginNS, endNS int64) {
	t.Helper()
	type key struct {
		tid      int32
		from, to int64
	}
	want := make(map[key]*exact.Wait)
	for i := range truth.waits {
		if w := &truth.waits[i]; w.FromNS > beginNS && w.ToNS <= endNS && !w.InProgress {
			want[key{w.TID, w.FromNS, w.ToNS}] = w
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
			t.Errorf("%+v is not in the records", *w)
			continue
		}
		delete(want, k)
		if w.HandoverNS != x.HandoverNS || w.NoCPUNS != x.NoCPUNS || told.tids[w.FirstHolder] != x.FirstHolder || told.tids[w.LastHolder] != x.LastHolder {
			if other++; other < 5 {
				t.Errorf("wait %+v, by the records %+v; first %d, last %d", *w, *x, told.tids[w.FirstHolder], told.tids[w.LastHolder])
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

// exactFed keeps what a gvl.Stream was fed, for a test that fails.
type exactFed struct {
	samples []sampler.Sample
	states  [][]gvl.ThreadState
}

func (f *exactFed) keep(x *sampler.Sample, states []gvl.ThreadState) {
	var s sampler.Sample
	s.CopyFrom(x)
	f.samples, f.states = append(f.samples, s), append(f.states, slices.Clone(states))
}

// stateOf is what an interval of a gvl.Stream is by records.
func stateOf(i *gvl.Interval) exact.State {
	switch {
	case i.State.Held():
		return exact.Running
	case i.State == gvl.Waiting:
		return exact.Waiting
	}
	return exact.Released
}

// show tells, of each thread, where what the stream says is not what the records say for the first time, and what was fed around that.
func (f *exactFed) show(t *testing.T, told *exactTimes, truth *spansAndWaits, beginNS, endNS int64) {
	for id, tid := range told.tids {
		var a, b []exact.Interval
		for _, i := range told.intervals {
			if i.Thread == id {
				a = append(a, exact.Interval{State: stateOf(&i), FromNS: i.FromNS, ToNS: i.ToNS})
			}
		}
		for _, i := range truth.kept {
			if i.TID == tid {
				b = append(b, i)
			}
		}
		if len(b) == 0 {
			continue
		}
		at := differ(a, b, max(beginNS, b[0].FromNS), endNS)
		if at == 0 {
			continue
		}
		t.Logf("thread %d (%d): from %d on the stream and the records differ", id, tid, at)
		for _, i := range told.intervals {
			if i.Thread == id && i.ToNS > at-50e6 && i.FromNS < at+50e6 {
				t.Logf("  stream: %v %v %d to %d, known to %d", i.State, i.Detail.Wait, i.FromNS-at, i.ToNS-at, i.ResolutionNS)
			}
		}
		for _, i := range b {
			if i.ToNS > at-50e6 && i.FromNS < at+50e6 {
				t.Logf("  records: %v %d to %d, doubtful %v", i.State, i.FromNS-at, i.ToNS-at, i.Doubtful)
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

// differ returns the first time at which two lists of intervals say different things; 0: there is none.
func differ(a, b []exact.Interval, fromNS, toNS int64) int64 {
	times := []int64{fromNS}
	for _, list := range [][]exact.Interval{a, b} {
		for _, i := range list {
			times = append(times, i.FromNS, i.ToNS)
		}
	}
	slices.Sort(times)
	in := func(list []exact.Interval, at int64) exact.State {
		k := slices.IndexFunc(list, func(i exact.Interval) bool { return i.FromNS <= at && at < i.ToNS })
		if k < 0 {
			return exact.None
		}
		return list[k].State
	}
	for _, at := range times {
		if at >= fromNS && at < toNS && in(a, at) != in(b, at) {
			return at
		}
	}
	return 0
}
