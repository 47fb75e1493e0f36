package ui

import (
	"maps"
	"math"
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/page/top"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// TestTopSumsLikeTheFlamegraph: for every metric, the columns self and total of the top list must equal the sums over
// the flamegraph.
func TestTopSumsLikeTheFlamegraph(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("5", "I")
	p := s.model.pages[scene.PageTop].(*top.Page)
	for range style.Metrics {
		tree := flamegraph.NewBuilder(s.store.Dict).Build(&s.model.Weights, flamegraph.Options{Metric: s.model.Flame.Metric})
		self, total := map[string]int64{}, map[string]int64{}
		var walk func(n *flamegraph.Node, above map[string]bool)
		walk = func(n *flamegraph.Node, above map[string]bool) {
			first := n.Kind == flamegraph.FrameNode && !above[n.Label]
			if n.Kind == flamegraph.FrameNode {
				self[n.Label] += n.Self
			}
			if first {
				total[n.Label] += n.Total
				above[n.Label] = true
			}
			for _, c := range n.Children {
				walk(c, above)
			}
			if first {
				delete(above, n.Label)
			}
		}
		walk(tree.Root, map[string]bool{})
		// For allocations, the top list adds up the objects that ddtop has seen. The flamegraph has estimates of all
		// objects, and rounds them for each entry. So the two sums may differ a little.
		near := func(got, want int64) bool { return got == want }
		if s.model.Flame.Metric == flamegraph.Allocations {
			near = func(got, want int64) bool {
				return math.Abs(float64(got)*float64(p.Alloc.Objects)/float64(p.Alloc.Seen)-float64(want)) < float64(len(s.model.Weights.Entries))
			}
		}
		if !near(p.Total[0]+p.Total[1], tree.Root.Total) {
			t.Errorf("%s: the whole is %d, the tree's %d", style.MetricName(s.model.Flame.Metric), p.Total[0]+p.Total[1], tree.Root.Total)
		}
		seen := 0
		for _, r := range p.Table.Rows {
			seen++
			if !near(r.Weight(widget.BySelf), self[r.Label]) || !near(r.Weight(widget.ByTotal), total[r.Label]) {
				t.Errorf("%s: self %d total %d, the tree says %d and %d", r.Label, r.Weight(widget.BySelf), r.Weight(widget.ByTotal), self[r.Label], total[r.Label])
			}
		}
		if seen == 0 {
			t.Errorf("%s: nothing listed", style.MetricName(s.model.Flame.Metric))
		}
		s.press("w")
	}
}

// TestTopOfOwnCode: in this test the flamegraph folds libraries. Each row of the top list must be one of three things:
// a function of the program, a C function that the program calls, or a whole library. The sum of the rows is all of the
// time.
func TestTopOfOwnCode(t *testing.T) {
	r := newRequests(t)
	p := top.New(new(widget.Parts))
	p.Flame = &r.Flame
	sc := &scene.Scene{Dict: r.dict}
	list := func(kind top.TopKind, how widget.Folding) map[string][2]int64 {
		p.Kind, r.Folding = kind, how
		p.Sum(&r.weights, &flamegraph.Snapshot{}, sc)
		p.Sort()
		out := map[string][2]int64{}
		for _, row := range p.Table.Rows {
			out[row.Label] = [2]int64{row.Weight(widget.BySelf), row.Weight(widget.ByTotal)}
		}
		return out
	}
	for kind, want := range map[top.TopKind]map[string][2]int64{
		top.TopFunctions: {"OrdersController#index": {600, 600}, "OrdersController#show": {300, 300}, "⋯ puma": {100, 100}},
		top.TopLines:     {"OrdersController#index": {600, 600}, "OrdersController#show": {300, 300}, "⋯ puma": {100, 100}},
		top.TopFiles:     {"/app/orders.rb": {900, 900}, "⋯ puma": {100, 100}},
	} {
		if got := list(kind, widget.FoldLibraries); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", top.TopKindNames[kind], got, want)
		}
	}
	if all := list(top.TopFunctions, widget.FoldNothing); all["PG::Connection#exec"] != [2]int64{250, 250} || all["Puma#call_3"] != [2]int64{0, 1000} {
		t.Errorf("everything: %v", all)
	}
	if gems := list(top.TopGems, widget.FoldLibraries); gems["puma 1.0"][1] != 1000 {
		t.Errorf("gems: %v", gems)
	}
	own := r.dict.InternFrame(sampler.Frame{Label: "Job#run", AbsolutePath: "/app/job.rb", Origin: sampler.OriginApp})
	each := r.dict.InternFrame(sampler.Frame{Label: "Array#each", C: true, Origin: sampler.OriginCore})
	block := r.dict.InternFrame(sampler.Frame{Label: "block in Job#run", AbsolutePath: "/app/job.rb", Line: 4, FirstLine: 4, Origin: sampler.OriginApp})
	r.weights.Entries = []flamegraph.Entry{
		{Key: flamegraph.Key{Thread: 1, Stack: r.dict.InternStackOf([]sampler.FrameID{each, block, each, own})}, Weights: flamegraph.Weights{WallNS: 7}},
		{Key: flamegraph.Key{Thread: 1, Stack: r.dict.InternStackOf([]sampler.FrameID{own})}, Weights: flamegraph.Weights{WallNS: 2}},
	}
	if got := list(top.TopFunctions, widget.FoldLibraries); got["Array#each"] != [2]int64{7, 7} || got["Job#run"] != [2]int64{2, 9} || got["block in Job#run"] != [2]int64{0, 7} {
		t.Errorf("C functions that own code calls: %v", got)
	}
	if got := list(top.TopLines, widget.FoldLibraries); len(got) != 2 || got["block in Job#run"] != [2]int64{7, 7} {
		t.Errorf("lines have the time of the C functions that they call: %v", got)
	}
}

func TestTopSortsAndTurns(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("5")
	s.sees("5 top", "functions by self", "JSON::Ext::Generator#generate", "idle hidden")
	p := s.model.pages[scene.PageTop].(*top.Page)
	for _, o := range []widget.TopOrder{widget.ByTotal, widget.ByBlame, widget.BySelf} {
		s.press(">")
		s.sees("by " + string(o))
		for i := 1; i < len(p.Table.Rows); i++ {
			if p.Table.Rows[i].Weight(o) > p.Table.Rows[i-1].Weight(o) {
				t.Errorf("by %s: %s stands under %s", o, p.Table.Rows[i].Label, p.Table.Rows[i-1].Label)
			}
		}
	}
	s.press("right")
	s.sees("lines by self", "json/common.rb:244")
	s.press("right")
	s.sees("gems by self", "stdlib")
	s.press("right")
	s.sees("files by self", "/srv/app/app/reports.rb")
	s.press("right", "down", "enter")
	if s.model.Page != scene.PageLive || s.model.Flame.SelNode == nil || s.model.Flame.Search == nil {
		t.Error("enter finds the function in the flamegraph")
	}
}
