package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
)

// TestTooFewSamples: figures that rest on too few samples are drawn as –, and the head line says so. CPU time, which the kernel counts, stays.
func TestTooFewSamples(t *testing.T) {
	const length = 6 * time.Second
	samples := record(t, demosource.Options{Length: length, HTTP: 3})
	for _, c := range []struct {
		name  string
		every int
		low   bool
	}{{"all samples", 1, false}, {"3 a second", 333, true}} {
		s, err := NewStore(demosource.New(demosource.Options{Length: length, HTTP: 3}), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(samples); i += c.every {
			x := *samples[i]
			x.Self.Lowered, x.Self.Extended = c.low, c.low
			s.Feed(&x)
		}
		s.Read(func(r *reading) {
			var f figures
			f.load(r, r.lastNS-int64(5*time.Second), r.lastNS)
			theme, err := ThemeByName("dark")
			if err != nil {
				t.Fatal(err)
			}
			dashes := 0
			for _, g := range f.gauges(&theme, new(served)) {
				if g.value == "–" {
					dashes++
				}
				if g.label == "CPU" && g.value == "–" {
					t.Errorf("%s: the CPU time is not told", c.name)
				}
			}
			h := headView{figures: &f, live: true, loaded: 1, process: sampler.Process{Overhead: .03, OverheadMost: .06}}
			f.selfKnown, f.selfCPU = true, .042
			head := ""
			for _, x := range h.health(&theme) {
				head += x.text + " | "
			}
			help := ""
			for _, b := range f.readsHelp(&h.process).bindings {
				help += b.show + " " + b.help + "\n"
			}
			if c.low != (dashes >= 4) || c.low != strings.Contains(head, "too few samples for shares") || c.low != strings.Contains(head, "ddtop 4.2 of 6 % for quality") ||
				c.low != strings.Contains(help, "– states are not told: ") || c.low != strings.Contains(help, "6 % of a CPU is what ddtop may take (--overhead): more than the usual 3 %") {
				t.Errorf("%s: %d figures are not told; %s\n%s", c.name, dashes, head, help)
			}
		})
	}
}
