package ruby

import (
	"context"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// variantsProgram keeps objects in the main ractor and in two others, and makes short-lived objects in all three. With
// the argument "compact", each major collection moves objects.
const variantsProgram = `
class Kept; end
class InRactor; end
KEPT = Array.new(20_000) { Kept.new }
GC.auto_compact = true if ARGV[0] == "compact"
$VERBOSE = nil
ractors = []
if defined?(Ractor) && ARGV[0] != "compact"
  ractors = Array.new(2) do
    Ractor.new do
      list = Array.new(5_000) { InRactor.new }
      Ractor.main.send(:made)
      loop { list.size.times { |i| i.to_s }; sleep 0.01 }
    end
  end
  2.times { Ractor.receive }
end
3.times { GC.start }
puts ractors.size, "ready"; $stdout.flush
loop { 1000.times { |i| [i.to_s] }; GC.start if ARGV[0] == "compact"; sleep 0.01 }
`

// TestCountHeapVariants: ddtop's count must be right in special processes: with a JIT, with threads that share native
// threads, and with several ractors. While collections compact the heap, the count must be right or report that objects
// moved.
func TestCountHeapVariants(t *testing.T) {
	rubytest.Long(t)
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		modes := []string{"ractors"}
		if r.AtLeast(3, 0) {
			modes = append(modes, "compact")
		}
		for _, v := range r.Variants(t) {
			for _, mode := range modes {
				t.Run(v.Name+" "+mode, func(t *testing.T) {
					p := r.Start(t, variantsProgram, v.Apply(rubytest.Options{Args: []string{mode}}))
					ractors := p.Line(t)
					p.Expect(t, "ready")
					reader := openReader(t, p.PID)
					right := 0
					for range 20 {
						count, err := reader.CountHeap(context.Background(), func() {})
						if err != nil {
							t.Fatal(err)
						}
						if count.Compacted {
							continue
						}
						want := map[string]uint64{"Kept": 20_000, "InRactor": 0}
						if ractors == "2" {
							want["InRactor"] = 10_000
						}
						for _, k := range count.Classes {
							if n, known := want[k.Name]; known && k.Objects != n {
								t.Errorf("%d objects of %s, not %d", k.Objects, k.Name, n)
							}
						}
						right++
					}
					if mode != "compact" && right != 20 {
						t.Errorf("%d of 20 counts say that nothing moved", right)
					}
					t.Logf("%d of 20 counts are right, the others say that objects moved; %s ractors", right, ractors)
				})
			}
		}
	})
}
