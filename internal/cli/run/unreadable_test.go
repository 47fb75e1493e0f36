package run

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// TestUnreadableIsSaidOnce: ddtop reports an unreadable process only once. It does so only when the process is older
// than unreadableFor, because a younger one may be starting. If another process gets the PID, ddtop reports this
// process too.
func TestUnreadableIsSaidOnce(t *testing.T) {
	times := 0
	p := teller{say: func(sampler.Relative) { times++ }, told: make(map[toldKey]bool)}
	start := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	denied := sampler.Relative{PID: 17, StartTicks: 1, StartedAt: start, Title: "puma", Why: "not sampled: no permission"}
	list := []sampler.Relative{denied, {PID: 18, StartTicks: 1, StartedAt: start, NotRuby: true, Why: "no Ruby (/bin/sh)"}}
	said := func(after time.Duration) int {
		p.tell(list, start.Add(after))
		return times
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
		t.Errorf("of another process of that PID: %d", n)
	}
	list[0].EndedAt = start
	if said(3 * time.Hour); len(p.told) != 0 {
		t.Error("what has ended is remembered")
	}
}
