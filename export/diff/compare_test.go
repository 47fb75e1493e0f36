package diff

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	weights "github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/internal/golden"
	"github.com/ddtop/ddtop/sampler"
)

func measured(s exporttest.Shop) weights.Measured {
	return weights.Measured{Process: s.Proc, Dict: s.Dict, Weights: s.Weights}
}

// laterShop is a second measurement of the invented shop. It is half as long, and most times are half as long. So per
// second, only two things differ: garbage collection takes four times as long, and no thread waits for I/O.
func laterShop() weights.Measured {
	s := exporttest.NewShop()
	s.Weights.FromNS += 15e9
	for i := range s.Weights.Entries {
		e := &s.Weights.Entries[i]
		e.Weights.WallNS, e.Weights.CPUNS = e.Weights.WallNS/2, e.Weights.CPUNS/2
		switch e.Key.State {
		case gvl.IO:
			e.Weights = flamegraph.Weights{}
		case gvl.GC:
			e.Weights.WallNS *= 4
		}
	}
	return measured(s)
}

// TestDifference: two measurements of different lengths can be compared by stack and state, because all times are per
// second of the measurement.
func TestDifference(t *testing.T) {
	a, err := CompareMeasured(measured(exporttest.NewShop()), flamegraph.Wall)
	if err != nil {
		t.Fatal(err)
	}
	b, err := CompareMeasured(laterShop(), flamegraph.Wall)
	if err != nil {
		t.Fatal(err)
	}
	var text, collapsed bytes.Buffer
	if err := WriteDifference(&text, a, b, flamegraph.Wall); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "difference.txt", text.Bytes())
	if err := WriteCollapsedDifference(&collapsed, a, b, flamegraph.Wall); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<main>;Reports.loop;Reports#build;[gc] 1000000 4000000\n", ";DB#query;IO#read;[io] 3000000 0\n", flamegraph.NoStack + ";[unknown] 30000000 30000000\n"} {
		if !strings.Contains(collapsed.String(), want) {
			t.Errorf("no %q in\n%s", want, collapsed.String())
		}
	}
}

// TestDifferenceOfAProfile: a profile does not differ from the measurement that it was written from. This holds for
// every metric, with and without timestamps in the profile.
func TestDifferenceOfAProfile(t *testing.T) {
	shop := exporttest.NewShop()
	r, err := flamegraph.NewRolling(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	timeline := weights.NewTimeline()
	class, stream, next := gvl.NewClassifier(shop.Proc, shop.Dict), stream.New(shop.Proc), shop.Stream()
	c := flamegraph.NewCollector(stream, nil, r, timeline)
	c.ByGC()
	for range 12 {
		x := next()
		stream.Feed(x, class.Classify(x))
	}
	stream.Finish()
	c.Finish()
	m := weights.Measured{Process: shop.Proc, Dict: shop.Dict, Weights: new(flamegraph.Snapshot), Timeline: timeline}
	r.Snapshot(m.Weights)
	for _, times := range []bool{false, true} {
		of := m
		if !times {
			of.Timeline = nil
		}
		var file bytes.Buffer
		if err := weights.WriteProfile(&file, of); err != nil {
			t.Fatal(err)
		}
		p, err := profile.ParseData(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range []flamegraph.Metric{flamegraph.Wall, flamegraph.CPU, flamegraph.Wait, flamegraph.Blame, flamegraph.Samples} {
			a, err := CompareMeasured(m, metric)
			if err != nil {
				t.Fatal(err)
			}
			b, err := CompareProfile(p, metric)
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range a.stacks {
				if b.stacks[k] != v {
					t.Errorf("times %v, %s: %v is %d, in the profile %d", times, metric, k, v, b.stacks[k])
				}
			}
			if len(a.stacks) != len(b.stacks) || len(a.stacks) == 0 || a.DurationNS != b.DurationNS {
				t.Errorf("times %v, %s: %d stacks in %d ns, in the profile %d in %d", times, metric, len(a.stacks), a.DurationNS, len(b.stacks), b.DurationNS)
			}
		}
	}
}

// TestDifferenceOfOthersProfiles: a CPU profile that another tool wrote can be compared. If the profile lacks the
// metric or a duration, or if the metric is not in nanoseconds, the error says so.
func TestDifferenceOfOthersProfiles(t *testing.T) {
	fn := &profile.Function{ID: 1, Name: "main.work"}
	at := &profile.Location{ID: 1, Line: []profile.Line{{Function: fn}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Sample:     []*profile.Sample{{Location: []*profile.Location{at}, Value: []int64{3, 30e6}}},
		Location:   []*profile.Location{at}, Function: []*profile.Function{fn}, DurationNanos: 1e9,
	}
	c, err := CompareProfile(p, flamegraph.CPU)
	if err != nil || c.stacks[comparedKey{"main.work", ""}] != 30e6 {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := CompareProfile(p, flamegraph.Wait); err == nil || err.Error() != "the profile does not have gvl wait" {
		t.Error(err)
	}
	p.SampleType[1].Unit = "microseconds"
	if _, err := CompareProfile(p, flamegraph.CPU); err == nil || !strings.Contains(err.Error(), "not in nanoseconds") {
		t.Error(err)
	}
	p.DurationNanos = 0
	if _, err := CompareProfile(p, flamegraph.Samples); err == nil || !strings.Contains(err.Error(), "no duration") {
		t.Error(err)
	}
}

// TestDifferenceWithoutStacksComesLast: the row for time without a stack must be the last one. This time depends on how
// well ddtop could read, and not on the program's code.
func TestDifferenceWithoutStacksComesLast(t *testing.T) {
	a := Comparable{DurationNS: 1e9, stacks: map[comparedKey]int64{{flamegraph.NoStack, "running"}: 5e5, {"main;Work#a", "running"}: 1e8}}
	b := Comparable{DurationNS: 1e9, stacks: map[comparedKey]int64{{flamegraph.NoStack, "running"}: 902e6, {"main;Work#a", "running"}: 2e8, {"main;Work#b", "running"}: 5e7}}
	var out strings.Builder
	if err := WriteDifference(&out, a, b, flamegraph.Wall); err != nil {
		t.Fatal(err)
	}
	_, functions, _ := strings.Cut(out.String(), "in the function itself")
	functions, _, _ = strings.Cut(functions, "in the function and")
	order := []string{"Work#a", "Work#b", flamegraph.NoStack}
	at := -1
	for _, name := range order {
		i := strings.Index(functions, name)
		if i <= at {
			t.Fatalf("%v in this order:\n%s", order, functions)
		}
		at = i
	}
	if strings.Contains(functions, "×") || !strings.Contains(functions, "+902") {
		t.Errorf("%s", functions)
	}
}

// TestDifferenceOfNativeFrames: ddtop reads the C functions of only some long waits. If one of the compared
// measurements has C functions and the other has none, ddtop must report no difference. This holds for recordings and
// for profiles.
func TestDifferenceOfNativeFrames(t *testing.T) {
	d := sampler.NewDictionary()
	ruby := d.InternStackOf([]sampler.FrameID{d.InternFrame(sampler.Frame{Label: "IO.select", C: true}), d.InternFrame(sampler.Frame{Label: "<main>", Path: "a.rb"})})
	native := d.InternNative(ruby, &sampler.NativeStack{Frames: []sampler.NativeFrame{{Name: "ppoll", Path: "/usr/lib/libc.so.6", Offset: 0x1010, Function: 0x1000}}})
	var all []Comparable
	for _, stack := range []sampler.StackID{ruby, native} {
		m := weights.Measured{Dict: d, Weights: &flamegraph.Snapshot{ToNS: 1e9, Entries: []flamegraph.Entry{
			{Key: flamegraph.Key{Thread: 1, Stack: stack, State: gvl.IO}, Weights: flamegraph.Weights{WallNS: 1e9, Samples: 100}}}}}
		c, err := CompareMeasured(m, flamegraph.Wall)
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if err := weights.WriteProfile(&file, m); err != nil {
			t.Fatal(err)
		}
		p, err := profile.ParseData(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		read, err := CompareProfile(p, flamegraph.Wall)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c, read)
	}
	for i, c := range all {
		if len(c.stacks) != 1 || c.stacks[comparedKey{"<main>;IO.select", "io"}] != 1e9 {
			t.Errorf("%d is compared as %v", i, c.stacks)
		}
	}
}
