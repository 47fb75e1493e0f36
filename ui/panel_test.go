package ui

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/top"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// panelWorld returns random stacks with weights, for a flamegraph. The stacks have only a few different functions, so
// functions often call themselves and each other.
func panelWorld(rnd *rand.Rand) (*sampler.Dictionary, *flamegraph.Snapshot) {
	dict := sampler.NewDictionary()
	var ids []sampler.FrameID
	for i := range 6 {
		f := sampler.Frame{Label: fmt.Sprintf("C#m%d", i), Name: fmt.Sprintf("m%d", i), Path: "app/c.rb", AbsolutePath: "/srv/app/c.rb",
			FirstLine: int32(10 * i), Line: int32(10*i + 1), C: i%3 == 2}
		if i == 4 {
			f.Path, f.AbsolutePath, f.Gem, f.Origin = "lib/g.rb", "/gems/g-1.0/lib/g.rb", "g", sampler.OriginGem
		}
		ids = append(ids, dict.InternFrame(f))
	}
	s := &flamegraph.Snapshot{FromNS: 1e9, ToNS: 31e9}
	seen := map[flamegraph.Key]bool{}
	for range 60 {
		var stack sampler.StackID
		for range rnd.IntN(9) {
			stack = dict.InternStack(stack, ids[rnd.IntN(len(ids))])
		}
		k := flamegraph.Key{Thread: sampler.ThreadID(1 + rnd.IntN(3)), Stack: stack, State: gvl.State(rnd.IntN(int(gvl.NumStates)))}
		if !seen[k] {
			seen[k] = true
			s.Entries = append(s.Entries, flamegraph.Entry{Key: k, Weights: flamegraph.Weights{WallNS: 1 + rnd.Int64N(1e9)}})
		}
	}
	return dict, s
}

// TestPanelSumsAreThoseOfTheStacks: the panel below the flamegraph shows figures for a function. They must equal the
// sums over all single stacks. This includes recursive functions, and the inverted flamegraph.
func TestPanelSumsAreThoseOfTheStacks(t *testing.T) {
	for seed := range uint64(20) {
		dict, snap := panelWorld(rand.New(rand.NewPCG(seed, 7)))
		root := func(id sampler.ThreadID) string { return fmt.Sprintf("thread %d", id) }
		for _, inverted := range []bool{false, true} {
			o := flamegraph.Options{Root: root}
			if inverted {
				o = flamegraph.Options{Inverted: true}
			}
			v := &widget.Flame{FlameLook: widget.FlameLook{Inverted: inverted}}
			v.Whole = flamegraph.NewBuilder(dict).Build(snap, o)
			v.Tree = v.Whole
			self, total, own := map[string]int64{}, map[string]int64{}, map[string]int64{}
			labels := map[string]bool{}
			for _, e := range snap.Entries {
				stack := stackLabels(dict, e.Key.Stack)
				if len(stack) > 0 {
					self[stack[0]] += e.Weights.WallNS
				}
				on := map[string]bool{}
				owned := false
				for i, id := range dict.Frames(e.Key.Stack, nil) {
					if !on[stack[i]] {
						on[stack[i]] = true
						total[stack[i]] += e.Weights.WallNS
					}
					labels[stack[i]] = true
					if !owned && style.OriginOf(dict.Frame(id)) == sampler.OriginApp {
						owned = true
						own[stack[i]] += e.Weights.WallNS
					}
				}
			}
			p := widget.Panel{Flame: v}
			p.Load(dict, true)
			same(t, "self", p.Hot, self)
			same(t, "own", p.Own, own)
			for _, r := range p.Hot {
				if r.Kind == flamegraph.FrameNode && r.Total != total[r.Label] {
					t.Errorf("seed %d, inverted %t: total of %s is %d, the stacks say %d", seed, inverted, r.Label, r.Total, total[r.Label])
				}
			}
			for label := range labels {
				n := nodeOf(v.Tree.Root, label)
				v.Selected = flamegraph.PathOf(n)
				p.Load(dict, true)
				if p.Total != total[label] || p.Self != self[label] {
					t.Errorf("seed %d, inverted %t: %s: total %d self %d, the stacks say %d and %d", seed, inverted, label, p.Total, p.Self, total[label], self[label])
				}
				callers, callees, threads := map[string]int64{}, map[string]int64{}, map[string]int64{}
				for _, e := range snap.Entries {
					stack := stackLabels(dict, e.Key.Stack)
					before, after, ok := neighbours(stack, label, inverted)
					if !ok {
						continue
					}
					if before == "" && !inverted {
						before = root(e.Key.Thread)
					}
					if before == "" {
						before = label
					}
					if after == "" {
						after = label
					}
					callers[before] += e.Weights.WallNS
					callees[after] += e.Weights.WallNS
					threads[root(e.Key.Thread)] += e.Weights.WallNS
				}
				same(t, "callers of "+label, p.Callers, callers)
				same(t, "callees of "+label, p.Callees, callees)
				if !inverted {
					sameUnder(t, dict, snap, &p, label)
					same(t, "threads of "+label, p.Threads, threads)
				}
			}
		}
	}
}

func stackLabels(dict *sampler.Dictionary, stack sampler.StackID) (out []string) {
	for _, id := range dict.Frames(stack, nil) {
		out = append(out, dict.Frame(id).Label)
	}
	return out
}

// sameUnder checks the functions that the panel lists below the selected function. The weight of each must equal its
// sum over the stacks. On each stack, the test looks only at the frames inside the first call of the selected function.
func sameUnder(t *testing.T, dict *sampler.Dictionary, snap *flamegraph.Snapshot, p *widget.Panel, label string) {
	t.Helper()
	self, total := map[string]int64{}, map[string]int64{}
	for _, e := range snap.Entries {
		stack := stackLabels(dict, e.Key.Stack)
		last := -1
		for i := range stack {
			if stack[i] == label {
				last = i
			}
		}
		if last < 0 {
			continue
		}
		self[stack[0]] += e.Weights.WallNS
		on := map[string]bool{}
		for _, l := range stack[:last+1] {
			if !on[l] {
				on[l] = true
				total[l] += e.Weights.WallNS
			}
		}
	}
	same(t, "self under "+label, p.Hot, self)
	for _, r := range p.Hot {
		if r.Total != total[r.Label] {
			t.Errorf("under %s: total of %s is %d, the stacks say %d", label, r.Label, r.Total, total[r.Label])
		}
	}
}

// neighbours returns the caller and the callee of a function on a stack. The stack has the innermost frame first. If
// the function has several calls on the stack, neighbours looks at the outermost call. If the function calls itself
// directly, these calls are one call. If inverted is true, the search begins with the innermost call. A caller or
// callee is "" if there is none.
func neighbours(stack []string, label string, inverted bool) (before, after string, ok bool) {
	at := func(i int) string {
		if i < 0 || i >= len(stack) {
			return ""
		}
		return stack[i]
	}
	first, step := len(stack)-1, -1
	if inverted {
		first, step = 0, +1
	}
	for i := first; at(i) != ""; i += step {
		if stack[i] != label {
			continue
		}
		before, after = at(i-step), at(i+step)
		for n := i + step; at(n) == label; n += step {
			after = at(n + step)
		}
		if inverted {
			before, after = after, before
		}
		return before, after, true
	}
	return "", "", false
}

// same checks a list of functions in the panel against the sums over the stacks. It skips rows that are not about a
// function.
func same(t *testing.T, what string, rows []widget.PanelRow, want map[string]int64) {
	t.Helper()
	got := map[string]int64{}
	for i, r := range rows {
		if r.Kind == flamegraph.NoStackNode {
			continue
		}
		got[r.Label] += r.Weight
		var states int64
		for _, ns := range r.States {
			states += ns
		}
		if states != r.Weight {
			t.Errorf("%s: the states of %s sum to %d of %d", what, r.Label, states, r.Weight)
		}
		if i > 0 && r.Weight > rows[i-1].Weight {
			t.Errorf("%s: %s stands under what is lighter", what, r.Label)
		}
	}
	for label, ns := range want {
		if got[label] != ns {
			t.Errorf("%s: %s is %d, the stacks say %d", what, label, got[label], ns)
		}
		delete(got, label)
	}
	for label, ns := range got {
		if ns != 0 {
			t.Errorf("%s: %s with %d is on no stack", what, label, ns)
		}
	}
}

func nodeOf(n *flamegraph.Node, label string) *flamegraph.Node {
	if n.Kind == flamegraph.FrameNode && n.Label == label {
		return n
	}
	for _, c := range n.Children {
		if found := nodeOf(c, label); found != nil {
			return found
		}
	}
	return nil
}

// TestPanelSaysWhatTheTopViewSays: the panel's list of functions must have the same figures as the top list (view 5).
func TestPanelSaysWhatTheTopViewSays(t *testing.T) {
	s := hogged(t, 200, 60)
	s.sees("hottest functions", "your code, with the C functions and libraries it calls")
	shown := s.model.Panel.Hot
	s.press("5")
	p := s.model.pages[scene.PageTop].(*top.Page)
	at := 0
	for _, r := range shown {
		if r.Kind != flamegraph.FrameNode {
			continue
		}
		w := p.Table.Rows[at]
		at++
		if w.Label != r.Label || w.Weight(widget.BySelf) != r.Weight || w.Weight(widget.ByTotal) != r.Total {
			t.Errorf("%s: self %d total %d; view 5: %s %d %d", r.Label, r.Weight, r.Total, w.Label, w.Weight(widget.BySelf), w.Weight(widget.ByTotal))
		}
	}
	if at == 0 {
		t.Fatal("no function in the panel")
	}
}

// TestPanelFollowsTheSelection: the panel shows the callers, callees and threads of the frame that is selected in the
// flamegraph. A click on a row of the panel selects its frame or thread, and esc clears the selection.
func TestPanelFollowsTheSelection(t *testing.T) {
	s := hogged(t, 200, 60)
	for _, page := range []string{"1", "4"} {
		s.press(page, "esc", "esc", "esc")
		if page == "1" {
			s.press("tab")
		}
		s.press("/", "D", "B", "#", "q", "u", "e", "r", "y", "enter")
		if n := s.model.Flame.SelNode; n == nil || n.Label != "DB#query" {
			t.Fatal("the search selects DB#query")
		}
		s.sees("called by", "calls", "runs in", "itself")
		s.misses("hottest functions ─")
		if s.model.Panel.Rows >= 2*widget.LeastPanel {
			s.sees("hottest functions while it runs")
		}
		rows := strings.Split(s.text(), "\n")
		y := s.model.Height
		x := 0
		for i, row := range rows {
			if at := strings.Index(row, "called by"); at >= 0 {
				y, x = i+1, at
			}
		}
		caller := s.model.Panel.Callers[0].Label
		s.click(x+2, y)
		if n := s.model.Flame.SelNode; n == nil || n.Label != caller {
			t.Errorf("view %s: a click on %s did not select it:\n%s", page, caller, s.text())
		}
	}
}

// TestPanelTakesNoRowOfTheFlamegraph: the panel is drawn only if the flamegraph still has as many rows as it is deep.
// This is checked at every size of the screen. In the next picture, the panel is at the same place.
func TestPanelTakesNoRowOfTheFlamegraph(t *testing.T) {
	s := newScreen(t, 200, 50, demosource.Options{Length: 31 * time.Second}, scene.Options{})
	seen := 0
	for _, page := range []string{"1", "4"} {
		s.press(page)
		for w := scene.MinWidth; w <= 300; w += 60 {
			for h := scene.MinHeight; h <= 100; h += 14 {
				s.resize(w, h)
				s.resize(w, h)
				m := s.model
				before := m.Panel.Rows
				if before > 0 {
					seen++
					if m.Panel.FlameRows(&m.Scene) < len(m.Flame.Picture.Rows) || before < widget.LeastPanel {
						t.Errorf("view %s at %dx%d: %d rows for a depth of %d, the panel has %d", page, w, h, m.Panel.FlameRows(&m.Scene), len(m.Flame.Picture.Rows), before)
					}
				}
				tickOn(m)
				if m.Panel.Rows != before {
					t.Errorf("view %s at %dx%d: the panel moved from %d to %d rows", page, w, h, before, m.Panel.Rows)
				}
				checkRows(t, s, fmt.Sprintf("view %s at %dx%d", page, w, h))
			}
		}
	}
	if seen == 0 {
		t.Error("there was no panel at any size")
	}
}
