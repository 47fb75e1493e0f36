package ruby

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// placesProgram records the allocations of its objects. On request, it prints on which lines the objects were
// allocated, by class. Some objects are older than the recording. No object is freed without a collection. So if ddtop
// counts between two such answers, its number must lie between the numbers in the answers.
const placesProgram = `
require "objspace"
class Bag
  def initialize(n); n.times { |i| instance_variable_set("@v#{i}", i) }; end
  def self.some(n) Array.new(n) { |i| new(i % 9) }; end
end
module Shop
  class Order < Bag
    def lines(n) Array.new(n) { |i| "line #{i} of #{'x' * (i % 90)}" }; end
  end
end
Pair = Struct.new(:a, :b)
keep = [Bag.new(1), "older"] + Bag.some(100)
ObjectSpace.trace_object_allocations_start
keep.concat(Bag.some(300)).concat(Shop::Order.new(1).lines(200))
keep.concat(eval("Array.new(50) { Object.new }", binding, "/no/such/\u00e9 file.rb", 77))
200.times do |i|
  keep << Shop::Order.new(i % 3) << Bag.new(i % 14)
  keep << Array.new(i % 120) << (0...(i % 40)).map { |n| [n, n] }.to_h
  keep << "s" * (i % 700)
  keep << Pair.new(i, i) << i * 1.1e200 << 3**(i % 300) << -> { i }
  keep << (o = Object.new)
  def o.single; end
  o.extend(Comparable) if i.odd?
end
sums = lambda do |h|
  all = []
  ObjectSpace.each_object { |x| all << x } # up to 2.7 it also meets what its block makes
  all.each do |x|
    next unless Kernel === x && !(Module === x) && (file = ObjectSpace.allocation_sourcefile(x))
    (of = (h[x.class] ||= {})[file.force_encoding("UTF-8") + ":" + ObjectSpace.allocation_sourceline(x).to_s + " " +
      [ObjectSpace.allocation_class_path(x), ObjectSpace.allocation_method_id(x)].compact.join("#")] ||= [0, 0])
    of[0] += 1
    of[1] += ObjectSpace.memsize_of(x)
  end
end
told = lambda do |h|
  "{" + h.map { |k, v| "\"#{k.name}\":{" + v.map { |at, n| at.inspect + ":[#{n[0]},#{n[1]}]" }.join(",") + "}" }.join(",") + "}"
end
before, after = Array.new(2) { {}.compare_by_identity }
$stdout.sync = true
puts "ready"
while (line = $stdin.gets)
  case line.strip
  when "stop" then ObjectSpace.trace_object_allocations_stop
  when "start" then ObjectSpace.trace_object_allocations_start
  end
  before.clear; after.clear
  GC.enable
  2_000.times { |i| "garbage #{i}" }
  GC.start
  GC.disable
  sums.call(before)
  Process.kill(:STOP, $$)
  sums.call(after)
  puts "{\"before\":#{told.call(before)},\"after\":#{told.call(after)}}"
end
`

type placesSaid map[string]map[string][2]uint64

// measuredClasses are classes for which ddtop can find all memory of the objects, so its number must equal Ruby's.
var measuredClasses = map[string]bool{"String": true, "Array": true, "Bag": true, "Shop::Order": true, "Pair": true,
	"Float": true, "Integer": true}

// TestPlaces: in a stopped process, ddtop must find the same lines of allocation as Ruby itself. If a process has
// stopped recording them, ddtop must show none. ddtop finds the records of allocations when it first counts the
// objects, or in a later count.
func TestPlaces(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, placesProgram, rubytest.Options{})
		p.Expect(t, "ready")
		reader := openReader(t, p.PID)
		for _, state := range []string{"stop", "start", "new reader"} {
			if state == "new reader" {
				reader = openReader(t, p.PID)
			}
			p.Send(t, state)
			waitStopped(t, p.PID)
			count, err := reader.CountHeap(context.Background(), func() {})
			if err != nil {
				t.Fatal(err)
			}
			p.Signal(t, syscall.SIGCONT)
			var said struct{ Before, After placesSaid }
			p.JSON(t, &said)
			if state == "stop" {
				if count.Traced != nil {
					t.Errorf("%d objects have places, but the tracing was stopped", count.Traced.Objects)
				}
				continue
			}
			comparePlaces(t, state, count, said.Before, said.After)
		}
	})
}

func comparePlaces(t *testing.T, state string, count *sampler.HeapCount, before, after placesSaid) {
	t.Helper()
	if count.Traced == nil {
		t.Errorf("%s: no places", state)
		return
	}
	if count.Traced.Cut || count.Traced.Misfits > 0 {
		t.Errorf("%s: cut %v, %d misfits", state, count.Traced.Cut, count.Traced.Misfits)
	}
	got := make(map[string]map[string]*sampler.HeapPlace)
	var placed uint64
	for i := range count.Traced.Places {
		k := &count.Traced.Places[i]
		placed += k.Objects
		if got[k.Class] == nil {
			got[k.Class] = make(map[string]*sampler.HeapPlace)
		}
		got[k.Class][fmt.Sprintf("%s:%d %s", k.Path, k.Line, k.Method)] = k
	}
	if placed != count.Traced.Objects {
		t.Errorf("%s: %d objects at places, %d in all", state, placed, count.Traced.Objects)
	}
	equal := 0
	for class, list := range before {
		for at, n := range list {
			k := got[class][at]
			switch {
			case n != after[class][at]: // Ruby made some of the objects for the answer itself
			case k == nil:
				t.Errorf("%s: no %s at %q, Ruby says %v", state, class, at, n)
			case k.Objects != n[0] || measuredClasses[class] && k.Bytes != n[1]:
				t.Errorf("%s: %d objects and %d bytes of %s at %q, Ruby says %v", state, k.Objects, k.Bytes, class, at, n)
			default:
				equal++
			}
		}
	}
	for class, list := range got {
		for at, k := range list {
			if before[class] != nil && after[class][at] == [2]uint64{} {
				t.Errorf("%s: %d objects of %s at %q, Ruby says none", state, k.Objects, class, at)
			}
		}
	}
	if equal < 15 {
		t.Errorf("%s: only %d places are the same", state, equal)
	}
}

// tracedChurn keeps objects that one line allocates, and makes and drops objects of the same class on other lines. Some
// file names exist only while an object that the file allocated exists. So Ruby frees these names and uses their memory
// again. A String's size shows the line that allocated it. On each release, all Strings are too long to be in their
// slots.
const tracedChurn = `
require "objspace"
class Kept; end
TEXT = "ten bytes."
ObjectSpace.trace_object_allocations_start
KEEP = eval("Array.new(5000) { Kept.new }", binding, "kept.rb", 1)
ring = Array.new(3000)
$stdout.sync = true
puts "ready"
i = 0
loop do
  i += 1
  n = 2 + i % 1000
  ring[i % 3000] = eval("[Kept.new, TEXT * #{100 + n}]", binding, "made#{n}.rb", n)
  20.times { Kept.new }
end
`

// TestPlacesOfMoving: ddtop must find the right lines of allocation while the program makes and frees objects of the
// same class on other lines. It must find all objects that stay at their line, and no other object. Each file name must
// fit its line, and so must the size of each String. The program has one thread, so at most one String has no memory
// yet.
func TestPlacesOfMoving(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, tracedChurn, rubytest.Options{})
		p.Expect(t, "ready")
		reader := openReader(t, p.PID)
		whole, made := 0, uint64(0)
		for range 12 {
			count, err := reader.CountHeap(context.Background(), func() {})
			if err != nil {
				t.Fatal(err)
			}
			if count.Traced == nil {
				t.Fatal("no places")
			}
			kept, begun := uint64(0), 0
			for _, k := range count.Traced.Places {
				if want := fmt.Sprintf("made%d.rb", k.Line); strings.HasPrefix(k.Path, "made") {
					made += k.Objects
					if k.Path != want {
						t.Errorf("%d objects of %s at %s:%d", k.Objects, k.Class, k.Path, k.Line)
					}
					own := uint64(10*(100+k.Line) + 1)
					switch {
					case k.Class != "String" || k.Bytes == k.Objects*(40+own):
					case k.Bytes == k.Objects*(40+own)-own:
						begun++
					default:
						t.Errorf("%d Strings of %d bytes at line %d have %d bytes", k.Objects, 40+own, k.Line, k.Bytes)
					}
				}
				if k.Class == "Kept" && k.Path == "kept.rb" {
					kept += k.Objects
				}
			}
			if kept > 5000 || kept < 5000 && !count.Traced.Cut && count.Skipped == 0 {
				t.Errorf("%d objects at the place of 5,000, cut %v, %d misfits", kept, count.Traced.Cut, count.Traced.Misfits)
			}
			if begun > 1 {
				t.Errorf("%d Strings have no memory", begun)
			}
			if !count.Traced.Cut {
				whole++
			}
		}
		t.Logf("%d of 12 counts had all records, %d moving objects had a place", whole, made)
		if whole == 0 || made == 0 {
			rubytest.TooSeldom(t, "%d counts had all records, %d moving objects had a place", whole, made)
		}
	})
}
