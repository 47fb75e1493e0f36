package account

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/streamtest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// sumsOf adds up what a stream reports.
type sumsOf struct {
	gvl.Ignore
	ns      [gvl.NumStates]int64
	gcNS    int64
	waits   int64
	longest int64
}

func (s *sumsOf) Interval(i *gvl.Interval)     { s.ns[i.State] += i.NS() }
func (s *sumsOf) Collecting(i *gvl.GCInterval) { s.gcNS += i.NS() }
func (s *sumsOf) Waited(w *gvl.Wait)           { s.waits++; s.longest = max(s.longest, w.MostNS) }

// TestLinesSumUp: for every stream, the lines follow each other without a gap from the first sample to the last. This
// also holds if there is a long gap between samples. A line is written when its figures are final. All lines together
// have all data of the stream.
func TestLinesSumUp(t *testing.T) {
	for seed := uint64(0); seed < 40; seed++ {
		p, dict := streamtest.Process(1000, 100), sampler.NewDictionary()
		p.PID = 9
		next := streamtest.New(seed, dict)
		next.Damaged = seed%2 == 1
		class, stream := gvl.NewClassifier(p, dict), stream.New(p)
		var want sumsOf
		stream.Attach(&want)
		var lines []report.StatLine
		length := int64(1+seed%5) * 20_000_000
		l := NewLines(stream, p, length, func(line report.StatLine) { lines = append(lines, line) })
		var first, last *sampler.Sample
		samples, collections := uint64(0), uint64(0)
		for n := range 1500 {
			x := next.Next().Clone()
			if n > 700 {
				x.TimeNS += 3e9 // nothing was read for 3 s
			}
			if n > 1000 {
				x.TimeNS += 200e9 // longer than the time of all lines that are kept
			}
			if last != nil && x.TimeNS < last.TimeNS {
				x.TimeNS = last.TimeNS
			}
			if first == nil {
				first = x
			}
			// in some samples, the collector could not be read
			if x.GC = (sampler.GC{Valid: n%7 != 6, Count: 100 + uint64(n)}); x.GC.Valid {
				collections = uint64(n)
			}
			last = x
			samples++
			stream.Feed(x, class.Classify(x))
		}
		if len(lines) == 0 {
			t.Fatalf("seed %d: no line was told while it went on", seed)
		}
		stream.Finish()
		l.Finish()
		var got sumsOf
		at, seen := first.TimeNS, uint64(0)
		for i, line := range lines {
			if line.StartNS != at || line.DurationNS != line.EndNS-line.StartNS || line.DurationNS != length && i < len(lines)-1 || line.PID != 9 {
				t.Fatalf("seed %d: line %d is from %d to %d, want from %d for %d", seed, i, line.StartNS, line.EndNS, at, length)
			}
			at = line.EndNS
			for s := range gvl.NumStates {
				got.ns[s] += line.NS.Array()[s]
			}
			got.gcNS += line.GC.NS
			got.waits += line.Waits.Count
			got.longest = max(got.longest, line.Waits.MaxNS)
			seen += line.Samples
			collections -= line.GC.Count
		}
		if collections != 0 {
			t.Errorf("seed %d: %d collections are in no line", seed, collections)
		}
		if at != last.TimeNS || seen != samples {
			t.Errorf("seed %d: until %d with %d samples, want %d with %d", seed, at, seen, last.TimeNS, samples)
		}
		if got.longest > want.longest {
			t.Errorf("seed %d: the longest wait is %d at most, a line says %d", seed, want.longest, got.longest)
		}
		got.longest = want.longest
		if got != want {
			t.Errorf("seed %d:\n%+v, the stream says\n%+v", seed, got, want)
		}
	}
}

// TestLines checks the fields of two lines.
func TestLines(t *testing.T) {
	p := gvltest.ProcOf(sampler.EraSched)
	class, stream := gvl.NewClassifier(p, nil), stream.New(p)
	var lines []report.StatLine
	l := NewLines(stream, p, 8*gvltest.MS, func(line report.StatLine) { lines = append(lines, line) })
	for n := range int64(5) {
		s := gvltest.SampleAt(gvltest.Base+n*4*gvltest.MS, 1, gvltest.Holder(1), gvltest.Queued(2))
		if n == 4 {
			s = gvltest.SampleAt(gvltest.Base+n*4*gvltest.MS, 2, gvltest.Queued(1), gvltest.Holder(2))
		}
		s.GC = sampler.GC{Valid: true, Count: 10 + uint64(n), MinorCount: 8 + uint64(n), MajorCount: 2, Allocated: 1000 * uint64(n)}
		s.Proc = sampler.Proc{AtNS: gvltest.Base + n*4*gvltest.MS, UserNS: n * 3 * gvltest.MS, SystemNS: n * gvltest.MS, RSSBytes: 70 + n}
		stream.Feed(s, class.Classify(s))
	}
	stream.Finish()
	l.Finish()
	if len(lines) != 2 {
		t.Fatalf("%+v", lines)
	}
	one, two := lines[0], lines[1]
	if one.NS.Running != 8*gvltest.MS || one.NS.Waiting != 8*gvltest.MS || one.HeldShare.Told() || one.Lacks.States == nil || one.Threads != 2 || one.Samples != 3 || one.Waits.Count != 0 {
		t.Errorf("%+v", one)
	}
	if one.GC.Count != 2 || one.GC.Minor != 2 || one.GC.Major != 0 || *one.Allocated != 2000 || *one.CPUShare != 1 || one.RSSBytes != 72 {
		t.Errorf("%+v %d %g", one, *one.Allocated, *one.CPUShare)
	}
	if two.Waits.Count != 2 || two.Waits.Longest() != (gvl.Bounded{NS: 16 * gvltest.MS, Bound: gvl.AtMost}) || two.GC.Count != 2 || *two.Allocated != 2000 || two.EndNS != gvltest.Base+16*gvltest.MS {
		t.Errorf("%+v", two)
	}
}

// TestLinesExact: ExactNS of a line is the part of the line's time in which every change of the GVL is known. This must
// also be right for a line that ends between two samples.
func TestLinesExact(t *testing.T) {
	const ms = 1_000_000
	p := streamtest.Process(1000, 100)
	class, stream := gvl.NewClassifier(p, sampler.NewDictionary()), stream.New(p)
	var got []int64
	l := NewLines(stream, p, 100*ms, func(line report.StatLine) { got = append(got, line.ExactNS/ms) })
	for n := range int64(36) { // a sample every 10 ms; changes are known from 55 to 255 ms
		s := &sampler.Sample{TimeNS: n*10*ms + 5*ms, Depth: sampler.StackTick}
		if from := s.TimeNS - 10*ms; from >= 50*ms && s.TimeNS <= 260*ms {
			s.Changes = sampler.Changes{FromNS: from, ToNS: s.TimeNS}
		}
		stream.Feed(s, class.Classify(s))
	}
	stream.Finish()
	l.Finish()
	// Lines begin with the first sample, at 5 ms, so they end at 105, 205, 305 and 355 ms. The list want has, for each
	// line, the time in which changes are known, in ms.
	if want := []int64{50, 100, 50, 0}; !slices.Equal(got, want) {
		t.Errorf("of the lines %v ms are exact, want %v", got, want)
	}
}
