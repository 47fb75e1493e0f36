package ui

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// TestTimelineUsesItsWidth: ddtop has watched a process for less time than the length of the window. The time axis must
// then cover only the time that ddtop has watched.
func TestTimelineUsesItsWidth(t *testing.T) {
	var s *screen
	for _, length := range []time.Duration{700 * time.Millisecond, 4 * time.Second, 13 * time.Second, 40 * time.Second} {
		s = newScreen(t, 80, 24, demosource.Options{Length: length}, scene.Options{})
		g, v := &s.model.Regions, &s.model.Timeline
		if known := time.Duration(v.ToNS - v.FromNS); known > length+time.Second || known < min(length, 30*time.Second)-time.Second {
			t.Errorf("after %v the axis covers %v", length, known)
		}
		blank := 0
		for x := range g.CellsW {
			if !s.model.grid.At(g.CellsX+x, g.Rows).Style.BG.IsSet() {
				blank++
			}
		}
		if blank > g.CellsW/3 {
			t.Errorf("after %v %d of %d columns are blank:\n%s", length, blank, g.CellsW, s.text())
		}
	}
	words := s.model.Timeline.Visible[0].Words()
	// The timeline has three forms of the text about a group's states, for narrower and narrower columns: long words,
	// short words, and letters.
	for _, c := range []struct {
		width int
		want  string
	}{{40, words}, {16, ""}, {9, ""}} {
		s.model.grid.Reset(40, 1)
		w := s.model.Timeline.Visible[0]
		s.model.Threads.States(w.Members).Draw(s.model.grid.Area().Sub(0, 0, c.width, 1), &s.model.Theme, s.model.Theme.Dimmed())
		got := strings.TrimSpace(s.text())
		if strings.Contains(got, "…") || got == "" || c.width < len(words) && strings.Contains(got, "·") {
			t.Errorf("in %d columns: %q", c.width, got)
		}
	}
}

// TestFewSamplesAreSaid: the picture says on how many samples it is based. If they are very few, it says so beside the
// number, even on the smallest terminal.
func TestFewSamplesAreSaid(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {200, 50}} {
		store, err := newStore(demosource.New(demosource.Options{Length: 3 * time.Second}), scene.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewModel(store, scene.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := &screen{t, m, store}
		begin := int64(0)
		_ = demosource.New(demosource.Options{Length: 3 * time.Second}).Run(context.Background(), func(x *sampler.Sample) {
			begin = cmp.Or(begin, x.TimeNS)
			if x.TimeNS-begin < int64(50*time.Millisecond) {
				store.Feed(x)
			}
		})
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		n := m.Flame.Tree.Samples
		if n == 0 || n >= widget.FewSamples {
			t.Fatalf("%d samples", n)
		}
		for _, page := range []string{"1", "4", "5"} {
			s.press(page)
			s.sees("only " + widget.Samples(n))
		}
		s.press("1", "w", "w") // the metric of waits needs no samples, because waits are measured one by one
		s.misses("only ")
	}
}

// TestHeadWithoutSamples: waits can be measured without samples. If the shown time has no samples, the head of the
// picture must not mention samples.
func TestHeadWithoutSamples(t *testing.T) {
	s := newScreen(t, 200, 50, demosource.Options{Length: 3 * time.Second}, scene.Options{})
	for _, page := range []string{"1", "4"} {
		s.press(page)
		s.model.Flame.Tree.Samples = 0
		draw(s.model)
		if s.model.Flame.Tree.Root.Total == 0 {
			t.Fatal("the picture is empty")
		}
		s.sees("── wall time")
		s.misses(" samples")
	}
}

// TestTimelineHasTwoThirds: the cells of the timeline have at least two thirds of the screen's width.
func TestTimelineHasTwoThirds(t *testing.T) {
	for _, width := range []int{80, 100, 120, 140, 160, 200, 300} {
		for _, longest := range []int{8, 20, 60} {
			r := scene.NewRegions(width, 40, scene.Demand{Rows: 20, Lanes: 1, Longest: longest, Timeline: true})
			if r.CellsW < width*2/3 || r.NameW < 10 || r.NowW < 5 {
				t.Errorf("of %d columns %d are cells, %d are names, %d say what is now", width, r.CellsW, r.NameW, r.NowW)
			}
		}
	}
}
