package widget

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// RestStates are the states of threads that have nothing to do. On the screen this is only the state Parked, because
// the screen gives this state to all resting threads (findings.Resting).
const RestStates = flamegraph.StateSet(1) << gvl.Parked

// TopOrder is the name of the column by which the list of functions is sorted.
type TopOrder string

const (
	BySelf  TopOrder = "self"
	ByTotal TopOrder = "total"
	ByBlame TopOrder = "blame"
)

// TopKey identifies a row of the top list: a function, a line, a file or a gem.
type TopKey struct {
	Label, File string
	Line        int32
}

func (k TopKey) ID() TopKey { return k }

// LibraryRow is the first part of the name of a row that adds up all functions of a library.
const LibraryRow = "⋯ "

// rowOfFrame says in which row a frame is counted. uncertain is true if the frame's line number cannot be trusted.
type rowOfFrame struct {
	row       int32
	uncertain bool
	// own is true if the frame is the program's own code. core is true for functions of Ruby's core, and for functions
	// in C.
	own, core bool
	library   string // the frame's library, if own is false
	native    bool   // a C function below the Ruby frames
}

// Rows decides in which row of a list each frame of a stack is counted. A row is a function, line, gem or file. Rows
// finds the row of each frame only once.
type Rows struct {
	// Key returns the key of the row in which a frame is counted.
	Key func(f *sampler.Frame, from sampler.Origin) TopKey
	// Add is called for each new key, so that the caller can make a row for it. The rows are numbered in the order of
	// these calls.
	Add func(k TopKey, from sampler.Origin)
	// ByLine is true if each line of a function has a row of its own. Core is true if a function in C also has a row in
	// a list of own code, when the program's own code calls it.
	ByLine, Core bool

	index  map[TopKey]int32
	of     map[sampler.FrameID]rowOfFrame
	frames []sampler.FrameID
	places []rowOfFrame
	rows   []int32
}

// Forget drops all rows, so that Rows begins again with none.
func (r *Rows) Forget() {
	r.index, r.of = make(map[TopKey]int32), make(map[sampler.FrameID]rowOfFrame)
}

// Of returns the rows in which a stack is counted, innermost first. The stack's own weight belongs to the first row. If
// own is true, only the program's own frames have rows. With Core, the functions in C that they call also have rows. A
// stack without such frames is counted in the row of its library. For each row whose line cannot be trusted, Of calls
// the function doubt. The slice is valid until the next call.
func (r *Rows) Of(dict *sampler.Dictionary, stack sampler.StackID, own bool, doubt func(row int32)) []int32 {
	r.frames, r.places, r.rows = dict.Frames(stack, r.frames[:0]), r.places[:0], r.rows[:0]
	for _, id := range r.frames {
		at := r.ofFrame(dict, id)
		if at.native {
			continue // the time of this frame is added to the Ruby frame that called it
		}
		if at.uncertain {
			doubt(at.row)
		}
		r.places = append(r.places, at)
	}
	library, last := "ruby", -1
	for i := range r.places {
		switch at := &r.places[i]; {
		case !own:
			r.rows = append(r.rows, at.row)
		// a core function has a row only if own code called it, and it called nothing but own code
		case at.own, at.core && r.Core && i+1 < len(r.places) && r.places[i+1].own && i == last+1:
			last = i
			r.rows = append(r.rows, at.row)
		case !at.core:
			library = at.library
		}
	}
	if len(r.rows) == 0 && len(r.places) > 0 {
		r.rows = append(r.rows, r.named(TopKey{Label: LibraryRow + library}, sampler.OriginGem))
	}
	return r.rows
}

func (r *Rows) ofFrame(dict *sampler.Dictionary, id sampler.FrameID) rowOfFrame {
	at, ok := r.of[id]
	if !ok {
		f := dict.Frame(id)
		from := style.OriginOf(f)
		at = rowOfFrame{r.named(r.Key(&f, from), from), r.ByLine && f.Uncertain, f.Own(), from == sampler.OriginCore, f.Library(), f.IsNative()}
		r.of[id] = at
	}
	return at
}

func (r *Rows) named(k TopKey, from sampler.Origin) int32 {
	i, ok := r.index[k]
	if !ok {
		i = int32(len(r.index))
		r.index[k] = i
		r.Add(k, from)
	}
	return i
}

// KeyOfFunction returns the key of the row in which a frame is counted, if each row is a function.
func KeyOfFunction(f *sampler.Frame) TopKey {
	if f.C {
		return TopKey{Label: f.Label}
	}
	return TopKey{f.Label, f.File(), f.FirstLine}
}

// DrawFunction writes a function's name and its place in the code. It shortens them to the width of the area.
func DrawFunction(a canvas.Area, label, where string, st canvas.Style, t *style.Theme) {
	label, where = gvl.AddLine(label, where)
	x := a.Put(0, 0, flamegraph.LabelFit(canvas.Clean(label), max(a.W*6/10, a.W-canvas.Width(where)-2)), st)
	if room := a.W - x - 2; room > 6 {
		a.Put(x+2, 0, canvas.CutLeft(where, room), t.Dimmed())
	}
}

// SharePoints returns a share in percent with one decimal. With the decimal, the numbers in a list that is sorted by
// weight show why one row comes before another.
func SharePoints(s float64) string {
	switch {
	case s <= 0:
		return "–"
	case s < 0.0005:
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", s*100)
}

// PlacesFrom identifies the data from which a list of places was made: the time span, and whether directories were
// hidden. If it has not changed, the list need not be made again.
type PlacesFrom struct {
	FromNS, ToNS int64
	Hides        bool // directories were hidden
}

// Blame says which code held the GVL while other threads waited for it.
type Blame struct {
	Places []flamegraph.PlaceSum
	// WaitNS is how long all threads together waited for the GVL, in ns. NobodyNS is the part of this time in which no
	// thread held the GVL.
	WaitNS, NobodyNS int64
}

// BlameOf adds up how long threads waited for the GVL. There is one sum for each place in the code that held the GVL
// meanwhile.
func BlameOf(s *flamegraph.Snapshot, dict *sampler.Dictionary) Blame {
	b := Blame{Places: s.Places(dict, func(e *flamegraph.Entry) int64 { return e.Weights.BlameNS })}
	charged, total := int64(0), s.Total()
	for i := range b.Places {
		charged += b.Places[i].NS
	}
	b.NobodyNS = max(total.WaitNS-charged, 0)
	b.WaitNS = max(total.WaitNS, charged) // while a wait goes on, its blame is known a little earlier than its time
	return b
}

// DrawPlace writes a place in the code: the function, its file and line. It shortens them to the width of the area.
func DrawPlace(a canvas.Area, b *flamegraph.PlaceSum, t *style.Theme) {
	code, where := b.String(), ""
	if b.Path != "" {
		code, where = gvl.AddLine(code, fmt.Sprintf("%s:%d", b.Path, b.Line))
	}
	x := a.Put(0, 0, PlaceFit(code, a.W), t.Plain())
	if a.W-x > 10 {
		a.Put(x+2, 0, canvas.CutLeft(where, a.W-x-2), t.Dimmed())
	}
}

// PlaceFit shortens a text of the form "METHOD → C FUNCTION" to w columns. It keeps as much as possible of both names.
func PlaceFit(code string, w int) string {
	const calls = " → "
	caller, callee, found := strings.Cut(code, calls)
	room := w - canvas.Width(calls)
	switch {
	case canvas.Width(code) <= w:
		return code
	case !found || room <= 0:
		return flamegraph.LabelFit(caller, w)
	}
	callee = flamegraph.LabelFit(callee, max(room/2, room-canvas.Width(caller)))
	return flamegraph.LabelFit(caller, room-canvas.Width(callee)) + calls + callee
}

// ClockOf returns the format for the time of day at which a wait happened. screen is the width of the screen in
// columns. Only waits whose times are exactly known are written with microseconds.
func ClockOf(e *store.WaitEvent, screen int) string {
	switch {
	case !e.Exact:
		return "15:04:05.000"
	case screen >= scene.WideWidth:
		return "15:04:05.000000"
	}
	return "04:05.000000"
}
