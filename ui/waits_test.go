package ui

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/locks"
	"github.com/ddtop/ddtop/ui/page/thread"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestWaitThreshold: lists do not show waits that are shorter than the threshold, but totals must include them.
func TestWaitThreshold(t *testing.T) {
	const threshold = 100 * time.Millisecond
	all := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second}, scene.Options{})
	some := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second}, scene.Options{WaitThreshold: threshold})
	none := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second}, scene.Options{WaitThreshold: time.Hour})
	pages := func(s *screen) *thread.Page {
		s.press("2")
		s.model.Selected = scene.RowKey{Thread: 2}
		s.model.Open(scene.PageThread)
		return s.model.pages[scene.PageThread].(*thread.Page)
	}
	a, b, c := pages(all), pages(some), pages(none)
	if !reflect.DeepEqual(a.Waits.Lengths, b.Waits.Lengths) || !reflect.DeepEqual(a.Waits.Lengths, c.Waits.Lengths) || a.WaitsText() != b.WaitsText() {
		t.Errorf("the totals differ: %s, %s, %s", a.WaitsText(), b.WaitsText(), c.WaitsText())
	}
	ended := int(a.Waits.Count())
	for i := range all.model.States {
		if ts := &all.model.States[i]; ts.Thread == 2 && ts.State == gvl.Waiting {
			ended-- // the wait is still in progress
		}
	}
	long := 0
	for _, e := range a.Waits.Longest {
		if e.LenNS >= int64(threshold) {
			long++
		}
	}
	if long == 0 || a.Waits.Short != 0 || len(b.Waits.Longest) < long || b.Waits.Short == 0 || len(c.Waits.Longest) != 0 || c.Waits.Short != ended {
		t.Errorf("%d long of %d; listed %d and %d, short %d and %d", long, ended, len(b.Waits.Longest), len(c.Waits.Longest), b.Waits.Short, c.Waits.Short)
	}
	for _, e := range b.Waits.Longest {
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
	p, q := all.model.pages[scene.PageLocks].(*locks.Page), none.model.pages[scene.PageLocks].(*locks.Page)
	if len(p.Locks.Rows) == 0 || p.ShortLocks != 0 || len(q.Locks.Rows) != 0 || q.ShortLocks != len(p.Locks.Rows) || p.WaitNS != q.WaitNS {
		t.Errorf("%d locks; with a threshold %d, and %d short", len(p.Locks.Rows), len(q.Locks.Rows), q.ShortLocks)
	}
	none.sees("for 1h00m or longer (--wait-threshold)")
}

// TestWaitLengthsFitASmallScreen: the quantiles of the waits' lengths fit on a screen of 80x24, for one thread and for
// all threads.
func TestWaitLengthsFitASmallScreen(t *testing.T) {
	s := hogged(t, 80, 24)
	s.press("2", "t") // without groups, each thread has its own row
	for range s.model.Threads {
		if s.model.Selected.Thread == 12 {
			break
		}
		s.press("down")
	}
	s.press("enter")
	s.sees("waits for the GVL", "p50 ", "p90 ", "max ", "p99 ")
	s.press("6")
	s.sees(" waits: p50 ", "p90 ", "p99 ", "max ")
}
