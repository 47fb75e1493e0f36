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

// RestStates are the states of threads that have nothing to do. On the screen this is only Parked, because resting
// threads get this state (findings.Resting).
const RestStates = flamegraph.StateSet(1) << gvl.Parked

// TopOrder is the column by which the view of functions is sorted.
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

// LibraryRow is the prefix of the name of a row that sums up all functions of a library.
const LibraryRow = "⋯ "

// rowOfFrame is the row of a frame. uncertain is true if the frame's line number cannot be trusted.
type rowOfFrame struct {
	row       int32
	uncertain bool
	// own is true for the program's own code. core is true for functions of Ruby's core, and for functions in C.
	own, core bool
	library   string // the frame's library, if it is not own
	native    bool   // a C function below the Ruby frames
}

// Rows assigns the frames of stacks to rows: functions, lines, gems or files. It computes the row of each frame only
// once.
type Rows struct {
	// Key returns the key of a frame's row.
	Key func(f *sampler.Frame, from sampler.Origin) TopKey
	// Add is called for each new key, to make its row. Rows are numbered in the order in which they are made.
	Add func(k TopKey, from sampler.Origin)
	// ByLine is true if each line of a function has its own row. Core is true if functions in C also have rows, if the
	// program's own code calls them.
	ByLine, Core bool

	index  map[TopKey]int32
	of     map[sampler.FrameID]rowOfFrame
	frames []sampler.FrameID
	places []rowOfFrame
	rows   []int32
}

// Forget begins anew, with no rows.
func (r *Rows) Forget() {
	r.index, r.of = make(map[TopKey]int32), make(map[sampler.FrameID]rowOfFrame)
}

// Of returns the rows of a stack, innermost first. The stack's own weight belongs to the first row. If own is true,
// only the program's own frames have rows and, with Core, the functions in C that they call. A stack without such
// frames has the row of its library. Of calls doubt with the rows whose lines cannot be trusted. The slice is valid
// until the next call.
func (r *Rows) Of(dict *sampler.Dictionary, stack sampler.StackID, own bool, doubt func(row int32)) []int32 {
	r.frames, r.places, r.rows = dict.Frames(stack, r.frames[:0]), r.places[:0], r.rows[:0]
	for _, id := range r.frames {
		at := r.ofFrame(dict, id)
		if at.native {
			continue // its time counts for the Ruby frame that called it
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
		case at.own, at.core && r.Core && i+1 < len(r.places) && r.places[i+1].own && i == last+1: // it called nothing but own code
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

// KeyOfFunction returns the key of the row of a frame's function.
func KeyOfFunction(f *sampler.Frame) TopKey {
	if f.C {
		return TopKey{Label: f.Label}
	}
	return TopKey{f.Label, f.File(), f.FirstLine}
}

// DrawFunction writes a function and its place in the code, cut to the width of the area.
func DrawFunction(a canvas.Area, label, where string, st canvas.Style, t *style.Theme) {
	label, where = gvl.AddLine(label, where)
	x := a.Put(0, 0, flamegraph.LabelFit(canvas.Clean(label), max(a.W*6/10, a.W-canvas.Width(where)-2)), st)
	if room := a.W - x - 2; room > 6 {
		a.Put(x+2, 0, canvas.CutLeft(where, room), t.Dimmed())
	}
}

// SharePoints returns a share in percent with one decimal. So the numbers in a list that is sorted by weight also show
// the order.
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
	// WaitNS is how long all threads together waited for the GVL, in ns. NobodyNS is the part of it in which no thread
	// held the GVL.
	WaitNS, NobodyNS int64
}

// BlameOf sums up how long threads waited for the GVL, by the place in the code that held it.
func BlameOf(s *flamegraph.Snapshot, dict *sampler.Dictionary) Blame {
	b := Blame{Places: s.Places(dict, func(e *flamegraph.Entry) int64 { return e.Weights.BlameNS })}
	charged, total := int64(0), s.Total()
	for i := range b.Places {
		charged += b.Places[i].NS
	}
	b.NobodyNS = max(total.WaitNS-charged, 0)
	b.WaitNS = max(total.WaitNS, charged) // blame is known a little earlier than the time of the wait
	return b
}

// DrawPlace writes a place in the code with its file and line, cut to the width of the area.
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

// PlaceFit cuts a text of the form "METHOD → C FUNCTION" to w columns. It keeps as much as possible of both names.
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

// ClockOf returns the format in which the time of a wait is written. screen is the width of the screen in columns. Only
// waits whose times are exactly known get microseconds.
func ClockOf(e *store.WaitEvent, screen int) string {
	switch {
	case !e.Exact:
		return "15:04:05.000"
	case screen >= scene.WideWidth:
		return "15:04:05.000000"
	}
	return "04:05.000000"
}
