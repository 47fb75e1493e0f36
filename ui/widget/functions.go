package widget

import (
	"fmt"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// RestStates are those of weights that are rest: the weights of the screen are of gvl.Resting's states.
const RestStates = flamegraph.StateSet(1) << gvl.Parked

// TopOrder is what the rows are sorted by.
type TopOrder string

const (
	BySelf  TopOrder = "self"
	ByTotal TopOrder = "total"
	ByBlame TopOrder = "blame"
)

// TopKey names a row.
type TopKey struct {
	Label, File string
	Line        int32
}

func (k TopKey) ID() TopKey { return k }

// RowOfFrame is a frame's place in the rows, and whether the line that it stands for can't be trusted.
type RowOfFrame struct {
	Row       int32
	Uncertain bool
	// Own: it is the program's own code; core: a function of Ruby's core or in C.
	Own, Core bool
	Library   string // of what is not own
}

// LibraryRow begins the name of a row that stands for the functions of a library.
const LibraryRow = "⋯ "

// OwnRows appends the rows of a stack's own frames, innermost first, and, with core, those of the functions in C that
// these call. It returns the library that the stack is in otherwise. Without own, the rows of all frames are appended.
func OwnRows(frames []RowOfFrame, core, own bool, rows *[]int32) (library string) {
	library = "ruby"
	last := -1
	for i := range frames {
		switch at := &frames[i]; {
		case !own:
			*rows = append(*rows, at.Row)
		case at.Own:
			last = i
			*rows = append(*rows, at.Row)
		case at.Core && core && i+1 < len(frames) && frames[i+1].Own && i == last+1:
			last = i // it called nothing but own code
			*rows = append(*rows, at.Row)
		case !at.Core:
			library = at.Library
		}
	}
	return library
}

// DrawFunction writes a function and where it is, as far as there is room.
func DrawFunction(a canvas.Area, label, where string, st canvas.Style, t *style.Theme) {
	x := a.Put(0, 0, flamegraph.LabelFit(canvas.Clean(label), max(a.W*6/10, a.W-canvas.Width(where)-2)), st)
	if room := a.W - x - 2; room > 6 {
		a.Put(x+2, 0, canvas.CutLeft(where, room), t.Dimmed())
	}
}

// SharePoints prints a share with one decimal: in a list by weight the order must be plain.
func SharePoints(s float64) string {
	switch {
	case s <= 0:
		return "–"
	case s < 0.0005:
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", s*100)
}

// PlacesFrom is what the places were summed from.
type PlacesFrom struct {
	FromNS, ToNS int64
	Hides        bool // directories were hidden
}

// Blame is whose code made others wait for the GVL.
type Blame struct {
	Places []flamegraph.PlaceSum
	// WaitNS is the waiting of all threads, NobodyNS the part in which nobody held the GVL.
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

// ClockOf is the form of a moment on a screen of so many columns: as fine as it is known.
func ClockOf(e *store.WaitEvent, screen int) string {
	switch {
	case !e.Exact:
		return "15:04:05.000"
	case screen >= scene.WideWidth:
		return "15:04:05.000000"
	}
	return "04:05.000000"
}
