package waits

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
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// View registers the page.
var View = page.View{
	ID:     scene.PageWaits,
	Key:    "0",
	Help:   "each wait for the GVL: its length, and the threads that held the GVL",
	Shared: page.SearchShared,
	Make:   page.Makes(New),
}

// MaxListedWaits limits the list of waits. The list has up to MaxListedWaits waits that come first in the table's
// order. In addition it has up to MaxListedWaits of the latest waits.
const MaxListedWaits = 500

// Page lists the single waits for the GVL in the time on the screen, with a histogram of their lengths. Below the list
// it shows which threads held the GVL during the selected wait.
type Page struct {
	page.Plain
	flame *widget.Flame // the flamegraph's search filters the rows
	Table widget.Table[*WaitRow, store.WaitKey]
	// thread is set if only the waits of one thread are listed. It is zero if the waits of all threads are listed.
	thread sampler.ThreadID

	// All is the number of waits in the time on the screen. kept counts the waits that ddtop has stored one by one and
	// that match the thread and the search. exact counts the kept waits whose length is exactly known.
	All, kept, exact int64
	filtered         bool
	columnsExact     bool
	Counts           []int64 // number of waits between waitEdges
	longest          gvl.Bounded
	sums             waitSums
	names            map[sampler.ThreadID]string
	codes            map[sampler.StackID]waitCode

	chain store.WaitChain
	asked store.WaitKey // the wait whose chain was requested
}

// waitSums are sums over the stored single waits that match the chosen thread and the search, in ns.
type waitSums struct {
	ns, handNS, noCPUNS int64
	exactNS             int64
}

// waitCode says in which place of the program's own code a stack is (see codeOf): text is the name of this place. found
// is true if the search matches a frame of the stack.
type waitCode struct {
	text  string
	found bool
}

// WaitRow is a row of the list: one wait for the GVL.
type WaitRow struct {
	store.WaitEvent
	Name, firstName, lastName string
	Code, firstIn, lastIn     string // methods
	Request                   string
}

func (w *WaitRow) ID() store.WaitKey { return w.Key() }

func New(c *widget.Parts) *Page {
	p := &Page{flame: &c.Flame, names: make(map[sampler.ThreadID]string), codes: make(map[sampler.StackID]waitCode)}
	p.Table = widget.Table[*WaitRow, store.WaitKey]{List: widget.List[*WaitRow, store.WaitKey]{Cursor: new(store.WaitKey)}, Columns: waitColumns(false), Left: 1, Right: 1, By: "length"}
	p.KeyMap = scene.KeyMap{Title: "waits for the GVL", Bindings: slices.Concat([]scene.Binding{
		{Keys: []string{"enter"}, Show: "enter", Short: "timeline", Help: "show the wait on the timeline",
			Do: func(h scene.Host) tea.Cmd { return p.enter(h) }},
		{Keys: []string{"t"}, Show: "t", Short: "thread", Help: "list the waits of this thread only, or of all threads",
			Do: func(h scene.Host) tea.Cmd { p.toggleThread(h); h.Refresh(); return p.Fetch(h) }},
	}, widget.CursorKeys("", "select a wait and see who held the GVL", func(h scene.Host, by widget.Step) tea.Cmd { p.Table.Move(by); return p.Fetch(h) }),
		widget.SortKeys("sort by the next, the previous column: length, start, thread, hand-over, no CPU", func() widget.Sorter { return &p.Table }),
		[]scene.Binding{{Keys: []string{"esc"}, Show: "esc", Short: "all", Always: true, Help: "list the waits of all threads, or leave the search",
			When: func(h scene.Host) bool { return p.thread != 0 || p.flame.Search != nil }, Do: func(h scene.Host) tea.Cmd {
				if p.thread != 0 {
					p.thread = 0
					h.Refresh()
				} else if p.flame.Search != nil {
					p.flame.Search = nil
					h.Refresh()
				}
				return nil
			}}})}
	return p
}

func (p *Page) Found() string { return units.Count(p.All) + " waits" }

// toggleThread switches the list between the waits of all threads and the waits of one thread. This is the thread of
// the selected wait. If no wait is selected, it is the thread that the user has selected in other views.
func (p *Page) toggleThread(h scene.Host) {
	switch i := p.Table.Index(); {
	case p.thread != 0:
		p.thread = 0
	case i >= 0:
		p.thread = p.Table.Rows[i].Thread
	case h.Showing().Selected.Thread != 0:
		p.thread = h.Showing().Selected.Thread
	default:
		h.Message().Tell("↑ ↓ select a wait; t lists those of its thread")
	}
}

// enter is the action of the key enter: it shows the selected wait on the timeline.
func (p *Page) enter(h scene.Host) tea.Cmd {
	i := p.Table.Index()
	if i < 0 {
		p.Table.Move(widget.Step{Rows: +1})
		return p.Fetch(h)
	}
	w := p.Table.Rows[i]
	arrived := h.Leave()
	cmd := h.ShowWait(&w.WaitEvent)
	arrived()
	return cmd
}

func (p *Page) Load(sc *scene.Scene, r *store.Reading) {
	if i := p.Table.Index(); i >= 0 {
		p.Table.At = i // a click may have moved the cursor, so the row's index may have changed
	}
	fromNS, toNS, re := sc.AtNS-sc.WindowNS, sc.AtNS, p.flame.Listed()
	p.filtered = p.thread != 0 || re != nil
	p.Counts = append(p.Counts[:0], make([]int64, len(waitEdges)+1)...)
	p.All, p.kept, p.exact, p.longest, p.sums = 0, 0, 0, gvl.Bounded{}, waitSums{}
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
		p.Counts[i]++
		if e.LenNS >= int64(sc.Opt.WaitThreshold) {
			take.add(e)
		}
	}
	r.Waits.ForEach(fromNS, toNS, one)
	for i := range sc.States {
		if s := &sc.States[i]; s.State == gvl.Waiting {
			w := s.Wait()
			one(&store.WaitEvent{EndNS: s.AtNS, LenNS: s.DurationNS(), LeastNS: w.LeastNS, MostNS: w.MostNS, Cut: w.Cut, Thread: s.Thread, Stack: s.Stack, Ractor: s.Ractor, Open: true})
		}
	}
	p.All = p.kept
	if r.Waits.AllSince(fromNS) > fromNS { // of older waits, ddtop knows only the lengths
		if _, n := r.Waits.Lengths(fromNS, toNS, nil); !p.filtered {
			p.Counts = append(p.Counts[:0], make([]int64, len(waitEdges)+1)...)
			r.Waits.Sum.Counts(waitEdges, p.Counts)
			p.All = max(n, p.kept)
		}
	}
	// the columns of exact mode are shown only if at least half of the waits have values there
	exact := 2*p.exact >= p.kept && p.exact > 0
	if exact != p.columnsExact {
		p.Table.Columns, p.columnsExact = waitColumns(exact), exact
		if !slices.Contains(p.Table.Orders(), p.Table.By) {
			p.Table.By = "length"
		}
	}
	p.Table.Rows = p.Table.Rows[:0]
	for _, e := range take.picked() {
		p.Table.Rows = append(p.Table.Rows, p.newRow(e, sc))
	}
	p.Table.Sort(p.Table.Rows)
}

// matches reports whether the list shows a wait. If the list is limited to a thread, the wait must belong to this
// thread. If there is a search, it must match the waiting thread, its request, a method on its stack, or a method on a
// holder's stack.
func (p *Page) matches(e *store.WaitEvent, re *regexp.Regexp, sc *scene.Scene) bool {
	if p.thread != 0 && e.Thread != p.thread {
		return false
	}
	if re == nil {
		return true
	}
	if re.MatchString(p.NameOf(e.Thread, sc)) || e.First != 0 && re.MatchString(p.NameOf(e.First, sc)) || e.Last != 0 && re.MatchString(p.NameOf(e.Last, sc)) {
		return true
	}
	for _, s := range [...]sampler.StackID{e.Stack, e.FirstStack, e.LastStack} {
		if s != 0 && p.codeOf(s, re, sc).found {
			return true
		}
	}
	return e.Work != 0 && re.MatchString(workName(e.Work, sc))
}

func (p *Page) NameOf(id sampler.ThreadID, sc *scene.Scene) string {
	s, ok := p.names[id]
	if !ok {
		s = canvas.Clean(gvl.ThreadName(id, sc.Dict))
		p.names[id] = s
	}
	return s
}

// codeOf returns the name of the program's own code on a stack. It also returns whether the search matches any frame of
// the stack.
func (p *Page) codeOf(stack sampler.StackID, re *regexp.Regexp, sc *scene.Scene) waitCode {
	c, ok := p.codes[stack]
	if ok || stack == 0 {
		return c
	}
	if c.text = scene.OwnPlace(sc.Dict, stack); c.text == "" { // no frame is the program's own
		if _, f := sc.Dict.Stack(stack); f != 0 {
			c.text = canvas.Clean(sc.Dict.Frame(f).Label)
		}
	}
	if re != nil {
		for _, id := range sc.Dict.Frames(stack, nil) {
			if f := sc.Dict.Frame(id); re.MatchString(f.Label) || re.MatchString(f.Path) {
				c.found = true
				break
			}
		}
	}
	p.codes[stack] = c
	return c
}

// workName returns the name of a request or job as the screen shows it. It returns "" if id is no request or job.
func workName(id sampler.WorkID, sc *scene.Scene) string {
	w := sc.Dict.Work(id)
	if w.Kind == sampler.WorkNone {
		return ""
	}
	return canvas.Clean(scene.EndpointName(w.Kind, w.Endpoint))
}

func (p *Page) newRow(e *store.WaitEvent, sc *scene.Scene) *WaitRow {
	w := &WaitRow{WaitEvent: *e, Name: p.NameOf(e.Thread, sc), Code: p.codeOf(e.Stack, nil, sc).text}
	if e.First != 0 {
		w.firstName, w.firstIn = p.NameOf(e.First, sc), p.codeOf(e.FirstStack, nil, sc).text
	}
	if e.Last != 0 {
		w.lastName, w.lastIn = p.NameOf(e.Last, sc), p.codeOf(e.LastStack, nil, sc).text
	}
	if e.Work != 0 {
		w.Request = workName(e.Work, sc)
	}
	return w
}

// waitPicker chooses the waits for the list if there are too many. It chooses the waits at the top of the table's
// order, and the latest ones.
type waitPicker struct {
	compare     func(x, y *store.WaitEvent) int
	first, last []*store.WaitEvent
}

// picker returns a waitPicker for the present order of the table.
func (p *Page) picker() *waitPicker {
	i := slices.IndexFunc(p.Table.Columns, func(c widget.Column[*WaitRow]) bool { return c.Order == p.Table.By })
	compare := WaitOrders[p.Table.Columns[i].Order]
	if p.Table.Reverse {
		return &waitPicker{compare: func(x, y *store.WaitEvent) int { return -compare(x, y) }}
	}
	return &waitPicker{compare: compare}
}

// add gives the picker one more wait to choose from. The waits must be added in the order of their ends.
func (k *waitPicker) add(e *store.WaitEvent) {
	if k.first = append(k.first, e); len(k.first) >= 2*MaxListedWaits {
		k.first = k.best()
	}
	if k.last = append(k.last, e); len(k.last) >= 2*MaxListedWaits {
		k.last = append(k.last[:0], k.last[len(k.last)-MaxListedWaits:]...)
	}
}

func (k *waitPicker) best() []*store.WaitEvent {
	slices.SortStableFunc(k.first, k.compare)
	return k.first[:min(len(k.first), MaxListedWaits)]
}

// picked returns the chosen waits. A wait that is at the top of the order and also one of the latest appears only once.
func (k *waitPicker) picked() []*store.WaitEvent {
	out := slices.Clone(k.best())
	seen := make(map[store.WaitKey]bool, len(out))
	for _, e := range out {
		seen[e.Key()] = true
	}
	for _, e := range k.last[max(len(k.last)-MaxListedWaits, 0):] {
		if !seen[e.Key()] {
			out = append(out, e)
		}
	}
	return out
}

// WaitOrders has a function that compares two waits, for each order of the table. The most important waits come first,
// such as the longest.
var WaitOrders = map[string]func(x, y *store.WaitEvent) int{
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

func (p *Page) About(sc *scene.Scene) string {
	parts := []string{units.Count(p.All) + " waits"}
	if p.All == 1 {
		parts[0] = "1 wait"
	}
	if !sc.Figures.Enough(sampler.FigureWaits) {
		parts[0] += " seen"
	}
	if p.thread != 0 {
		parts[0] += " of " + p.NameOf(p.thread, sc)
	}
	if p.filtered && searchedFor(sc, p.flame) != "" {
		parts[0] += " that match"
	}
	parts = append(parts, sc.When())
	if by := p.Table.Sorted("length"); by != "" {
		parts = append(parts, by)
	}
	return strings.Join(parts, style.Between)
}

// searchedFor returns the text of the present search, or "" if there is none.
func searchedFor(sc *scene.Scene, f *widget.Flame) string {
	if re := f.Listed(); re != nil {
		return widget.StripCase(re.String())
	}
	return ""
}

func (p *Page) Detail(sc *scene.Scene) (name, rest string) {
	i := p.Table.Index()
	if i < 0 {
		return "", "↑ ↓ select a wait to see who held the GVL   enter shows it on the timeline   t its thread"
	}
	w := p.Table.Rows[i]
	var parts []string
	if w.Code != "" {
		parts = append(parts, "in "+w.Code)
	}
	if w.Request != "" {
		parts = append(parts, "for "+w.Request)
	}
	return w.Name, strings.Join(parts, "   ")
}
