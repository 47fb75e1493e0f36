package ui

import (
	"maps"
	"math"
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/style"
)

// TestTopSumsLikeTheFlamegraph: self and total of each function are those of the tree, whatever is measured.
func TestTopSumsLikeTheFlamegraph(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("5", "I")
	p := s.model.pages[pageTop].(*topPage)
	for range style.Metrics {
		tree := flamegraph.NewBuilder(s.store.Dict).Build(&s.model.weights, flamegraph.Options{Metric: s.model.flame.metric})
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
		// Of allocations the page sums what was seen; the tree has the objects that it stands for, rounded by entry.
		near := func(got, want int64) bool { return got == want }
		if s.model.flame.metric == flamegraph.Allocations {
			near = func(got, want int64) bool {
				return math.Abs(float64(got)*float64(p.alloc.Objects)/float64(p.alloc.Seen)-float64(want)) < float64(len(s.model.weights.Entries))
			}
		}
		if !near(p.total[0]+p.total[1], tree.Root.Total) {
			t.Errorf("%s: the whole is %d, the tree's %d", style.MetricName(s.model.flame.metric), p.total[0]+p.total[1], tree.Root.Total)
		}
		seen := 0
		for _, r := range p.table.rows {
			seen++
			if !near(r.weight(bySelf), self[r.label]) || !near(r.weight(byTotal), total[r.label]) {
				t.Errorf("%s: self %d total %d, the tree says %d and %d", r.label, r.weight(bySelf), r.weight(byTotal), self[r.label], total[r.label])
			}
		}
		if seen == 0 {
			t.Errorf("%s: nothing listed", style.MetricName(s.model.flame.metric))
		}
		s.press("w")
	}
}

// TestTopOfOwnCode: every row but those that stand for a library is own code or called by it; its total is that of before, and all
// of the time is somebody's.
func TestTopOfOwnCode(t *testing.T) {
	r := newRequests(t)
	p := newTopPage(new(components))
	p.flame = &r.flameView
	sc := &scene{dict: r.dict}
	list := func(kind topKind, how folding) map[string][2]int64 {
		p.kind, r.folding = kind, how
		p.sum(&r.weights, &flamegraph.Snapshot{}, sc)
		p.sort()
		out := map[string][2]int64{}
		for _, row := range p.table.rows {
			out[row.label] = [2]int64{row.weight(bySelf), row.weight(byTotal)}
		}
		return out
	}
	for kind, want := range map[topKind]map[string][2]int64{
		topFunctions: {"OrdersController#index": {600, 600}, "OrdersController#show": {300, 300}, "⋯ puma": {100, 100}},
		topLines:     {"OrdersController#index": {600, 600}, "OrdersController#show": {300, 300}, "⋯ puma": {100, 100}},
		topFiles:     {"/app/orders.rb": {900, 900}, "⋯ puma": {100, 100}},
	} {
		if got := list(kind, foldLibraries); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", topKindNames[kind], got, want)
		}
	}
	if all := list(topFunctions, foldNothing); all["PG::Connection#exec"] != [2]int64{250, 250} || all["Puma#call_3"] != [2]int64{0, 1000} {
		t.Errorf("everything: %v", all)
	}
	if gems := list(topGems, foldLibraries); gems["puma 1.0"][1] != 1000 {
		t.Errorf("gems: %v", gems)
	}
	own := r.dict.InternFrame(sampler.Frame{Label: "Job#run", AbsolutePath: "/app/job.rb", Origin: sampler.OriginApp})
	each := r.dict.InternFrame(sampler.Frame{Label: "Array#each", C: true, Origin: sampler.OriginCore})
	block := r.dict.InternFrame(sampler.Frame{Label: "block in Job#run", AbsolutePath: "/app/job.rb", Line: 4, FirstLine: 4, Origin: sampler.OriginApp})
	r.weights.Entries = []flamegraph.Entry{
		{Key: flamegraph.Key{Thread: 1, Stack: r.dict.InternStackOf([]sampler.FrameID{each, block, each, own})}, Weights: flamegraph.Weights{WallNS: 7}},
		{Key: flamegraph.Key{Thread: 1, Stack: r.dict.InternStackOf([]sampler.FrameID{own})}, Weights: flamegraph.Weights{WallNS: 2}},
	}
	if got := list(topFunctions, foldLibraries); got["Array#each"] != [2]int64{7, 7} || got["Job#run"] != [2]int64{2, 9} || got["block in Job#run"] != [2]int64{0, 7} {
		t.Errorf("C functions that own code calls: %v", got)
	}
	if got := list(topLines, foldLibraries); len(got) != 2 || got["block in Job#run"] != [2]int64{7, 7} {
		t.Errorf("lines have the time of the C functions that they call: %v", got)
	}
}

func TestTopSortsAndTurns(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("5")
	s.sees("5 top", "functions by self", "JSON::Ext::Generator#generate", "idle hidden")
	p := s.model.pages[pageTop].(*topPage)
	for _, o := range []topOrder{byTotal, byBlame, bySelf} {
		s.press(">")
		s.sees("by " + string(o))
		for i := 1; i < len(p.table.rows); i++ {
			if p.table.rows[i].weight(o) > p.table.rows[i-1].weight(o) {
				t.Errorf("by %s: %s stands under %s", o, p.table.rows[i].label, p.table.rows[i-1].label)
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
	if s.model.page != pageLive || s.model.flame.selNode == nil || s.model.flame.search == nil {
		t.Error("enter finds the function in the flamegraph")
	}
}

func TestTopTrend(t *testing.T) {
	p := &topPage{total: [2]int64{300, 100}}
	for _, c := range []struct {
		before, now int64
		want        int
	}{{30, 10, 0}, {30, 15, +1}, {30, 5, -1}, {0, 1, 0}, {0, 5, +1}, {300, 100, 0}} {
		if got := p.trend(&topRow{self: [2]int64{c.before, c.now}}); got != c.want {
			t.Errorf("%d of 300, then %d of 100: %d, want %d", c.before, c.now, got, c.want)
		}
	}
	p.total[1] = 0
	if p.trend(&topRow{self: [2]int64{30, 0}}) != 0 {
		t.Error("a trend without recent time")
	}
}
