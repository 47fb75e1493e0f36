package ui

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// longestWaits is how many of a thread's waits are listed.
	longestWaits = 20
	// maxThreadFrames bounds the frames of a stack that are listed.
	maxThreadFrames = 4096
)

// threadPage shows one thread: the one that is selected everywhere.
type threadPage struct {
	keys keyMap
	// chosen is the frame that the person went to; Label "" follows the innermost frame that has a file.
	chosen  sampler.Frame
	top     int // first frame drawn
	sources sources

	row    *threadRow // nil: the thread is not in the time shown
	frames []sampler.Frame
	at     int // of frames; the one whose source is shown
	cells  []gvl.Cell
	fromNS int64
	toNS   int64
	waits  threadWaits
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

// heat is the share of a thread's time that it spent in a line, callees included.
type heat struct {
	lines map[codeLine]int64
	total int64
}

type codeLine struct {
	file string
	line int32
}

func newThreadPage() *threadPage {
	p := &threadPage{}
	step := func(n int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd { p.move(n); return p.fetch(m) }
	}
	other := func(n int) func(*Model) tea.Cmd {
		return func(m *Model) tea.Cmd { p.next(m, n); return p.fetch(m) }
	}
	p.keys = keyMap{title: "one thread", bindings: []binding{
		{keys: []string{"esc", "backspace"}, show: "esc", short: "back", help: "back to where the thread was opened",
			do: func(m *Model) tea.Cmd { return m.open(m.threadFrom) }},
		{keys: []string{"up", "k"}, show: "↑ ↓", short: "frame", help: "go through the frames of the stack; the source follows (also k, j, home, end)", do: step(-1)},
		{keys: []string{"down", "j"}, do: step(+1)},
		{keys: []string{"home", "g"}, do: step(-maxThreadFrames)},
		{keys: []string{"end", "G", "shift+g"}, do: step(maxThreadFrames)},
		{keys: []string{"left", "h"}, show: "← →", short: "thread", help: "the thread before, the thread after (also h, l)", do: other(-1)},
		{keys: []string{"right", "l"}, do: other(+1)},
	}}
	return p
}

func (p *threadPage) keyMap() *keyMap { return &p.keys }

// move selects another frame.
func (p *threadPage) move(n int) {
	if len(p.frames) > 0 {
		p.at = max(0, min(p.at+n, len(p.frames)-1))
		p.chosen = p.frames[p.at]
	}
}

// next goes to another thread, in Ruby's order.
func (p *threadPage) next(m *Model, n int) {
	threads := m.threads
	if len(threads) == 0 {
		return
	}
	i := slices.IndexFunc(threads, func(t threadRow) bool { return t.id == m.selected.thread })
	m.selected = rowKey{thread: threads[max(0, min(i+n, len(threads)-1))].id}
	p.chosen, p.top = sampler.Frame{}, 0
	m.refresh()
}

// fetch returns the command that reads the source of the frame shown.
func (p *threadPage) fetch(m *Model) tea.Cmd {
	if m.opt.Replay || m.source.Ended || m.source.Err != nil || len(p.frames) == 0 {
		return nil
	}
	path := p.frames[p.at].AbsolutePath
	if path == "" || path[0] != '/' {
		return nil
	}
	return p.sources.fetch(m.store.src, path, m.process.StartedAt)
}

// take keeps the source that was read.
func (p *threadPage) take(m *Model, msg tea.Msg) {
	if msg, ok := msg.(sourceMsg); ok {
		p.sources.put(msg.path, msg.file)
		m.draw()
	}
}

func (p *threadPage) load(m *scene, r *reading) {
	id := m.selected.thread
	p.row = nil
	for i := range m.threads {
		if m.threads[i].id == id {
			p.row = &m.threads[i]
		}
	}
	span, cols := int64(0), 0
	cols, span = axis(m.windowNS, m.width-threadLabelW-1, r.Timeline.ColumnNS())
	p.fromNS, p.toNS = m.timeWindow(r.Timeline, span, cols)
	p.cells = r.Timeline.AppendRow(p.cells[:0], id, p.fromNS, p.toNS, cols)
	fromNS := m.atNS - m.windowNS
	p.waits = threadWaits{}
	if w := r.waits.events.byThread(fromNS, m.atNS, m.states, listOf{thread: id, atLeastNS: int64(m.opt.WaitThreshold), atMost: longestWaits})[id]; w != nil {
		p.waits = *w
	}
	p.kinds, p.noCPU = gvl.StatWaits{}, 0
	if all, ok := r.Account.Thread(id); ok {
		p.kinds = all.Waits
		p.noCPU = share(all.NoCPU.Running+all.NoCPU.GC+all.NoCPU.Native, all.NS[gvl.Running]+all.NS[gvl.GC]+all.NS[gvl.Native])
	}
	p.partly = r.waits.events.fromNS() > fromNS
	p.loadStack(m)
	p.loadHeat(m, id)
}

// loadStack takes over the stack and finds the frame that was selected before, or else the innermost one with a file.
func (p *threadPage) loadStack(m *scene) {
	p.frames, p.at = p.frames[:0], 0
	if p.row == nil || !p.row.known {
		return
	}
	for _, id := range m.dict.Frames(p.row.state.Stack, nil) {
		if len(p.frames) == maxThreadFrames {
			break
		}
		p.frames = append(p.frames, m.dict.Frame(id))
	}
	if p.chosen.Label != "" {
		for _, same := range []func(f sampler.Frame) bool{
			func(f sampler.Frame) bool { return f == p.chosen },
			func(f sampler.Frame) bool { return f.Label == p.chosen.Label && f.Path == p.chosen.Path },
		} {
			if i := slices.IndexFunc(p.frames, same); i >= 0 {
				p.at = i
				return
			}
		}
	}
	if i := slices.IndexFunc(p.frames, func(f sampler.Frame) bool { return !f.C && f.AbsolutePath != "" }); i >= 0 {
		p.at = i
	}
}

// loadHeat sums the thread's time by line when the weights are new.
func (p *threadPage) loadHeat(m *scene, id sampler.ThreadID) {
	s := &m.weights
	if p.builder == nil {
		p.builder = flamegraph.NewBuilder(m.dict)
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

func (p *threadPage) about(m *scene) string {
	if p.row == nil {
		return "one thread"
	}
	return p.row.name
}

func (p *threadPage) detail(m *scene) (name, rest string) {
	if len(p.frames) == 0 {
		return "", ""
	}
	f := &p.frames[p.at]
	rest = provenanceOf(*f).String()
	if f.C {
		rest = "C function, called from " + lineIn(f.Path, f.Line, f.Uncertain)
	} else if f.Path != "" {
		rest = fmt.Sprintf("%s  %s %s", lineIn(cmpOr(f.AbsolutePath, f.Path), f.Line, f.Uncertain), rest, f.Gem)
	}
	return f.Label, rest
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
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
