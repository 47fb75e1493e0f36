package ui

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// burdened adds to a sample some data that the made-up target does not have: swap, memory pressure, and allocations by
// class.
func burdened(s *sampler.Sample, n int) {
	s.Self.Priority = sampler.PriorityNormal
	p := &s.Proc
	p.SwapBytes = 48 << 20
	p.Pressure = sampler.Pressure{Source: sampler.PressureCgroup, MemorySomeNS: int64(n) * 130_123, MemoryFullNS: int64(n) * 20_000}
	k := float64(n / 500)
	a := &sampler.AllocClasses{Instants: uint64(10 * k), Seen: uint64(900 * k), Objects: 30_000.3 * k, Squares: 9.1e8 * k}
	for i, name := range []string{"String", "Array", "Order", sampler.AllocInternal} {
		part := a.Objects * []float64{.47, .28, .16, .09}[i]
		a.Classes = append(a.Classes, sampler.AllocClass{Name: name, Objects: part, Squares: part * part / k / 10, Products: part * a.Objects / k / 10})
	}
	if n >= 500 {
		s.Classes = a
	}
}

// TestReplayShowsWhatTheScreenShowed: at its end, the replay of a recording shows what the live screen showed at the
// same moment. Only the first and the last line differ, because they say whether the screen is live.
func TestReplayShowsWhatTheScreenShowed(t *testing.T) {
	src := demosource.New(demosource.Options{Length: 30 * time.Second})
	seen := screenOn(t, src, scene.Options{})
	var file bytes.Buffer
	rec, err := recording.NewWriter(&file, src.Process(), src.Dictionary())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = src.Run(t.Context(), func(s *sampler.Sample) {
		burdened(s, n)
		n++
		seen.store.Feed(s)
		if err := rec.Write(s); err != nil {
			t.Fatal(err)
		}
	})
	if err == nil {
		t.Fatal("the source did not end")
	}
	if err := rec.Close(nil); err != nil {
		t.Fatal(err)
	}
	r, err := recording.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()), "seen.ddtop")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	again := screenOn(t, r, scene.Options{Source: r, Replay: true})
	again.store.Run(t.Context())
	for _, s := range []*screen{seen, again} {
		s.resize(120, 40)
		s.model.Refresh()
	}
	for view := 1; view <= 7; view++ {
		width := 120
		if view == 3 { // with narrow cells, a live time axis moves only after two cells
			width = 90
		}
		for _, s := range []*screen{seen, again} {
			s.resize(width, 40)
			s.press(strconv.Itoa(view))
		}
		if view == 7 {
			again.sees("swapped out", "50 MB", "13 % (cgroup)", "≈ 47 % String, 28 % Array, 16 % Order")
		}
		if a, b := body(seen), body(again); a != b {
			t.Errorf("view %d:\n%s\nreplayed:\n%s", view, a, b)
		}
	}
	if seen.model.Figures.Priority != sampler.PriorityNormal || again.model.Figures.Priority != sampler.PriorityNormal {
		t.Errorf("priority %v, replayed %v", seen.model.Figures.Priority, again.model.Figures.Priority)
	}
	a, b := seen.model.Findings.List, again.model.Findings.List
	if len(a) == 0 || len(a) != len(b) {
		t.Fatalf("%v, replayed %v", a, b)
	}
	for i := range a {
		if a[i].String() != b[i].String() || a[i].SinceNS != b[i].SinceNS || a[i].Severity != b[i].Severity {
			t.Errorf("%+v, replayed %+v", a[i], b[i])
		}
	}
}

// screenOn returns a screen for a source that has not been read yet.
func screenOn(t *testing.T, src sampler.Source, o scene.Options) *screen {
	t.Helper()
	store, err := newStore(src, o.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, o.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	return &screen{t, m, store}
}

// body returns the screen without its first and last line, which say whether the screen is live.
func body(s *screen) string {
	lines := strings.Split(s.text(), "\n")
	return strings.Join(lines[1:len(lines)-1], "\n")
}
