package ui

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// selectedStack returns the stack of the selected frame or thread.
func selectedStack(m *Model) (title string, lines []string) {
	return m.current().stack(&m.scene)
}

// threadStack returns the stack of a thread at the moment shown; none when it is not known.
func (sc *scene) threadStack(th *threadRow) (title string, lines []string) {
	if th == nil || !th.known {
		return "", nil
	}
	return canvas.Clean(th.name + ": " + gvl.Describe(th.state, sc.dict)), sc.frameLines(th.state)
}

// frameLines writes the frames of a thread's stack.
func (sc *scene) frameLines(st gvl.ThreadState) (lines []string) {
	for _, id := range sc.dict.Frames(st.Stack, nil) {
		f := sc.dict.Frame(id)
		line := f.Label
		if f.Path != "" {
			line = f.Label + " (" + style.LineIn(f.Path, f.Line, f.Uncertain) + ")"
		}
		lines = append(lines, canvas.Clean(line))
	}
	return lines
}
