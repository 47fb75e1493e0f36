package widget

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// identGlyphs are what stands for a thread in the GVL lane, beside its colour.
const identGlyphs = "123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// idents gives the threads that hold the GVL a small number each, which they keep for as long as they are in the
// picture. Those beyond the glyphs have none and are drawn as "+".
type idents struct {
	Of   map[sampler.ThreadID]int // 1 and up; absent: none
	used [len(identGlyphs) + 1]sampler.ThreadID
}

// assign gives numbers to the owners of the lanes, the longest holders first, and takes back those of threads that are
// not in the picture any more.
func (d *idents) assign(lanes []lane) {
	held := make(map[sampler.ThreadID]int64)
	for _, l := range lanes {
		for _, c := range l.cells {
			if c.Owner != 0 {
				held[c.Owner] += c.HeldByOwnerNS
			}
		}
	}
	if d.Of == nil {
		d.Of = make(map[sampler.ThreadID]int)
	}
	for id, n := range d.Of {
		if _, ok := held[id]; !ok {
			delete(d.Of, id)
			d.used[n] = 0
		}
	}
	fresh := make([]sampler.ThreadID, 0, len(held))
	for id := range held {
		if d.Of[id] == 0 {
			fresh = append(fresh, id)
		}
	}
	slices.SortFunc(fresh, func(x, y sampler.ThreadID) int {
		return cmp.Or(cmp.Compare(held[y], held[x]), cmp.Compare(x, y))
	})
	next := 1
	for _, id := range fresh {
		for next < len(d.used) && d.used[next] != 0 {
			next++
		}
		if next == len(d.used) {
			return
		}
		d.Of[id], d.used[next] = next, id
	}
}

// identRune is the glyph of a number.
func identRune(n int) rune {
	if n <= 0 || n > len(identGlyphs) {
		return '+'
	}
	return rune(identGlyphs[n-1])
}
