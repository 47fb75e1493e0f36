package export

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// These thresholds decide whether the text gives advice about memory.
const (
	// adviceBytes and adviceShare decide whether the text has advice on how to save memory. The saving must be at least
	// adviceBytes, in bytes. It must also be at least adviceShare of all memory of its kind, such as malloc's.
	adviceBytes, adviceShare = 10_000_000, 0.3
)

const (
	// grownBytes and grownShare decide whether a growth of resident memory is mentioned. The growth must be at least
	// grownBytes, in bytes. It must also be at least grownShare of the earlier resident memory.
	grownBytes, grownShare = 8_000_000, 0.02
	// rubyShare and freeShare decide what the text names as the reason of the growth. If Ruby's objects make up at
	// least rubyShare of the growth, the text names them. Otherwise, if malloc's free memory makes up at least
	// freeShare of it, the text names fragmentation.
	rubyShare, freeShare = 0.25, 0.5
)

// Before is the state of a process's memory and heap at one time. Its zero value means that the state is not known.
type Before struct {
	Memory *sampler.MemoryParts
	Count  *sampler.HeapCount
}

// otherBytes returns the memory that objects have outside their slots in Ruby's heap, in bytes. An example is the text
// of a long String.
func (b *Before) otherBytes() (n uint64) {
	for i := range b.Count.Types {
		n += b.Count.Types[i].OtherBytes
	}
	return n
}

// part returns the resident memory of a kind, in bytes.
func (b *Before) part(kind string) int64 {
	for _, p := range b.Memory.Parts {
		if p.Kind == kind {
			return int64(p.Bytes)
		}
	}
	return 0
}

// rubyGrown returns how much the memory of Ruby's objects grew from b to now, in bytes.
func (b *Before) rubyGrown(now *Before) int64 {
	return max(now.part(sampler.MemoryRuby)-b.part(sampler.MemoryRuby), 0) + max(int64(now.otherBytes())-int64(b.otherBytes()), 0)
}

// GrownElsewhere returns the growth of the resident memory since b, in bytes. It returns zero if Ruby's objects
// account for the growth, or if the growth is not known.
func (b *Before) GrownElsewhere(now *Before) int64 {
	if b.Memory == nil || b.Count == nil || now.Memory == nil {
		return 0
	}
	n := int64(now.Memory.RSS) - int64(b.Memory.RSS)
	if float64(b.rubyGrown(now)) >= rubyShare*float64(n) {
		return 0
	}
	return n
}

// grown returns which kinds of memory have grown between b and now. It returns nil if the growth is small.
func grown(b, now *Before) *report.HeapMemoryGrown {
	if b.Memory == nil || b.Count == nil {
		return nil
	}
	g := &report.HeapMemoryGrown{Bytes: int64(now.Memory.RSS) - int64(b.Memory.RSS), SpanNS: now.Count.BeganNS - b.Count.BeganNS}
	if g.Bytes < grownBytes || float64(g.Bytes) < grownShare*float64(b.Memory.RSS) {
		return nil
	}
	for _, p := range now.Memory.Parts {
		if n := int64(p.Bytes) - b.part(p.Kind); n > g.PartBytes {
			g.Part, g.PartBytes = p.Kind, n
		}
	}
	g.RubyBytes = b.rubyGrown(now)
	if x, y := b.Memory.Malloc.Free, now.Memory.Malloc.Free; x != nil && y != nil {
		free := int64(*y) - int64(*x)
		g.FreeBytes = &free
	}
	switch {
	case float64(g.RubyBytes) >= rubyShare*float64(g.Bytes):
		g.Is = "objects"
	case g.FreeBytes != nil && float64(*g.FreeBytes) >= freeShare*float64(g.Bytes):
		g.Is = "free"
	default:
		g.Is = "c_code"
	}
	return g
}

// GrownText describes what kind of memory has grown. It is empty if the growth is small.
func (h *Heap) GrownText() string {
	if h.Heap.Memory == nil || h.Heap.Memory.Grown == nil {
		return ""
	}
	g := h.Heap.Memory.Grown
	size := func(n int64) string { return units.Bytes(max(n, 0)) }
	text := fmt.Sprintf("Memory grew by %s in %s, most of it %s (+%s). ", size(g.Bytes), units.ProseDuration(g.SpanNS), g.Part, size(g.PartBytes))
	switch g.Is {
	case "objects":
		text += fmt.Sprintf("Ruby's objects account for %s of it: see which class grows.", size(g.RubyBytes))
	case "free":
		text += fmt.Sprintf("%s of it is free inside malloc's arenas: fragmentation, not a leak.", size(*g.FreeBytes))
	default:
		text += fmt.Sprintf("Ruby's objects account for %s of it: it is memory of C code, so no class shows it.", size(g.RubyBytes))
		switch {
		case len(h.askRows) > 0: // the code comes first, because the screen can cut off the end of a line
			text = strings.TrimSpace(h.asked + " " + text)
		case h.asked != "":
			text += " " + h.asked
		}
	}
	return text
}

// Memory adds to h which kinds of memory the process uses. c must be the count from which h was made. b is the state
// before the measurement, to compare with.
func (h *Heap) Memory(m *sampler.MemoryParts, c *sampler.HeapCount, b Before) {
	before := b.Memory
	out := &report.HeapMemory{RSSBytes: m.RSS, PSSBytes: m.PSS, PrivateBytes: m.Private, SwapBytes: m.Swap, Parts: []report.HeapMemoryPart{},
		Malloc: report.HeapMalloc{Allocator: report.TextOrNil(m.Malloc.Allocator), Arenas: m.Malloc.Arenas, Bytes: m.Malloc.Bytes, FreeBytes: m.Malloc.Free}}
	for _, p := range m.Parts {
		x := report.HeapMemoryPart{Kind: p.Kind, Bytes: p.Bytes}
		if before != nil {
			grown := int64(p.Bytes)
			for _, b := range before.Parts {
				if b.Kind == p.Kind {
					grown -= int64(b.Bytes)
				}
			}
			x.GrownBytes = &grown
		}
		out.Parts = append(out.Parts, x)
	}
	if c := m.Copied; c != nil {
		out.Copied = &report.HeapCopied{Parent: c.Parent, InheritedBytes: c.Inherited, SharedBytes: c.Shared, CopiedBytes: c.Copied}
	}
	out.Grown = grown(&b, &Before{m, c})
	if m.RSS > 0 {
		for _, list := range [...][]report.HeapKind{h.Classes, h.Types} {
			for i := range list {
				share := float64(list[i].Bytes) / float64(m.RSS)
				list[i].RSSShare = &share
			}
		}
	}
	out.Advice = report.TextOrNil(memoryAdvice(m))
	h.Heap.Memory, h.asked = out, m.Asked
}

// memoryAdvice returns a sentence on how to save the most memory. It is empty if little can be saved.
func memoryAdvice(m *sampler.MemoryParts) string {
	worth := func(part, of uint64) bool { return part >= adviceBytes && float64(part) >= adviceShare*float64(of) }
	if a := &m.Malloc; a.Free != nil && worth(*a.Free, a.Bytes) {
		return fmt.Sprintf("%s %s, %s of it free: this is fragmentation of the allocator, not a leak. Set MALLOC_ARENA_MAX=2, or use jemalloc.",
			units.Plural(a.Arenas, "malloc arena holds", "malloc arenas hold"), units.FineBytes(int64(a.Bytes)), units.FineBytes(int64(*a.Free)))
	}
	if c := m.Copied; c != nil && worth(c.Copied, c.Inherited) {
		return fmt.Sprintf("Up to %s of %s that the process had from its parent were copied since the fork. Load the program and call GC.compact before the fork.",
			units.FineBytes(int64(c.Copied)), units.FineBytes(int64(c.Inherited)))
	}
	return ""
}

// memory writes what the memory consists of.
func (h *Heap) memory(b *strings.Builder) {
	m := h.Heap.Memory
	if m == nil {
		return
	}
	fmt.Fprintf(b, "\nResident memory: %s. Other processes share %s of it. PSS %s.\n", units.FineBytes(int64(m.RSSBytes)),
		units.FineBytes(int64(m.RSSBytes-min(m.RSSBytes, m.PrivateBytes))), units.FineBytes(int64(m.PSSBytes)))
	rows := [][]string{{"memory", "bytes", "share"}}
	if len(m.Parts) > 0 && m.Parts[0].GrownBytes != nil {
		rows[0] = append(rows[0], "grown")
	}
	for _, p := range m.Parts {
		row := []string{p.Kind, units.FineBytes(int64(p.Bytes)), units.FinePercent(float64(p.Bytes) / float64(max(m.RSSBytes, 1)))}
		if p.GrownBytes != nil {
			sign := "+"
			if *p.GrownBytes < 0 {
				sign = "-"
			}
			row = append(row, sign+units.FineBytes(max(*p.GrownBytes, -*p.GrownBytes)))
		}
		rows = append(rows, row)
	}
	writeTable(b, rows)
	if a := &m.Malloc; a.Arenas > 0 && a.FreeBytes != nil {
		fmt.Fprintf(b, "%s: %s in use, %s free.\n", units.Plural(a.Arenas, "malloc arena", "malloc arenas"),
			units.FineBytes(int64(a.Bytes-*a.FreeBytes)), units.FineBytes(int64(*a.FreeBytes)))
	}
	if c := m.Copied; c != nil {
		fmt.Fprintf(b, "Inherited from process %d: %s, of which %s are still shared and at most %s were copied since the fork.\n", c.Parent,
			units.FineBytes(int64(c.InheritedBytes)), units.FineBytes(int64(c.SharedBytes)), units.FineBytes(int64(c.CopiedBytes)))
	}
	if text := h.GrownText(); text != "" {
		fmt.Fprintf(b, "%s\n", text)
	}
	h.asks(b)
	if m.Advice != nil {
		fmt.Fprintf(b, "%s\n", *m.Advice)
	}
}
