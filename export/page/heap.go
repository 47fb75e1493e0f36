package page

import (
	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
)

// shownClasses is the number of classes in the table of objects, on the page and in the file heap.txt of a snapshot.
// Growing classes beyond this number are listed, too.
const shownClasses = 30

func (b *incidentBuilder) addHeap() {
	h := b.n.Heap
	if h == nil || !b.has(partHeap) {
		return
	}
	how, doubts := h.Read()
	out := &incidentHeap{Said: append([]string{how}, doubts...), Classes: []incidentClass{}}
	grows := make(map[string]*report.HeapGrowing)
	suspect := ""
	if g := h.Growth; g != nil {
		for i := range g.Classes {
			grows[g.Classes[i].Name] = &g.Classes[i]
		}
		if k, _ := h.Suspect(); k != nil {
			suspect = k.Name
		}
		switch {
		case !g.Enough:
			out.Said = append(out.Said, "Too few collections came between the counts to say what grows.")
		case len(g.Classes) == 0:
			out.Said = append(out.Said, "No class grows all the time.")
		}
		for i := range g.Stopped[:min(len(g.Stopped), shownClasses)] {
			out.Said = append(out.Said, cutText(export.StoppedText(&g.Stopped[i]), MaxName))
		}
	}
	left := 0
	for i := range h.Classes {
		k := &h.Classes[i]
		g := grows[k.Name]
		if i >= shownClasses && g == nil {
			left++
			continue
		}
		x := incidentClass{Name: b.words(k.Name), Objects: k.Objects, Old: k.Old, Bytes: k.Bytes, Size: units.FineBytes(int64(k.Bytes)), Share: k.Share}
		if k.Unsized > 0 {
			x.Size += "+"
		}
		if g != nil {
			x.PerSecond, x.Growth, x.Suspect = g.ObjectsPerSecond, cutText(export.GrowingText(g), MaxName), k.Name == suspect
		}
		out.Classes = append(out.Classes, x)
	}
	if left > 0 {
		out.Said = append(out.Said, units.Plural(left, "smaller class is", "smaller classes are")+" not listed.")
	}
	b.out.Heap = out
}
