package export

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxAskStacks limits how many stacks that asked the kernel for memory are listed in JSON. maxAskRows limits the
	// number of rows of the table in the text.
	maxAskStacks, maxAskRows = 200, 10
)

// Asks adds the code that asked the kernel for memory. dict has the stacks of a. If it is not known which code asked, a
// is nil and missing is the reason. Call Asks after Memory, because it adds to the result of Memory.
func (h *Heap) Asks(dict *sampler.Dictionary, a *sampler.MemoryAsks, missing string) {
	m := h.Heap.Memory
	if m == nil || a == nil && missing == "" {
		return
	}
	m.Asks = &report.HeapAsks{Missing: report.TextOrNil(missing), Stacks: []report.HeapAsk{}}
	if a == nil {
		return
	}
	m.Asks.SpanNS, m.Asks.Calls, m.Asks.Bytes, m.Asks.CopiedCalls, m.Asks.HeldKnown = a.UntilNS-a.SinceNS, a.Calls, a.Bytes, a.Copied, a.Sure
	for _, x := range a.Stacks[:min(len(a.Stacks), maxAskStacks)] {
		m.Asks.Stacks = append(m.Asks.Stacks, report.HeapAsk{Calls: x.Calls, Bytes: x.Bytes, HeldBytes: x.Held, Frames: dumpFrames(dict, x.Stack)})
	}
	h.askRows, h.asked = code.Asks(dict, a), AskedText(dict, a, "")
}

// askedPart is a share of the memory that was asked for and is still mapped. AskedText names the code that asked for
// the most only if this code asked for at least this share.
const askedPart = 0.5

// AskedText returns a sentence about the code that asked the kernel for most of the memory that is still mapped. It is
// empty if no code asked for half of that memory. If it is not known which code asked, the sentence gives the reason in
// missing.
func AskedText(dict *sampler.Dictionary, a *sampler.MemoryAsks, missing string) string {
	switch {
	case a == nil && missing == "":
		return ""
	case a == nil:
		return "The code that asks the kernel for it is not known: " + missing + "."
	}
	list, all := code.Asks(dict, a), uint64(0)
	for _, x := range list {
		all += x.Held
	}
	if all == 0 || float64(list[0].Held) < askedPart*float64(all) {
		return ""
	}
	return fmt.Sprintf("%s asked the kernel for %s of the memory that stays, in %s.", flamegraph.Printable(list[0].String()),
		units.RoundPercent(float64(list[0].Held)/float64(all)), units.ProseDuration(a.UntilNS-a.SinceNS))
}

// asks writes a table of the code that asked the kernel for memory.
func (h *Heap) asks(b *strings.Builder) {
	a := h.Heap.Memory.Asks
	switch {
	case a == nil:
		return
	case a.Missing != nil:
		fmt.Fprintf(b, "The code that asks the kernel for memory is not known: %s.\n", *a.Missing)
		return
	}
	fmt.Fprintf(b, "\nCode that asked the kernel for memory in %s: %s, %s.", units.ProseDuration(a.SpanNS), units.FineBytes(int64(a.Bytes)),
		units.Plural(int(a.Calls), "call", "calls"))
	if a.CopiedCalls < a.Calls {
		fmt.Fprintf(b, " The table has the stacks of %s of them.", units.Count(int64(a.CopiedCalls)))
	}
	if !a.HeldKnown {
		b.WriteString(" More may have been given back than the table says.")
	}
	b.WriteByte('\n')
	rows := [][]string{{"code", "asked for", "still mapped", "calls"}}
	for _, x := range h.askRows[:min(len(h.askRows), maxAskRows)] {
		rows = append(rows, []string{flamegraph.Printable(x.String()), units.FineBytes(int64(x.Bytes)), units.FineBytes(int64(x.Held)),
			units.Count(int64(x.Calls))})
	}
	writeTable(b, rows)
	if more := len(h.askRows) - maxAskRows; more > 0 {
		fmt.Fprintf(b, "%s more with --json\n", units.Plural(more, "row", "rows"))
	}
}
