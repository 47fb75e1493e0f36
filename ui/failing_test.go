package ui

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// unread is a source for tests. From the time sinceNS on, it reports that it cannot read the process.
type unread struct {
	sampler.Source
	sinceNS int64
	err     error
}

func (u *unread) Failing() (sinceNS int64, err error) { return u.sinceNS, u.err }

// TestReadsFail: while ddtop cannot read any sample, the screen says since when and why. It must not say LIVE.
func TestReadsFail(t *testing.T) {
	src := &unread{Source: demosource.New(demosource.Options{Length: 12 * time.Second})}
	store, err := newStore(src, scene.Options{}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Run(t.Context(), store.Feed); err != nil && !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	m.Update(tea.WindowSizeMsg{Width: 140, Height: 40})
	s := &screen{t, m, store}
	s.sees("● LIVE")
	last, _ := store.Newest()
	since := src.Process().WallTime(last).Format("15:04:05")

	src.sinceNS, src.err = last, errors.New("cannot allocate memory")
	m.Update(tickMsg(time.Now()))
	s.sees("✖ not read since "+since+": cannot allocate memory", "what was measured stays")
	s.misses("LIVE")
	before := s.line("✖")
	m.Update(tickMsg(time.Now().Add(time.Minute)))
	if after := s.line("✖"); after != before {
		t.Errorf("the clock goes on: %q, then %q", before, after)
	}
	s.press("[")
	if line := s.line("FROZEN"); !strings.Contains(line, "✖ not read since "+since) {
		t.Errorf("frozen it says %q", line)
	}
	s.press("space")

	src.sinceNS, src.err = 0, nil
	m.Update(tickMsg(time.Now()))
	s.sees("● LIVE")
	s.misses("not read since")
}
