package accuracy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/export/trace"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/rubytest/eventlog"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// told collects the waits of a stream whose lengths are exact. It also counts the gaps, which are places where two
// samples were too far apart.
type told struct {
	gvl.Ignore
	dict  *sampler.Dictionary
	waits []toldWait
	gaps  int
}

// toldWait is a wait with its stack as text. A stack's ID cannot be compared, because it differs between a process and
// a recording of the process.
type toldWait struct {
	gvl.Wait
	stack string
}

func (k *told) Tick(x *gvl.Tick) {
	if x.Gap {
		k.gaps++
	}
}

func (k *told) Waited(w *gvl.Wait) {
	if w.Exact {
		x := toldWait{Wait: *w, stack: k.words(w.Stack)}
		x.Before, x.After, x.Slot, x.Stack = gvl.ThreadState{}, 0, 0, 0 // these fields come from samples, which differ
		k.waits = append(k.waits, x)
	}
}

func (k *told) words(stack sampler.StackID) string {
	var b strings.Builder
	for stack != 0 {
		caller, frame := k.dict.Stack(stack)
		f := k.dict.Frame(frame)
		fmt.Fprintf(&b, "%s %s:%d\n", f.Label, f.Path, f.Line)
		stack = caller
	}
	return b.String()
}

// traced turns samples into a trace, and collects the waits whose lengths are exact.
type traced struct {
	*stream.Stream
	class *gvl.Classifier
	trace *trace.Trace
	told
}

func newTraced(p sampler.Process, d *sampler.Dictionary) *traced {
	s := &traced{Stream: stream.New(p), class: gvl.NewClassifier(p, d), trace: trace.New(p, d)}
	s.dict = d
	s.Attach(s.trace)
	s.Attach(&s.told)
	return s
}

func (s *traced) feed(x *sampler.Sample) { s.Feed(x, s.class.Classify(x)) }

// traceExactly follows a process in exact mode for a while. It returns the trace for Chrome, the time at which the
// trace begins (CLOCK_MONOTONIC in ns), and how often samples were too far apart. It also records the process, and
// checks that the recording has the same waits as the process itself.
func traceExactly(t *testing.T, pid int, d time.Duration) (chrome []byte, beginNS int64, gaps int, report live.ExactReport) {
	t.Helper()
	var file bytes.Buffer
	var w *recording.Writer
	var s *traced
	begin := func(src *live.Source) {
		var err error
		if w, err = recording.NewWriter(&file, src.Process(), src.Dictionary()); err != nil {
			t.Fatal(err)
		}
		s = newTraced(src.Process(), src.Dictionary())
	}
	report = followExactly(t, pid, d, live.ExactOptions{MaxCost: 1}, begin, func(x *sampler.Sample) {
		beginNS = cmp.Or(beginNS, x.TimeNS)
		if err := w.Write(x); err != nil {
			t.Error(err)
		}
		if i := slices.IndexFunc(x.Changes.List, func(c sampler.Change) bool { return c.AtNS%100 != 0 || c.NoCPUNS%100 != 0 }); i >= 0 {
			t.Errorf("%+v is not in whole 100 ns", x.Changes.List[i])
		}
		s.feed(x)
	})
	s.Finish()
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	sameReplayed(t, file.Bytes(), s.waits)
	var out bytes.Buffer
	if err := trace.WriteChrome(&out, []*trace.Trace{s.trace}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), beginNS, s.gaps, report
}

// sameReplayed checks that a recording has the same waits as the process (want), to the nanosecond. After that, it
// replays only the second half of the recording. This half must have the same waits, except waits that began before the
// half.
func sameReplayed(t *testing.T, file []byte, want []toldWait) {
	t.Helper()
	r, err := recording.NewReader(bytes.NewReader(file), int64(len(file)), "x.ddtop")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all := newTraced(r.Process(), r.Dictionary())
	if err := r.Range(math.MinInt64, math.MaxInt64, all.feed); err != nil {
		t.Fatal(err)
	}
	all.Finish()
	first, last := r.Span()
	cut := func(w toldWait) bool { return w.ToNS >= last } // goes on at the end of the recording
	want = slices.DeleteFunc(want, cut)
	all.waits = slices.DeleteFunc(all.waits, cut)
	sameWaits(t, "a recording", all.waits, want)
	half := newTraced(r.Process(), r.Dictionary())
	fromNS := int64(0)
	if err := r.Range(beforeStack(first, last, all.waits), math.MaxInt64, func(x *sampler.Sample) {
		if fromNS == 0 {
			fromNS = x.TimeNS
		}
		half.feed(x)
	}); err != nil {
		t.Fatal(err)
	}
	half.Finish()
	begun := func(w toldWait) bool { return w.FromNS <= fromNS || cut(w) }
	got, rest := slices.DeleteFunc(half.waits, begun), slices.DeleteFunc(slices.Clone(all.waits), begun)
	for i := range got { // a part of a recording does not show who held the GVL before it begins
		got[i].FirstHolder, got[i].LastHolder = 0, 0
	}
	for i := range rest {
		rest[i].FirstHolder, rest[i].LastHolder = 0, 0
	}
	sameWaits(t, "its second half", got, rest)
}

// beforeStack returns where the replayed second half of a recording begins, so that this half has a wait with a stack.
// This is the middle of the recording, if a later wait has a stack. Otherwise it is halfway between the first sample
// and the last wait with a stack. Waits at the end can lack stacks because ddtop had no CPU.
func beforeStack(first, last int64, waits []toldWait) int64 {
	at, stackNS := first+(last-first)/2, int64(0)
	for i := range waits {
		if waits[i].stack != "" {
			stackNS = max(stackNS, waits[i].FromNS)
		}
	}
	if stackNS != 0 && stackNS <= at {
		at = first + (stackNS-first)/2
	}
	return at
}

// sameWaits checks that two lists have the same waits, in any order.
func sameWaits(t *testing.T, what string, got, want []toldWait) {
	t.Helper()
	order := func(a, b toldWait) int {
		return cmp.Or(cmp.Compare(a.FromNS, b.FromNS), cmp.Compare(a.Thread, b.Thread))
	}
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if len(got) != len(want) {
		t.Fatalf("%s tells of %d waits, the process of %d", what, len(got), len(want))
	}
	if len(want) == 0 {
		rubytest.TooSeldomNow(t, "%s tells of no wait", what)
	}
	if !slices.ContainsFunc(want, func(w toldWait) bool { return w.stack != "" }) {
		rubytest.TooSeldom(t, "%s: no wait of %d has a stack", what, len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s, wait %d of %d: %+v, the process told of %+v", what, i, len(want), got[i], want[i])
		}
	}
}

// chromeSlice is one time slice of a thread in Chrome's trace. Its times are in ns since the trace's beginning.
type chromeSlice struct {
	state      string
	fromNS, ns int64
}

// chromeThreads reads a trace. It returns the states of each thread by native ID, and the intervals in which all
// changes of the GVL are known.
func chromeThreads(t *testing.T, trace []byte) (threads map[int32][]chromeSlice, exactly [][2]int64) {
	t.Helper()
	var v struct {
		TraceEvents []struct {
			Name, Cat, Ph string
			TS, Dur       float64
			TID           int32
		}
	}
	if err := json.Unmarshal(trace, &v); err != nil {
		t.Fatal(err)
	}
	ns := func(micros float64) int64 { return int64(math.Round(1000 * micros)) }
	threads = make(map[int32][]chromeSlice)
	for _, e := range v.TraceEvents {
		switch {
		case e.Cat == "state":
			threads[e.TID] = append(threads[e.TID], chromeSlice{e.Name, ns(e.TS), ns(e.Dur)})
		case e.Name == "exact from here on":
			exactly = append(exactly, [2]int64{ns(e.TS)})
		case e.Name == "exact up to here":
			exactly[len(exactly)-1][1] = ns(e.TS)
		}
	}
	return threads, exactly
}

// TestChromeTurns: the trace that ddtop writes for Chrome has each hold of the GVL that Ruby itself logs, and no other.
// The states of each thread fill the whole time, without a gap. Like TestExactTurns, the test prints the lengths of
// holds and waits but does not judge them.
func TestChromeTurns(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		if !r.AtLeast(3, 3) {
			rubytest.Skip(t, "exact mode is for Ruby 3.3 and later")
		}
		rubytest.NeedExact(t, r)
		for _, name := range []string{"cpu_io", "short_io", "mutex_queue"} {
			t.Run(name, func(t *testing.T) {
				p := start(t, r, name, true)
				trace, beginNS, gaps, report := traceExactly(t, p.PID, 1500*time.Millisecond)
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
				if report.Ended != "" || report.Wrong || report.Lost != 0 {
					t.Fatalf("%+v", report)
				}
				threads, exactly := chromeThreads(t, trace)
				// On a busy machine two samples can be too far apart to know all changes between them. Each such gap
				// divides the time in which all changes are known into one more part.
				if n := len(exactly); n == 0 || n > 1+gaps {
					t.Errorf("%d stretches of time are known exactly, and samples were too far apart %d times", n, gaps)
				}
				for _, exactNS := range exactly {
					compareTurns(t, p.workers, threads, exactNS, beginNS, log)
				}
			})
		}
	})
}

func compareTurns(t *testing.T, workers []worker, threads map[int32][]chromeSlice, exactNS [2]int64, beginNS int64, log *eventlog.Log) {
	t.Helper()
	from, to := beginNS+exactNS[0], beginNS+exactNS[1]
	e, times := toldBy(log, from, to), log.Times(from, to)
	turns, mean, worst := 0, [3]float64{}, 0.0
	for _, w := range workers {
		var sums [3]int64
		n, endNS, held := 0, exactNS[0], false
		for _, s := range threads[w.TID] {
			if s.fromNS+s.ns <= exactNS[0] || s.fromNS >= exactNS[1] {
				continue
			}
			if s.fromNS > endNS {
				t.Errorf("%s: nothing between %d and %d ns", w.Name, endNS, s.fromNS)
			}
			part := min(s.fromNS+s.ns, exactNS[1]) - max(s.fromNS, exactNS[0])
			state, ok := gvl.ParseState(s.state)
			if !ok {
				t.Fatalf("%s: a state %q", w.Name, s.state)
			}
			switch {
			case state.Held():
				if sums[0] += part; !held && s.fromNS >= exactNS[0] {
					n++
				}
			case state == gvl.Waiting:
				sums[1] += part
			default:
				sums[2] += part
			}
			held, endNS = state.Held(), s.fromNS+s.ns
		}
		if sum := sums[0] + sums[1] + sums[2]; sum != exactNS[1]-exactNS[0] {
			t.Errorf("%s: the times come to %d ns of %d", w.Name, sum, exactNS[1]-exactNS[0])
		}
		// At each end of the window, Ruby's log and the trace can disagree about whether one hold began inside the
		// window. So the counts may differ by two.
		if d := n - e.turns[w.TID]; d < -2 || d > 2 {
			t.Errorf("%s had %d turns, and Ruby tells of %d", w.Name, n, e.turns[w.TID])
		}
		turns += n
		want := times[uint32(w.TID)]
		for i, off := range []int64{sums[0] - want.Running - want.GC, sums[1] - want.Waiting, sums[2] - want.Released} {
			points := math.Abs(100 * float64(off) / float64(to-from))
			mean[i] += points / float64(len(workers))
			worst = max(worst, points)
		}
	}
	rubytest.Report(t, "%d turns; points off, running waiting released: %.3f, at most %.3f", turns, mean, worst)
}
