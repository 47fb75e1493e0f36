package ruby

import (
	"context"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// BenchmarkCountHeap counts a heap of a million objects again and again, without pauses. The goal is 80 ms of CPU time
// for each count.
func BenchmarkCountHeap(b *testing.B) {
	for _, r := range rubytest.All(b) {
		b.Run(r.Name, func(b *testing.B) {
			p := r.Start(b, `class Node; def initialize(i); @a, @b = i, i.to_s; end; end
keep = Array.new(500_000) { |i| Node.new(i) }; GC.start
puts "ready"; $stdout.flush; $stdin.gets`, rubytest.Options{})
			p.Expect(b, "ready")
			reader := openReader(b, p.PID)
			var objects uint64
			cpu := func() int64 {
				var u syscall.Rusage
				if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
					b.Fatal(err)
				}
				return u.Utime.Nano() + u.Stime.Nano()
			}
			began := cpu()
			for b.Loop() {
				count, err := reader.CountHeap(context.Background(), func() {})
				if err != nil {
					b.Fatal(err)
				}
				objects = count.Objects
			}
			b.ReportMetric(float64(cpu()-began)/float64(b.N)/1e6, "cpu-ms/op")
			b.ReportMetric(float64(objects), "objects")
		})
	}
}
