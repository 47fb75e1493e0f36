package ruby

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// classProgram makes objects of three classes, and some arrays, in known shares and in random order. Thousands of
// objects live and are replaced at random, so their slots lie scattered over all pages of the heap.
const classProgram = `
class Apple; end
module Shop; class Pear; end; end
OLD = Array.new(20_000) { Object.new }
Thread.new do
  random = Random.new(1)
  loop do
    200.times do |i|
      Apple.new; Apple.new; Apple.new
      Shop::Pear.new
      kept = [i] if i % 2 == 0
      Apple.new if i % 4 == 0
    end
    OLD[random.rand(20_000)] = Object.new
  end
end
puts "ready"; $stdout.flush; $stdin.gets`

// TestClassesAllocated: ddtop must find the same shares of classes among the new objects as the program really has. Of
// 951 objects in 200 rounds, 650 are Apples, 200 Pears, 100 Arrays and 1 is an Object. An error of three points is
// allowed, or the stated error by chance (1.96 standard deviations) if it is larger. ddtop reads which objects are new
// at instants 5 ms apart. In this time the program's loop makes some hundreds of rounds, so the instants are
// independent.
func TestClassesAllocated(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, classProgram, rubytest.Options{})
		p.Expect(t, "ready")
		reader := openReader(t, p.PID)
		var s sampler.Sample
		var first, last *sampler.AllocClasses
		var from, to uint64
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		enough := func(instants uint64) bool { return first != nil && last.Instants >= instants }
		for began := time.Now(); !enough(250) && (ctx.Err() == nil || !enough(100) && time.Since(began) < r.Timeout()); {
			<-tick.C
			if reader.Read(sampler.LockTick, &s) != nil || !s.GC.Valid {
				continue
			}
			counted := reader.CountClasses(&s)
			if counted == nil {
				continue
			}
			last = counted
			if to = s.GC.Allocated; first == nil {
				first, from = last, s.GC.Allocated
			}
		}
		if first == nil {
			rubytest.TooSeldomNow(t, "no new objects were seen")
		}
		shares, instants := last.Since(first)
		if instants < 50 {
			rubytest.TooSeldomNow(t, "new objects were seen at %d instants only", instants)
		}
		got := map[string]sampler.AllocShare{}
		sum := 0.0
		for _, c := range shares {
			got[c.Name], sum = c, sum+c.Share
		}
		var report []string
		for _, w := range []struct {
			name  string
			share float64
		}{{"Apple", 650. / 951}, {"Shop::Pear", 200. / 951}, {"Array", 100. / 951}, {"Object", 1. / 951}} {
			c := got[w.name]
			report = append(report, fmt.Sprintf("%s %.1f ± %.1f %% (truth %.1f)", w.name, 100*c.Share, 100*c.Error, 100*w.share))
			limit := .03
			if r.AtLeast(4, 1) {
				limit = .05 // the development branch fills gaps between live objects, which hides some new objects
			}
			if d := math.Abs(c.Share - w.share); d > max(limit, c.Error/1.96*odds.Deviations) {
				t.Errorf("%s has %.1f ± %.1f %%, the program makes %.1f %%", w.name, 100*c.Share, 100*c.Error, 100*w.share)
			}
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Errorf("the shares sum to %v", sum)
		}
		objects := last.Objects - first.Objects
		if made := float64(to - from); objects > 1.2*made+2000 || objects < .8*made-2000 {
			t.Errorf("%.0f objects, Ruby's counter says %.0f", objects, made)
		}
		rubytest.Report(t, "allocations by class, ruby %s: %s; %d instants, %d objects seen of %.0f", r.Version,
			strings.Join(report, ", "), instants, last.Seen-first.Seen, objects)
	})
}
