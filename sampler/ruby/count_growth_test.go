package ruby

import (
	"context"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/growth"
)

// growthProgram does a round of work for each line of input. One class leaks. One cache is full, so its objects are
// replaced, and another cache fills. The program also fills a list and empties it every seven rounds, makes short-lived
// objects, and uses more and more memory of malloc. Every second round ends with a major collection.
const growthProgram = `
class Leaked; end
class Cached; end
class Filling; end
class Listed; end
leak, cache, filling, list, grown = [], Array.new(3000) { Cached.new }, [], [], +""
round = 0
puts "ready"; $stdout.flush
while $stdin.gets
  round += 1
  grown << "x" * 200_000
  40.times { leak << Leaked.new }
  300.times { |i| cache[(round * 300 + i) % 3000] = Cached.new }
  200.times { filling << Filling.new } if round <= 16
  list.clear if round % 7 == 0
  100.times { list << Listed.new }
  4.times { 5_000.times { |i| "churn #{i}" }; GC.start(full_mark: false) }
  GC.start if round % 2 == 0
  puts "done"; $stdout.flush
end
`

// TestHeapGrowth: ddtop must name the class whose objects leak, and the class of the objects in a cache while the cache
// fills. It must not name a full cache, a list that is emptied, short-lived objects, or growing memory outside of
// slots.
func TestHeapGrowth(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, growthProgram, rubytest.Options{})
		p.Expect(t, "ready")
		reader := openReader(t, p.PID)
		const filled, last, secondsARound, leakARound = 16, 32, 2, 40
		var watch growth.Watch
		for round := 1; round <= last; round++ {
			p.Send(t, "go")
			p.Expect(t, "done")
			count, err := reader.CountHeap(context.Background(), func() {})
			if err != nil {
				t.Fatal(err)
			}
			count.BeganNS = int64(round) * secondsARound * 1e9 // a clock that does not depend on the machine
			watch.Add(count)
			if round != filled && round != last {
				continue
			}
			named := make(map[string]growth.Class)
			for _, k := range watch.Classes() {
				named[k.Name] = k
			}
			leak, found := named["Leaked"]
			if rate := leak.PerSecond * secondsARound; !found || rate < 0.9*leakARound || rate > 1.1*leakARound || !leak.Confirmed {
				t.Errorf("round %d: the leak of %d a round: %+v", round, leakARound, leak)
			}
			if _, found := named["Filling"]; found != (round == filled) {
				t.Errorf("round %d: the cache that fills is named: %v", round, found)
			}
			delete(named, "Leaked")
			delete(named, "Filling")
			if len(named) > 0 {
				t.Errorf("round %d: %+v", round, named)
			}
		}
	})
}

// quietProgram is a program whose memory grows without a leak. It loads code at first, replaces objects in a full
// cache, and fills and empties a list. It keeps objects of requests over some collections. Major collections are rare.
const quietProgram = `
class Booted; end
class Cached; end
class Listed; end
class Request; end
booted, cache, list, ring = [], Array.new(3000) { Cached.new }, [], []
round = 0
puts "ready"; $stdout.flush
while $stdin.gets
  round += 1
  1500.times { booted << Booted.new } if round <= 12
  300.times { |i| cache[(round * 300 + i) % 3000] = Cached.new }
  list.clear if round % 13 == 0
  60.times { list << Listed.new }
  3.times do
    400.times { ring << Request.new }
    ring.shift(400) if ring.size > 4000
    2_000.times { |i| "churn #{i}" }
    GC.start(full_mark: false)
  end
  GC.start if round % 6 == 0
  puts "done"; $stdout.flush
end
`

// TestHeapGrowthQuiet: a program without a leak runs for five minutes of a simulated clock. ddtop must never name a
// class as a leak. After the first 60 seconds, it must report no growth as confirmed.
func TestHeapGrowthQuiet(t *testing.T) {
	rubytest.Long(t)
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, quietProgram, rubytest.Options{})
		p.Expect(t, "ready")
		reader := openReader(t, p.PID)
		const rounds, secondsARound, boot = 150, 2, 30
		var watch growth.Watch
		for round := 1; round <= rounds; round++ {
			p.Send(t, "go")
			p.Expect(t, "done")
			count, err := reader.CountHeap(context.Background(), func() {})
			if err != nil {
				t.Fatal(err)
			}
			count.BeganNS = int64(round) * secondsARound * 1e9
			watch.Add(count)
			for _, k := range watch.Classes() {
				if k.Leak || k.Confirmed && round > boot {
					t.Errorf("round %d: %+v", round, k)
				}
			}
		}
	})
}
