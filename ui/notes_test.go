package ui

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestNotesAreRecorded: the user writes a note during a recording. The note must be in the recording's file, and in a
// copy of the history. A replay shows the note at the moment for which it was written.
func TestNotesAreRecorded(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 3 * time.Second}, scene.Options{})
	before := sampler.Note{AtNS: s.model.LastNS, Text: "before"}
	rec, err := s.store.Record(filepath.Join(t.TempDir(), "x"), s.model.Shareable(), s.store.Dict.View(),
		[]sampler.Note{{AtNS: s.model.LastNS - 1, Text: "too early"}, before}, before.AtNS)
	if err != nil {
		t.Fatal(err)
	}
	s.press("[")
	at := s.model.AtNS
	s.press("m")
	s.typed("deploy")
	s.press("enter")
	s.sees("marked: deploy")
	// these samples come after the recording has begun
	for _, x := range record(t, demosource.Options{Length: 3 * time.Second}) {
		x.TimeNS += 3e9
		s.store.Feed(x)
	}
	if _, _, _, err := s.store.StopRecording(nil); err != nil {
		t.Fatal(err)
	}
	file, err := recording.Open(rec.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want := sampler.Note{AtNS: at, Text: "deploy"}
	if got := file.Notes(); !slices.Equal(got, []sampler.Note{want, before}) {
		t.Errorf("the recording has the notes %+v, want %+v", got, want)
	}
	var b bytes.Buffer
	if err := s.store.History.SaveAs(&b, s.model.Shareable(), s.store.Dict, math.MinInt64, math.MaxInt64, nil, s.model.Notes); err != nil {
		t.Fatal(err)
	}
	history, err := recording.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()), "history")
	if err != nil {
		t.Fatal(err)
	}
	defer history.Close()
	store, err := newStore(history, scene.Options{History: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, scene.Options{Replay: true})
	if err != nil {
		t.Fatal(err)
	}
	store.Run(t.Context())
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	replayed := &screen{t, m, store}
	replayed.sees("▼deploy")
}
