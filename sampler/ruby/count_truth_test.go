package ruby

import (
	"context"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// countProgram keeps objects of all kinds. On request, it prints how many there are of each type and class, and their
// sizes. No collection frees objects between two such answers. So if ddtop counts in this time, its number must lie
// between the numbers in the answers.
const countProgram = `
require "objspace"
class Bag
  def initialize(n); n.times { |i| instance_variable_set("@v#{i}", i) }; end
end
module Shop; class Order < Bag; end; end
Pair = Struct.new(:a, :b)
Wide = Struct.new(*(0...14).map { |i| :"m#{i}" })
keep = []
1500.times do |i|
  keep << "s" * (i % 700) << ("b" * (i % 90)).encode("UTF-16LE") << ("w" * (i % 50)).encode("UTF-32BE")
  keep << Array.new(i % 120) << Array.new(i % 5) << (0...(i % 40)).map { |n| [n, n] }.to_h << {}
  keep << Bag.new(i % 14) << Shop::Order.new(i % 3) << Pair.new(i, i) << Wide.new(i)
  keep << 3**(i % 300) << Rational(i, 7) << Complex(i, 1) << i * 1.1e200 << :"sym#{i}" << /a#{i}/ << Object.new
  keep << "shared #{i} #{'x' * 100}"[8..-1] << [1, 2, 3, *(0...50)][3..-1] << "m#{i}".match(/m(\d)/)
end
keep << Class.new << (o = Object.new; def o.single; end; o) << Thread.new { sleep } << Mutex.new << $stdin
fill = lambda do |a|
  ObjectSpace.count_objects(a[:types])
  classes = a[:classes]
  classes.each_key { |k| classes[k] = 0 }
  ObjectSpace.each_object { |x| (k = x.class; classes[k] = (classes[k] || 0) + 1) if Kernel === x && !(Module === x) }
  ObjectSpace.count_objects_size(a[:sizes])
end
before, after = Array.new(2) { {types: {}, classes: {}.compare_by_identity, sizes: {}} }
show = lambda { |h| "{" + h.map { |k, v| "\"#{k}\":#{v}" }.join(",") + "}" }
named = lambda do |h|
  sums = Hash.new(0)
  h.each { |k, v| sums[k.name || "(anonymous)"] += v }
  show.call(sums)
end
told = lambda { |a| "{\"types\":#{show.call(a[:types])},\"classes\":#{named.call(a[:classes])},\"sizes\":#{show.call(a[:sizes])}}" }
3.times { fill.call(before); fill.call(after); told.call(after) }
$stdout.sync = true
puts "ready"
while (line = $stdin.gets)
  GC.enable
  50_000.times { |i| "garbage #{i}" }
  if line.strip == "swept"
    GC.start
    GC.disable
    fill.call(before)
    Process.kill(:STOP, $$)
  else
    GC.start(immediate_sweep: false)
    Process.kill(:STOP, $$)
    GC.disable # finishes the sweep
    fill.call(before)
  end
  fill.call(after)
  puts "{\"before\":#{told.call(before)},\"after\":#{told.call(after)}}"
end
`

type countSaid struct{ Types, Classes, Sizes map[string]int64 }

// sizedTypes are types for which ddtop can find all memory of the objects, so its number must equal Ruby's.
var sizedTypes = []string{"T_STRING", "T_ARRAY", "T_HASH", "T_OBJECT", "T_STRUCT", "T_BIGNUM", "T_FLOAT", "T_SYMBOL", "T_RATIONAL", "T_COMPLEX"}

// TestCountHeap: in a stopped process, ddtop's numbers and sizes by type and class must equal Ruby's own. This must
// also be true while most pages are not swept after a collection.
func TestCountHeap(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, countProgram, rubytest.Options{})
		p.Expect(t, "ready")
		reader := openReader(t, p.PID)
		for _, state := range []string{"swept", "sweeping"} {
			p.Send(t, state)
			waitStopped(t, p.PID)
			count, err := reader.CountHeap(context.Background(), func() {})
			if err != nil {
				t.Fatal(err)
			}
			p.Signal(t, syscall.SIGCONT)
			var said struct{ Before, After countSaid }
			p.JSON(t, &said)
			compareCounts(t, state, count, said.Before, said.After)
		}
	})
}

// internalSlack and variablesSlack limit the differences from Ruby's answers. internalSlack is for objects of the
// interpreter itself, some of which Ruby makes when it answers. variablesSlack is for the instance variables of a
// String. They are in a table of the process, whose size is in Ruby's memsize_of but not in ddtop's count.
const (
	internalSlack  = 8
	variablesSlack = 1024
)

func compareCounts(t *testing.T, state string, count *sampler.HeapCount, before, after countSaid) {
	t.Helper()
	if count.Skipped != 0 || count.Compacted || count.Cut {
		t.Errorf("%s: %d pages skipped, compacted %v, cut %v", state, count.Skipped, count.Compacted, count.Cut)
	}
	if slots := count.Objects + count.Dead + count.Free; int64(slots) != before.Types["TOTAL"] {
		t.Errorf("%s: %d slots, Ruby says %d", state, slots, before.Types["TOTAL"])
	}
	if (count.Dead > 0) != (state == "sweeping") {
		t.Errorf("%s: %d objects wait to be swept", state, count.Dead)
	}
	types := make(map[string]*sampler.HeapKind)
	for i := range count.Types {
		k := &count.Types[i]
		types[k.Name] = k
		slack := int64(0)
		if k.Name == "T_IMEMO" {
			slack = internalSlack
		}
		if n := int64(k.Objects); n > after.Types[k.Name]+slack || n < before.Types[k.Name]-slack {
			t.Errorf("%s: %d objects of type %s, Ruby says %d, then %d", state, n, k.Name, before.Types[k.Name], after.Types[k.Name])
		}
	}
	for _, name := range sizedTypes {
		k := types[name]
		if k == nil {
			t.Errorf("%s: no objects of type %s", state, name)
			continue
		}
		slack := int64(0)
		if name == "T_STRING" {
			slack = variablesSlack
		}
		if n, want := int64(k.Bytes()), before.Sizes[name]; n > want || n < want-slack || k.Unsized != 0 {
			t.Errorf("%s: %d bytes of type %s and %d objects without a size, Ruby says %d", state, n, name, k.Unsized, want)
		}
	}
	classes := make(map[string]int64)
	for i := range count.Classes {
		classes[count.Classes[i].Name] = int64(count.Classes[i].Objects)
	}
	equal := 0
	for name, n := range before.Classes {
		switch {
		case n != after.Classes[name]: // Ruby made some of the objects for the answer itself
		case n != classes[name]:
			t.Errorf("%s: %d objects of class %s, Ruby says %d", state, classes[name], name, n)
		default:
			equal++
		}
	}
	if equal < 40 {
		t.Errorf("%s: only %d classes are equal: the test looks at too little", state, equal)
	}
	if n := classes[sampler.AllocUnknown] + classes[sampler.AllocOthers]; n != 0 {
		t.Errorf("%s: %d objects have no class", state, n)
	}
}

// movingProgram makes some objects at the start and keeps them. Other objects live for a while, in a ring. In addition,
// the program makes as many short-lived objects as it can.
const movingProgram = `
class Kept; end
class Ring; end
kept = Array.new(20_000) { Kept.new }
ring = Array.new(5_000)
3.times { GC.start }
puts "ready"; $stdout.flush
i = 0
loop { 1000.times { ring[i % 5_000] = Ring.new; i += 1; "churn #{i}"; [i] } }
`

// TestCountHeapMoving: the program makes and collects objects while ddtop counts them. Each count must have the exact
// number of the objects that stay, and must count them as old.
func TestCountHeapMoving(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, movingProgram, rubytest.Options{})
		p.Expect(t, "ready")
		reader := openReader(t, p.PID)
		var first, last uint64
		for pass := range 50 {
			count, err := reader.CountHeap(context.Background(), func() {})
			if err != nil {
				t.Fatal(err)
			}
			if last = count.Collections; pass == 0 {
				first = last
			}
			for _, k := range count.Classes {
				if k.Name == "Kept" && (k.Objects != 20_000 || k.Old != 20_000) {
					t.Fatalf("pass %d: %d objects of 20000, %d old: %+v", pass, k.Objects, k.Old, count.Sizes)
				}
			}
		}
		t.Logf("%d collections in 50 passes", last-first)
	})
}
