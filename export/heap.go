package export

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/growth"
)

// These are limits of the text that describes a Heap, in rows of its tables.
const (
	maxHeapClasses = 30
	maxHeapGrowing = 10
)

// Heap describes the objects in a process's heap. It can be written as text and as JSON.
type Heap struct {
	report.Heap
	program string
	// askRows are the rows of the table that shows which code asked the kernel for memory.
	askRows []code.Ask
	// asked is a sentence about the code that asked the kernel for the most memory (AskedText).
	asked string
}

// NewHeap makes a Heap from c, the last count of the objects. watch has all counts, which show the classes that grow.
// watch is nil if growth was not measured.
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
	if z := c.Pause; z != nil {
		h.PauseNS, h.CopiedBytes = &z.NS, &z.Bytes
	}
	for i := range c.Types {
		h.Bytes += c.Types[i].Bytes()
	}
	h.Types, h.Classes = h.kinds(c.Types, c.SurvivedKnown), h.kinds(c.Classes, c.SurvivedKnown)
	for _, s := range c.Sizes {
		h.Slots = append(h.Slots, report.HeapSlot(s))
	}
	if t := c.Traced; t != nil {
		h.Allocated = &report.HeapAllocated{Objects: t.Objects, Misfits: t.Misfits, Cut: t.Cut, Places: []report.HeapPlace{}}
		for i := range t.Places {
			k := &t.Places[i]
			h.Allocated.Places = append(h.Allocated.Places, report.HeapPlace{Class: k.Class, Path: k.Path, Line: k.Line,
				Method: report.TextOrNil(k.Method), Objects: k.Objects, Bytes: k.Bytes})
		}
	}
	if watch != nil {
		taken, compared := watch.Counts()
		h.Growth = &report.HeapGrowth{SpanNS: watch.SpanNS(), Counts: taken, Compared: compared, MajorCollections: watch.Majors(),
			Enough: watch.Enough(), Classes: []report.HeapGrowing{}, Stopped: []report.HeapStopped{}}
		for _, k := range watch.Classes() {
			h.Growth.Classes = append(h.Growth.Classes, report.HeapGrowing{Name: k.Name, From: k.From, To: k.To,
				ObjectsPerSecond: k.PerSecond, BytesPerSecond: k.BytesPerSecond, Confirmed: k.Confirmed, Leak: k.Leak,
				Place: h.mainPlace(k.Name)})
		}
		for _, k := range watch.Stopped() {
			h.Growth.Stopped = append(h.Growth.Stopped, report.HeapStopped{Name: k.Name, From: k.From, To: k.To,
				ObjectsPerSecond: k.PerSecond, StoppedNS: c.BeganNS - k.StoppedNS})
		}
	}
	return h
}

func (h *Heap) kinds(list []sampler.HeapKind, survived bool) []report.HeapKind {
	out := make([]report.HeapKind, 0, len(list))
	for i := range list {
		k := &list[i]
		x := report.HeapKind{Name: k.Name, Objects: k.Objects, Old: k.Old, Bytes: k.Bytes(), SlotBytes: k.SlotBytes, Unsized: k.Unsized}
		if h.Bytes > 0 {
			x.Share = float64(x.Bytes) / float64(h.Bytes)
		}
		if survived {
			x.Survived = &k.Survived
		}
		if k.Unsized < k.Objects {
			x.OtherBytes = &k.OtherBytes
		}
		out = append(out, x)
	}
	return out
}

// WriteJSON writes the heap in the documented form (docs/reference/json.md).
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
	h.allocated(&b)
	h.table(&b, "type", h.Types)
	if len(h.Slots) > 0 {
		b.WriteByte('\n')
		h.slots(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Read returns two texts about the reading of the heap. how is a sentence that describes how the heap was read. doubts
// are lines with the reasons why the figures may be wrong.
func (h *Heap) Read() (how string, doubts []string) {
	var b strings.Builder
	h.doubts(&b)
	objects, bytes := units.Count(int64(h.Objects)), units.FineBytes(int64(h.Bytes))
	return fmt.Sprintf("%s objects, %s. %s", objects, bytes, h.how()), linesOf(&b)
}

// MemoryLines returns lines about the kinds of memory that the process uses. It returns none if the memory was not
// read.
func (h *Heap) MemoryLines() []string {
	var b strings.Builder
	h.memory(&b)
	return linesOf(&b)
}

func linesOf(b *strings.Builder) []string {
	return strings.FieldsFunc(b.String(), func(r rune) bool { return r == '\n' })
}

// how describes how the heap was read.
func (h *Heap) how() string {
	return readIn(units.Plural(h.Pages, "page", "pages"), h.ReadNS, h.CPUNS, h.PauseNS, h.CopiedBytes)
}

// readIn describes how something (what) was read. It names the time that this took. If known, it also names ddtop's CPU
// time, how long the process was stopped, and how many bytes were copied.
func readIn(what string, ns int64, cpu, pause *int64, copied *uint64) string {
	text := fmt.Sprintf("%s read in %s", what, units.ProseDuration(ns))
	if cpu != nil {
		text += fmt.Sprintf(" (%s of CPU)", units.ProseDuration(*cpu))
	}
	if pause != nil && copied != nil {
		return text + fmt.Sprintf(", from a copy of %s. The program stood still for %s.", units.FineBytes(int64(*copied)), units.ProseDuration(*pause))
	}
	return text + ", while the program ran."
}

// doubts writes the reasons why the heap's figures may be wrong.
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

// table writes a table of types or classes with their objects. A plus after the bytes means that some of the objects
// have more memory, whose size is not known.
func (h *Heap) table(b *strings.Builder, what string, list []report.HeapKind) {
	rows := [][]string{{what, "objects", "old", "survived", "new", "bytes ", "share"}}
	if h.Heap.Memory != nil {
		rows[0] = append(rows[0], "of RSS")
	}
	for i := range list {
		k := &list[i]
		more := " "
		if k.Unsized > 0 {
			more = "+"
		}
		row := []string{flamegraph.Printable(k.Name), units.Count(int64(k.Objects)), units.Count(int64(k.Old)), "–", "–",
			units.FineBytes(int64(k.Bytes)) + more, units.FinePercent(k.Share)}
		if k.Survived != nil {
			row[3], row[4] = units.Count(int64(*k.Survived)), units.Count(int64(k.New()))
		}
		if h.Heap.Memory != nil {
			of := "–"
			if k.RSSShare != nil {
				of = units.FinePercent(*k.RSSShare)
			}
			row = append(row, of)
		}
		rows = append(rows, row)
	}
	writeTable(b, rows)
}

// SlotLines returns a table of the heap's slots by their size. The table shows how full the pages of slots are.
func (h *Heap) SlotLines() []string {
	var b strings.Builder
	h.slots(&b)
	return linesOf(&b)
}

// sparseShare is a threshold for the share of sparse pages. From this share on, the text explains that sparse pages
// cost memory. A page is sparse if less than a tenth of it is filled.
const sparseShare = 0.1

func (h *Heap) slots(b *strings.Builder) {
	rows := [][]string{{"slots of", "pages", "slots", "filled", "share", "empty", "< 10 %", "< 50 %", "< 90 %", "fuller"}}
	pages, sparse, bytes := 0, 0, uint64(0)
	for _, s := range h.Slots {
		share := 0.0
		if s.Slots > 0 {
			share = float64(s.Filled) / float64(s.Slots)
		}
		row := []string{fmt.Sprintf("%d B", s.SlotSize), units.Count(int64(s.Pages)), units.Count(int64(s.Slots)),
			units.Count(int64(s.Filled)), units.FinePercent(share)}
		for _, n := range s.Fullness {
			row = append(row, units.Count(int64(n)))
		}
		rows = append(rows, row)
		pages, sparse = pages+s.Pages, sparse+s.Fullness[1]
		bytes += uint64(s.Fullness[1]) * s.Slots / uint64(max(s.Pages, 1)) * uint64(s.SlotSize)
	}
	writeTable(b, rows)
	if sparse > 0 && float64(sparse) >= sparseShare*float64(pages) {
		fmt.Fprintf(b, "%s of %s pages are filled by less than a tenth. Ruby cannot give their %s back while an object is on them. "+
			"GC.compact moves such objects together.\n", units.Count(int64(sparse)), units.Count(int64(pages)), units.FineBytes(int64(bytes)))
	}
}

// growth writes which classes gain objects, and how certain their growth is.
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
	}
	for _, k := range g.Stopped[:min(len(g.Stopped), maxHeapGrowing)] {
		fmt.Fprintf(b, "  %s\n", StoppedText(&k))
	}
	if len(g.Classes) == 0 {
		return
	}
	unsure, leak := false, false
	for _, k := range g.Classes[:min(len(g.Classes), maxHeapGrowing)] {
		fmt.Fprintf(b, "  %s\n", GrowingText(&k))
		unsure, leak = unsure || !k.Confirmed, leak || k.Leak
	}
	if more := len(g.Classes) - maxHeapGrowing; more > 0 {
		fmt.Fprintf(b, "  %s more with --json\n", units.Plural(more, "class", "classes"))
	}
	if !leak {
		fmt.Fprintf(b, "  A cache fills until it is full. What fills for more than five minutes is called a leak.\n")
	}
	suspect, _ := h.Suspect()
	fmt.Fprintf(b, "  --holders %s shows what holds the objects.\n", flamegraph.Printable(suspect.Name))
	if unsure {
		fmt.Fprintf(b, "  ? There were too few major collections to say that these objects are no garbage.\n")
	}
}

// GrowingText describes how fast a class grows.
func GrowingText(k *report.HeapGrowing) string {
	verb := "fills"
	switch {
	case k.Leak:
		verb = "leaks"
	case !k.Confirmed:
		verb = "? fills"
	}
	text := strings.Replace(fmt.Sprintf("%s %s, %s/s (%s/s), from %s to %s old objects", flamegraph.Printable(k.Name), verb,
		units.Number(k.ObjectsPerSecond, 1), units.Bytes(int64(k.BytesPerSecond)), units.Count(int64(k.From)), units.Count(int64(k.To))), " ?", "?", 1)
	if p := k.Place; p != nil {
		text += fmt.Sprintf(", allocated at %s:%d", flamegraph.Printable(path.Base(p.Path)), p.Line)
	}
	return text
}

// coreClasses are Ruby's own classes. Objects of a program's classes contain many Strings, Arrays and so on. So if a
// class of the program grows, these classes usually grow, too.
var coreClasses = []string{"String", "Array", "Hash", "Symbol", "Integer", "Float", "Object", "Struct", "Proc", "Time", "Set",
	sampler.AllocInternal, sampler.AllocHidden, sampler.AllocOthers, sampler.AllocUnknown, "(anonymous)"}

// Suspect returns the growing class that the user should examine first. Of the program's own growing classes, this is
// the one that gains the most bytes per second. Ruby's own classes, such as String, often grow only because objects of
// the program contain them. So Suspect returns a class of Ruby only if no class of the program grows. The result others
// names the other classes that grow.
func (h *Heap) Suspect() (k *report.HeapGrowing, others string) {
	if h.Growth == nil || len(h.Growth.Classes) == 0 {
		return nil, ""
	}
	list := h.Growth.Classes
	i := max(0, slices.IndexFunc(list, func(g report.HeapGrowing) bool { return !slices.Contains(coreClasses, g.Name) }))
	var names []string
	for n := range list {
		if n != i && len(names) < maxOthers {
			names = append(names, flamegraph.Printable(list[n].Name))
		}
	}
	if len(names) > 0 {
		verb := "does"
		if len(list) > 2 {
			verb = "do"
		}
		others = "; so " + verb + " " + strings.Join(names, ", ")
		if more := len(list) - 1 - len(names); more > 0 {
			others += fmt.Sprintf(" and %d more", more)
		}
	}
	return &list[i], others
}

// maxOthers limits how many growing classes are named besides the suspect.
const maxOthers = 2

// StoppedText describes how a class grew before it stopped growing.
func StoppedText(k *report.HeapStopped) string {
	return fmt.Sprintf("%s was filled, %s/s, from %s to %s old objects, and stopped %s ago", flamegraph.Printable(k.Name),
		units.Number(k.ObjectsPerSecond, 1), units.Count(int64(k.From)), units.Count(int64(k.To)), units.ProseDuration(k.StoppedNS))
}
