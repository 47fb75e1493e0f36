package scene

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

const (
	// LeastNow is the least height, in rows, of the list that says where in the code the threads are now. It includes
	// the line above the list.
	LeastNow = 5
	// placeFrames is how many frames of a stack StackText writes. It is more than one, because a single frame such as
	// IO#gets says little without its callers.
	placeFrames = 5
)

// ThreadStack returns the stack of a thread at the moment on the screen, as text. It is empty if the stack is not
// known.
func (sc *Scene) ThreadStack(th *Thread) (title string, lines []string) {
	if th == nil || !th.Known {
		return "", nil
	}
	return canvas.Clean(th.Name + ": " + gvl.Describe(th.State, sc.Dict)), sc.FrameLines(th.State)
}

// FrameLines returns the frames of a thread's stack as lines of text.
func (sc *Scene) FrameLines(st gvl.ThreadState) (lines []string) {
	for _, id := range sc.Dict.Frames(st.Stack, nil) {
		f := sc.Dict.Frame(id)
		line := style.CodeIn(f.Label, f.Path, f.Line, f.Uncertain)
		lines = append(lines, canvas.Clean(line))
	}
	return lines
}

// stackLine is a line of a stack. It is one frame, or a run: several consecutive library frames that are folded into
// one line. The field run is the text of such a line.
type stackLine struct {
	frame sampler.FrameID // zero for a run
	run   string
	from  int // how many frames of the stack are further in than this line
}

// maxStackLines limits how many frames ListStack reads from a stack.
const maxStackLines = 1 << 12

// stackLines returns lines for the innermost frames of a stack, innermost first. The parameter most limits how many
// frames it reads.
func (sc *Scene) stackLines(stack sampler.StackID, fold bool, most int) []stackLine {
	ids := sc.Dict.Frames(stack, nil)
	ids = ids[:min(len(ids), most)]
	out := make([]stackLine, 0, len(ids))
	if !fold {
		for i, id := range ids {
			out = append(out, stackLine{frame: id, from: i})
		}
		return out
	}
	for _, r := range flamegraph.FoldStack(len(ids), func(i int) (bool, string) {
		f := sc.Dict.Frame(ids[i])
		return f.Own(), f.Library()
	}) {
		l := stackLine{run: r.Text, from: r.From}
		if r.Text == "" {
			l.frame = ids[r.From]
		}
		out = append(out, l)
	}
	return out
}

// ListStack draws a stack into the rows of a, one line in each, innermost first.
func (sc *Scene) ListStack(a canvas.Area, stack sampler.StackID, fold bool) {
	t := &sc.Theme
	lines := sc.stackLines(stack, fold, maxStackLines)
	for y, l := range lines[:min(len(lines), a.H)] {
		if y == a.H-1 && len(lines) > a.H {
			a.Put(2, y, fmt.Sprintf("▼ %d more frames", sc.Dict.Depth(stack)-l.from), t.Dimmed())
			return
		}
		if l.frame == 0 {
			a.Put(3, y, canvas.Cut(canvas.Clean(l.run), a.W-4), t.Dimmed())
			continue
		}
		f := sc.Dict.Frame(l.frame)
		a.Put(1, y, "■", canvas.Style{FG: t.Flame[style.OriginOf(f)]})
		label, where := f.Label, ""
		if !f.C && f.Path != "" {
			label, where = gvl.AddLine(label, style.LineIn(f.Path, f.Line, f.Uncertain))
		}
		x := a.Put(3, y, flamegraph.LabelFit(canvas.Clean(label), a.W*6/10), t.Plain())
		a.Put(x+2, y, canvas.CutLeft(where, a.W-x-3), t.Dimmed())
	}
}

// StackText writes the innermost lines of a stack one after the other on a single line.
func (sc *Scene) StackText(stack sampler.StackID, fold bool) string {
	const looked = 256 // how many frames are read; it is many, because most frames are of libraries
	out := ""
	for n, l := range sc.stackLines(stack, fold, looked) {
		if n == placeFrames {
			break
		}
		s, _, _ := strings.Cut(l.run, ":") // leave out the names of libraries, because further frames are more useful
		if l.frame != 0 {
			f := sc.Dict.Frame(l.frame)
			if s = f.Label; !f.C && f.Line > 0 {
				s += fmt.Sprintf(":%d", f.Line)
			}
		}
		if n > 0 {
			out += " ← "
		}
		out += canvas.Clean(s)
	}
	if out == "" {
		return "no stack was read"
	}
	return out
}
