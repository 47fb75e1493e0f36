package ui

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
)

// maxListedWaits is how many waits the list has that come first by its order, and how many of the last ones besides.
const maxListedWaits = 500

// waitsPage lists the single waits for the GVL of the time shown, with a histogram of their lengths, and says of the selected one who
// held the GVL during it.
type waitsPage struct {
	plainPage
	flame *flameView // whose search its rows have to match
	table table[*waitRow, store.WaitKey]
	// thread is the one whose waits are listed; 0: all.
	thread sampler.ThreadID

	// all is how many waits there were in the time shown, kept how many of those that are listed by thread and search are known one by
	// one, exact how many of them are so.
	all, kept, exact int64
	filtered         bool
	columnsExact     bool
	counts           []int64 // of waitEdges
	longest          gvl.Bounded
	sums             waitSums
	names            map[sampler.ThreadID]string
	codes            map[sampler.StackID]waitCode

	chain store.WaitChain
	asked store.WaitKey // whose chain is wanted, or known
}

// waitSums are the sums of the waits that are listed and known one by one.
type waitSums struct {
	ns, handNS, noCPUNS int64
	exactNS             int64
}

// waitCode is what a stack is called, and whether the search finds it.
type waitCode struct {
	text  string
	found bool
}

// waitRow is a wait in the list.
type waitRow struct {
	store.WaitEvent
	name, firstName, lastName string
	code, firstIn, lastIn     string // methods
	request                   string
}

func (w *waitRow) id() store.WaitKey { return w.Key() }

func newWaitsPage(c *components) *waitsPage {
	p := &waitsPage{flame: &c.flame, names: make(map[sampler.ThreadID]string), codes: make(map[sampler.StackID]waitCode)}
	p.table = table[*waitRow, store.WaitKey]{list: list[*waitRow, store.WaitKey]{cursor: new(store.WaitKey)}, columns: waitColumns(false), left: 1, right: 1, by: "length"}
	p.keyMap = keyMap{title: "waits for the GVL", bindings: slices.Concat([]binding{
		{keys: []string{"enter"}, show: "enter", short: "timeline", help: "the timeline around the wait, as close as its time is known",
			do: func(h Host) tea.Cmd { return p.enter(h) }},
		{keys: []string{"t"}, show: "t", short: "thread", help: "only the waits of the selected wait's thread; again: of all threads",
			do: func(h Host) tea.Cmd { p.toggleThread(h); h.Refresh(); return p.fetch(h) }},
	}, cursorKeys("", "select a wait: who held the GVL during it", func(h Host, by step) tea.Cmd { p.table.move(by); return p.fetch(h) }),
		sortKeys("sort by the next, the previous column: length, start, thread, hand-over, no CPU", func() sorter { return &p.table }),
		[]binding{{keys: []string{"esc"}, show: "esc", short: "all", always: true, help: "the waits of all threads; leave the search",
			when: func(h Host) bool { return p.thread != 0 || p.flame.search != nil }, do: func(h Host) tea.Cmd {
				if p.thread != 0 {
					p.thread = 0
					h.Refresh()
				} else if p.flame.search != nil {
					p.flame.search = nil
					h.Refresh()
				}
				return nil
			}}})}
	return p
}

func (p *waitsPage) found() string { return units.Count(p.all) + " waits" }

// toggleThread lists the waits of one thread alone, that of the selected wait or the one selected everywhere, or those of all.
func (p *waitsPage) toggleThread(h Host) {
	switch i := p.table.index(); {
	case p.thread != 0:
		p.thread = 0
	case i >= 0:
		p.thread = p.table.rows[i].Thread
	case h.Scene().selected.thread != 0:
		p.thread = h.Scene().selected.thread
	default:
		h.Message().tell("↑ ↓ select a wait; t lists those of its thread")
	}
}

// enter shows the selected wait on the timeline.
func (p *waitsPage) enter(h Host) tea.Cmd {
	i := p.table.index()
	if i < 0 {
		p.table.move(step{rows: +1})
		return p.fetch(h)
	}
	w := p.table.rows[i]
	arrived := h.Leave()
	cmd := h.ShowWait(&w.WaitEvent)
	arrived()
	return cmd
}

func (p *waitsPage) load(sc *scene, r *store.Reading) {
	if i := p.table.index(); i >= 0 {
		p.table.at = i // a click has moved the cursor, too
	}
	fromNS, toNS, re := sc.atNS-sc.windowNS, sc.atNS, p.flame.listed()
	p.filtered = p.thread != 0 || re != nil
	p.counts = append(p.counts[:0], make([]int64, len(waitEdges)+1)...)
	p.all, p.kept, p.exact, p.longest, p.sums = 0, 0, 0, gvl.Bounded{}, waitSums{}
	clear(p.names)
	clear(p.codes)
	take := p.picker()
	one := func(e *store.WaitEvent) {
		if p.filtered && !p.matches(e, re, sc) {
			return
		}
		p.kept++
		if told := e.Length(); told.NS > p.longest.NS {
			p.longest = told
		}
		p.sums.ns += e.LenNS
		if e.Exact {
			p.exact++
			p.sums.exactNS += e.LenNS
			p.sums.handNS += e.HandNS
			p.sums.noCPUNS += e.NoCPUNS
		}
		i, at := slices.BinarySearch(waitEdges, e.LenNS)
		if at {
			i++
		}
		p.counts[i]++
		if e.LenNS >= int64(sc.opt.WaitThreshold) {
			take.add(e)
		}
	}
	r.Waits.Each(fromNS, toNS, one)
	for i := range sc.states {
		if s := &sc.states[i]; s.State == gvl.Waiting {
			w := s.Wait()
			one(&store.WaitEvent{EndNS: s.AtNS, LenNS: s.DurationNS(), LeastNS: w.LeastNS, MostNS: w.MostNS, Cut: w.Cut, Thread: s.Thread, Stack: s.Stack, Ractor: s.Ractor, Open: true})
		}
	}
	p.all = p.kept
	if r.Waits.Events.FromNS() > fromNS { // not all are known one by one, but their lengths are
		if _, n := r.Waits.Lengths(fromNS, toNS, nil); !p.filtered {
			p.counts = append(p.counts[:0], make([]int64, len(waitEdges)+1)...)
			r.Waits.Sum.Counts(waitEdges, p.counts)
			p.all = max(n, p.kept)
		}
	}
	exact := p.exact > 0
	if exact != p.columnsExact {
		p.table.columns, p.columnsExact = waitColumns(exact), exact
		if !slices.Contains(p.table.orders(), p.table.by) {
			p.table.by = "length"
		}
	}
	p.table.rows = p.table.rows[:0]
	for _, e := range take.picked() {
		p.table.rows = append(p.table.rows, p.newRow(e, sc))
	}
	p.table.sort(p.table.rows)
}

// matches reports whether a wait is to be listed: it is of the thread, and the search finds its thread, a method of it or of who held
// the GVL, or its request.
func (p *waitsPage) matches(e *store.WaitEvent, re *regexp.Regexp, sc *scene) bool {
	if p.thread != 0 && e.Thread != p.thread {
		return false
	}
	if re == nil {
		return true
	}
	if re.MatchString(p.nameOf(e.Thread, sc)) || e.First != 0 && re.MatchString(p.nameOf(e.First, sc)) || e.Last != 0 && re.MatchString(p.nameOf(e.Last, sc)) {
		return true
	}
	for _, s := range [...]sampler.StackID{e.Stack, e.FirstStack, e.LastStack} {
		if s != 0 && p.codeOf(s, re, sc).found {
			return true
		}
	}
	return e.Work != 0 && re.MatchString(workName(e.Work, sc))
}

func (p *waitsPage) nameOf(id sampler.ThreadID, sc *scene) string {
	s, ok := p.names[id]
	if !ok {
		s = canvas.Clean(gvl.ThreadName(id, sc.dict))
		p.names[id] = s
	}
	return s
}

// codeOf names the program's own code of a stack; found: the search finds any of its frames.
func (p *waitsPage) codeOf(stack sampler.StackID, re *regexp.Regexp, sc *scene) waitCode {
	c, ok := p.codes[stack]
	if ok || stack == 0 {
		return c
	}
	if c.text = ownPlace(sc.dict, stack); c.text == "" { // none of it is the program's own
		if _, f := sc.dict.Stack(stack); f != 0 {
			c.text = canvas.Clean(sc.dict.Frame(f).Label)
		}
	}
	if re != nil {
		for _, id := range sc.dict.Frames(stack, nil) {
			if f := sc.dict.Frame(id); re.MatchString(f.Label) || re.MatchString(f.Path) {
				c.found = true
				break
			}
		}
	}
	p.codes[stack] = c
	return c
}

// workName is what the screen calls a request or job; "" for none.
func workName(id sampler.WorkID, sc *scene) string {
	w := sc.dict.Work(id)
	if w.Kind == sampler.WorkNone {
		return ""
	}
	return canvas.Clean(endpointName(w.Kind, w.Endpoint))
}

func (p *waitsPage) newRow(e *store.WaitEvent, sc *scene) *waitRow {
	w := &waitRow{WaitEvent: *e, name: p.nameOf(e.Thread, sc), code: p.codeOf(e.Stack, nil, sc).text}
	if e.First != 0 {
		w.firstName, w.firstIn = p.nameOf(e.First, sc), p.codeOf(e.FirstStack, nil, sc).text
	}
	if e.Last != 0 {
		w.lastName, w.lastIn = p.nameOf(e.Last, sc), p.codeOf(e.LastStack, nil, sc).text
	}
	if e.Work != 0 {
		w.request = workName(e.Work, sc)
	}
	return w
}

// waitPicker keeps the first of many waits by an order, and the last ones.
type waitPicker struct {
	compare     func(x, y *store.WaitEvent) int
	first, last []*store.WaitEvent
}

// picker keeps what comes first by the order of the table.
func (p *waitsPage) picker() *waitPicker {
	i := slices.IndexFunc(p.table.columns, func(c column[*waitRow]) bool { return c.order == p.table.by })
	compare := waitOrders[p.table.columns[i].order]
	if p.table.reverse {
		return &waitPicker{compare: func(x, y *store.WaitEvent) int { return -compare(x, y) }}
	}
	return &waitPicker{compare: compare}
}

// add takes a wait; they come in the order of their ends.
func (k *waitPicker) add(e *store.WaitEvent) {
	if k.first = append(k.first, e); len(k.first) >= 2*maxListedWaits {
		k.first = k.best()
	}
	if k.last = append(k.last, e); len(k.last) >= 2*maxListedWaits {
		k.last = append(k.last[:0], k.last[len(k.last)-maxListedWaits:]...)
	}
}

func (k *waitPicker) best() []*store.WaitEvent {
	slices.SortStableFunc(k.first, k.compare)
	return k.first[:min(len(k.first), maxListedWaits)]
}

// picked are the waits that are kept, each once.
func (k *waitPicker) picked() []*store.WaitEvent {
	out := slices.Clone(k.best())
	seen := make(map[store.WaitKey]bool, len(out))
	for _, e := range out {
		seen[e.Key()] = true
	}
	for _, e := range k.last[max(len(k.last)-maxListedWaits, 0):] {
		if !seen[e.Key()] {
			out = append(out, e)
		}
	}
	return out
}

// waitOrders are the orders of waits, what stands out first.
var waitOrders = map[string]func(x, y *store.WaitEvent) int{
	"length": func(x, y *store.WaitEvent) int {
		return cmp.Or(cmp.Compare(y.Length().NS, x.Length().NS), cmp.Compare(y.EndNS, x.EndNS))
	},
	"start": func(x, y *store.WaitEvent) int { return cmp.Compare(y.FromNS(), x.FromNS()) },
	"thread": func(x, y *store.WaitEvent) int {
		return cmp.Or(cmp.Compare(x.Thread, y.Thread), cmp.Compare(y.LenNS, x.LenNS))
	},
	"hand-over": func(x, y *store.WaitEvent) int {
		return cmp.Or(cmp.Compare(y.HandNS, x.HandNS), cmp.Compare(y.LenNS, x.LenNS))
	},
	"no CPU": func(x, y *store.WaitEvent) int {
		return cmp.Or(cmp.Compare(y.NoCPUNS, x.NoCPUNS), cmp.Compare(y.LenNS, x.LenNS))
	},
}

func (p *waitsPage) about(sc *scene) string {
	parts := []string{units.Count(p.all) + " waits"}
	if p.all == 1 {
		parts[0] = "1 wait"
	}
	if p.thread != 0 {
		parts[0] += " of " + p.nameOf(p.thread, sc)
	}
	if p.filtered && sc.flameSearch(p.flame) != "" {
		parts[0] += " that match"
	}
	parts = append(parts, sc.when())
	if p.table.by != "length" || p.table.reverse {
		by := "by " + p.table.by
		if p.table.reverse {
			by += " reversed"
		}
		parts = append(parts, by)
	}
	return strings.Join(parts, between)
}

// flameSearch is what is searched for in lists; "" for nothing.
func (sc *scene) flameSearch(f *flameView) string {
	if re := f.listed(); re != nil {
		return stripCase(re.String())
	}
	return ""
}

func (p *waitsPage) detail(sc *scene) (name, rest string) {
	i := p.table.index()
	if i < 0 {
		return "", "↑ ↓ select a wait: who held the GVL during it   enter the timeline around it   t its thread"
	}
	w := p.table.rows[i]
	var parts []string
	if w.code != "" {
		parts = append(parts, "in "+w.code)
	}
	if w.request != "" {
		parts = append(parts, "for "+w.request)
	}
	return w.name, strings.Join(parts, "   ")
}
