package ui

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/timeline"
	"github.com/ddtop/ddtop/ui/page/waits"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

func (s *screen) waitsPage() *waits.Page { return s.model.pages[scene.PageWaits].(*waits.Page) }

// settled presses keys and passes the results of their commands to the screen.
func (s *screen) settled(keys ...string) {
	s.t.Helper()
	for _, cmd := range s.press(keys...) {
		settle(s.model, cmd)
	}
}

// TestWaitsListed: the list has the longest and the latest waits for the GVL. The user can limit it to one thread or by
// a search. The view says how many waits the list leaves out.
func TestWaitsListed(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second, Serving: true}, scene.Options{})
	s.press("0")
	p := s.waitsPage()
	var all []store.WaitEvent
	s.store.Read(func(r *store.Reading) {
		r.Waits.Events.ForEach(s.model.AtNS-s.model.WindowNS, s.model.AtNS, func(e *store.WaitEvent) { all = append(all, *e) })
	})
	open := 0
	for _, st := range s.model.States {
		if st.State == gvl.Waiting {
			open++
		}
	}
	if int(p.All) != len(all)+open || len(all) <= 2*waits.MaxListedWaits {
		t.Fatalf("%d waits, the log has %d and %d go on", p.All, len(all), open)
	}
	var sum int64
	for _, n := range p.Counts {
		sum += n
	}
	if sum != p.All {
		t.Errorf("the histogram has %d of %d waits", sum, p.All)
	}
	has := make(map[store.WaitKey]bool)
	for _, w := range p.Table.Rows {
		has[w.ID()] = true
	}
	if len(has) != len(p.Table.Rows) || len(has) < waits.MaxListedWaits || len(has) > 2*waits.MaxListedWaits {
		t.Errorf("%d rows, %d of them different", len(p.Table.Rows), len(has))
	}
	for _, e := range all[len(all)-waits.MaxListedWaits+open:] {
		if !has[e.Key()] {
			t.Errorf("the wait of %d that ended at %d is one of the last and not listed", e.Thread, e.EndNS)
		}
	}
	slices.SortFunc(all, func(x, y store.WaitEvent) int { return int(y.LenNS - x.LenNS) })
	for _, e := range all[:waits.MaxListedWaits-open] {
		if e.LenNS > all[waits.MaxListedWaits].LenNS && !has[e.Key()] {
			t.Errorf("a wait of %d ns is one of the longest and not listed", e.LenNS)
		}
	}
	s.sees("listed: the longest and the latest")

	s.press("down", "t")
	thread := p.Table.Rows[0].Thread
	of := 0
	for i := range all {
		if all[i].Thread == thread {
			of++
		}
	}
	for _, w := range p.Table.Rows {
		if w.Thread != thread {
			t.Fatalf("a wait of %s among those of %s", w.Name, p.NameOf(thread, &s.model.Scene))
		}
	}
	if int(p.All) < of || int(p.All) > of+1 {
		t.Errorf("%d waits of one thread, the log has %d", p.All, of)
	}
	s.sees(" of " + p.Table.Rows[0].Name)
	s.press("esc")
	for search, field := range map[string]func(*waits.WaitRow) string{
		"http-3":       func(w *waits.WaitRow) string { return w.Name },
		"DB#query":     func(w *waits.WaitRow) string { return w.Code },
		"carts#create": func(w *waits.WaitRow) string { return w.Request },
	} {
		s.press("/")
		s.typed(search)
		s.press("enter")
		found := 0
		for _, w := range p.Table.Rows {
			if strings.Contains(field(w), search) {
				found++
			}
		}
		if found == 0 || p.All >= int64(len(all)) {
			t.Errorf("%s: found %d of %d rows, %d waits", search, found, len(p.Table.Rows), p.All)
		}
		s.press("esc")
	}
	if int(p.All) != len(all)+open {
		t.Errorf("%d waits after the search", p.All)
	}
}

// TestWaitsSorted: the list of waits can be sorted by each column, in both directions.
func TestWaitsSorted(t *testing.T) {
	s := hogged(t, 200, 50)
	s.press("0")
	p := s.waitsPage()
	for range 2 * len(p.Table.Orders()) {
		compare := waits.WaitOrders[p.Table.By]
		if !slices.IsSortedFunc(p.Table.Rows, func(x, y *waits.WaitRow) int {
			if p.Table.Reverse {
				return -compare(&x.WaitEvent, &y.WaitEvent)
			}
			return compare(&x.WaitEvent, &y.WaitEvent)
		}) {
			t.Errorf("not sorted by %s, reversed %v", p.Table.By, p.Table.Reverse)
		}
		s.press("r")
		if !p.Table.Reverse {
			s.press(">")
		}
	}
}

// TestAWaitOnTheTimeline: enter on a wait in the list opens the timeline, with the cursor at the beginning of the wait.
// Esc returns to the same row of the list.
func TestAWaitOnTheTimeline(t *testing.T) {
	s := hogged(t, 120, 40)
	s.settled("0", "down", "down")
	s.sees(" waited ", "behind ", "the selected wait")
	w := *s.waitsPage().Table.Rows[1]
	s.settled("enter")
	p := s.model.pages[scene.PageTimeline].(*timeline.Page)
	if s.model.Page != scene.PageTimeline || p.CursorNS != w.FromNS() || s.model.Selected.Thread != w.Thread || !s.model.Frozen {
		t.Fatalf("page %s, cursor at %d of a wait from %d on", s.model.Page, p.CursorNS, w.FromNS())
	}
	s.sees("FROZEN", "▼")
	s.settled("esc")
	if got := s.waitsPage().Table; s.model.Page != scene.PageWaits || got.Index() < 0 || got.Rows[got.Index()].ID() != w.ID() {
		t.Errorf("page %s, row %d", s.model.Page, got.Index())
	}
}

// TestWaitChainsAddUp: the view divides a wait for the GVL into parts. Each part has one reason for the delay, such as
// one holder of the GVL. The lengths of the parts must add up to the wait's length. The test checks the first 20 waits
// of the list.
func TestWaitChainsAddUp(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("0")
	const looked = 20
	for i, w := range s.waitsPage().Table.Rows[:looked] {
		c := s.store.Chain(&w.WaitEvent)
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		var sum int64
		for _, x := range waits.ChainParts(&c, &s.model.Scene) {
			sum += x.NS
		}
		if sum != w.LenNS || len(c.Sum.Parts) == 0 {
			t.Errorf("wait %d: parts of %d ns, it took %d; %d holders", i, sum, w.LenNS, len(c.Sum.Parts))
		}
	}
}

// TestNoColumnsOfModeThatEnded: some columns need the exact waits that exact mode measures. After exact mode has ended,
// most waits are known only from samples. So these columns must disappear. If the list was sorted by such a column, it
// must be sorted by length again.
func TestNoColumnsOfModeThatEnded(t *testing.T) {
	src := demosource.New(demosource.Options{Length: 12 * time.Second, Exact: true})
	st, err := newStore(src, scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(st, scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t, m, st}
	s.resize(120, 40)
	begin, looked := int64(0), false
	_ = src.Run(t.Context(), func(x *sampler.Sample) {
		if begin = cmp.Or(begin, x.TimeNS); x.TimeNS-begin > 2e9 {
			if !looked {
				looked = true
				s.press("0")
				s.sees("hand-over", "no CPU")
				for s.waitsPage().Table.By != "hand-over" {
					s.press(">")
				}
			}
			x.Changes = sampler.Changes{}
		}
		st.Feed(x)
	})
	s.model.Refresh()
	s.press("0")
	head := s.line("began ")
	if !looked || strings.Contains(head, "hand-over") || strings.Contains(head, "no CPU") || !strings.Contains(head, "length▼") {
		t.Errorf("the columns are %s", head)
	}
}
