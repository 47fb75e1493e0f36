package export

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/heapgraph"
)

// These are limits of a HeapGraph, in rows.
const (
	maxHolderPaths = 20
	maxBiggest     = heapgraph.ShownBig
)

// HeapGraph describes which references keep the objects of a process alive. It can be written as text and as JSON.
type HeapGraph struct {
	report.HeapGraph
	program string
	graph   *heapgraph.Graph
	values  map[string]string // the text of Strings, by address. It is nil unless the user asked for values
}

// NewHeapGraph makes a HeapGraph without results. Holders and Biggest add them.
func NewHeapGraph(p sampler.Process, g *heapgraph.Graph, i *sampler.HolderInfo) *HeapGraph {
	h := &HeapGraph{program: ProgramName(p), graph: g, HeapGraph: report.HeapGraph{
		PID: p.PID, Title: p.Title,
		Ruby: report.DumpRuby{Version: p.RubyVersion, Description: p.RubyDescription, JIT: report.TextOrNil(p.JIT)},
		Time: p.WallTime(i.EndedNS).Format(dumpTime), MonotonicNS: i.EndedNS, ReadNS: i.EndedNS - i.BeganNS,
		Objects: i.Objects, References: i.References, PagesSkipped: i.Skipped, Unread: i.Unread, Cut: i.Cut, Compacted: i.Compacted, Repeated: i.Repeated,
	}}
	if i.CPUNS > 0 {
		h.CPUNS = &i.CPUNS
	}
	if z := i.Pause; z != nil {
		h.PauseNS, h.CopiedBytes = &z.NS, &z.Bytes
	}
	return h
}

// Holders adds to h the references that keep the objects in set alive. The parameter "of" is the name of the set, such
// as a class.
func (h *HeapGraph) Holders(of string, set []uint32) {
	found := h.graph.HoldersOf(set, maxHolderPaths)
	out := &report.HeapHolders{Of: of, Objects: found.Objects, Bytes: found.Size, RetainedBytes: found.Retained,
		Unreached: found.Unreached, UnreachedBytes: found.UnreachedSize, Paths: []report.HeapPath{}, MorePaths: found.More}
	for i := range found.Paths {
		p := &found.Paths[i]
		x := report.HeapPath{Path: p.String(), Root: p.Root, Steps: []report.HeapStep{}, Cut: p.Cut, Objects: p.Objects, Bytes: p.Size,
			RetainedBytes: p.Retained, HolderRetainedBytes: p.HolderRetained}
		for _, s := range p.Steps {
			x.Steps = append(x.Steps, report.HeapStep{Class: s.Class, In: report.TextOrNil(s.Label), Repeated: s.Repeated})
		}
		out.Paths = append(out.Paths, x)
	}
	h.HeapGraph.Holders = out
}

// Biggest adds the largest objects.
func (h *HeapGraph) Biggest() {
	copies := h.graph.Copies(maxBiggest)
	h.HeapGraph.Biggest = &report.HeapBiggest{
		Strings: h.bigs(h.graph.Largest(heapgraph.TypeString, maxBiggest), false),
		Arrays:  h.bigs(h.graph.Largest(heapgraph.TypeArray, maxBiggest), false),
		Hashes:  h.bigs(h.graph.Largest(heapgraph.TypeHash, maxBiggest), false),
		Copies: report.HeapCopies{Compared: copies.Strings, Different: copies.Different, WastedBytes: copies.Wasted,
			Groups: h.bigs(copies.Groups, true)},
	}
}

func (h *HeapGraph) bigs(list []heapgraph.Big, equal bool) []report.HeapBig {
	out := []report.HeapBig{}
	for i := range list {
		b := &list[i]
		x := report.HeapBig{Class: h.graph.ClassName(b.Node), Address: fmt.Sprintf("%#x", h.graph.Nodes[b.Node].Addr), Bytes: b.Size,
			Length: b.Length, RetainedBytes: b.Retained}
		if b.Reached {
			path := b.Path.String()
			x.Path = &path
		}
		if equal {
			x.Objects, x.WastedBytes = b.Objects, b.Wasted
		}
		if v, ok := h.graph.Values[b.Node]; ok {
			if h.values == nil {
				h.values = make(map[string]string)
			}
			h.values[x.Address] = valueText(v, b.Length)
		}
		out = append(out, x)
	}
	return out
}

// WriteJSON writes the results in the documented form (docs/reference/json.md).
func (h *HeapGraph) WriteJSON(w io.Writer) error { return WriteJSON(w, &h.HeapGraph) }

// WriteText writes the results for people. Control characters in names are replaced.
func (h *HeapGraph) WriteText(w io.Writer) error {
	var b strings.Builder
	found := fmt.Sprintf("%s objects and %s references", units.Count(int64(h.Objects)), units.Count(int64(h.References)))
	if h.File != nil {
		fmt.Fprintf(&b, "%s: %s.\n", flamegraph.Printable(*h.File), found)
	} else {
		fmt.Fprintf(&b, "%s  %s, pid %d, ruby %s\n", h.Time, h.program, h.PID, flamegraph.Printable(h.Ruby.Version))
		fmt.Fprintf(&b, "%s\n", readIn(found, h.ReadNS, h.CPUNS, h.PauseNS, h.CopiedBytes))
	}
	doubts := Heap{Heap: report.Heap{PagesSkipped: h.PagesSkipped, Cut: h.Cut, Compacted: h.Compacted}}
	doubts.doubts(&b)
	if x := h.HeapGraph.Holders; x != nil {
		b.WriteByte('\n')
		writeHolders(&b, x)
	}
	if x := h.HeapGraph.Biggest; x != nil {
		for _, part := range []struct {
			title string
			list  []report.HeapBig
		}{{"Largest Strings", x.Strings}, {"Largest Arrays", x.Arrays}, {"Largest Hashes", x.Hashes}} {
			fmt.Fprintf(&b, "\n%s:\n", part.title)
			writeBiggest(&b, part.list, false, h.values)
		}
		c := &x.Copies
		fmt.Fprintf(&b, "\n%s of %s Strings equal another one and waste %s:\n", units.Count(int64(c.Compared-c.Different)), units.Count(int64(c.Compared)),
			units.FineBytes(int64(c.WastedBytes)))
		writeBiggest(&b, c.Groups, true, h.values)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeHolders(b *strings.Builder, x *report.HeapHolders) {
	fmt.Fprintf(b, "%s: %s, %s. Without them %s would be free.\n", flamegraph.Printable(x.Of), units.Plural(x.Objects, "object", "objects"),
		units.FineBytes(int64(x.Bytes)), units.FineBytes(int64(x.RetainedBytes)))
	if x.Unreached > 0 {
		fmt.Fprintf(b, "No root reaches %s (%s): garbage, or held by C code.\n", units.Plural(x.Unreached, "object", "objects"),
			units.FineBytes(int64(x.UnreachedBytes)))
	}
	if len(x.Paths) == 0 {
		return
	}
	rows := [][]string{{"objects", "retained", "holder", ""}}
	for i := range x.Paths {
		p := &x.Paths[i]
		rows = append(rows, []string{units.Count(int64(p.Objects)), units.FineBytes(int64(p.RetainedBytes)), units.FineBytes(int64(p.HolderRetainedBytes)), p.Path})
	}
	b.WriteByte('\n')
	writePaths(b, rows)
	if x.MorePaths > 0 {
		fmt.Fprintf(b, "%s hold the others\n", units.Plural(x.MorePaths, "more path", "more paths"))
	}
	b.WriteString("\nretained: what would be free without these objects. holder: without the first object of the path.\n")
}

func writeBiggest(b *strings.Builder, list []report.HeapBig, equal bool, values map[string]string) {
	rows := [][]string{{"bytes", "length", "retained", ""}}
	if equal {
		rows = [][]string{{"wasted", "equal", "length", ""}}
	}
	for i := range list {
		x := &list[i]
		path := "no root reaches it: garbage, or held by C code"
		if x.Path != nil {
			path = *x.Path
		}
		row := []string{units.FineBytes(int64(x.Bytes)), units.Count(int64(x.Length)), units.FineBytes(int64(x.RetainedBytes)), path}
		if equal {
			row = []string{units.FineBytes(int64(x.WastedBytes)), units.Count(int64(x.Objects)), units.Count(int64(x.Length)), path}
		}
		rows = append(rows, row)
	}
	var below []string
	for i := range list {
		below = append(below, values[list[i].Address])
	}
	writePaths(b, rows, below...)
}

// ValueMark begins the lines of WriteText that show bytes of a String. No other line begins with it.
const ValueMark = "    \""

// valueText returns a line with the first bytes of a String. length is the String's whole length. No byte of the line
// can control a terminal.
func valueText(value string, length uint64) string {
	text := strconv.Quote(value)
	if uint64(len(value)) < length {
		text += "…"
	}
	return ValueMark + flamegraph.Printable(text[1:])
}

// writePaths writes a table of right-aligned columns. The last column, the path, is not padded. rows[0] is the
// heading. The text below[i] is written as a line under rows[i+1], unless it is empty.
func writePaths(b *strings.Builder, rows [][]string, below ...string) {
	rows[0][len(rows[0])-1] = "path"
	var widths []int
	for _, r := range rows {
		for i, c := range r[:len(r)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(c))
		}
	}
	for n, r := range rows {
		for i, c := range r[:len(r)-1] {
			fmt.Fprintf(b, "%*s  ", widths[i], c)
		}
		b.WriteString(flamegraph.Printable(r[len(r)-1]))
		b.WriteByte('\n')
		if n > 0 && n <= len(below) && below[n-1] != "" {
			b.WriteString(below[n-1])
			b.WriteByte('\n')
		}
	}
}
