package widget

import (
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// TestTooFewSamples: if there are too few samples for a figure, the screen shows – instead, and the first line says so.
// CPU time must still be shown, because the kernel counts it without samples.
func TestTooFewSamples(t *testing.T) {
	const length = 6 * time.Second
	samples, err := demosource.Samples(demosource.Options{Length: length, HTTP: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		every int
		low   bool
	}{{"all samples", 1, false}, {"3 a second", 333, true}} {
		s, err := store.New(demosource.New(demosource.Options{Length: length, HTTP: 3}), store.Options{History: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(samples); i += c.every {
			x := *samples[i]
			x.Self.Lowered, x.Self.Extended = c.low, c.low
			s.Feed(&x)
		}
		s.Read(func(r *store.Reading) {
			var f scene.Figures
			f.Load(r, r.LastNS-int64(5*time.Second), r.LastNS)
			theme, err := style.ThemeByName("dark")
			if err != nil {
				t.Fatal(err)
			}
			dashes := 0
			for _, g := range GaugesOf(&f, &theme, new(scene.Served)) {
				if g.Value == "–" {
					dashes++
				}
				if g.Label == "CPU" && g.Value == "–" {
					t.Errorf("%s: the CPU time is not told", c.name)
				}
			}
			h := Head{Figures: &f, Live: true, Loaded: 1, Process: sampler.Process{Overhead: .03, OverheadMost: .06}}
			f.SelfKnown, f.SelfCPU = true, .042
			head := ""
			for _, x := range h.health(&theme) {
				head += x.text + " | "
			}
			help := ""
			for _, b := range f.ReadsHelp(&h.Process).Bindings {
				help += b.Show + " " + b.Help + "\n"
			}
			if c.low != (dashes >= 4) || c.low != strings.Contains(head, "too few samples for shares") || c.low != strings.Contains(head, "ddtop 4.2 of 6 % for quality") ||
				c.low != strings.Contains(help, "– states are not told: ") || c.low != strings.Contains(help, "6 % of a CPU is what ddtop may take (--overhead): more than the usual 3 %") {
				t.Errorf("%s: %d figures are not told; %s\n%s", c.name, dashes, head, help)
			}
		})
	}
}
