package export

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// Thresholds of the advice about memory.
const (
	// adviceBytes is the least memory, in bytes, that is worth an advice, and adviceShare its least part of its kind.
	adviceBytes, adviceShare = 10_000_000, 0.3
)

// Memory adds what the memory consists of. before is nil, or the same at the beginning.
func (h *Heap) Memory(m, before *sampler.MemoryParts) {
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
	out.Advice = report.TextOrNil(memoryAdvice(m))
	h.Heap.Memory = out
}

// memoryAdvice returns a sentence about the memory that can be saved most easily, or nothing.
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
	if m.Advice != nil {
		fmt.Fprintf(b, "%s\n", *m.Advice)
	}
}
