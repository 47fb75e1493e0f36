package ui

import (
	"context"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// youngSource is a source for tests. When ddtop attached to its program, the program had already run for the time in
// the field age.
type youngSource struct {
	*demosource.Source
	age time.Duration
}

func (y youngSource) Process() sampler.Process {
	p := y.Source.Process()
	p.StartedAt = p.AttachedAt.Add(-y.age)
	return p
}

// TestAStartNamesNoTimes: before the first sample ddtop knows no times. So the screen must show no uptime, and no times
// on the axis.
func TestAStartNamesNoTimes(t *testing.T) {
	src := youngSource{demosource.New(demosource.Options{}), time.Hour}
	store, err := newStore(src, scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.Update(tea.WindowSizeMsg{Width: 200, Height: 50})
	s := &screen{t, m, store}
	s.sees("order-service", "waiting for the first sample")
	s.misses(" up ", " -0")
}

// TestNoFindingsIsSaidOnceTheyWereLookedFor: a program has just started, or ddtop has just attached. The rules for
// findings need data of a longer time. Until then, the screen says that it is too early. It must not say that nothing
// stands out.
func TestNoFindingsIsSaidOnceTheyWereLookedFor(t *testing.T) {
	const young, new, quiet = "the program has just started", "measuring for a few seconds", "no findings: nothing stands out"
	for _, c := range []struct {
		age, length time.Duration
		want        string
	}{
		{0, 2 * time.Second, young}, {0, 8 * time.Second, young}, {0, 11 * time.Second, quiet}, {4 * time.Second, 7 * time.Second, quiet},
		{time.Hour, 4 * time.Second, new}, {time.Hour, 6 * time.Second, quiet},
	} {
		s := endsWith(t, youngSource{demosource.New(demosource.Options{Length: c.length}), c.age}, scene.Options{}, 120, 40)
		setDone(s.store, false)
		s.model.Refresh()
		s.sees(c.want)
		for _, other := range []string{young, new, quiet} {
			if other != c.want {
				s.misses(other)
			}
		}
		over := map[string]string{young: "too early to judge: the program had just started", new: "too early to judge: only a few seconds", quiet: quiet}[c.want]
		s.press("space") // freeze at a moment of the past
		s.sees(over)
		s.press("space")
		setDone(s.store, true)
		s.model.Refresh()
		s.sees("■ exited", over)
	}
}

// leakingSource is a source whose memory grows by 2.6 MB each second.
type leakingSource struct{ *demosource.Source }

func (l leakingSource) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	first := int64(0)
	return l.Source.Run(ctx, func(s *sampler.Sample) {
		if first == 0 {
			first = s.TimeNS
		}
		s.Proc.AtNS, s.Proc.RSSBytes = s.TimeNS, 119_000_000+(s.TimeNS-first)*26/10_000
		emit(s)
	})
}

// TestMemoryThatGrowsIsSaid: memory grows, but not enough for a finding. The screen must report the growth, and must
// not show the green tick of "no findings".
func TestMemoryThatGrowsIsSaid(t *testing.T) {
	const none, grows = "✓ no findings: nothing stands out", "… no findings yet; memory grows by 2.6 MB per second (119 MB to 18"
	quiet := demosource.Options{Length: 26 * time.Second, HogAfter: -1}
	for src, want := range map[sampler.Source]string{demosource.New(quiet): none, leakingSource{demosource.New(quiet)}: grows} {
		s := endsWith(t, src, scene.Options{}, 120, 40)
		setDone(s.store, false)
		s.model.Refresh()
		for _, key := range []string{"space", "space"} { // first live, then at a moment of the past
			s.sees(want)
			s.press(key)
		}
		for _, other := range []string{none, grows} {
			if other != want {
				s.misses(other)
			}
		}
	}
}
