package export

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
)

// maxHeapPlaces limits how many of the places in the code that allocated objects are listed in the text of a Heap.
const maxHeapPlaces = 20

// mainPlace returns the place that allocated most of the objects of a class. It is nil if no place is known.
func (h *Heap) mainPlace(class string) (most *report.HeapPlace) {
	if h.Allocated == nil {
		return nil
	}
	for i := range h.Allocated.Places {
		if p := &h.Allocated.Places[i]; p.Class == class && (most == nil || p.Objects > most.Objects) {
			most = p
		}
	}
	return most
}

// allocated writes where objects were allocated. It writes nothing unless the process traces allocations.
func (h *Heap) allocated(b *strings.Builder) {
	a := h.Allocated
	if a == nil {
		return
	}
	known, all := units.Count(int64(a.Objects)), units.Count(int64(h.Objects))
	fmt.Fprintf(b, "The place of allocation is known of %s of %s objects.\n", known, all)
	if a.Cut {
		fmt.Fprintf(b, "The process recorded more places than ddtop reads, or changed the record too fast.\n")
	}
	if a.Misfits > 0 {
		records := units.Plural(int(a.Misfits), "record", "records")
		fmt.Fprintf(b, "%s changed meanwhile, or did not fit their objects, and are left out.\n", records)
	}
	if len(a.Places) == 0 {
		b.WriteByte('\n')
		return
	}
	rows := [][]string{{"class", "objects", "bytes", "allocated at"}}
	for i := range a.Places[:min(len(a.Places), maxHeapPlaces)] {
		p := &a.Places[i]
		objects, bytes := units.Count(int64(p.Objects)), units.FineBytes(int64(p.Bytes))
		rows = append(rows, []string{flamegraph.Printable(p.Class), objects, bytes, placeText(p)})
	}
	writeTable(b, rows)
	if more := len(a.Places) - maxHeapPlaces; more > 0 {
		fmt.Fprintf(b, "%s more with --json\n", units.Plural(more, "place", "places"))
	}
	b.WriteByte('\n')
}

// placeText returns a place with its method, such as "app/cart.rb:12 (Class#new)".
func placeText(p *report.HeapPlace) string {
	text := fmt.Sprintf("%s:%d", flamegraph.Printable(p.Path), p.Line)
	if p.Method != nil {
		text += fmt.Sprintf(" (%s)", flamegraph.Printable(*p.Method))
	}
	return text
}
