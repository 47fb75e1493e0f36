package ui

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/store"
)

func (s *screen) waitsPage() *waitsPage { return s.model.pages[pageWaits].(*waitsPage) }

// settled gives the screen what the commands of keys read.
func (s *screen) settled(keys ...string) {
	s.t.Helper()
	for _, cmd := range s.press(keys...) {
		settle(s.model, cmd)
	}
}

// TestWaitsListed: the list has the longest waits there are and the last ones, by thread and by search only those, and what is not
// listed is counted.
func TestWaitsListed(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second, Serving: true}, Options{})
	s.press("0")
	p := s.waitsPage()
	var all []store.WaitEvent
	s.store.Read(func(r *store.Reading) {
		r.Waits.Events.Each(s.model.atNS-s.model.windowNS, s.model.atNS, func(e *store.WaitEvent) { all = append(all, *e) })
	})
	open := 0
	for _, st := range s.model.states {
		if st.State == gvl.Waiting {
			open++
		}
	}
	if int(p.all) != len(all)+open || len(all) <= 2*maxListedWaits {
		t.Fatalf("%d waits, the log has %d and %d go on", p.all, len(all), open)
	}
	var sum int64
	for _, n := range p.counts {
		sum += n
	}
	if sum != p.all {
		t.Errorf("the histogram has %d of %d waits", sum, p.all)
	}
	has := make(map[store.WaitKey]bool)
	for _, w := range p.table.rows {
		has[w.id()] = true
	}
	if len(has) != len(p.table.rows) || len(has) < maxListedWaits || len(has) > 2*maxListedWaits {
		t.Errorf("%d rows, %d of them different", len(p.table.rows), len(has))
	}
	for _, e := range all[len(all)-maxListedWaits+open:] {
		if !has[e.Key()] {
			t.Errorf("the wait of %d that ended at %d is one of the last and not listed", e.Thread, e.EndNS)
		}
	}
	slices.SortFunc(all, func(x, y store.WaitEvent) int { return int(y.LenNS - x.LenNS) })
	for _, e := range all[:maxListedWaits-open] {
		if e.LenNS > all[maxListedWaits].LenNS && !has[e.Key()] {
			t.Errorf("a wait of %d ns is one of the longest and not listed", e.LenNS)
		}
	}
	s.sees("listed: the first and the last")

	s.press("down", "t")
	thread := p.table.rows[0].Thread
	of := 0
	for i := range all {
		if all[i].Thread == thread {
			of++
		}
	}
	for _, w := range p.table.rows {
		if w.Thread != thread {
			t.Fatalf("a wait of %s among those of %s", w.name, p.nameOf(thread, &s.model.scene))
		}
	}
	if int(p.all) < of || int(p.all) > of+1 {
		t.Errorf("%d waits of one thread, the log has %d", p.all, of)
	}
	s.sees(" of " + p.table.rows[0].name)
	s.press("esc")
	for search, field := range map[string]func(*waitRow) string{
		"http-3":       func(w *waitRow) string { return w.name },
		"DB#query":     func(w *waitRow) string { return w.code },
		"carts#create": func(w *waitRow) string { return w.request },
	} {
		s.press("/")
		s.typed(search)
		s.press("enter")
		found := 0
		for _, w := range p.table.rows {
			if strings.Contains(field(w), search) {
				found++
			}
		}
		if found == 0 || p.all >= int64(len(all)) {
			t.Errorf("%s: found %d of %d rows, %d waits", search, found, len(p.table.rows), p.all)
		}
		s.press("esc")
	}
	if int(p.all) != len(all)+open {
		t.Errorf("%d waits after the search", p.all)
	}
}

// TestWaitsSorted: by each column, either way, whatever is listed is in order.
func TestWaitsSorted(t *testing.T) {
	s := hogged(t, 200, 50)
	s.press("0")
	p := s.waitsPage()
	for range 2 * len(p.table.orders()) {
		compare := waitOrders[p.table.by]
		if !slices.IsSortedFunc(p.table.rows, func(x, y *waitRow) int {
			if p.table.reverse {
				return -compare(&x.WaitEvent, &y.WaitEvent)
			}
			return compare(&x.WaitEvent, &y.WaitEvent)
		}) {
			t.Errorf("not sorted by %s, reversed %v", p.table.by, p.table.reverse)
		}
		s.press("r")
		if !p.table.reverse {
			s.press(">")
		}
	}
}

// TestAWaitOnTheTimeline: enter leads there, the cursor where the wait began, and esc comes back to the same list.
func TestAWaitOnTheTimeline(t *testing.T) {
	s := hogged(t, 120, 40)
	s.settled("0", "down", "down")
	s.sees(" waited ", "behind ", "the selected wait")
	w := *s.waitsPage().table.rows[1]
	s.settled("enter")
	p := s.model.pages[pageTimeline].(*timelinePage)
	if s.model.page != pageTimeline || p.cursorNS != w.FromNS() || s.model.selected.thread != w.Thread || !s.model.frozen {
		t.Fatalf("page %s, cursor at %d of a wait from %d on", s.model.page, p.cursorNS, w.FromNS())
	}
	s.sees("FROZEN", "▼")
	s.settled("esc")
	if got := s.waitsPage().table; s.model.page != pageWaits || got.index() < 0 || got.rows[got.index()].id() != w.id() {
		t.Errorf("page %s, row %d", s.model.page, got.index())
	}
}

// TestWaitChainsAddUp: the parts of a wait's time are all of it, of every wait that is listed first.
func TestWaitChainsAddUp(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("0")
	const looked = 20
	for i, w := range s.waitsPage().table.rows[:looked] {
		c := s.store.Chain(&w.WaitEvent)
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		var sum int64
		for _, x := range chainParts(&c, &s.model.scene) {
			sum += x.ns
		}
		if sum != w.LenNS || len(c.Sum.Parts) == 0 {
			t.Errorf("wait %d: parts of %d ns, it took %d; %d holders", i, sum, w.LenNS, len(c.Sum.Parts))
		}
	}
}
