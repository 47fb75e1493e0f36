package export

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// maxGCPlaces limits how many places in the code `ddtop stat` prints as the places where collections began. The JSON
// has more places.
const maxGCPlaces = 3

func dumpGC(s *sampler.Sample) report.DumpGC {
	g := &s.GC
	if !g.Valid {
		return report.DumpGC{Phase: sampler.GCIdle.String()}
	}
	d := report.DumpGC{
		Valid: true, During: g.During, Phase: g.Mode.String(), Count: g.Count, Minor: g.MinorCount, Major: g.MajorCount,
		By: report.TextOrNil(sampler.GCTrigger(g.Reason)), MajorBy: report.TextOrNil(sampler.GCMajorBy(g.Reason)), RubyNS: g.TimeNS,
		Allocated: g.Allocated, Figures: report.FiguresOf(&s.GCDetail), Reason: g.Reason,
	}
	if d.By != nil {
		kind := "minor"
		if sampler.GCIsMajor(g.Reason) {
			kind = "major"
		}
		d.Kind = &kind
	}
	return d
}

// gc writes a line on the garbage collector: "GC: 41 minor, 2 major; last: major (too many old objects), by …; …".
func (t *dumpText) gc() {
	g := &t.d.GC
	if !g.Valid {
		t.printf("GC: could not be read\n")
		return
	}
	t.printf("GC: %d minor, %d major", g.Minor, g.Major)
	if text := account.DescribeGCReason(g.Reason); text != "" {
		word := "last"
		if g.During || g.Phase != sampler.GCIdle.String() {
			word = "now"
		}
		t.printf("; %s: %s", word, text)
		if word == "now" && g.Phase != sampler.GCIdle.String() {
			t.printf(", in %s", g.Phase)
			if !g.During {
				t.printf(" (between steps)")
			}
		}
	}
	if f := g.Figures; f != nil {
		t.printf("%s", HeapText(f))
	}
	t.printf("\n")
}

// HeapText describes how full Ruby's heap is and how close the next collection is.
func HeapText(f *report.GCFigures) string {
	var b strings.Builder
	known := func(n ...*int64) bool {
		for _, v := range n {
			if v == nil {
				return false
			}
		}
		return true
	}
	if known(f.Live, f.Available) && !f.Uncounted {
		fmt.Fprintf(&b, "; %s of %s slots used", CountText(float64(*f.Live)), CountText(float64(*f.Available)))
	}
	if known(f.Malloc, f.MallocLimit) && *f.MallocLimit > 0 {
		fmt.Fprintf(&b, "; malloc %s of %s until the next", units.FineBytes(*f.Malloc), units.FineBytes(*f.MallocLimit))
	}
	if f.NeedMajorBy != nil {
		fmt.Fprintf(&b, "; the next is a major one (%s)", *f.NeedMajorBy)
	}
	if f.Disabled {
		b.WriteString("; GC.disable")
	}
	if f.Stress {
		b.WriteString("; GC.stress")
	}
	return b.String()
}

// CountText returns a number of objects as text: 950, 41.2 k, 3.4 M, 1.2 G. The number is a float, because a rate in a
// damaged recording can be too large for an integer. Converting such a float to an integer gives different results on
// different processors.
func CountText(v float64) string {
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.1f G", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.1f M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.1f k", v/1e3)
	}
	return fmt.Sprint(int64(v))
}

// statGC writes the garbage collections of the measured time: their number, their reasons, the code in which they
// began, and the code that ran the collector.
func statGC(b *strings.Builder, s report.Stat) {
	g := &s.GC
	if !g.Valid {
		fmt.Fprintln(b, "GC   could not be read")
		return
	}
	fmt.Fprintf(b, "GC   %d (%d minor, %d major), ", g.Count, g.Minor, g.Major)
	if s.Quality.Lacks.States == nil {
		fmt.Fprintf(b, "%s = %s of the time", units.ProseDuration(g.NS), Share(g.NS, s.DurationNS))
	} else {
		fmt.Fprint(b, "– of the time")
	}
	if g.Allocated > 0 {
		fmt.Fprintf(b, "; %d objects allocated", g.Allocated)
	}
	if g.AllocatedPerSecond >= 1 {
		fmt.Fprintf(b, ", %s/s", CountText(g.AllocatedPerSecond))
	}
	fmt.Fprintln(b)
	if reasons := ReasonsText(g); reasons != "" {
		fmt.Fprintf(b, "     started by %s\n", reasons)
	}
	for _, p := range g.Triggers[:min(len(g.Triggers), maxGCPlaces)] {
		if p.Label == "" {
			continue
		}
		fmt.Fprintf(b, "     %d began in %s", p.Seen+p.Probable, GCPlaceText(&p.StatCode))
		switch {
		case p.Seen == 0:
			fmt.Fprint(b, ", or shortly before it")
		case p.Probable > 0:
			fmt.Fprintf(b, " (%d of them there or shortly before)", p.Probable)
		}
		fmt.Fprintln(b)
	}
	for _, p := range g.Payers[:min(len(g.Payers), maxGCPlaces)] {
		if p.Label != "" && p.Share >= SmallShare {
			fmt.Fprintf(b, "     %s of the time in it was spent under %s\n", units.Percent(p.Share), GCPlaceText(&p.StatCode))
		}
	}
	if f := g.Figures; f != nil {
		if text := strings.TrimPrefix(HeapText(f), "; "); text != "" {
			fmt.Fprintf(b, "     heap: %s\n", text)
		}
	}
}

// GCPlaceText names a place in the code: the code in which collections began, or the code that ran the collector.
func GCPlaceText(p *report.StatCode) string {
	text := p.Text()
	if p.Caller != "" {
		text += " of " + p.Caller
	}
	if p.Path != "" && p.Line > 0 {
		text = withPlace(text, p.Path, int(p.Line), p.Uncertain)
	}
	return flamegraph.Printable(text)
}

// ReasonsText lists the reasons for collections, with the number of collections for each reason.
func ReasonsText(g *report.StatGC) string {
	var parts []string
	for _, r := range []struct {
		n    uint64
		text string
	}{{g.By.NewObj, "no free slot"}, {g.By.Malloc, "the malloc limit"}, {g.By.Method, "GC.start"}, {g.By.CAPI, "a C extension"},
		{g.By.Stress, "GC.stress"}, {g.By.Unknown, "not seen"}} {
		if r.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", r.text, r.n))
		}
	}
	return strings.Join(parts, ", ")
}
