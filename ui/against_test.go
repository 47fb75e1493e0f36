package ui

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/top"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// otherOf returns a made-up recording, with which the test compares the process on the screen.
func otherOf(t *testing.T, d demosource.Options) *scene.Against {
	t.Helper()
	x, err := LoadAgainst(context.Background(), demosource.New(d), "before.ddtop", scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// againstScreen returns a screen that shows 30 s of the made-up process. The screen compares these 30 s with the first
// 10 s, in which no thread hogs the GVL.
func againstScreen(t *testing.T, w, h int) *screen {
	t.Helper()
	return newScreen(t, w, h, demosource.Options{Length: 30 * time.Second}, scene.Options{Folder: t.TempDir(), Against: otherOf(t, demosource.Options{Length: 10 * time.Second})})
}

// TestAgainst: the flamegraph and the top list show how the process differs from another recording. For this, ddtop
// scales the recording's times to the length of the time on the screen.
func TestAgainst(t *testing.T) {
	s := againstScreen(t, 160, 50)
	s.press("4")
	s.sees("compared with before.ddtop: ", "own time against before.ddtop: ", ", in points:")
	f := &s.model.Flame
	if !f.Comparing() || f.BaseKind != widget.AgainstBase || len(f.Changes) == 0 {
		t.Fatalf("nothing is compared: %v", f.Changes)
	}
	// If the changes of all functions' own time are added up, the sum is the change of the whole. Only changes that are
	// too small to be listed are missing.
	var own float64
	for _, c := range f.Changes {
		own += c.Share
	}
	whole := f.Diff[f.Whole.Root]
	if math.Abs(own-whole) > widget.LeastChange*float64(f.Whole.Nodes) || math.Abs(whole) > 10 {
		t.Errorf("functions have changed by %v in all, the whole by %v", own, whole)
	}
	var parts float64
	for _, n := range f.Whole.Root.Children {
		parts += f.Diff[n]
	}
	if parts > 1+1e-6 {
		t.Errorf("what is there now has grown by %v of it", parts)
	}

	s.press("5")
	s.sees("before", "change", "against before.ddtop: ")
	top := s.model.pages[scene.PageTop].(*top.Page)
	was := int64(0)
	for _, r := range top.Table.Rows {
		was += top.Was[r.Name()].Self
	}
	if was == 0 {
		t.Error("no row was there before")
	}
	// The comparison also works for metrics other than the first one. One press of the key = ends the comparison with
	// the recording, and the next press begins it again.
	s.press("w")
	s.sees("before.ddtop")
	s.press("w", "w", "w", "w", "w", "w", "w")
	s.press("4", "=")
	s.misses("before.ddtop")
	s.press("=")
	if f.BaseKind == widget.AgainstBase {
		t.Error("= does not go on")
	}
	for range 3 {
		if s.press("="); f.BaseKind == widget.AgainstBase {
			return
		}
	}
	t.Error("= does not come back to the other recording")
}

// TestAgainstItself: if a process is compared with itself, no frame has changed. The IDs of frames and stacks in the
// process differ from those in the recording. So ddtop must match frames and stacks by name.
func TestAgainstItself(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 30 * time.Second},
		scene.Options{Window: 30 * time.Second, Against: otherOf(t, demosource.Options{Length: 30 * time.Second})})
	s.press("4")
	for n, d := range s.model.Flame.Diff {
		if math.Abs(d) > .02 { // the window begins at a whole second, so small differences are possible
			t.Errorf("%s has changed by %v", n.Label, d)
		}
	}
}

// TestAgainstNothing: ddtop refuses to compare with a recording without samples.
func TestAgainstNothing(t *testing.T) {
	if _, err := LoadAgainst(context.Background(), &noSamples{Source: demosource.New(demosource.Options{})}, "x", scene.Options{}); !errors.Is(err, ErrNothingToCompare) {
		t.Error(err)
	}
}

type noSamples struct{ sampler.Source }

func (*noSamples) Run(context.Context, func(*sampler.Sample)) error { return sampler.ErrEnded }

// TestGoldenAgainst draws the flamegraph and the top list of a comparison, and checks them against the golden files.
func TestGoldenAgainst(t *testing.T) {
	for _, size := range []struct {
		name string
		w, h int
	}{{"80x24", 80, 24}, {"120x40", 120, 40}} {
		for _, page := range []struct{ name, key string }{{"flame", "4"}, {"top", "5"}} {
			t.Run(page.name+"-"+size.name, func(t *testing.T) {
				s := againstScreen(t, size.w, size.h)
				s.press(page.key)
				golden(t, "against-"+page.name+"-"+size.name, strings.TrimRight(s.text(), "\n")+"\n")
			})
		}
	}
}
