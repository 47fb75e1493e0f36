package export

import (
	"fmt"
	"io"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/growth"
)

// Limits of the text of a Heap, in rows.
const (
	maxHeapClasses = 30
	maxHeapGrowing = 10
)

// Heap is the objects of a process that can be written as text and as JSON.
type Heap struct {
	report.Heap
	program string
}

// NewHeap makes a Heap of the last count. watch has all counts. It is nil if growth was not asked for.
func NewHeap(p sampler.Process, c *sampler.HeapCount, watch *growth.Watch) *Heap {
	h := &Heap{program: ProgramName(p), Heap: report.Heap{
		PID: p.PID, Title: p.Title,
		Ruby: report.DumpRuby{Version: p.RubyVersion, Description: p.RubyDescription, JIT: report.TextOrNil(p.JIT)},
		Time: p.WallTime(c.EndedNS).Format(dumpTime), MonotonicNS: c.EndedNS, ReadNS: c.EndedNS - c.BeganNS,
		Pages: c.Pages, PagesSkipped: c.Skipped, Cut: c.Cut, Compacted: c.Compacted, Repeated: c.Repeated, Marking: c.Marking,
		Objects: c.Objects, Unswept: c.Dead, Free: c.Free, Slots: []report.HeapSlot{},
	}}
	if c.CPUNS > 0 {
		h.CPUNS = &c.CPUNS
	}
	for i := range c.Types {
		h.Bytes += c.Types[i].Bytes()
	}
	h.Types, h.Classes = h.kinds(c.Types), h.kinds(c.Classes)
	for _, s := range c.Sizes {
		h.Slots = append(h.Slots, report.HeapSlot(s))
	}
	if watch != nil {
		taken, compared := watch.Counts()
		h.Growth = &report.HeapGrowth{SpanNS: watch.SpanNS(), Counts: taken, Compared: compared, MajorCollections: watch.Majors(),
			Enough: watch.Enough(), Classes: []report.HeapGrowing{}}
		for _, k := range watch.Classes() {
			h.Growth.Classes = append(h.Growth.Classes, report.HeapGrowing{Name: k.Name, From: k.From, To: k.To,
				ObjectsPerSecond: k.PerSecond, BytesPerSecond: k.BytesPerSecond, Confirmed: k.Confirmed})
		}
	}
	return h
}

func (h *Heap) kinds(list []sampler.HeapKind) []report.HeapKind {
	out := make([]report.HeapKind, 0, len(list))
	for i := range list {
		k := &list[i]
		x := report.HeapKind{Name: k.Name, Objects: k.Objects, Old: k.Old, Bytes: k.Bytes(), SlotBytes: k.SlotBytes, Unsized: k.Unsized}
		if h.Bytes > 0 {
			x.Share = float64(x.Bytes) / float64(h.Bytes)
		}
		if k.Unsized < k.Objects {
			x.OtherBytes = &k.OtherBytes
		}
		out = append(out, x)
	}
	return out
}

// WriteJSON writes the contract (docs/reference/json.md).
func (h *Heap) WriteJSON(w io.Writer) error { return WriteJSON(w, &h.Heap) }

// WriteHeapsJSON writes the JSON of `ddtop heap` with several processes.
func WriteHeapsJSON(w io.Writer, list []*Heap, relatives []sampler.Relative, forgotten int) error {
	heaps := []*report.Heap{}
	for _, h := range list {
		heaps = append(heaps, &h.Heap)
	}
	return WriteJSON(w, report.Several{Processes: heaps, Children: children(relatives), Forgotten: forgotten})
}

// WriteText writes the heap for people. Control characters in names are replaced, so the text may go to a terminal.
func (h *Heap) WriteText(w io.Writer) error {
	var b strings.Builder
	if h.File != nil {
		fmt.Fprintf(&b, "%s: %s objects, %s.\n", flamegraph.Printable(*h.File), units.Count(int64(h.Objects)),
			units.FineBytes(int64(h.Bytes)))
	} else {
		fmt.Fprintf(&b, "%s  %s, pid %d, ruby %s\n", h.Time, h.program, h.PID, flamegraph.Printable(h.Ruby.Version))
		fmt.Fprintf(&b, "%s objects, %s. %s\n", units.Count(int64(h.Objects)), units.FineBytes(int64(h.Bytes)), h.how())
	}
	h.doubts(&b)
	if h.Growth != nil {
		b.WriteByte('\n')
		h.growth(&b)
	}
	h.memory(&b)
	b.WriteByte('\n')
	h.table(&b, "class", h.Classes[:min(len(h.Classes), maxHeapClasses)])
	if more := len(h.Classes) - maxHeapClasses; more > 0 {
		fmt.Fprintf(&b, "%s more with --json\n", units.Plural(more, "class", "classes"))
	}
	b.WriteByte('\n')
	h.table(&b, "type", h.Types)
	if len(h.Slots) > 0 {
		b.WriteByte('\n')
		h.slots(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Read says in lines how the heap was read, and why the figures may be wrong.
func (h *Heap) Read() (how string, doubts []string) {
	var b strings.Builder
	h.doubts(&b)
	objects, bytes := units.Count(int64(h.Objects)), units.FineBytes(int64(h.Bytes))
	return fmt.Sprintf("%s objects, %s. %s", objects, bytes, h.how()), linesOf(&b)
}

// MemoryLines says what the memory consists of. There are no lines if that was not read.
func (h *Heap) MemoryLines() []string {
	var b strings.Builder
	h.memory(&b)
	return linesOf(&b)
}

func linesOf(b *strings.Builder) []string {
	return strings.FieldsFunc(b.String(), func(r rune) bool { return r == '\n' })
}

// how says how the heap was read.
func (h *Heap) how() string {
	text := fmt.Sprintf("%s read in %s", units.Plural(h.Pages, "page", "pages"), units.ProseDuration(h.ReadNS))
	if h.CPUNS != nil {
		text += fmt.Sprintf(" (%s of CPU)", units.ProseDuration(*h.CPUNS))
	}
	return text + ", while the program ran."
}

// doubts says why the figures may be wrong.
func (h *Heap) doubts(b *strings.Builder) {
	if h.PagesSkipped > 0 {
		fmt.Fprintf(b, "%s changed meanwhile and are left out.\n", units.Plural(h.PagesSkipped, "page", "pages"))
	}
	if h.Cut {
		fmt.Fprintf(b, "The heap has more pages than ddtop reads.\n")
	}
	if h.Compacted {
		fmt.Fprintf(b, "A compaction moved objects meanwhile. The figures can be wrong.\n")
	}
	if h.Marking {
		fmt.Fprintf(b, "A collection was marking. Objects that it has not found dead yet are counted.\n")
	}
}

// table writes kinds. A plus behind bytes says that some objects have more memory, which is not known.
func (h *Heap) table(b *strings.Builder, what string, list []report.HeapKind) {
	rows := [][]string{{what, "objects", "old", "bytes ", "share"}}
	for i := range list {
		k := &list[i]
		more := " "
		if k.Unsized > 0 {
			more = "+"
		}
		rows = append(rows, []string{flamegraph.Printable(k.Name), units.Count(int64(k.Objects)), units.Count(int64(k.Old)),
			units.FineBytes(int64(k.Bytes)) + more, units.FinePercent(k.Share)})
	}
	writeTable(b, rows)
}

func (h *Heap) slots(b *strings.Builder) {
	rows := [][]string{{"slots of", "pages", "slots", "filled", "share"}}
	for _, s := range h.Slots {
		share := 0.0
		if s.Slots > 0 {
			share = float64(s.Filled) / float64(s.Slots)
		}
		rows = append(rows, []string{fmt.Sprintf("%d B", s.SlotSize), units.Count(int64(s.Pages)), units.Count(int64(s.Slots)),
			units.Count(int64(s.Filled)), units.FinePercent(share)})
	}
	writeTable(b, rows)
}

// growth says which classes grow, and how sure that is.
func (h *Heap) growth(b *strings.Builder) {
	g := h.Growth
	fmt.Fprintf(b, "Growth, by %s in %s with %s:\n", units.Plural(g.Counts, "count", "counts"), units.ProseDuration(g.SpanNS),
		units.Plural(int(g.MajorCollections), "major collection", "major collections"))
	switch {
	case !g.Enough:
		fmt.Fprintf(b, "  Too few collections came between the counts. Measure for longer with -d.\n")
		return
	case len(g.Classes) == 0:
		fmt.Fprintf(b, "  No class grows all the time.\n")
		return
	}
	unsure := false
	for _, k := range g.Classes[:min(len(g.Classes), maxHeapGrowing)] {
		mark := ""
		if !k.Confirmed {
			mark, unsure = "?", true
		}
		fmt.Fprintf(b, "  %s%s grows by %s a second (%s/s), from %s to %s old objects\n", flamegraph.Printable(k.Name), mark,
			units.Number(k.ObjectsPerSecond, 1), units.Bytes(int64(k.BytesPerSecond)), units.Count(int64(k.From)), units.Count(int64(k.To)))
	}
	if more := len(g.Classes) - maxHeapGrowing; more > 0 {
		fmt.Fprintf(b, "  %s more with --json\n", units.Plural(more, "class", "classes"))
	}
	fmt.Fprintf(b, "  This is a leak, or a cache that fills and will stop. --holders %s shows what holds the objects.\n",
		flamegraph.Printable(g.Classes[0].Name))
	if unsure {
		fmt.Fprintf(b, "  ? There were too few major collections to say that these objects are no garbage.\n")
	}
}
