package ui

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/store"
)

// TestWaitLengths: quantiles of a stretch of time against the sorted lengths, the longest exact.
func TestWaitLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w := store.NewWaitLog(time.Minute)
	var all []int64
	for range 5000 {
		ns := int64(math.Exp(r.Float64()*12)) * 1000
		second := int64(r.IntN(30))
		w.Add(&store.WaitEvent{EndNS: second * store.WaitSlotNS, LenNS: ns, LeastNS: ns, MostNS: ns})
		if second >= 10 && second <= 20 {
			all = append(all, ns)
		}
	}
	const longest = 777_777_777_777
	open := []gvl.Wait{{ToNS: longest, LeastNS: longest, MostNS: longest, InProgress: true}}
	all = append(all, longest)
	slices.Sort(all)
	got, n := w.Lengths(10*store.WaitSlotNS, 20*store.WaitSlotNS, open)
	if n != int64(len(all)) {
		t.Fatalf("%d waits, want %d", n, len(all))
	}
	for i, q := range store.WaitShares {
		want := all[int(math.Ceil(q*float64(len(all))))-1]
		if float64(got[i].NS) < 0.96*float64(want) || got[i].NS > want || got[i].Bound != gvl.AtLeast {
			t.Errorf("%g: %+v, want %d", q, got[i], want)
		}
	}
	if got[store.WaitMax].NS != longest {
		t.Errorf("the longest is %+v", got[store.WaitMax])
	}
	if got, n := w.Lengths(50*store.WaitSlotNS, 55*store.WaitSlotNS, nil); n != 0 || got != [len(store.WaitShares)]gvl.Bounded{} {
		t.Errorf("no waits: %v, %d", got, n)
	}
}

// TestWaitThreshold: it hides waits from lists, and changes no total.
func TestWaitThreshold(t *testing.T) {
	const threshold = 100 * time.Millisecond
	all := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second}, Options{})
	some := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second}, Options{WaitThreshold: threshold})
	none := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second}, Options{WaitThreshold: time.Hour})
	pages := func(s *screen) *threadPage {
		s.press("2")
		s.model.selected = rowKey{thread: 2}
		s.model.Open(pageThread)
		return s.model.pages[pageThread].(*threadPage)
	}
	a, b, c := pages(all), pages(some), pages(none)
	if !reflect.DeepEqual(a.waits.Lengths, b.waits.Lengths) || !reflect.DeepEqual(a.waits.Lengths, c.waits.Lengths) || a.waitsText() != b.waitsText() {
		t.Errorf("the totals differ: %s, %s, %s", a.waitsText(), b.waitsText(), c.waitsText())
	}
	ended := int(a.waits.Count())
	for i := range all.model.states {
		if ts := &all.model.states[i]; ts.Thread == 2 && ts.State == gvl.Waiting {
			ended-- // it goes on
		}
	}
	long := 0
	for _, e := range a.waits.Longest {
		if e.LenNS >= int64(threshold) {
			long++
		}
	}
	if long == 0 || a.waits.Short != 0 || len(b.waits.Longest) < long || b.waits.Short == 0 || len(c.waits.Longest) != 0 || c.waits.Short != ended {
		t.Errorf("%d long of %d; listed %d and %d, short %d and %d", long, ended, len(b.waits.Longest), len(c.waits.Longest), b.waits.Short, c.waits.Short)
	}
	for _, e := range b.waits.Longest {
		if e.LenNS < int64(threshold) {
			t.Errorf("a wait of %d ns is listed", e.LenNS)
		}
	}
	none.sees("longest waits for the GVL", "are shorter than 1h00m (--wait-threshold)")
	for _, s := range []*screen{all, none} {
		s.press("6")
	}
	if x, y := all.line(" waits: p50 "), none.line(" waits: p50 "); x != y || strings.Count(x, "≥")+strings.Count(x, "≤") != 4 {
		t.Errorf("%q, with a threshold %q", x, y)
	}
	p, q := all.model.pages[pageLocks].(*locksPage), none.model.pages[pageLocks].(*locksPage)
	if len(p.locks.rows) == 0 || p.shortLocks != 0 || len(q.locks.rows) != 0 || q.shortLocks != len(p.locks.rows) || p.waitNS != q.waitNS {
		t.Errorf("%d locks; with a threshold %d, and %d short", len(p.locks.rows), len(q.locks.rows), q.shortLocks)
	}
	none.sees("for 1h00m or longer (--wait-threshold)")
}

// TestWaitsInWords: waits that go on may become longer.
func TestWaitsInWords(t *testing.T) {
	f := figures{}
	if f.waitInWords(store.WaitP99) != "–" || f.waitsText() != "" {
		t.Errorf("%q %q", f.waitInWords(store.WaitP99), f.waitsText())
	}
	f.waits, f.waitTold = 1200, [len(store.WaitShares)]gvl.Bounded{{NS: 1e6}, {NS: 2e6}, {NS: 30e6}, {NS: 400e6}}
	if got := f.waitsText(); got != "1,200 waits: p50 1.0 ms  p90 2.0 ms  p99 30 ms  max 400 ms" {
		t.Error(got)
	}
	f.waitTold[store.WaitP99].Bound, f.waitTold[store.WaitMax].Bound = gvl.AtMost, gvl.AtLeast
	if got := f.waitInWords(store.WaitP99) + f.waitInWords(store.WaitMax); got != "≤30 ms≥400 ms" {
		t.Error(got)
	}
}

// Soon after boot the stretch of time on the screen begins before the clock does.
func TestWaitsAfterBoot(t *testing.T) {
	w := store.NewWaitLog(store.DefaultHistory)
	if _, n := w.Lengths(-29e9, 1e9, []gvl.Wait{{ToNS: 5e6, MostNS: 5e6, InProgress: true}}); n != 1 {
		t.Errorf("%d waits, want the one that goes on", n)
	}
}

// TestWaitLengthsFitASmallScreen: of a thread, and of all.
func TestWaitLengthsFitASmallScreen(t *testing.T) {
	s := hogged(t, 80, 24)
	s.press("2", "t") // every thread a row of its own: how many groups are open depends on the room there is
	for range s.model.threads {
		if s.model.selected.thread == 12 {
			break
		}
		s.press("down")
	}
	s.press("enter")
	s.sees("waits for the GVL", "p50 ", "p90 ", "max ", "p99 ")
	s.press("6")
	s.sees(" waits: p50 ", "p90 ", "p99 ", "max ")
}

// TestNoPlaceIsSelectedByItself: the place of which no stack was read is one like the others.
func TestNoPlaceIsSelectedByItself(t *testing.T) {
	p := newLocksPage(new(components))
	for _, b := range []flamegraph.PlaceSum{{Place: flamegraph.Place{Method: "Order#total"}, NS: 2}, {NS: 1}} {
		row := placeRow{&b}
		p.byPlace.rows, p.both.rows = append(p.byPlace.rows, row), append(p.both.rows, row.id())
	}
	if i := p.byPlace.index(); i != -1 {
		t.Errorf("row %d is selected", i)
	}
	p.move(nil, step{rows: maxRows})
	if i := p.byPlace.index(); i != 1 {
		t.Errorf("row %d is selected, of the last one", i)
	}
}
