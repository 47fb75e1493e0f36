package thread

import (
	"cmp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// View registers the page.
var View = page.View{
	ID:   scene.PageThread,
	Make: page.Makes(New),
}

const (
	// longestWaits limits how many waits of a thread are listed.
	longestWaits = 20
	// maxThreadFrames limits how many frames of a stack are listed.
	maxThreadFrames = 4096
)

// Page shows the selected thread.
type Page struct {
	flame *widget.Flame // says whether the stack folds libraries
	page.Plain
	Frames widget.List[StackFrame, frameKey]
	// chosen is the frame that the user selected. If this frame is not on the present stack, the cursor is on the
	// innermost frame with a file.
	chosen  frameKey
	sources sources

	Depth  int           // number of frames in the whole stack
	Native int           // number of C functions below the Ruby frames
	row    *scene.Thread // nil if the thread is not in the time shown
	cells  []timeline.Cell
	fromNS int64
	toNS   int64
	Waits  store.ThreadWaits
	kinds  report.StatWaits // all waiting since the start, divided by kind
	noCPU  float64          // share of the thread's working time in which it had no CPU, since the start
	partly bool             // the oldest waits of the window are missing

	builder *flamegraph.Builder
	Heat    heat
	heatOf  struct {
		thread       sampler.ThreadID
		fromNS, toNS int64
	}
}

// StackFrame is a row of the stack. It is either one frame, or several folded frames. Then the field Label has the text
// of the row. nth distinguishes several frames of the same method. Native is set for a C function of the native stack,
// which is called by Ruby frames.
type StackFrame struct {
	sampler.Frame
	nth            int
	Folded, Native bool
}

type frameKey struct {
	label, path string
	nth         int
}

func (f StackFrame) ID() frameKey { return frameKey{f.Label, f.Path, f.nth} }

// heat is how long a thread spent in each line of code. This includes the time in the functions that the line called.
type heat struct {
	Lines map[CodeLine]int64
	Total int64
}

type CodeLine struct {
	File string
	Line int32
}

func New(c *widget.Parts) *Page {
	p := &Page{flame: &c.Flame, Frames: widget.List[StackFrame, frameKey]{Cursor: new(frameKey)}}
	other := func(n int) func(scene.Host) tea.Cmd {
		return func(h scene.Host) tea.Cmd { p.next(h, n); return p.Fetch(h) }
	}
	p.KeyMap = scene.KeyMap{Title: "one thread", Bindings: slices.Concat([]scene.Binding{
		{Keys: []string{"esc", "backspace"}, Show: "esc", Short: "back", Help: "back to where the thread was opened",
			Do: func(h scene.Host) tea.Cmd { return h.Open(h.Showing().ThreadFrom) }},
	}, widget.CursorKeys("frame", "go through the frames of the stack; the source follows", p.move), []scene.Binding{
		{Keys: []string{"left", "h"}, Show: "← →", Short: "thread", Help: "the thread before, the thread after (also h, l)", Do: other(-1)},
		{Keys: []string{"right", "l"}, Do: other(+1)},
		{Keys: []string{"c"}, Show: "c", Help: "own code, with the frames of libraries in rows; every frame",
			Do: func(h scene.Host) tea.Cmd { p.flame.ToggleLibraries(); h.Refresh(); return p.Fetch(h) }},
	})}
	return p
}

// move selects another frame.
func (p *Page) move(h scene.Host, by widget.Step) tea.Cmd {
	p.Frames.Move(by)
	return p.choose(h)
}

func (p *Page) choose(h scene.Host) tea.Cmd {
	p.chosen = *p.Frames.Cursor
	return p.Fetch(h)
}

// Frame returns the frame on which the cursor is. The page shows its source. It returns nil if the thread has no stack.
func (p *Page) Frame() *sampler.Frame {
	if i := p.Frames.Index(); i >= 0 {
		return &p.Frames.Rows[i].Frame
	}
	return nil
}

// next opens the thread that is n places further in the list of threads.
func (p *Page) next(h scene.Host, n int) {
	threads := h.Showing().Threads
	if len(threads) == 0 {
		return
	}
	i := slices.IndexFunc(threads, func(t scene.Thread) bool { return t.ID == h.Showing().Selected.Thread })
	h.Showing().Selected = scene.RowKey{Thread: threads[max(0, min(i+n, len(threads)-1))].ID}
	p.chosen, p.Frames.Top = frameKey{}, 0
	h.Refresh()
}

// Fetch returns the command that reads the source file of the selected frame.
func (p *Page) Fetch(h scene.Host) tea.Cmd {
	f := p.Frame()
	if h.Showing().Opt.Replay || h.Showing().Source.Ended || h.Showing().Source.Err != nil || f == nil || !strings.HasPrefix(f.AbsolutePath, "/") {
		return nil
	}
	return p.sources.fetch(h.Store().Src, f.AbsolutePath, h.Showing().Process.StartedAt)
}

// Fetched stores a source file when the message with its content arrives.
func (p *Page) Fetched(h scene.Host, msg tea.Msg) {
	if msg, ok := msg.(SourceMsg); ok {
		p.sources.put(msg.Path, msg.File)
		h.Draw()
	}
}

// NamesChanged makes the page read the names of functions and files again, because names are now hidden or shown again.
func (p *Page) NamesChanged() { p.builder = nil }

func (p *Page) Load(sc *scene.Scene, r *store.Reading) {
	id := sc.Selected.Thread
	sc.Opened.Load(sc)
	p.row = nil
	for i := range sc.Threads {
		if sc.Threads[i].ID == id {
			p.row = &sc.Threads[i]
		}
	}
	span, cols := int64(0), 0
	cols, span = scene.Axis(sc.WindowNS, sc.Width-threadLabelW-1, r.Timeline.ColumnNS())
	p.fromNS, p.toNS = sc.TimeWindow(r.Timeline, span, cols)
	p.cells = r.Timeline.AppendRow(p.cells[:0], id, p.fromNS, p.toNS, cols)
	fromNS := sc.AtNS - sc.WindowNS
	p.Waits = store.ThreadWaits{}
	if w := r.Waits.ByThread(fromNS, sc.AtNS, sc.States, store.ListOf{Thread: id, AtLeastNS: int64(sc.Opt.WaitThreshold), AtMost: longestWaits})[id]; w != nil {
		p.Waits = *w
	}
	p.kinds, p.noCPU = report.StatWaits{}, 0
	if all, ok := r.Account.Thread(id); ok {
		p.kinds = all.Waits
		p.noCPU = style.Share(all.NoCPU.Running+all.NoCPU.GC+all.NoCPU.Native, all.NS[gvl.Running]+all.NS[gvl.GC]+all.NS[gvl.Native])
	}
	p.partly = r.Waits.AllSince(fromNS) > fromNS
	p.loadStack(sc)
	p.loadHeat(sc, id)
}

// loadStack loads the rows of the stack.
func (p *Page) loadStack(sc *scene.Scene) {
	l := &p.Frames
	l.Rows, *l.Cursor, p.Depth, p.Native = l.Rows[:0], p.chosen, 0, 0
	if p.row == nil || !p.row.Known {
		return
	}
	ids := sc.Dict.Frames(p.row.State.Stack, nil)
	p.Depth = len(ids)
	for _, id := range ids[:min(len(ids), maxThreadFrames)] {
		l.Rows = append(l.Rows, StackFrame{Frame: sc.Dict.Frame(id)})
	}
	if p.flame.Folding == widget.FoldLibraries {
		l.Rows = FoldFrames(l.Rows)
	}
	l.Rows = append(p.nativeRows(sc), l.Rows...)
	seen := make(map[frameKey]int)
	for i := range slices.Backward(l.Rows) {
		k := l.Rows[i].ID()
		l.Rows[i].nth = seen[k]
		seen[k]++
	}
	if l.Index() < 0 && len(l.Rows) > 0 {
		*l.Cursor = l.Rows[max(0, slices.IndexFunc(l.Rows, func(f StackFrame) bool { return !f.C && f.AbsolutePath != "" }))].ID()
	}
}

// nativeRows returns rows for the C functions that the innermost Ruby frame called, if ddtop knows these functions. It
// also asks ddtop to read them for the next picture.
func (p *Page) nativeRows(sc *scene.Scene) (rows []StackFrame) {
	if sc.Moment == nil {
		return nil
	}
	sc.Moment.Native.Want(p.row.ID, sc.Moment.TimeNS)
	stay, ok := sc.Moment.NativeStay(p.row.ID)
	if !ok {
		for i := range sc.Moment.Threads { // in a recording, the stack is part of the sample
			if th := &sc.Moment.Threads[i]; th.ID == p.row.ID && th.Native != 0 {
				stay.NativeStack = sc.Dict.NativeStack(th)
			}
		}
	}
	if len(stay.Frames) == 0 && stay.Kernel == "" && stay.KernelMissing == "" {
		return nil
	}
	p.Native = len(stay.Frames)
	lines := gvl.NativeLines(stay.Frames)
	if words := cmp.Or(stay.Kernel, stay.KernelMissing); words != "" {
		lines = append([]string{"kernel: " + words}, lines...)
	}
	for _, line := range lines {
		rows = append(rows, StackFrame{Frame: sampler.Frame{Label: line, C: true}, Native: true})
	}
	return rows
}

// FoldFrames replaces consecutive library frames by one row that names the libraries. The program's own frames and the
// innermost frame keep their rows (flamegraph.FoldStack).
func FoldFrames(all []StackFrame) []StackFrame {
	rows := make([]StackFrame, 0, len(all))
	for _, r := range flamegraph.FoldStack(len(all), func(i int) (bool, string) { return all[i].Own(), all[i].Library() }) {
		if r.Text != "" {
			rows = append(rows, StackFrame{Frame: sampler.Frame{Label: r.Text}, Folded: true})
			continue
		}
		rows = append(rows, all[r.From])
	}
	return rows
}

// loadHeat adds up the thread's time for each line of code. To save CPU time, it does so only if the weights have
// changed or the page shows another thread.
func (p *Page) loadHeat(sc *scene.Scene, id sampler.ThreadID) {
	s := &sc.Weights
	if p.builder == nil {
		p.builder = flamegraph.NewBuilder(sc.Dict)
	} else if p.heatOf.thread == id && p.heatOf.fromNS == s.FromNS && p.heatOf.toNS == s.ToNS {
		return
	}
	p.heatOf.thread, p.heatOf.fromNS, p.heatOf.toNS = id, s.FromNS, s.ToNS
	tree := p.builder.Build(s, flamegraph.Options{Metric: flamegraph.Wall, ByLine: true, Threads: map[sampler.ThreadID]bool{id: true}})
	p.Heat = heat{Lines: make(map[CodeLine]int64), Total: tree.Root.Total}
	p.Heat.add(tree.Root, make(map[CodeLine]bool))
}

// add adds the time of a node of the call tree, and of all nodes below it, to their lines. above has the lines of the
// callers. It is needed so that the time of a line that calls itself is added only once. The recursion is never deeper
// than the tree.
func (h *heat) add(n *flamegraph.Node, above map[CodeLine]bool) {
	l := CodeLine{n.File, n.Line}
	first := n.Kind == flamegraph.FrameNode && n.File != "" && !above[l]
	if first {
		h.Lines[l] += n.Total
		above[l] = true
	}
	for _, c := range n.Children {
		h.add(c, above)
	}
	if first {
		delete(above, l)
	}
}

func (p *Page) About(sc *scene.Scene) string {
	if p.row == nil {
		return "one thread"
	}
	return p.row.Name
}

func (p *Page) Detail(sc *scene.Scene) (name, rest string) {
	f := p.Frame()
	if f == nil {
		return "", ""
	}
	if p.Frames.Rows[p.Frames.Index()].Folded {
		return f.Label, "c shows them"
	}
	if p.Frames.Rows[p.Frames.Index()].Native {
		return f.Label, "C function below Ruby's frames"
	}
	rest = style.OriginOf(*f).String()
	if f.C {
		rest = "C function, called from " + style.LineIn(f.Path, f.Line, f.Uncertain)
	} else if f.Path != "" {
		code, where := gvl.AddLine(f.Label, style.LineIn(f.File(), f.Line, f.Uncertain))
		return code, style.Beside(where, rest+" "+f.Gem)
	}
	return f.Label, rest
}

// linesOf returns the numbers of the lines in a file in which the thread spent time, sorted.
func (h *heat) linesOf(path string) []int32 {
	var out []int32
	for l := range h.Lines {
		if l.File == path {
			out = append(out, l.Line)
		}
	}
	slices.Sort(out)
	return out
}

func (p *Page) Stack(sc *scene.Scene) (string, []string) { return sc.ThreadStack(p.row) }
