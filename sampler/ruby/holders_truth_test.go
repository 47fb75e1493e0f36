package ruby

import (
	"context"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/heapgraph"
)

// holdersProgram keeps objects alive in each possible way, such as by a variable or by a constant. The objects of each
// way have a class of their own.
const holdersProgram = `
require "set"
require "monitor"
N = 300
def made(name) Object.const_set(name, Class.new { def initialize(n = nil); @next = n; end }); end
def some(name) k = made(name); Array.new(N) { k.new }; end
module Shop; end
class Shop::Store
  CACHE = {}
  @@registry = []
  @listed = []
  class << self; attr_reader :listed; def own; @own ||= {}; end; end
  def self.registry; @@registry; end
end
some(:InConstHash).each_with_index { |o, i| Shop::Store::CACHE[i] = o }
Shop::Store.registry.concat(some(:InClassVariable))
Shop::Store.listed.concat(some(:InClassIvar))
SET = some(:InSet).to_set
Holder = Struct.new(:list, :other)
STRUCT = Holder.new(some(:InStruct), 1)
QUEUE = Queue.new
some(:InQueue).each { |o| QUEUE << o }
ENUM = some(:InEnumerator).each
def closure(list) -> { list.size }; end
PROC = closure(some(:InProc))
METHOD = some(:InMethod).method(:size)
$leak = some(:InGlobal)
class Shop::Session; def initialize(l); @items = l; @name = "x"; end; end
SESSION = Shop::Session.new(some(:InIvar))
DEFAULTS = Hash.new { |h, k| h[k] = [] }
DEFAULTS[:a].concat(some(:InDefaultHash))
LISTENERS = {change: some(:InListeners).map { |o| closure(o) }}
class Guarded; def initialize; extend MonitorMixin; @map = {}; end; def put(k, v) synchronize { @map[k] = v }; end; end
GUARDED = Guarded.new
some(:InGuarded).each_with_index { |o, i| GUARDED.put(i, o) }
single = Object.new
SINGLE = single
class << SINGLE; end
SINGLE.singleton_class.instance_variable_set(:@kept, some(:InSingleton))
NESTED = {a: {b: {c: some(:InNested)}}}
finalized = "finalized"
FINALIZED = finalized
def finalizer(list) proc { list.size }; end
ObjectSpace.define_finalizer(finalized, finalizer(some(:InFinalizer)))
def exits(list) at_exit { list.size }; end
exits(some(:InAtExit))
ready = Queue.new
t = Thread.new { Thread.current[:user] = some(:InFiberLocal); Thread.current.thread_variable_set(:kept, some(:InThreadVariable)); ready << 1; sleep }
t.name = "worker one"
ready.pop
def sleeping(ready) list = some(:InLocal); ready << 1; sleep; list.size; end
s = Thread.new { sleeping(ready) }
ready.pop
FIBER = Fiber.new { list = some(:InFiber); Fiber.yield; list.size }
FIBER.resume
class Link; def initialize(n) @next = n; end; end
LIST = (0...20_000).inject(nil) { |l, _| Link.new(l) }
TEXT = Array.new(N) { "s" }
TEXT.each { |s| s.instance_variable_set(:@kept, nil) }
made(:InGeneric)
TEXT.each { |s| s.instance_variable_set(:@kept, InGeneric.new) }
class Many; def initialize(l) 40.times { |i| instance_variable_set("@v#{i}", i) }; @list = l; end; end
MANY = Many.new(some(:InManyIvars))
some(:Unheld)
$stdout.sync = true
GC.start
GC.start
puts "ready"
$stdin.gets
`

// holderPaths are the paths of references that ddtop must find to the objects of holdersProgram, by class. Some
// releases have different paths.
var holderPaths = map[string][]string{
	"InConstHash":      {"Shop::Store::CACHE (Hash) → InConstHash"},
	"InClassVariable":  {"Shop::Store.@@registry (Array) → InClassVariable"},
	"InClassIvar":      {"Shop::Store.@listed (Array) → InClassIvar"},
	"InSet":            {"SET (Set) → @hash (Hash) → InSet", "SET (Set) → InSet"},
	"InStruct":         {"STRUCT (Holder) → Array → InStruct"},
	"InQueue":          {"QUEUE (Thread::Queue) → hidden Array → InQueue"},
	"InEnumerator":     {"ENUM (Enumerator) → Array → InEnumerator"},
	"InProc":           {"PROC (Proc) → Array → InProc"},
	"InMethod":         {"METHOD (Method) → Array → InMethod"},
	"InGlobal":         {"$leak (Array) → InGlobal"},
	"InIvar":           {"SESSION (Shop::Session) → @items (Array) → InIvar"},
	"InDefaultHash":    {"DEFAULTS (Hash) → Array → InDefaultHash"},
	"InListeners":      {"LISTENERS (Hash) → Array → Proc → InListeners"},
	"InGuarded":        {"GUARDED (Guarded) → @map (Hash) → InGuarded"},
	"InSingleton":      {"SINGLE (Object) → #<Class:#<Object>> → @kept (Array) → InSingleton"},
	"InNested":         {"NESTED (Hash) … → Array → InNested"},
	"InFinalizer":      {"a finalizer (hidden Array) → Proc → Array → InFinalizer", "a finalizer (hidden Array) → Array → Proc → Array → InFinalizer"},
	"InAtExit":         {"at_exit (Proc) → Array → InAtExit"},
	"InFiberLocal":     {"thread worker one (Thread) → [:user] (Array) → InFiberLocal"},
	"InThreadVariable": {"thread worker one (Thread) → locals (Hash) → Array → InThreadVariable"},
	"InLocal":          {"a thread (Thread) → Array → InLocal"},
	"InFiber":          {"FIBER (Fiber) → Array → InFiber"},
	"InGeneric":        {"TEXT (Array) → String → @kept (InGeneric)"},
	"InManyIvars":      {"MANY (Many) → @list (Array) → InManyIvars"},
	"Link":             {"LIST (Link) …"},
}

func readGraph(t testing.TB, pid int) (*heapgraph.Graph, sampler.HolderInfo) {
	t.Helper()
	g, info, err := openReader(t, pid).HeapGraph(context.Background(),
		sampler.HolderOptions{MaxObjects: sampler.DefaultHolderObjects, MaxBytes: sampler.DefaultHolderBytes}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return g, info
}

// TestHolders: ddtop must find the path to the objects of each class in holderPaths. These are 20,000 objects of the
// class Link, and 300 of each other class.
func TestHolders(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, holdersProgram, rubytest.Options{})
		p.Expect(t, "ready")
		p.Signal(t, syscall.SIGSTOP)
		waitStopped(t, p.PID)
		g, info := readGraph(t, p.PID)
		if info.Compacted || info.Cut || info.Skipped > 0 {
			t.Errorf("%+v", info)
		}
		for class, paths := range holderPaths {
			set := g.OfClass(class)
			h := g.HoldersOf(set, 10)
			want := 300
			if class == "Link" {
				want = 20_000
			}
			if len(set) != want || h.Unreached > 0 || len(h.Paths) == 0 {
				t.Errorf("%s: %d objects, %+v", class, len(set), h)
				continue
			}
			path, right := h.Paths[0].String(), false
			for _, w := range paths {
				right = right || path == w
			}
			// The last object that was made can have another path, because it can also be on the program's stack. So a
			// few objects may be missing here.
			if !right || h.Paths[0].Objects < want-2 {
				t.Errorf("%s: %d by %s, want %q", class, h.Paths[0].Objects, path, paths)
				for _, p := range h.Paths {
					t.Log(p.Objects, p.String())
				}
			}
		}
		// Count the objects to which no path was found. Leave out caches of calls and constants, because they keep no
		// object alive.
		live, lost := 0, 0
		for i := range g.Nodes {
			if typ := g.Type(uint32(i)); typ != "" && typ != heapgraph.TypeImemo {
				live++
				if _, ok := g.Retained(uint32(i)); !ok {
					lost++
				}
			}
		}
		if lost*200 > live {
			t.Errorf("no root reaches %d of %d objects", lost, live)
		}
	})
}

// TestHoldersMoving: if a program makes objects while ddtop copies its heap, the copy must still have all objects that
// stay alive, with the path to them.
func TestHoldersMoving(t *testing.T) {
	rubytest.Long(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, `
class Kept; end
KEPT = Array.new(200_000) { [Kept.new] }
$stdout.sync = true
GC.start
puts "ready"
loop { Array.new(1000) { |i| [i.to_s, {i => i}] } }`, rubytest.Options{})
		p.Expect(t, "ready")
		for range 10 {
			g, info := readGraph(t, p.PID)
			h := g.HoldersOf(g.OfClass("Kept"), 5)
			if info.Compacted {
				continue
			}
			if h.Objects != 200_000 || h.Unreached > 0 || h.Paths[0].Objects != 200_000 || h.Paths[0].String() != "KEPT (Array) … → Kept" {
				t.Errorf("%d objects, %d unreached, %+v", h.Objects, h.Unreached, info)
				for _, p := range h.Paths {
					t.Log(p.Objects, p.String())
				}
			}
		}
	})
}

// TestHoldersCompacting: a program compacts its heap all the time while ddtop copies the heap. The copy must never
// fail. If no object moved during a copy, the copy must be right.
func TestHoldersCompacting(t *testing.T) {
	rubytest.Long(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, `
class Kept; end
KEPT = Array.new(20_000) { [Kept.new] }
HASHES = Array.new(5_000) { |i| {i => [i.to_s]} }
$stdout.sync = true
puts "ready"
loop { Array.new(1000) { |i| [i.to_s] }; GC.compact if GC.respond_to?(:compact) }`, rubytest.Options{})
		p.Expect(t, "ready")
		for range 5 {
			g, info := readGraph(t, p.PID)
			if n := len(g.OfClass("Kept")); n != 20_000 && !info.Compacted {
				t.Errorf("%d objects, %+v", n, info)
			}
		}
	})
}
