package ui

import (
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// stacked is a page on which a stack can be selected.
type stacked interface {
	// stack returns what was selected and its frames, a line each, the innermost first as Ruby prints them; none when nothing
	// is selected.
	stack(sc *scene) (title string, lines []string)
}

// selectedStack returns the stack of the selected frame or thread, as stacked does.
func (m *Model) selectedStack() (title string, lines []string) {
	if p, ok := m.current().(stacked); ok {
		return p.stack(&m.scene)
	}
	return "", nil
}

func (p *flamePage) stack(sc *scene) (string, []string) { return p.flame.stack() }

func (p *threadPage) stack(sc *scene) (string, []string) { return sc.threadStack(p.row) }

func (p *threadsPage) stack(sc *scene) (string, []string) {
	i := p.table.index()
	if i < 0 || p.table.rows[i].isGroup {
		return "", nil
	}
	return sc.threadStack(&sc.threads[p.table.rows[i].members[0]])
}

// stack is that of the instant under the cursor, where there is one.
func (p *timelinePage) stack(sc *scene) (string, []string) {
	th := p.timeline.chosen()
	if th == nil || p.cursorNS == 0 {
		return sc.threadStack(th)
	}
	st, ok := p.under(th.id)
	if !ok {
		return "", nil
	}
	at := sc.process.WallTime(p.cursorNS).Format(" (15:04:05.000)")
	return canvas.Clean(th.name+": "+gvl.Describe(st, sc.dict)) + at, sc.frameLines(st)
}

// stack is that of the selected frame: it and its callers.
func (v *flameView) stack() (title string, lines []string) {
	n := v.selNode
	if n == nil {
		return "", nil
	}
	title = canvas.Clean(n.Text())
	for n = v.wholeNode(flamegraph.PathOf(n)); n != nil && n.Parent != nil; n = n.Parent {
		line := n.Label
		if n.File != "" {
			line += " (" + style.LineIn(n.File, n.Line, n.Uncertain) + ")"
		}
		lines = append(lines, canvas.Clean(line))
	}
	return title, lines
}

// chosen is the selected thread; nil when none is, or a group.
func (v *timelineView) chosen() *threadRow {
	if w := v.selectedRow(); w != nil && !w.isGroup {
		return &v.threads[w.members[0]]
	}
	return nil
}

// selectedRow is nil when no row is selected.
func (v *timelineView) selectedRow() *row {
	if i := v.index(); i >= 0 {
		return &v.rows[i]
	}
	return nil
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
