package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// TestUnreadableIsSaidOnce: not every time it is looked at, not while it may be starting, and anew when the PID is another
// process's.
func TestUnreadableIsSaidOnce(t *testing.T) {
	var text bytes.Buffer
	p := newPushing(nil, slog.New(slog.NewTextHandler(&text, nil)), time.Minute, nil)
	start := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	denied := sampler.Relative{PID: 17, StartTicks: 1, StartedAt: start, Title: "puma", Why: "not sampled: no permission"}
	list := []sampler.Relative{denied, {PID: 18, StartTicks: 1, StartedAt: start, NotRuby: true, Why: "no Ruby (/bin/sh)"}}
	said := func(after time.Duration) int {
		p.tell(list, start.Add(after))
		return strings.Count(text.String(), "can't be followed")
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{time.Second, 0}, {unreadableFor, 1}, {time.Hour, 1}} {
		if n := said(c.after); n != c.want {
			t.Errorf("after %v it was said %d times, want %d", c.after, n, c.want)
		}
	}
	list[0].StartTicks = 2
	if n := said(2 * time.Hour); n != 2 {
		t.Errorf("of another process of that PID: %d\n%s", n, &text)
	}
	list[0].EndedAt = start
	if said(3 * time.Hour); len(p.told) != 0 {
		t.Error("what has ended is remembered")
	}
}

func TestFirstPeriodsLieApart(t *testing.T) {
	p := newPushing(nil, nil, time.Minute, nil)
	seen := make(map[time.Duration]bool)
	for i := range 50 {
		d := p.firstPeriod()
		if d < 30*time.Second || d > time.Minute || i == 0 && d != time.Minute {
			t.Errorf("period %d is %v", i, d)
		}
		seen[d.Truncate(200*time.Millisecond)] = true
	}
	if len(seen) < 45 {
		t.Errorf("only %d different ones", len(seen))
	}
}
