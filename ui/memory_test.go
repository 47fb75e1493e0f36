package ui

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/page/memory"
	"github.com/ddtop/ddtop/ui/scene"
)

func TestMemoryShowsTheCollector(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("7")
	s.sees("7 memory", "RSS", "time in GC", "objects allocated", "collections", "who paid for", "Array#map", "major faults")
	p := s.model.pages[scene.PageMemory].(*memory.Page)
	var gc, paid int64
	for _, e := range s.model.Weights.Entries {
		if e.Key.State == gvl.GC {
			gc += e.Weights.WallNS
		}
	}
	for _, g := range p.Payers {
		paid += g.NS
	}
	if gc == 0 || paid != gc || p.GCNS != gc {
		t.Errorf("%d in the collector, %d paid, %d shown", gc, paid, p.GCNS)
	}
	live := s.text()
	for range 28 {
		s.press("[")
	}
	s.sees("FROZEN")
	if s.text() == live || p.At.TimeNS > s.model.AtNS {
		t.Error("the figures are not those of the moment shown")
	}
	s.press("enter")
	s.sees("coloured by state")
}

func TestMemoryFiguresNameLimits(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("7")
	p := s.model.pages[scene.PageMemory].(*memory.Page)
	d := p.At.Heap
	for _, f := range d.Fields() {
		*f = sampler.GCUnknown
	}
	d.AtNS, d.MallocIncrease, d.MallocLimit, d.NextMajor, d.Disabled = 1, 15_500_000, 16_000_000, sampler.GCMajorByOldGen, true
	text := ""
	for _, f := range p.Figures(&s.model.Scene) {
		text += f.Name + ": " + f.Text + "\n"
		if f.Name == "malloc increase" && (f.Of < 0.96 || f.Of > 0.98) {
			t.Errorf("the bar shows %v", f.Of)
		}
	}
	for _, want := range []string{"malloc increase: 16 MB of 16 MB", "will be major: oldgen", "GC.disable"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "-1") || strings.Contains(text, "old objects") {
		t.Errorf("figures that the release does not keep:\n%s", text)
	}
	p.At.GC.Valid = false
	if f := p.Figures(&s.model.Scene); !strings.Contains(f[0].Text, "not read") {
		t.Errorf("%+v", f[0])
	}
}
