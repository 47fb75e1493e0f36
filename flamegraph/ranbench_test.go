package flamegraph

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// BenchmarkRan measures a Snapshot of half a minute of a Rails application, with and without stacks of running threads.
func BenchmarkRan(b *testing.B) {
	for name, runs := range map[string]int{"with": 1500, "without": 0} {
		b.Run(name, func(b *testing.B) {
			d := sampler.NewDictionary()
			r, err := NewRolling(0, 0)
			if err != nil {
				b.Fatal(err)
			}
			r.DivideBy(d)
			var stacks []sampler.StackID
			for i := range 2000 {
				var s sampler.StackID
				for depth := range 80 {
					s = d.InternStack(s, d.InternFrame(sampler.Frame{Label: "m", Line: int32(depth*100 + i%(depth+1)), FirstLine: int32(depth)}))
				}
				s = d.InternStack(s, d.InternFrame(sampler.Frame{Label: "c", FirstLine: int32(i % 100), Line: int32(i)}))
				stacks = append(stacks, s)
				r.Add(1, Key{Thread: 1, Stack: s, State: gvl.Running}, Weights{WallNS: 1e6, CPUNS: 1e6})
			}
			for i := range runs {
				var n sampler.NativeStack
				for f := range 8 {
					n.Frames = append(n.Frames, sampler.NativeFrame{Name: "f", Library: "l", Offset: uint64(f*100 + i%20), Function: 1})
				}
				r.Add(1, Key{Thread: 1, Stack: d.InternNative(stacks[i%len(stacks)], &n), State: gvl.Running, Ran: true}, Weights{Samples: 1})
			}
			var s Snapshot
			for b.Loop() {
				r.Snapshot(&s)
			}
			b.ReportMetric(float64(len(s.Entries)), "entries")
		})
	}
}
