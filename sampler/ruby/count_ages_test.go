package ruby

import (
	"context"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// agesProgram makes objects of three ages: old objects, some that have survived one collection, and some that no
// collection has seen. It then asks Ruby which objects are old. A method's variables hold the objects. Up to 3.1, every
// object becomes old at once if an old object refers to it.
const agesProgram = `
require "objspace"
class Early; end
class Middle; end
class Late; end
def made
  early = Array.new(500) { Early.new }
  4.times { GC.start }
  middle = Array.new(300) { Middle.new }
  GC.start(full_mark: false)
  GC.disable
  late = Array.new(200) { Late.new }
  said = [early, middle, late].map { |list| list.count { |o| ObjectSpace.dump(o).include?('"old":true') } }
  puts said.inspect; $stdout.flush
  $stdin.gets
end
made
`

// TestCountHeapAges: ddtop must count as many old objects as Ruby does. For the other objects, it must find the number
// of collections that they have survived.
func TestCountHeapAges(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, agesProgram, rubytest.Options{})
		var said [3]uint64
		p.JSON(t, &said)
		if said[0] != 500 || said[1] > 10 || said[2] != 0 {
			t.Fatalf("the program made other objects: %v", said)
		}
		count, err := openReader(t, p.PID).CountHeap(context.Background(), func() {})
		if err != nil {
			t.Fatal(err)
		}
		for i, class := range []string{"Early", "Middle", "Late"} {
			found := false
			for _, k := range count.Classes {
				if k.Name != class {
					continue
				}
				found = true
				survived := uint64(0)
				if class == "Middle" {
					survived = 300 - said[i]
				}
				if k.Old != said[i] || k.Survived != survived {
					t.Errorf("%d of %s are old and %d have survived, not %d and %d", k.Old, class, k.Survived, said[i], survived)
				}
			}
			if !found || !count.SurvivedKnown {
				t.Errorf("%s is counted: %v, what survived is known: %v", class, found, count.SurvivedKnown)
			}
		}
		var pages, slots uint64
		for _, s := range count.Sizes {
			sum := 0
			for _, n := range s.Fullness {
				sum += n
			}
			if sum != s.Pages || s.Filled > s.Slots {
				t.Errorf("%+v", s)
			}
			pages, slots = pages+uint64(s.Pages), slots+s.Slots
		}
		if slots != count.Objects+count.Dead+count.Free {
			t.Errorf("%d slots on %d pages: %+v", slots, pages, count.Sizes)
		}
	})
}
