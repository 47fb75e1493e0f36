package flamegraph

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// world is a dictionary with random stacks.
type world struct {
	dict   *sampler.Dictionary
	stacks []sampler.StackID
}

func newWorld(rnd *rand.Rand, funcs, stacks, depth int) *world {
	w := &world{dict: sampler.NewDictionary()}
	var ids []sampler.FrameID
	for i := range funcs {
		for line := range 2 {
			f := sampler.Frame{
				Label: fmt.Sprintf("Mod%d::Class%d#method_%d", i%3, i%7, i), Name: fmt.Sprintf("method_%d", i),
				Path: fmt.Sprintf("app/file%d.rb", i%11), AbsolutePath: fmt.Sprintf("/srv/app/file%d.rb", i%11),
				FirstLine: int32(10 * i), Line: int32(10*i + 1 + line), C: i%5 == 4,
			}
			if i%4 != 0 { // most frames are not the program's own
				f.Origin, f.Gem = sampler.OriginGem, fmt.Sprintf("gem-%d 1.0", i%3)
			}
			ids = append(ids, w.dict.InternFrame(f))
		}
	}
	for range stacks {
		var s sampler.StackID
		n := 1 + rnd.IntN(depth)
		for d := range n {
			// Only few functions are used for outer frames, so that stacks share their beginnings, as real stacks do.
			s = w.dict.InternStack(s, ids[rnd.IntN(min(len(ids), 2+d*d))])
		}
		w.stacks = append(w.stacks, s)
	}
	return w
}

func (w *world) snapshot(rnd *rand.Rand, entries, threads int) *Snapshot {
	s := &Snapshot{FromNS: 1e9, ToNS: 31e9}
	seen := map[Key]bool{}
	for range entries {
		k := Key{Thread: sampler.ThreadID(1 + rnd.IntN(threads)), Stack: w.stacks[rnd.IntN(len(w.stacks))], State: gvl.State(rnd.IntN(10))}
		if rnd.IntN(40) == 0 {
			k.Stack = 0
		}
		if seen[k] {
			continue
		}
		seen[k] = true
		s.Entries = append(s.Entries, Entry{k, Weights{WallNS: rnd.Int64N(1e9), CPUNS: rnd.Int64N(1e8), WaitNS: rnd.Int64N(1e7), Samples: rnd.Int64N(5)}})
	}
	return s
}

func checkTree(t *testing.T, tr *Tree, limitDepth int) {
	t.Helper()
	nodes, cut := 0, int64(0)
	var walk func(*Node)
	walk = func(n *Node) {
		nodes++
		sum, states, selfStates := n.Self, int64(0), int64(0)
		for i, c := range n.Children {
			if c.Parent != n || c.Depth != n.Depth+1 {
				t.Fatalf("%q under %q: wrong parent or depth", c.Label, n.Label)
			}
			if i > 0 && compareKeys(n.Children[i-1].FuncKey, c.FuncKey) >= 0 {
				t.Fatalf("children of %q are not sorted and distinct at %q", n.Label, c.Label)
			}
			sum += c.Total
			walk(c)
		}
		for i := range n.StateTotal {
			states += n.StateTotal[i]
			selfStates += n.StateSelf[i]
		}
		if n.Total != sum || n.Total != states || n.Self != selfStates {
			t.Fatalf("%q: total %d, self and children %d, states %d; self %d, states %d", n.Label, n.Total, sum, states, n.Self, selfStates)
		}
		if n.Depth > limitDepth+1 || n.Depth == limitDepth+1 && n.Kind == FrameNode {
			t.Fatalf("%q at depth %d, limit %d", n.Label, n.Depth, limitDepth)
		}
		if n.Kind == CutNode {
			cut += n.Total
		}
		found, ok := tr.Find(PathOf(n))
		if !ok || found != n {
			t.Fatalf("Find(PathOf(%q)) = %v, %v", n.Label, found.Label, ok)
		}
	}
	walk(tr.Root)
	if nodes != tr.Nodes || cut != tr.Cut {
		t.Fatalf("%d nodes, the tree says %d; cut %d, the tree says %d", nodes, tr.Nodes, cut, tr.Cut)
	}
}

func TestTreeInvariants(t *testing.T) {
	for seed := uint64(0); seed < uint64(rounds(80)); seed++ {
		rnd := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(rnd, 40, 200, 25)
		s := w.snapshot(rnd, 600, 8)
		b := NewBuilder(w.dict)
		for range 4 { // one Builder builds with different options; no build may affect the next
			o := randomOptions(rnd)
			tr := b.Build(s, o)
			checkTree(t, tr, tr.Options.MaxDepth)
			var want, all int64
			for _, e := range s.Entries {
				all += e.Weights.Of(o.Metric)
				if (o.Threads == nil || o.Threads[e.Key.Thread]) && (o.States == 0 || o.States.Has(e.Key.State)) && (o.Keep == nil || strings.Contains(stackText(w.dict, e.Key.Stack), "method_1")) {
					want += e.Weights.Of(o.Metric)
				}
			}
			if tr.Root.Total != want || tr.Excluded != all-want {
				t.Fatalf("seed %d %+v: total %d excluded %d, want %d and %d", seed, o, tr.Root.Total, tr.Excluded, want, all-want)
			}
			if fresh := NewBuilder(w.dict).Build(s, o); treeText(fresh) != treeText(tr) {
				t.Fatalf("seed %d: a used Builder builds another tree than a fresh one", seed)
			}
			rnd.Shuffle(len(s.Entries), func(i, j int) { s.Entries[i], s.Entries[j] = s.Entries[j], s.Entries[i] })
			if again := b.Build(s, o); treeText(again) != treeText(tr) {
				t.Fatalf("seed %d: the order of the snapshot changes the tree", seed)
			}
		}
	}
}

func stackText(d *sampler.Dictionary, id sampler.StackID) string {
	var b strings.Builder
	for _, f := range d.Frames(id, nil) {
		b.WriteString(d.Frame(f).Label + ";")
	}
	return b.String()
}

// treeText prints a tree, one node per line.
func treeText(t *Tree) string {
	var b strings.Builder
	var walk func(*Node)
	walk = func(n *Node) {
		fmt.Fprintf(&b, "%s%s %d/%d\n", strings.Repeat("  ", n.Depth), n.Label, n.Self, n.Total)
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(t.Root)
	return b.String()
}

// shop returns a small Dictionary and a Snapshot, with fixed contents.
func shop() (*sampler.Dictionary, *Snapshot) {
	d := sampler.NewDictionary()
	frame := func(label, path string, first, line int32, c bool) sampler.FrameID {
		name := label[strings.LastIndexAny(label, "#.")+1:]
		return d.InternFrame(sampler.Frame{Label: label, Name: name, Path: path, AbsolutePath: "/srv/" + path, FirstLine: first, Line: line, C: c})
	}
	main := frame("<main>", "app.rb", 1, 60, false)
	loop := frame("Reports.loop", "app/reports.rb", 5, 7, false)
	build := frame("Reports#build", "app/reports.rb", 40, 41, false)
	build2 := frame("Reports#build", "app/reports.rb", 40, 43, false)
	json := frame("JSON.generate", "gems/json-2.9/lib/json.rb", 1, 9, false)
	mapC := frame("Array#map", "app/reports.rb", 0, 41, true)
	mapC2 := frame("Array#map", "app/cart.rb", 0, 12, true)
	stack := func(fs ...sampler.FrameID) sampler.StackID {
		var s sampler.StackID
		for _, f := range fs {
			s = d.InternStack(s, f)
		}
		return s
	}
	s := &Snapshot{FromNS: 0, ToNS: 1000, Entries: []Entry{
		{Key{Thread: 1, Stack: stack(main, loop, build), State: 1}, Weights{WallNS: 100, Samples: 1}},
		{Key{Thread: 1, Stack: stack(main, loop, build2, json), State: 1}, Weights{WallNS: 400, Samples: 4}},
		{Key{Thread: 1, Stack: stack(main, loop, build, mapC, build, json), State: 4}, Weights{WallNS: 200, WaitNS: 200, Samples: 2}},
		{Key{Thread: 2, Stack: stack(main, mapC2), State: 1}, Weights{WallNS: 50, Samples: 1}},
		{Key{Thread: 2, Stack: 0, State: 0}, Weights{WallNS: 30, Samples: 1}},
	}}
	return d, s
}

func TestTreeShapes(t *testing.T) {
	d, s := shop()
	names := func(id sampler.ThreadID) string { return fmt.Sprint("worker-", id) }
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"by function", Options{}, `
all 0/780
  (no stack) 30/30
  <main> 0/750
    Array#map 50/50
    Reports.loop 0/700
      Reports#build 100/700
        Array#map 0/200
          Reports#build 0/200
            JSON.generate 200/200
        JSON.generate 400/400
`},
		{"by line, one thread, running", Options{ByLine: true, States: States(1), Threads: map[sampler.ThreadID]bool{1: true}}, `
all 0/500
  <main> 0/500
    Reports.loop 0/500
      Reports#build 100/100
      Reports#build 0/400
        JSON.generate 400/400
`},
		{"threads", Options{Root: names, Hide: func(f *sampler.Frame) bool { return f.C || f.Label == "<main>" }}, `
all 0/780
  worker-1 0/700
    Reports.loop 0/700
      Reports#build 100/700
        JSON.generate 400/400
        Reports#build 0/200
          JSON.generate 200/200
  worker-2 50/80
    (no stack) 30/30
`},
		{"callees first", Options{Inverted: true, Keep: regexp.MustCompile("json")}, `
all 0/600
  JSON.generate 0/600
    Reports#build 0/600
      Array#map 0/200
        Reports#build 0/200
          Reports.loop 0/200
            <main> 200/200
      Reports.loop 0/400
        <main> 400/400
`},
		{"waiting", Options{Metric: Wait, MaxDepth: 3}, `
all 0/200
  <main> 0/200
    Reports.loop 0/200
      Reports#build 0/200
        … (cut) 200/200
`},
		// The lightest stacks are cut, whatever the order in which they come.
		{"few nodes", Options{MaxNodes: 5}, `
all 0/780
  <main> 0/750
    Reports.loop 0/700
      Reports#build 100/700
        JSON.generate 400/400
        … (cut) 200/200
    … (cut) 50/50
  (no stack) 30/30
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := "\n" + treeText(NewBuilder(d).Build(s, c.o))
			if sorted(got) != sorted(c.want) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// sorted sorts siblings, so that a comparison does not depend on their order. checkTree tests the order.
func sorted(s string) string {
	type item struct {
		path string
	}
	var stack []string
	counts := map[item]int{}
	for _, l := range strings.Split(strings.TrimSpace(s), "\n") {
		depth := (len(l) - len(strings.TrimLeft(l, " "))) / 2
		stack = append(stack[:min(depth, len(stack))], strings.TrimSpace(l))
		counts[item{strings.Join(stack, "/")}]++
	}
	return fmt.Sprint(counts)
}

func TestSearchCountsOnce(t *testing.T) {
	d, s := shop()
	tr := NewBuilder(d).Build(s, Options{})
	for _, c := range []struct {
		re          string
		total, self int64
		nodes       int
	}{
		{"Reports", 700, 100, 3}, // nested matches count once
		{"JSON", 600, 600, 2},
		{"Array#map", 250, 50, 2},
		{"json-2.9", 600, 600, 2}, // matches the files of frames, not their labels
		{"nothing", 0, 0, 0},
		{"^all$", 0, 0, 0}, // the root is not a frame
	} {
		m := tr.Root.Search(regexp.MustCompile(c.re))
		if m.Total != c.total || m.Self != c.self || len(m.Nodes) != c.nodes || m.Share != float64(c.total)/780 {
			t.Errorf("%s: %d/%d in %d nodes (%v), want %d/%d in %d", c.re, m.Self, m.Total, len(m.Nodes), m.Share, c.self, c.total, c.nodes)
		}
	}
}

func TestFindAfterRebuild(t *testing.T) {
	d, s := shop()
	b := NewBuilder(d)
	tr := b.Build(s, Options{})
	n := tr.Root.Child(FuncKey{Label: "<main>", File: "/srv/app.rb", Line: 1})
	if n == nil {
		t.Fatal("<main> not found")
	}
	loop := n.Children[len(n.Children)-1]
	p := PathOf(loop)
	s.Entries = s.Entries[1:]
	again := b.Build(s, Options{})
	if m, ok := again.Find(p); !ok || m.Label != loop.Label || m == loop {
		t.Errorf("after a rebuild: %v %v", m.Label, ok)
	}
	s.Entries = s.Entries[2:] // Reports.loop is gone
	if m, ok := b.Build(s, Options{}).Find(p); ok || m.Label != "<main>" {
		t.Errorf("after it went: %v %v, want <main> and false", m.Label, ok)
	}
}

func TestDiff(t *testing.T) {
	d, s := shop()
	before := NewBuilder(d).Build(s, Options{})
	after := &Snapshot{Entries: append([]Entry(nil), s.Entries[1:]...)}
	after.Entries[0].Weights.WallNS = 1000
	tr := NewBuilder(d).Build(after, Options{})
	for _, byName := range []bool{false, true} {
		nodes, own := map[*Node][2]float64{}, map[string]float64{}
		compare := func(a, b *Tree, wholeA, wholeB float64) {
			clear(nodes)
			clear(own)
			d := Diff{BeforeWhole: wholeA, AfterWhole: wholeB, ByName: byName, Visit: func(n *Node, label string, self, total float64) {
				if nodes[n] = [2]float64{self, total}; self != 0 {
					own[label] += self
				}
			}}
			d.Trees(a, b)
		}
		compare(before, tr, 1, 1)
		if got := nodes[tr.Root][1]; got != 500 {
			t.Errorf("root delta %v, want 500", got)
		}
		if len(own) != 2 || own["JSON.generate"] != 600 || own["Reports#build"] != -100 {
			t.Errorf("changed of themselves: %v", own)
		}
		compare(before, tr, float64(before.Root.Total), float64(tr.Root.Total))
		if got := nodes[tr.Root][1]; got != 0 {
			t.Errorf("scaled root delta %v, want 0", got)
		}
		compare(before, before, 7, 7)
		if len(own) != 0 {
			t.Errorf("a tree differs from itself: %v", own)
		}
	}
}

func benchWorld(b *testing.B) (*world, *Snapshot) {
	b.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	w := &world{dict: sampler.NewDictionary()}
	var ids []sampler.FrameID
	for i := range 800 {
		ids = append(ids, w.dict.InternFrame(sampler.Frame{Label: fmt.Sprintf("Some::Module%d#method_%d", i%50, i), AbsolutePath: fmt.Sprintf("/srv/app/lib/file%d.rb", i%90), FirstLine: int32(i), Line: int32(i + 3)}))
	}
	for range 2000 { // each stack has 30 frames, and shares the first 15 to 25 of them with other stacks
		var s sampler.StackID
		share := 15 + rnd.IntN(10)
		for d := range 30 {
			pick := d
			if d > share {
				pick = rnd.IntN(len(ids))
			} else if d > 5 {
				pick = d*8 + rnd.IntN(2)
			}
			s = w.dict.InternStack(s, ids[pick])
		}
		w.stacks = append(w.stacks, s)
	}
	s := &Snapshot{ToNS: 30e9}
	for i := range 4000 { // the entries have 50 threads and two states
		s.Entries = append(s.Entries, Entry{Key{Thread: sampler.ThreadID(1 + i%50), Stack: w.stacks[i%2000], State: gvl.State(1 + i/2000)}, Weights{WallNS: 1 + rnd.Int64N(1e8), Samples: 1}})
	}
	return w, s
}

func BenchmarkTreeBuild(b *testing.B) {
	w, s := benchWorld(b)
	bd := NewBuilder(w.dict)
	var tr *Tree
	b.ReportAllocs()
	for b.Loop() {
		tr = bd.Build(s, Options{})
	}
	b.ReportMetric(float64(tr.Nodes), "nodes")
}

func BenchmarkTreeBuildThreadRoots(b *testing.B) {
	w, s := benchWorld(b)
	bd := NewBuilder(w.dict)
	names := make([]string, 51)
	for i := range names {
		names[i] = fmt.Sprint("worker-", i)
	}
	var tr *Tree
	b.ReportAllocs()
	for b.Loop() {
		tr = bd.Build(s, Options{Root: func(id sampler.ThreadID) string { return names[id] }})
	}
	b.ReportMetric(float64(tr.Nodes), "nodes")
}

func BenchmarkLayout200x40(b *testing.B) {
	w, s := benchWorld(b)
	tr := NewBuilder(w.dict).Build(s, Options{})
	b.ReportAllocs()
	for b.Loop() {
		Layout(tr, nil, 200, 40)
	}
}

// randomOptions chooses random options for a tree.
func randomOptions(rnd *rand.Rand) Options {
	o := Options{Metric: Metric(rnd.IntN(3)), Inverted: rnd.IntN(3) == 0, ByLine: rnd.IntN(2) == 0}
	if rnd.IntN(2) == 0 {
		o.Threads = map[sampler.ThreadID]bool{1: true, 3: true}
	}
	if rnd.IntN(2) == 0 {
		o.States = States(0, 1, 5, 9)
	}
	if rnd.IntN(2) == 0 {
		o.Root = func(id sampler.ThreadID) string { return fmt.Sprint("group ", id%3) }
	}
	if rnd.IntN(3) == 0 {
		o.Hide = func(f *sampler.Frame) bool { return f.C }
	}
	if rnd.IntN(3) == 0 {
		o.Keep = regexp.MustCompile("method_1")
	}
	if rnd.IntN(3) == 0 {
		o.MaxDepth = 1 + rnd.IntN(10)
	}
	if rnd.IntN(3) == 0 {
		o.MaxNodes = 1 + rnd.IntN(100)
	}
	return o
}
