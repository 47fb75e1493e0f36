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

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/rubytest/eventlog"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live"
)

// kept keeps what exact mode says.
type kept struct {
	intervals []exact.Interval
	waits     []exact.Wait
}

func (k *kept) Interval(i *exact.Interval) { k.intervals = append(k.intervals, *i) }
func (k *kept) Waited(w *exact.Wait)       { k.waits = append(k.waits, *w) }

// followExactly follows a process exactly for a while. take gets each sample of it; begin is called before the first one.
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

// eventsOf are the waits and turns that Ruby told of between two instants, by native thread.
type eventsOf struct {
	waits map[int32][]exact.Interval
	turns map[int32]int
}

// toldBy finds the waits, whole, and how often each thread got the GVL. READY can be said by another thread than the one it is about:
// threads go by their objects.
func toldBy(log *eventlog.Log, from, to int64) eventsOf {
	e := eventsOf{make(map[int32][]exact.Interval), make(map[int32]int)}
	ready := make(map[uint64]int64)
	for _, r := range log.Records {
		switch r.Event {
		case eventlog.Ready:
			ready[r.Thread] = r.NS
		case eventlog.Resumed:
			if at := ready[r.Thread]; at >= from && r.NS <= to {
				e.waits[int32(r.TID)] = append(e.waits[int32(r.TID)], exact.Interval{TID: int32(r.TID), State: exact.Waiting, FromNS: at, ToNS: r.NS})
			}
			delete(ready, r.Thread)
			if r.NS >= from && r.NS <= to {
				e.turns[int32(r.TID)]++
			}
		}
	}
	return e
}

// beside is a wait as exact mode has it, and for how long its thread had no CPU just before it, in ns.
type beside struct {
	exact.Wait
	before int64
}

// withNeighbours finds what was before each wait, by native thread.
func withNeighbours(k *kept) map[int32][]beside {
	before := make(map[[2]int64]int64) // by thread and instant
	for _, i := range k.intervals {
		before[[2]int64{int64(i.TID), i.ToNS}] = i.NoCPUNS
	}
	by := make(map[int32][]beside)
	for _, w := range k.waits {
		by[w.TID] = append(by[w.TID], beside{w, before[[2]int64{int64(w.TID), w.FromNS}]})
	}
	return by
}

// matched counts the waits of at least a length that both have, with both ends within slack (found), those of the others that begin later
// than READY by no more than what the kernel counted of the thread without a CPU before them (preempted), and all that Ruby told of.
func matched(told map[int32][]exact.Interval, k *kept, least, slack int64) (found, preempted, of int) {
	by := withNeighbours(k)
	for tid, waits := range told {
		got := by[tid]
		longest := slack
		for _, g := range got {
			longest = max(longest, slack+g.before)
		}
		for _, w := range waits {
			if w.NS() < least {
				continue
			}
			of++
			near, late := false, false
			i, _ := slices.BinarySearchFunc(got, w.FromNS-slack, func(g beside, at int64) int { return cmp.Compare(g.FromNS, at) })
			for ; i < len(got) && got[i].FromNS <= w.FromNS+longest; i++ {
				g := got[i]
				if max(g.ToNS-w.ToNS, w.ToNS-g.ToNS) > slack {
					continue
				}
				near = near || g.FromNS-w.FromNS <= slack
				late = late || g.FromNS-w.FromNS <= slack+g.before
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

// exactLoad runs a load, follows it exactly and compares; libc: by probes in the C library.
func exactLoad(t *testing.T, r rubytest.Ruby, name string, d time.Duration, libc bool) (c compared) {
	t.Helper()
	p := start(t, r, name, true)
	k := new(kept)
	report := followExactly(t, p.PID, d, live.ExactOptions{MaxCost: 1, LibC: libc, To: k}, func(*live.Source) {}, func(*sampler.Sample) {})
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
	if report.Ended != "" || report.Wrong || report.Lost != 0 || report.Checks.Unclosed != 0 {
		t.Errorf("%+v", report)
	}
	from, to := report.FromNS, report.ToNS
	e := toldBy(log, from, to)
	times := log.Times(from, to)
	got, turns := make(map[int32]*[4]int64), make(map[int32]int)
	for _, i := range k.intervals {
		if got[i.TID] == nil {
			got[i.TID] = new([4]int64)
		}
		got[i.TID][i.State] += i.NS()
		if i.State == exact.Running {
			turns[i.TID]++
		}
	}
	for _, w := range p.workers {
		g, want := got[w.TID], times[uint32(w.TID)]
		if g == nil {
			rubytest.TooSeldom(t, "%s was not seen", w.Name)
			continue
		}
		if sum := g[exact.Running] + g[exact.Waiting] + g[exact.Released]; sum != to-from {
			t.Errorf("%s: the times come to %d ns of %d", w.Name, sum, to-from)
		}
		// One turn can have begun before, and one whose record was made in time can have been told too late.
		if d := turns[w.TID] - e.turns[w.TID]; d < -2 || d > 2 {
			t.Errorf("%s had %d turns, and Ruby tells of %d", w.Name, turns[w.TID], e.turns[w.TID])
		}
		for i, off := range []int64{g[exact.Running] - want.Running - want.GC, g[exact.Waiting] - want.Waiting, g[exact.Released] - want.Released} {
			points := math.Abs(100 * float64(off) / float64(to-from))
			c.mean[i] += points / float64(len(p.workers))
			c.worst = max(c.worst, points)
		}
		c.turns += turns[w.TID]
	}
	c.found, c.preempted, c.of = matched(e.waits, k, 50_000, 20_000)
	return c
}

// compared is how far exact mode is from Ruby's own events: in points of share, of running, waiting and released; and how many of the
// waits of 50 µs and more it has, with both ends within 20 µs, and how many more of threads that lost their CPU just before.
type compared struct {
	mean                        [3]float64
	worst                       float64
	turns, found, preempted, of int
}

// String says it for the report.
func (c compared) String() string {
	return fmt.Sprintf("%d turns; points off, running waiting released: %.3f, at most %.3f; of %d waits %d matched, and %d but for a lost CPU",
		c.turns, c.mean, c.worst, c.of, c.found, c.preempted)
}

// TestExactTurns: exact mode knows each turn that Ruby itself tells of. How long turns and waits are is printed, not judged: when a
// thread loses its CPU between the event and the probe, which are a microsecond apart, both are right and differ by what that took.
// `make verify` judges that, on a machine with nothing else to do (TestExactAgainstEvents).
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
