package live_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// ractorsProgram has one ractor that makes garbage, and two that only count. Since counting makes no garbage, only the
// first ractor can cause a garbage collection.
const ractorsProgram = `
Warning[:experimental] = false
counters = 2.times.map do |i|
  Ractor.new(i) { |n| Thread.current.name = "counts #{n}"; Ractor.main.send(n); x = 0; x += 1 while x >= 0 }
end
2.times { Ractor.receive } # a thread makes objects when it gets its name, so each can have collected until then
litter = Ractor.new { Thread.current.name = "litters"; keep = []; loop { keep << "x" * 50; keep.clear if keep.size > 200_000 } }
puts "up"
$stdout.flush
sleep
`

// TestOneRactorCollects: a program has threads in several ractors. In each sample, at most one thread may be shown in
// the collector, and it must belong to the ractor that makes garbage.
func TestOneRactorCollects(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		if !r.AtLeast(3, 1) {
			t.Skip("there are no ractors before 3.0, and 3.0's are not tested")
		}
		p := r.Start(t, ractorsProgram, rubytest.Options{})
		p.Expect(t, "up")
		s := open(t, p.PID, live.Options{})
		dict := s.Dictionary()
		c := gvl.NewClassifier(s.Process(), dict)
		ctx, cancel := context.WithTimeout(context.Background(), rubytest.Timeout)
		defer cancel()
		const wanted = 200
		during, unnamed := 0, 0
		collected, states := map[string]int{}, map[gvl.State]int{}
		err := s.Run(ctx, func(x *sampler.Sample) {
			if during == wanted {
				return
			}
			n := 0
			named := map[string]gvl.State{}
			for i, st := range c.Classify(x) {
				info, _ := dict.Thread(x.Threads[i].ID)
				if st.State == gvl.GC {
					n++
					collected[info.Name]++
				}
				named[info.Name] = st.State
			}
			if n > 1 {
				t.Errorf("%d threads collect at once", n)
			}
			if _, ok := named["litters"]; !ok || !x.GC.During {
				return
			}
			if during++; n == 0 {
				unnamed++
			}
			states[named["counts 0"]]++
			states[named["counts 1"]]++
			if during == wanted {
				cancel()
			}
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if during < wanted {
			rubytest.TooSeldomNow(t, "%d samples within a collection, want %d", during, wanted)
		}
		if collected["counts 0"] != 0 || collected["counts 1"] != 0 {
			t.Errorf("threads that make no garbage collect: %v", collected)
		}
		t.Logf("during a collection: collects %v, not told %d times; those that count are %v", collected, unnamed, states)
		if collected["litters"] == 0 {
			rubytest.TooSeldom(t, "nobody was seen to collect in %d samples", during)
		}
	})
}
