package flamegraph

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

func TestPlaces(t *testing.T) {
	d := sampler.NewDictionary()
	frame := func(label, path string, line int32, c bool) sampler.Frame {
		return sampler.Frame{Label: label, Path: path, Line: line, C: c}
	}
	main := frame("<main>", "/srv/main.rb", 1, false)
	build := func(line int32) sampler.Frame { return frame("Reports#build", "/srv/reports.rb", line, false) }
	generate, each := frame("JSON.generate", "/srv/reports.rb", 41, true), frame("Array#each", "<internal:array>", 42, false)
	stack := func(innermostFirst ...sampler.Frame) sampler.StackID {
		var ids []sampler.FrameID
		for _, f := range innermostFirst {
			ids = append(ids, d.InternFrame(f))
		}
		return d.InternStackOf(ids)
	}
	blame := func(th sampler.ThreadID, st gvl.State, stack sampler.StackID, ns int64) Entry {
		return Entry{Key{Thread: th, Stack: stack, State: st}, Weights{BlameNS: ns, WallNS: 1000}}
	}
	s := Snapshot{Entries: []Entry{
		blame(3, gvl.Running, stack(generate, build(41), main), 40),
		blame(2, gvl.GC, stack(generate, each, build(42), main), 25),
		blame(2, gvl.Running, stack(generate, build(42), main), 15),
		blame(1, gvl.Stalled, stack(build(50), main), 7),
		blame(1, gvl.Stalled, stack(frame("Thread#value", "", 0, true)), 6),
		blame(1, gvl.Running, 0, 5),
		blame(4, gvl.Running, stack(main), 0),
	}}
	want := []struct {
		words string
		PlaceSum
	}{
		{"Reports#build → JSON.generate", PlaceSum{NS: 80, Line: 41, State: gvl.Running, Thread: 2, Threads: 2}},
		{"Reports#build", PlaceSum{NS: 7, Line: 50, State: gvl.Stalled, Thread: 1, Threads: 1}},
		{"Thread#value", PlaceSum{NS: 6, State: gvl.Stalled, Thread: 1, Threads: 1}},
		{"no stack was read", PlaceSum{NS: 5, State: gvl.Running, Thread: 1, Threads: 1}},
	}
	got := s.Places(d, func(e *Entry) int64 { return e.Weights.BlameNS })
	if len(got) != len(want) {
		t.Fatalf("%d places: %+v", len(got), got)
	}
	for i, w := range want {
		w.Place = got[i].Place
		if got[i] != w.PlaceSum || got[i].String() != w.words {
			t.Errorf("%s: %+v, want %s: %+v", got[i].Place, got[i], w.words, w.PlaceSum)
		}
	}
}
