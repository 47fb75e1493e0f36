package ui

import (
	"context"
	"errors"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
)

// TestStoppedProcess: every view says that nothing runs, at each size, and a look back at the time before does not.
func TestStoppedProcess(t *testing.T) {
	src := demosource.New(demosource.Options{Length: 30 * time.Second})
	o := Options{Folder: t.TempDir()}
	store, err := NewStore(src, o.withDefaults().History)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, o)
	if err != nil {
		t.Fatal(err)
	}
	first := int64(0)
	if err := src.Run(context.Background(), func(s *sampler.Sample) {
		if first == 0 {
			first = s.TimeNS
		}
		s.Proc.Stopped = s.TimeNS-first > 25e9
		store.Feed(s)
	}); !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	s := &screen{t, m, store}
	for _, size := range [][2]int{{60, 15}, {80, 24}, {120, 40}, {200, 50}} {
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for _, page := range []string{"1", "2", "3", "4", "5", "6", "7"} {
			s.press(page)
			s.sees("The process is stopped: a signal")
			if size[0] >= 80 {
				s.sees("PROCESS STOPPED")
			}
		}
	}
	s.press("1", "space")
	for range 20 {
		s.press("[")
	}
	s.sees("FROZEN")
	s.misses("is stopped", "PROCESS STOPPED")
}
