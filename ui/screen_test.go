package ui

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// screen is a screen for tests that shows a made-up target. The test presses keys and reads the picture.
type screen struct {
	t     testing.TB
	model *Model
	store *store.Store
}

// newScreen plays the made-up order service to its end, and returns a screen that shows the service at its end.
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

// played caches the Stores that several tests share. Each Store has all samples of one made-up target.
var played = make(map[string]*store.Store)

// shared is like newScreen, but takes the Store from played, because it takes most of a test's time to play a target. A
// test that changes the Store must use newScreen. It changes the Store if it feeds samples, records, presents or sets
// the Store's state. Some options would change the Store, too. So o has no history, no rules and no Redactor.
func shared(t testing.TB, w, h int, d demosource.Options, o scene.Options) *screen {
	t.Helper()
	key := fmt.Sprintf("%+v", d)
	if played[key] == nil {
		played[key] = newScreen(t, w, h, d, scene.Options{}).store
	}
	s := &screen{t: t, store: played[key]}
	type state struct {
		newest int64
		source store.SourceState
		rec    *store.Recorder
		hides  bool // true if the dictionary hides directories
	}
	now := func() state {
		return state{newestNS(s.store), s.store.State(), s.store.Rec, s.store.Dict.HidesDirectories()}
	}
	before := now()
	t.Cleanup(func() {
		if after := now(); !reflect.DeepEqual(after, before) {
			t.Errorf("the test changed the Store that it shares from %+v to %+v", before, after)
			delete(played, key)
		}
	})
	var err error
	if s.model, err = NewModel(s.store, o); err != nil {
		t.Fatal(err)
	}
	s.resize(w, h)
	return s
}

// press presses keys, whose names are as in tea.Key.String. It returns the commands that result.
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

// setDone sets in a Store whether its source has ended.
func setDone(s *store.Store, done bool) {
	state := s.State()
	state.Done = done
	s.SetState(state)
}

// newestNS returns the time of a Store's newest sample.
func newestNS(s *store.Store) int64 {
	atNS, _ := s.Newest()
	return atNS
}
