package ui

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

func TestMemoryShowsTheCollector(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("7")
	s.sees("7 memory", "RSS", "time in GC", "objects allocated", "collections", "who paid for", "Array#map", "major faults")
	p := s.model.pages[pageMemory].(*memoryPage)
	var gc, paid int64
	for _, e := range s.model.weights.Entries {
		if e.Key.State == gvl.GC {
			gc += e.Weights.WallNS
		}
	}
	for _, g := range p.payers {
		paid += g.NS
	}
	if gc == 0 || paid != gc || p.gcNS != gc {
		t.Errorf("%d in the collector, %d paid, %d shown", gc, paid, p.gcNS)
	}
	live := s.text()
	for range 28 {
		s.press("[")
	}
	s.sees("FROZEN")
	if s.text() == live || p.at.TimeNS > s.model.atNS {
		t.Error("the figures are not those of the moment shown")
	}
	s.press("enter")
	s.sees("coloured by state")
}

func TestMemoryFiguresNameLimits(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press("7")
	p := s.model.pages[pageMemory].(*memoryPage)
	d := &p.at.Heap
	for _, f := range d.Fields() {
		*f = sampler.GCUnknown
	}
	d.AtNS, d.MallocIncrease, d.MallocLimit, d.NextMajor, d.Disabled = 1, 15_500_000, 16_000_000, sampler.GCMajorByOldGen, true
	text := ""
	for _, f := range p.figures(&s.model.scene) {
		text += f.name + ": " + f.text + "\n"
		if f.name == "malloc increase" && (f.of < 0.96 || f.of > 0.98) {
			t.Errorf("the bar shows %v", f.of)
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
	p.at.GC.Valid = false
	if f := p.figures(&s.model.scene); !strings.Contains(f[0].text, "not read") {
		t.Errorf("%+v", f[0])
	}
}

// TestSmallTerminalsKeepWhatTellsMost: RSS and proportional memory are on the screen of 80x24 beside a whole collector's figures.
func TestSmallTerminalsKeepWhatTellsMost(t *testing.T) {
	all := []figure{{name: "collections"}, {name: "last one"}, {name: "now"}, {name: "slots free"}, {name: "malloc increase"}, {name: "old malloc"},
		{name: "old objects"}, {name: "unprotected"}, {name: "survived"}, {name: "RSS grew by"}, {name: "major faults"}, {name: "PSS"}, {name: "CPU"}, {name: "given a CPU"}}
	for rows := range len(all) + 2 {
		got := fitFigures(slices.Clone(all), rows)
		if len(got) > max(rows, len(all)-len(leastTelling)) || len(got) < min(rows, len(all)) {
			t.Errorf("%d figures in %d rows", len(got), rows)
		}
		if got[0].name != "collections" || !slices.ContainsFunc(got, func(f figure) bool { return f.name == "PSS" }) {
			t.Errorf("in %d rows: %v", rows, got)
		}
	}
}
