package ui

import (
	"context"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// screen is a Model over a made-up target, driven by key presses.
type screen struct {
	t     testing.TB
	model *Model
	store *store.Store
}

// newScreen plays the made-up order service to its end and returns the screen as it is then.
func newScreen(t testing.TB, w, h int, d demosource.Options, o scene.Options) *screen {
	t.Helper()
	src := demosource.New(d)
	store, err := newStore(src, o.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Run(context.Background(), store.Feed); err == nil {
		t.Fatal("the source did not end")
	}
	m.Update(tea.WindowSizeMsg{Width: w, Height: h})
	return &screen{t, m, store}
}

// press presses keys, as tea.Key.String names them, and returns the commands that they led to.
func (s *screen) press(keys ...string) []tea.Cmd {
	s.t.Helper()
	var cmds []tea.Cmd
	for _, k := range keys {
		if _, cmd := s.model.Update(keyPress(k)); cmd != nil {
			cmds = append(cmds, cmd)
		}
	}
	return cmds
}

func (s *screen) text() string { return s.model.grid.Text() }

// record returns the samples of a made-up target.
func record(t testing.TB, d demosource.Options) []*sampler.Sample {
	t.Helper()
	out, err := demosource.Samples(d)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *screen) resize(w, h int) { s.model.Update(tea.WindowSizeMsg{Width: w, Height: h}) }

// setDone says of a Store whether more samples come.
func setDone(s *store.Store, done bool) {
	state := s.State()
	state.Done = done
	s.SetState(state)
}

// newestNS is the time of the newest sample of a Store.
func newestNS(s *store.Store) int64 {
	atNS, _ := s.Newest()
	return atNS
}
