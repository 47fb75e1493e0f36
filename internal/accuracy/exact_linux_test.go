package accuracy

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/rubytest/eventlog"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live"
)

// kept collects the intervals and waits that a stream.Stream computes from a process's samples. It also keeps the time
// span in which the samples include every change of the GVL.
type kept struct {
	gvl.Ignore
	measure   *measure.Measure
	tids      map[sampler.ThreadID]int32
	intervals []gvl.Interval
	waits     []gvl.Wait
	// noCPU is how long a thread was without a CPU just before a change: it got, released or queued for the GVL. The
	// key is the native thread and the time of this change.
	noCPU map[threadAt]int64
	// The field now is the current time span in which all changes of the GVL are known. longest is the longest such
	// span so far.
	now, longest known
}

// known is a time span, from one sample to a later one, in which the samples include every change of the GVL.
type known struct{ fromNS, toNS int64 }

// threadAt is a native thread and a time. It is a key of the map noCPU.
type threadAt struct {
	tid  int32
	atNS int64
}

// These constants are indexes of arrays. They say whether a thread holds the GVL, waits for it in the queue, or
// neither.
const (
	holding = iota
	waiting
	released
	places
)

// placeOf returns which of holding, waiting and released a thread's state belongs to.
func placeOf(s gvl.State) int {
	switch {
	case s.Held():
		return holding
	case s == gvl.Waiting:
		return waiting
	}
	return released
}

func (k *kept) Interval(i *gvl.Interval) { k.intervals = append(k.intervals, *i) }
func (k *kept) Waited(w *gvl.Wait)       { k.waits = append(k.waits, *w) }
func (k *kept) Tick(x *gvl.Tick) {
	if x.Gap || !x.Changes.Known() {
		k.now = known{}
	}
	if x.Changes.Known() {
		if k.now.toNS = x.TimeNS; k.now.fromNS == 0 {
			k.now.fromNS = x.TimeNS
		}
	}
	if k.now.toNS-k.now.fromNS > k.longest.toNS-k.longest.fromNS {
		k.longest = k.now
	}
}

// follow prepares k to collect the intervals and waits of a process. The method take then adds each sample.
func (k *kept) follow(s *live.Source) {
	k.tids, k.noCPU = make(map[sampler.ThreadID]int32), make(map[threadAt]int64)
	k.measure = measure.New(s.Process(), s.Dictionary(), nil)
	k.measure.Stream().Attach(k)
}

// take adds a sample.
func (k *kept) take(x *sampler.Sample) {
	for i := range x.Threads {
		k.tids[x.Threads[i].ID] = x.Threads[i].TID
	}
	for _, c := range x.Changes.List {
		k.noCPU[threadAt{c.TID, c.AtNS}] = c.NoCPUNS
	}
	k.measure.Feed(x)
}

// finish ends the stream of samples. It skips the test if the longest time span in which all changes of the GVL are
// known is shorter than least.
func (k *kept) finish(t *testing.T, least time.Duration) {
	t.Helper()
	k.measure.Stream().Finish()
	if k.longest.toNS-k.longest.fromNS < int64(least) {
		rubytest.Skip(t, "on this machine, now, samples were too far apart, or did not know all changes")
	}
}

// times sums up how long each native thread was holding, waiting and released between two instants.
func (k *kept) times(from, to int64) map[int32][places]int64 {
	sums := make(map[int32][places]int64)
	for i := range k.intervals {
		x := &k.intervals[i]
		if a, b := max(x.FromNS, from), min(x.ToNS, to); a < b {
			s := sums[k.tids[x.Thread]]
			s[placeOf(x.State)] += b - a
			sums[k.tids[x.Thread]] = s
		}
	}
	return sums
}

// turns counts how often each native thread got the GVL, in the longest time span in which all changes are known.
func (k *kept) turns() map[int32]int {
	turns, until := make(map[int32]int), make(map[int32]int64)
	for i := range k.intervals {
		x := &k.intervals[i]
		if tid := k.tids[x.Thread]; x.State.Held() {
			if x.FromNS != until[tid] && x.FromNS > k.longest.fromNS && x.FromNS <= k.longest.toNS {
				turns[tid]++
			}
			until[tid] = x.ToNS
		}
	}
	return turns
}

// followExactly follows a process for a while in exact mode, in which probes record every change of the GVL. It calls
// begin before the first sample, and take for each sample.
func followExactly(t *testing.T, pid int, d time.Duration, o live.ExactOptions, begin func(*live.Source), take func(*sampler.Sample)) live.ExactReport {
	t.Helper()
	if err := probe.Try(false); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	s, err := live.Open(t.Context(), pid, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Exact(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	begin(s)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := s.Run(ctx, take); err != nil {
		t.Error(err)
	}
	report, err := s.EndExact()
	if err != nil {
		t.Error(err)
	}
	return report
}

// eventsOf has what Ruby logged between two instants: the waits, and how often each thread got the GVL. The keys are
// the ids of native threads.
type eventsOf struct {
	waits map[int32][]toldSpan
	turns map[int32]int
}

// toldSpan is a wait that Ruby logged.
type toldSpan struct {
	fromNS, toNS int64
}

// toldBy returns what Ruby logged between two instants: the waits that begin and end between them, and how often each
// thread got the GVL. It pairs the events READY and RESUMED by the thread's object, not by the thread that logged them.
// The reason is that one thread can log READY for another one.
func toldBy(log *eventlog.Log, from, to int64) eventsOf {
	e := eventsOf{make(map[int32][]toldSpan), make(map[int32]int)}
	ready := make(map[uint64]int64)
	for _, r := range log.Records {
		switch r.Event {
		case eventlog.Ready:
			ready[r.Thread] = r.NS
		case eventlog.Resumed:
			if at := ready[r.Thread]; at >= from && r.NS <= to {
				e.waits[int32(r.TID)] = append(e.waits[int32(r.TID)], toldSpan{at, r.NS})
			}
			delete(ready, r.Thread)
			if r.NS >= from && r.NS <= to {
				e.turns[int32(r.TID)]++
			}
		}
	}
	return e
}

// beside is a wait that exact mode measured. The field before is how long the thread had no CPU just before this wait,
// in ns.
type beside struct {
	gvl.Wait
	before int64
}

// withNeighbours returns the waits of each native thread, each with the time that its thread had no CPU just before it.
func withNeighbours(k *kept) map[int32][]beside {
	by := make(map[int32][]beside)
	for _, w := range k.waits {
		tid := k.tids[w.Thread]
		by[tid] = append(by[tid], beside{w, k.noCPU[threadAt{tid, w.FromNS}]})
	}
	return by
}

// matched compares the waits that Ruby logged with the waits that exact mode measured. It checks the logged waits of at
// least the length least, in ns. The result of is their number. found is how many of them have a begin and an end that
// differ by at most slack, in ns. preempted is how many others begin later in exact mode than in Ruby's log, because
// the thread had no CPU. The kernel's count of the time without a CPU must explain this delay.
func matched(told map[int32][]toldSpan, k *kept, least, slack int64) (found, preempted, of int) {
	by := withNeighbours(k)
	for tid, waits := range told {
		got := by[tid]
		longest := slack
		for _, g := range got {
			longest = max(longest, slack+g.before)
		}
		for _, w := range waits {
			if w.toNS-w.fromNS < least {
				continue
			}
			of++
			near, late := false, false
			i, _ := slices.BinarySearchFunc(got, w.fromNS-slack, func(g beside, at int64) int { return cmp.Compare(g.FromNS, at) })
			for ; i < len(got) && got[i].FromNS <= w.fromNS+longest; i++ {
				g := got[i]
				if max(g.ToNS-w.toNS, w.toNS-g.ToNS) > slack {
					continue
				}
				near = near || g.FromNS-w.fromNS <= slack
				late = late || g.FromNS-w.fromNS <= slack+g.before
			}
			if near {
				found++
			} else if late {
				preempted++
			}
		}
	}
	return found, preempted, of
}

// exactLoad runs a load (a kind of work to measure), follows it in exact mode, and compares the result with the events
// that Ruby logged. If libc is true, the probes are in the C library instead of Ruby.
func exactLoad(t *testing.T, r rubytest.Ruby, name string, d time.Duration, libc bool) (c compared) {
	t.Helper()
	p := start(t, r, name, true)
	k := new(kept)
	report := followExactly(t, p.PID, d, live.ExactOptions{MaxCost: 1, LibC: libc}, k.follow, k.take)
	k.finish(t, d/10)
	p.Send(t, "write")
	p.Expect(t, "written")
	data, err := os.ReadFile(filepath.Join(p.HostDir, "events"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := eventlog.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if report.Ended != "" || report.Wrong || report.Checks.Unclosed != 0 {
		t.Errorf("%+v", report)
	}
	if report.Lost != 0 { // on a full machine ddtop can lack a CPU until its ring is full
		rubytest.TooSeldom(t, "records were lost: %+v", report)
	}
	from, to := k.longest.fromNS, k.longest.toNS
	e := toldBy(log, from, to)
	times := log.Times(from, to)
	got, turns := k.times(from, to), k.turns()
	for _, w := range p.workers {
		g, want := got[w.TID], times[uint32(w.TID)]
		if _, ok := got[w.TID]; !ok {
			rubytest.TooSeldom(t, "%s was not seen", w.Name)
			continue
		}
		if sum := g[holding] + g[waiting] + g[released]; sum != to-from {
			t.Errorf("%s: the times come to %d ns of %d", w.Name, sum, to-from)
		}
		// The two counts may differ by two, by one at each end of the window. A hold can begin before the window. At
		// the window's end, Ruby can log a hold later than exact mode records it.
		if d := turns[w.TID] - e.turns[w.TID]; d < -2 || d > 2 {
			t.Errorf("%s had %d turns, and Ruby tells of %d", w.Name, turns[w.TID], e.turns[w.TID])
		}
		for i, off := range []int64{g[holding] - want.Running - want.GC, g[waiting] - want.Waiting, g[released] - want.Released} {
			points := math.Abs(100 * float64(off) / float64(to-from))
			c.mean[i] += points / float64(len(p.workers))
			c.worst = max(c.worst, points)
		}
		c.turns += turns[w.TID]
	}
	c.found, c.preempted, c.of = matched(e.waits, k, 50_000, 20_000)
	return c
}

// compared is how far exact mode is from Ruby's own events. mean and worst are the errors of a thread's shares of
// running, waiting and released, in percentage points. The field of is the number of logged waits of 50 µs and more.
// found is how many of these waits begin and end within 20 µs of Ruby's times. preempted is how many match only if the
// time is considered in which the thread had no CPU just before the wait.
type compared struct {
	mean                        [3]float64
	worst                       float64
	turns, found, preempted, of int
}

// String returns the comparison as a line of text, which the test prints.
func (c compared) String() string {
	return fmt.Sprintf("%d turns; points off, running waiting released: %.3f, at most %.3f; of %d waits %d matched, and %d but for a lost CPU",
		c.turns, c.mean, c.worst, c.of, c.found, c.preempted)
}

// TestExactTurns: exact mode sees each hold of the GVL that Ruby itself logs, with probes in Ruby and in the C library.
// The test prints how far the lengths of holds and waits differ, but does not judge this. The reason is that Ruby logs
// its event a microsecond before or after the probe. If a thread loses its CPU in between, both lengths are right, but
// differ by the time without a CPU. `make verify` judges the lengths on an idle machine (TestExactAgainstEvents).
func TestExactTurns(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		if !r.AtLeast(3, 3) {
			rubytest.Skip(t, "Ruby tells of all turns from 3.3 on")
		}
		rubytest.NeedExact(t, r)
		for _, name := range []string{"cpu_io", "short_io", "mutex_queue"} {
			for _, libc := range []bool{false, true} {
				way := name
				if libc {
					way += ", probes in the C library"
				}
				t.Run(way, func(t *testing.T) {
					c := exactLoad(t, r, name, time.Second, libc)
					rubytest.Report(t, "%v", c)
				})
			}
		}
	})
}
