package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

const (
	// longestWaits is how many of a thread's waits are listed.
	longestWaits = 20
	// maxThreadFrames bounds the frames of a stack that are listed.
	maxThreadFrames = 4096
)

// threadPage shows one thread: the one that is selected everywhere.
type threadPage struct {
	flame *flameView // where it folds libraries, the stack does
	plainPage
	frames list[stackFrame, frameKey]
	// chosen is the frame that the person went to. Before, and while it is not in the stack, the cursor is on the innermost frame that
	// has a file.
	chosen  frameKey
	sources sources

	depth  int        // of the stack
	row    *threadRow // nil: the thread is not in the time shown
	cells  []gvl.Cell
	fromNS int64
	toNS   int64
	waits  store.ThreadWaits
	kinds  gvl.StatWaits // of what all waiting since the start consists
	noCPU  float64       // the part of its time at work since the start in which it had no CPU
	partly bool          // older waits than those kept are missing

	builder *flamegraph.Builder
	heat    heat
	heatOf  struct {
		thread       sampler.ThreadID
		fromNS, toNS int64
	}
}

// stackFrame is a frame of the stack, or a run of frames with the text as its Label; nth tells it from those further out that are of
// the same method.
type stackFrame struct {
	sampler.Frame
	nth    int
	folded bool
}

type frameKey struct {
	label, path string
	nth         int
}

func (f stackFrame) id() frameKey { return frameKey{f.Label, f.Path, f.nth} }

// heat is the share of a thread's time that it spent in a line, callees included.
type heat struct {
	lines map[codeLine]int64
	total int64
}

type codeLine struct {
	file string
	line int32
}

func newThreadPage(c *components) *threadPage {
	p := &threadPage{flame: &c.flame, frames: list[stackFrame, frameKey]{cursor: new(frameKey)}}
	other := func(n int) func(Host) tea.Cmd {
		return func(h Host) tea.Cmd { p.next(h, n); return p.fetch(h) }
	}
	p.keyMap = keyMap{title: "one thread", bindings: slices.Concat([]binding{
		{keys: []string{"esc", "backspace"}, show: "esc", short: "back", help: "back to where the thread was opened",
			do: func(h Host) tea.Cmd { return h.Open(h.Scene().threadFrom) }},
	}, cursorKeys("frame", "go through the frames of the stack; the source follows", p.move), []binding{
		{keys: []string{"left", "h"}, show: "← →", short: "thread", help: "the thread before, the thread after (also h, l)", do: other(-1)},
		{keys: []string{"right", "l"}, do: other(+1)},
		{keys: []string{"c"}, show: "c", help: "own code, with the frames of libraries in rows; every frame",
			do: func(h Host) tea.Cmd { p.flame.toggleLibraries(); h.Refresh(); return p.fetch(h) }},
	})}
	return p
}

// move selects another frame.
func (p *threadPage) move(h Host, by step) tea.Cmd {
	p.frames.move(by)
	return p.choose(h)
}

func (p *threadPage) choose(h Host) tea.Cmd {
	p.chosen = *p.frames.cursor
	return p.fetch(h)
}

// frame is the one with the cursor, whose source is shown; nil without a stack.
func (p *threadPage) frame() *sampler.Frame {
	if i := p.frames.index(); i >= 0 {
		return &p.frames.rows[i].Frame
	}
	return nil
}

// next goes to another thread, in Ruby's order.
func (p *threadPage) next(h Host, n int) {
	threads := h.Scene().threads
	if len(threads) == 0 {
		return
	}
	i := slices.IndexFunc(threads, func(t threadRow) bool { return t.id == h.Scene().selected.thread })
	h.Scene().selected = rowKey{thread: threads[max(0, min(i+n, len(threads)-1))].id}
	p.chosen, p.frames.top = frameKey{}, 0
	h.Refresh()
}

// fetch returns the command that reads the source of the frame shown.
func (p *threadPage) fetch(h Host) tea.Cmd {
	f := p.frame()
	if h.Scene().opt.Replay || h.Scene().source.Ended || h.Scene().source.Err != nil || f == nil || !strings.HasPrefix(f.AbsolutePath, "/") {
		return nil
	}
	return p.sources.fetch(h.Store().Src, f.AbsolutePath, h.Scene().process.StartedAt)
}

// fetched keeps the source that was read.
func (p *threadPage) fetched(h Host, msg tea.Msg) {
	if msg, ok := msg.(sourceMsg); ok {
		p.sources.put(msg.path, msg.file)
		h.Draw()
	}
}

// namesChanged has the code looked up again.
func (p *threadPage) namesChanged() { p.builder = nil }

func (p *threadPage) load(sc *scene, r *store.Reading) {
	id := sc.selected.thread
	p.row = nil
	for i := range sc.threads {
		if sc.threads[i].id == id {
			p.row = &sc.threads[i]
		}
	}
	span, cols := int64(0), 0
	cols, span = axis(sc.windowNS, sc.width-threadLabelW-1, r.Timeline.ColumnNS())
	p.fromNS, p.toNS = sc.timeWindow(r.Timeline, span, cols)
	p.cells = r.Timeline.AppendRow(p.cells[:0], id, p.fromNS, p.toNS, cols)
	fromNS := sc.atNS - sc.windowNS
	p.waits = store.ThreadWaits{}
	if w := r.Waits.Events.ByThread(fromNS, sc.atNS, sc.states, store.ListOf{Thread: id, AtLeastNS: int64(sc.opt.WaitThreshold), AtMost: longestWaits})[id]; w != nil {
		p.waits = *w
	}
	p.kinds, p.noCPU = gvl.StatWaits{}, 0
	if all, ok := r.Account.Thread(id); ok {
		p.kinds = all.Waits
		p.noCPU = style.Share(all.NoCPU.Running+all.NoCPU.GC+all.NoCPU.Native, all.NS[gvl.Running]+all.NS[gvl.GC]+all.NS[gvl.Native])
	}
	p.partly = r.Waits.Events.FromNS() > fromNS
	p.loadStack(sc)
	p.loadHeat(sc, id)
}

// loadStack takes over the stack.
func (p *threadPage) loadStack(sc *scene) {
	l := &p.frames
	l.rows, *l.cursor, p.depth = l.rows[:0], p.chosen, 0
	if p.row == nil || !p.row.known {
		return
	}
	ids := sc.dict.Frames(p.row.state.Stack, nil)
	p.depth = len(ids)
	for _, id := range ids[:min(len(ids), maxThreadFrames)] {
		l.rows = append(l.rows, stackFrame{Frame: sc.dict.Frame(id)})
	}
	if p.flame.folding == foldLibraries {
		l.rows = foldFrames(l.rows)
	}
	seen := make(map[frameKey]int)
	for i := range slices.Backward(l.rows) {
		k := l.rows[i].id()
		l.rows[i].nth = seen[k]
		seen[k]++
	}
	if l.index() < 0 && len(l.rows) > 0 {
		*l.cursor = l.rows[max(0, slices.IndexFunc(l.rows, func(f stackFrame) bool { return !f.C && f.AbsolutePath != "" }))].id()
	}
}

// foldFrames folds what is not the program's own.
func foldFrames(all []stackFrame) []stackFrame {
	rows := make([]stackFrame, 0, len(all))
	for _, r := range flamegraph.FoldStack(len(all), func(i int) (bool, string) { return all[i].Own(), all[i].Library() }) {
		if r.Text != "" {
			rows = append(rows, stackFrame{Frame: sampler.Frame{Label: r.Text}, folded: true})
			continue
		}
		rows = append(rows, all[r.From])
	}
	return rows
}

// loadHeat sums the thread's time by line when the weights are new.
func (p *threadPage) loadHeat(sc *scene, id sampler.ThreadID) {
	s := &sc.weights
	if p.builder == nil {
		p.builder = flamegraph.NewBuilder(sc.dict)
	} else if p.heatOf.thread == id && p.heatOf.fromNS == s.FromNS && p.heatOf.toNS == s.ToNS {
		return
	}
	p.heatOf.thread, p.heatOf.fromNS, p.heatOf.toNS = id, s.FromNS, s.ToNS
	tree := p.builder.Build(s, flamegraph.Options{Metric: flamegraph.Wall, ByLine: true, Threads: map[sampler.ThreadID]bool{id: true}})
	p.heat = heat{lines: make(map[codeLine]int64), total: tree.Root.Total}
	p.heat.add(tree.Root, make(map[codeLine]bool))
}

// add sums a node's time and that of those under it; a line that calls itself counts once. Its depth is bounded by the
// tree's.
func (h *heat) add(n *flamegraph.Node, above map[codeLine]bool) {
	l := codeLine{n.File, n.Line}
	first := n.Kind == flamegraph.FrameNode && n.File != "" && !above[l]
	if first {
		h.lines[l] += n.Total
		above[l] = true
	}
	for _, c := range n.Children {
		h.add(c, above)
	}
	if first {
		delete(above, l)
	}
}

func (p *threadPage) about(sc *scene) string {
	if p.row == nil {
		return "one thread"
	}
	return p.row.name
}

func (p *threadPage) detail(sc *scene) (name, rest string) {
	f := p.frame()
	if f == nil {
		return "", ""
	}
	if p.frames.rows[p.frames.index()].folded {
		return f.Label, "c shows them"
	}
	rest = style.ProvenanceOf(*f).String()
	if f.C {
		rest = "C function, called from " + style.LineIn(f.Path, f.Line, f.Uncertain)
	} else if f.Path != "" {
		rest = fmt.Sprintf("%s  %s %s", style.LineIn(cmp.Or(f.AbsolutePath, f.Path), f.Line, f.Uncertain), rest, f.Gem)
	}
	return f.Label, rest
}

// of returns the lines of a file that have time, in their order.
func (h *heat) of(path string) []int32 {
	var out []int32
	for l := range h.lines {
		if l.file == path {
			out = append(out, l.line)
		}
	}
	slices.Sort(out)
	return out
}

func (p *threadPage) stack(sc *scene) (string, []string) { return sc.threadStack(p.row) }
