package widget

import (
	"fmt"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// PlacesFrom is what the places were summed from.
type PlacesFrom struct {
	FromNS, ToNS int64
	Hides        bool // directories were hidden
}

// Blame is whose code made others wait for the GVL.
type Blame struct {
	Places []flamegraph.PlaceSum
	// WaitNS is the waiting of all threads, nobodyNS the part in which nobody held the GVL.
	WaitNS, NobodyNS int64
}

// BlameOf sums the blame up by place.
func BlameOf(s *flamegraph.Snapshot, dict *sampler.Dictionary) Blame {
	b := Blame{Places: s.Places(dict, func(e *flamegraph.Entry) int64 { return e.Weights.BlameNS })}
	charged, total := int64(0), s.Total()
	for i := range b.Places {
		charged += b.Places[i].NS
	}
	b.NobodyNS = max(total.WaitNS-charged, 0)
	b.WaitNS = max(total.WaitNS, charged) // a wait's own time comes with its stack, a little later than the blame
	return b
}

// DrawPlace writes a place in the code with its file and line, as far as there is room.
func DrawPlace(a canvas.Area, b *flamegraph.PlaceSum, t *style.Theme) {
	x := a.Put(0, 0, canvas.Cut(b.String(), a.W), t.Plain())
	if b.Path != "" && a.W-x > 10 {
		a.Put(x+2, 0, canvas.CutLeft(fmt.Sprintf("%s:%d", b.Path, b.Line), a.W-x-2), t.Dimmed())
	}
}
