package ui

import (
	"math"
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
)

// TestTopSumsLikeTheFlamegraph: self and total of each function are those of the tree, whatever is measured.
func TestTopSumsLikeTheFlamegraph(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("5", "I")
	p := s.model.pages[pageTop].(*topPage)
	for range metrics {
		tree := flamegraph.NewBuilder(s.store.dict).Build(&s.model.weights, flamegraph.Options{Metric: s.model.flame.metric})
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
			t.Errorf("%s: the whole is %d, the tree's %d", metricName(s.model.flame.metric), p.total[0]+p.total[1], tree.Root.Total)
		}
		seen := 0
		for _, r := range p.table.rows {
			seen++
			if !near(r.weight(bySelf), self[r.label]) || !near(r.weight(byTotal), total[r.label]) {
				t.Errorf("%s: self %d total %d, the tree says %d and %d", r.label, r.weight(bySelf), r.weight(byTotal), self[r.label], total[r.label])
			}
		}
		if seen == 0 {
			t.Errorf("%s: nothing listed", metricName(s.model.flame.metric))
		}
		s.press("w")
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
