package flamegraph

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// foldWorld makes a tree from lines. A line has a thread, frames and a weight: `t;a;gem:b;c:C#d;lib:e 10`. A prefix
// says where a frame's code is from: "gem:" is a gem, "lib:" the standard library, "c:" a C function. "so:" is a C
// function of a native stack. Other frames with a capital letter are the program's own.
func foldWorld(t *testing.T, lines ...string) (*Snapshot, *sampler.Dictionary, Options) {
	t.Helper()
	dict, s := sampler.NewDictionary(), new(Snapshot)
	names := map[sampler.ThreadID]string{}
	for _, l := range lines {
		text, weight, _ := strings.Cut(l, " ")
		parts := strings.Split(text, ";")
		var ns int64
		if _, err := fmt.Sscan(weight, &ns); err != nil {
			t.Fatal(err)
		}
		thread := sampler.ThreadID(len(names) + 1)
		for id, name := range names {
			if name == parts[0] {
				thread = id
			}
		}
		names[thread] = parts[0]
		var stack sampler.StackID
		for _, label := range parts[1:] {
			f := sampler.Frame{Label: label, AbsolutePath: "/app/" + label + ".rb", Origin: sampler.OriginApp}
			switch kind, rest, _ := strings.Cut(label, ":"); kind {
			case "gem":
				gem, _, _ := strings.Cut(rest, "_")
				f.Origin, f.Gem, f.Label = sampler.OriginGem, gem+" 1.0", rest
			case "lib":
				f.Origin, f.Label, f.AbsolutePath = sampler.OriginStdlib, rest, "/usr/lib/ruby/3.4.0/"+rest+".rb"
			case "c":
				f.Origin, f.Label, f.C = sampler.OriginCore, rest, true
			case "so": // a C function of a native stack
				f.Origin, f.Label, f.C, f.Native.Library = sampler.OriginCore, rest, true, "libpq"
			}
			stack = dict.InternStack(stack, dict.InternFrame(f))
		}
		s.Entries = append(s.Entries, Entry{Key{Thread: thread, Stack: stack, State: gvl.State(len(s.Entries) % 3)}, Weights{WallNS: ns, Samples: 1}})
	}
	return s, dict, Options{Root: func(id sampler.ThreadID) string { return names[id] }}
}

func foldedOutline(n *Node) string {
	s := fmt.Sprintf("%s %d", n.Text(), n.Total)
	if len(n.Children) == 0 {
		return s
	}
	var parts []string
	for _, c := range n.Children {
		parts = append(parts, foldedOutline(c))
	}
	if len(parts) == 1 {
		return s + " > " + parts[0]
	}
	return s + " > (" + strings.Join(parts, " | ") + ")"
}

func TestFold(t *testing.T) {
	rails := []string{
		"web;gem:puma_a;gem:puma_b;gem:rack_a;gem:pack_a;Orders#index;Order.open;gem:record_a;gem:record_b;gem:record_c;c:PG#exec 60",
		"web;gem:puma_a;gem:puma_b;gem:rack_b;gem:pack_a;Orders#index;c:Array#map;block 20",
		"web;gem:puma_a;gem:puma_b;gem:rack_b;lib:json;c:sleep 5", "web;gem:puma_a;gem:puma_b 2",
	}
	for _, tc := range []struct {
		name, want string
		inverted   bool
		lines      []string
	}{
		{"what a run leads to is one node a function, and so is the C that it ends in",
			"all 87 > web 87 > ⋯ 4 frames: puma, rack, pack 87 > (Orders#index 80 > (Array#map 20 > block 20 | Order.open 60 > ⋯ 4 frames: record 60 > PG#exec 60) | sleep 5)",
			false, rails},
		{"callees first", "all 87 > (PG#exec 60 > ⋯ 3 frames: record 60 > Order.open 60 > Orders#index 60 > ⋯ 4 frames: pack, rack, puma 60 | " +
			"block 20 > Array#map 20 > Orders#index 20 > ⋯ 4 frames: pack, rack, puma 20 | puma_b 2 > puma_a 2 | sleep 5 > ⋯ 4 frames: json, rack, puma 5)", true, rails},
		{"two frames stay", "all 1 > web 1 > puma_a 1 > puma_b 1 > A 1 > rack_a 1", false, []string{"web;gem:puma_a;gem:puma_b;A;gem:rack_a 1"}},
		{"own code alone stays", "all 3 > main 3 > (A 1 | B 2 > C 2 > D 2 > E 2)", false, []string{"main;A 1", "main;B;C;D;E 2"}},
		{"C alone", "all 3 > main 3 > ⋯ 3 frames: ruby 3 > c 3", false, []string{"main;c:a;c:b;c:c 3"}},
		{"C functions of native stacks are below the frame that called them, of a run or not", "all 9 > web 9 > (A 4 > sleep 4 > poll 3 | ⋯ 4 frames: record 5 > PG#exec 5 > PQgetResult 4 > poll 4)", false,
			[]string{"web;gem:record_a;gem:record_b;gem:record_c;c:PG#exec;so:PQgetResult;so:poll 4", "web;A;c:sleep;so:poll 3",
				"web;A;c:sleep 1", "web;gem:record_a;gem:record_b;gem:record_c;c:PG#exec 1"}},
		{"callees first, the Ruby frame is in one place", "all 5 > PG#exec 5 > ⋯ 3 frames: record 5", true,
			[]string{"web;gem:record_a;gem:record_b;gem:record_c;c:PG#exec;so:PQgetResult;so:poll 4",
				"web;gem:record_a;gem:record_b;gem:record_c;c:PG#exec 1"}},
		{"own code within", "all 9 > main 9 > ⋯ 2 frames: x 9 > (A 4 > ⋯ 3 frames: x 4 > B 4 | B 5)", false,
			[]string{"main;gem:x_1;gem:x_2;gem:x_3;A;gem:x_1;gem:x_2;gem:x_3;B 4", "main;gem:x_1;gem:x_4;B 5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, dict, o := foldWorld(t, tc.lines...)
			if o.Inverted = tc.inverted; tc.inverted {
				o.Root = nil
			}
			tree := NewBuilder(dict).Build(s, o)
			f := Fold(tree, nil)
			if got := foldedOutline(f.Tree.Root); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			checkFolded(t, f, dict, s)
		})
	}
}

// TestOpenRun: a run is a row of folded frames. If it is opened, all of its frames are shown. Other runs below it stay
// folded.
func TestOpenRun(t *testing.T) {
	s, dict, o := foldWorld(t, "web;gem:p_a;gem:p_b;gem:r_a;A;gem:q_a;gem:q_b;gem:q_c 3", "web;gem:p_a;gem:p_b;gem:r_b;A 4")
	tree := NewBuilder(dict).Build(s, o)
	f := Fold(tree, func(n *Node) bool { return n.Label == "p_a" })
	const want = "all 7 > web 7 > ⋯ 3 frames: p, r 7 > p_a 7 > p_b 7 > (r_a 3 > A 3 > ⋯ 3 frames: q 3 | r_b 4 > A 4)"
	if got := foldedOutline(f.Tree.Root); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	closed := Fold(tree, nil)
	m, inside := closed.Search(closed.Tree.Root, regexp.MustCompile("r_b"))
	run := closed.Tree.Root.Children[0].Children[0]
	if len(m.Nodes) != 1 || !m.Nodes[run] || m.Total != 4 || inside[run] == nil || inside[run].Label != "r_b" {
		t.Fatalf("found %+v, in %v", m, inside)
	}
	if n, ok := f.Tree.Find(closed.PathIn(run, inside[run])); !ok || n.Label != "r_b" {
		t.Errorf("the way to what was found leads to %v, %v", n.Label, ok)
	}
}

// TestFoldRandomTrees: for every tree, folding keeps totals, loses no own frame, and keeps siblings in order. If all
// runs are open, the folded tree equals the original tree.
func TestFoldRandomTrees(t *testing.T) {
	for seed := uint64(0); seed < uint64(rounds(40)); seed++ {
		rnd := rand.New(rand.NewPCG(seed, 33))
		w := newWorld(rnd, 30, 60, 20)
		s := w.snapshot(rnd, 150, 8)
		o := randomOptions(rnd)
		tree := NewBuilder(w.dict).Build(s, o)
		before := wholeOutline(tree.Root)
		checkFolded(t, Fold(tree, nil), w.dict, s)
		half := Fold(tree, func(n *Node) bool { return len(n.Label)%2 == 0 })
		checkFolded(t, half, w.dict, s)
		if got := wholeOutline(tree.Root); got != before {
			t.Fatalf("seed %d: folding changes the tree\n%s\n%s", seed, before, got)
		}
		if got := wholeOutline(Fold(tree, func(*Node) bool { return true }).Tree.Root); got != before {
			t.Fatalf("seed %d: with all runs open it is another tree\n%s\n%s", seed, before, got)
		}
	}
}

// wholeOutline prints everything in a tree except the rows of folded frames (runs).
func wholeOutline(n *Node) string {
	if n.Kind == RunNode {
		return wholeOutline(n.Children[0])
	}
	var parts []string
	for _, c := range n.Children {
		parts = append(parts, wholeOutline(c))
	}
	return fmt.Sprintf("%v %d %s %s %d %v %v %d %d %v %v (%s)", n.FuncKey, n.Frame, n.Name, n.Path, n.ExecLine, n.C, n.Uncertain, n.Self, n.Total, n.StateSelf, n.StateTotal,
		strings.Join(parts, " "))
}

func checkFolded(t *testing.T, f *Folded, dict *sampler.Dictionary, s *Snapshot) {
	t.Helper()
	checkTree(t, f.Tree, f.Whole.Options.MaxDepth+1<<20) // also checks sums, order and the paths of all nodes
	if f.Tree.Root.Total != f.Whole.Root.Total {
		t.Fatalf("%d in all, folded %d", f.Whole.Root.Total, f.Tree.Root.Total)
	}
	sums := map[*Node]int64{}
	var walk func(*Node)
	walk = func(n *Node) {
		c := f.Shown(n)
		if c == nil {
			t.Fatalf("%v has no place", PathOf(n))
		}
		if (n.Own || n.Kind != FrameNode) && (c.FuncKey != n.FuncKey || !slices.Contains(f.Of(c), n)) {
			t.Fatalf("%v is %v now", PathOf(n), PathOf(c))
		}
		if slices.Contains(f.Of(c), n) {
			sums[c] += n.Total
		}
		for _, k := range n.Children {
			walk(k)
		}
	}
	walk(f.Whole.Root)
	var look func(*Node)
	look = func(c *Node) {
		// Node c is an opened row of folded frames (a run). Its only child, which is the run's first frame and has the
		// same label, is checked instead.
		if c.Kind == RunNode && len(c.Children) == 1 && c.Children[0].FuncKey.Label == c.Label {
			look(c.Children[0])
			return
		}
		if want := sums[c]; c.Kind != LeafNode && c.Total != want {
			t.Fatalf("%v weighs %d, what it stands for %d", PathOf(c), c.Total, want)
		}
		under, got := f.Under(dict, c), int64(0)
		for _, e := range s.Entries {
			if under(e.Key) {
				got += e.Weights.Of(f.Whole.Metric)
			}
		}
		if c.Kind != CutNode && got != c.Total {
			t.Fatalf("%v weighs %d, what is under it %d", PathOf(c), c.Total, got)
		}
		for _, k := range c.Children {
			look(k)
		}
	}
	look(f.Tree.Root)
}
