package ruby

import (
	"context"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// BenchmarkCountHeap makes passes over a heap of a million objects, without rests. The target is 80 ms of CPU a pass.
func BenchmarkCountHeap(b *testing.B) {
	for _, r := range rubytest.All(b) {
		b.Run(r.Name, func(b *testing.B) {
			p := r.Start(b, `class Node; def initialize(i); @a, @b = i, i.to_s; end; end
keep = Array.new(500_000) { |i| Node.new(i) }; GC.start
puts "ready"; $stdout.flush; $stdin.gets`, rubytest.Options{})
			p.Expect(b, "ready")
			reader := openReader(b, p.PID)
			var objects uint64
			for b.Loop() {
				count, err := reader.CountHeap(context.Background(), func() {})
				if err != nil {
					b.Fatal(err)
				}
				objects = count.Objects
			}
			b.ReportMetric(float64(objects), "objects")
		})
	}
}
