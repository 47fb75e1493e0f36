package ui

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// requestsPage shows the requests and jobs in progress and, below them, the routes and classes of jobs of the time shown.
type requestsPage struct {
	flame *flameView // whose search its rows have to match
	now   *nowView
	plainPage
	// both are the rows of both tables, through which one cursor goes.
	both      list[workKey, workKey]
	running   table[*requestRow, workKey]
	endpoints table[*endpointRow, workKey]
	// all is how many rows there are with those that a search leaves out.
	all [2]int
	// rowOf is which of scene.threads a thread is.
	rowOf map[sampler.ThreadID]int
}

// workKey names a row: a request or job in progress, or an endpoint.
type workKey struct {
	number   sampler.WorkNumber
	endpoint endpointKey
}

// endpointKey names a route or a class of jobs; other: all those that are not kept apart.
type endpointKey struct {
	kind  sampler.WorkKind
	name  string
	other bool
}

func (k workKey) id() workKey { return k }

// requestRow is a request or job in progress.
type requestRow struct {
	*gvl.Request
	thread string
	name   string
	ageNS  int64
	// state is what its thread does for it at the moment shown: nil where that is not known, or nothing (suspended).
	state     *gvl.ThreadState
	suspended bool
	// waits: it is suspended, and one of its thread's fibers was seen to wait for it: at is that fiber's.
	waits bool
	forms []string // of state, in words, the fullest first
	what  string   // the statement, or else where it is in the code
	at    sampler.Serving
}

// endpointRow is a route or a class of jobs.
type endpointRow struct {
	*gvl.Endpoint
	name  string
	blame float64 // the share of all waiting for the GVL that is behind it
}

func (w *requestRow) id() workKey { return workKey{number: w.Work.Number} }

func (w *endpointRow) id() workKey {
	return workKey{endpoint: endpointKey{w.Kind, w.Endpoint.Name, w.Other}}
}

func newRequestsPage(c *components) *requestsPage {
	cursor := new(workKey)
	p := &requestsPage{flame: &c.flame, now: &c.whereNow, both: list[workKey, workKey]{cursor: cursor}}
	p.running = table[*requestRow, workKey]{list: list[*requestRow, workKey]{cursor: cursor}, columns: requestColumns(), left: 1, right: 1, by: "age"}
	p.endpoints = table[*endpointRow, workKey]{list: list[*endpointRow, workKey]{cursor: cursor}, columns: endpointColumns(), left: 1, right: 1,
		natural: mostTime, unsorted: "time", by: "time"}
	p.keyMap = keyMap{title: "requests", bindings: slices.Concat([]binding{
		{keys: []string{"enter"}, show: "enter", short: "open", help: "open the thread of the request; of a route or a class of jobs: its flamegraph, and where it runs",
			do: func(h Host) tea.Cmd { return p.enter(h) }},
		{keys: []string{"tab", "shift+tab"}, show: "tab", short: "below", help: "move between what is in progress and the routes below",
			do: func(h Host) tea.Cmd { p.switchTable(); h.Refresh(); return nil }},
	}, cursorKeys("", "select a request, a job or a route", p.move),
		sortKeys("sort by the next or previous column: the routes, or what is in progress while the cursor is there", func() sorter {
			if p.running.index() >= 0 {
				return &p.running
			}
			return &p.endpoints
		}))}
	return p
}

// move moves the cursor through both tables.
func (p *requestsPage) move(_ Host, by step) tea.Cmd {
	if p.both.height = p.endpoints.height; p.running.index() >= 0 {
		p.both.height = p.running.height
	}
	p.both.move(by)
	return nil
}

// switchTable puts the cursor on the first row of the other table.
func (p *requestsPage) switchTable() {
	first := slices.IndexFunc(p.both.rows, func(k workKey) bool { return (k.number == 0) == (p.running.index() >= 0) })
	if first >= 0 {
		*p.both.cursor = p.both.rows[first]
	}
}

// enter opens the thread of the selected request, or the flamegraph of the selected endpoint.
func (p *requestsPage) enter(h Host) tea.Cmd {
	if i := p.running.index(); i >= 0 {
		h.Scene().selected = rowKey{thread: p.running.rows[i].Thread}
		return h.Open(pageThread)
	}
	if i := p.endpoints.index(); i >= 0 {
		return p.openEndpoint(h, p.endpoints.rows[i])
	}
	return p.move(h, step{rows: +1})
}

func (p *requestsPage) load(sc *scene, r *store.Reading) {
	if i := p.both.index(); i >= 0 {
		p.both.at = i // a click has moved the cursor, too
	}
	p.all = [2]int{len(sc.served.running), len(sc.served.endpoints)}
	p.running.rows, p.endpoints.rows, p.both.rows = p.running.rows[:0], p.endpoints.rows[:0], p.both.rows[:0]
	re := p.flame.listed()
	if p.rowOf == nil {
		p.rowOf = make(map[sampler.ThreadID]int)
	}
	clear(p.rowOf)
	if len(sc.served.running) > 0 {
		for i := range sc.threads {
			p.rowOf[sc.threads[i].id] = i
		}
	}
	for i := range sc.served.running {
		q := &sc.served.running[i]
		at, listed := p.rowOf[q.Thread]
		if !listed {
			at = -1
		}
		if w := newRequestRow(sc, q, at); re == nil || w.matches(re, sc) {
			p.running.rows = append(p.running.rows, w)
		}
	}
	for i := range sc.served.endpoints {
		e := &sc.served.endpoints[i]
		w := &endpointRow{Endpoint: e, name: canvas.Clean(endpointName(e.Kind, e.Name)), blame: min(style.Share(e.BlameNS, sc.served.waitNS), 1)}
		if e.Other {
			w.name = "(all others)"
		}
		if re == nil || re.MatchString(w.name) {
			p.endpoints.rows = append(p.endpoints.rows, w)
		}
	}
	p.running.sort(p.running.rows)
	p.endpoints.sort(p.endpoints.rows)
	for _, w := range p.running.rows {
		p.both.rows = append(p.both.rows, w.id())
	}
	for _, w := range p.endpoints.rows {
		p.both.rows = append(p.both.rows, w.id())
	}
}

// newRequestRow tells what a request is at now. i is which of the scene's threads has it, -1 if none.
func newRequestRow(sc *scene, q *gvl.Request, i int) *requestRow {
	w := &requestRow{Request: q, thread: canvas.Clean(gvl.ThreadName(q.Thread, sc.dict)), name: canvas.Clean(endpointName(q.Work.Kind, q.Work.Endpoint)),
		ageNS: max(min(q.ToNS, sc.atNS)-q.FromNS, 0)}
	at, ok := sc.served.of[q.Thread]
	switch {
	case i < 0 || !sc.threads[i].known:
	case !ok || sc.dict.Work(at.Work).Number != q.Work.Number: // another fiber of the thread runs
		w.suspended = true
		if w.waits = q.Suspended && q.Waits && !sc.frozen; w.waits {
			w.at = q.Serving
			if w.what = sc.asks(w.at); w.what == "" {
				w.what = ownPlace(sc.dict, q.Stack)
			}
		}
	default:
		state := sc.threads[i].state
		state.SinceNS = max(state.SinceNS, q.FromNS) // between two requests it moved, even if that was not seen
		w.state, w.at = &state, at
		w.forms = sc.requestForms(*w.state)
		if w.what = sc.asks(at); w.what == "" {
			w.what = ownPlace(sc.dict, w.state.Stack)
		}
	}
	return w
}

// matches reports whether a search finds it: by its thread, its route, its path where that is shown, and what it does.
func (w *requestRow) matches(re *regexp.Regexp, sc *scene) bool {
	return re.MatchString(w.thread) || re.MatchString(w.name) || re.MatchString(w.values(sc)) || re.MatchString(w.what) ||
		len(w.forms) > 0 && re.MatchString(w.forms[0])
}

// mostTime is the order of endpoints by the time of threads in them.
func mostTime(x, y *endpointRow) int {
	return cmp.Compare(y.TotalNS()+y.FiberNS, x.TotalNS()+x.FiberNS)
}

func (p *requestsPage) about(sc *scene) string {
	s := &sc.served
	parts := []string{s.runningText()}
	if fibers := s.fibersText(); fibers != "" {
		parts = append(parts, fibers)
	}
	parts = append(parts, perSecondText(s.perSecond)+"/s", "p50 "+s.length(.5), "p95 "+s.length(.95))
	if s.leftOut > 0 {
		parts = append(parts, units.Count(int64(s.leftOut))+" not kept apart")
	}
	if queued := s.queuedText(); queued != "" {
		parts = append(parts, queued)
	}
	if p.flame.listed() != nil {
		parts = append([]string{fmt.Sprintf("%d of %d listed", len(p.both.rows), p.all[0]+p.all[1])}, parts...)
	}
	parts = append(parts, sc.when())
	if p.endpoints.by != "time" || p.endpoints.reverse {
		by := "by " + p.endpoints.by
		if p.endpoints.reverse {
			by += " reversed"
		}
		parts = append(parts, by)
	}
	return strings.Join(parts, between)
}

func (p *requestsPage) detail(sc *scene) (name, rest string) {
	if i := p.running.index(); i >= 0 {
		return p.running.rows[i].detail(sc)
	}
	if i := p.endpoints.index(); i >= 0 {
		w := p.endpoints.rows[i]
		parts := []string{fmt.Sprintf("%s seen, %s/s", units.Count(int64(w.Ended+w.Running)), perSecondText(w.PerSecond)), strings.Join(partsOf(&w.NS, w.FiberNS, w.Peers, sc, true), "  ")}
		if w.BlameNS > 0 {
			parts = append(parts, fmt.Sprintf("made others wait %s (%s of all waiting)", units.Duration(w.BlameNS), units.Percent(w.blame)))
		}
		return w.name, strings.Join(parts, "   ")
	}
	return "", "↑ ↓ select   enter opens the thread of a request, the flamegraph of a route"
}

// detail says of a request what its row has no room for.
func (w *requestRow) detail(sc *scene) (name, rest string) {
	name = w.name
	if s := w.values(sc); s != "" {
		name += "  " + s
	}
	var parts []string
	if len(w.forms) > 0 {
		parts = append(parts, w.forms[0])
	}
	if s := sc.asks(w.at); s != "" {
		parts = append(parts, s)
	}
	if w.state != nil {
		if s := ownPlace(sc.dict, w.state.Stack); s != "" {
			parts = append(parts, "in "+s)
		}
	}
	if _, vague := gvl.Length(w.ageNS, w.BeginSlackNS()); !w.AtLeast && !vague {
		parts = append(parts, "since "+sc.process.WallTime(w.FromNS).Format("15:04:05.00"))
	}
	if w.Work.QueuedNS > 0 {
		parts = append(parts, "queued "+units.Duration(w.Work.QueuedNS)+" before")
	}
	return name, strings.Join(parts, "   ")
}

// openEndpoint narrows timeline and flamegraph to a route or a class of jobs.
func (p *requestsPage) openEndpoint(h Host, w *endpointRow) tea.Cmd {
	if w.Other {
		h.Message().say("these are many routes, which are not kept apart")
		return nil
	}
	arrived := h.Leave()
	h.Scene().route, h.Scene().filter, h.Scene().selected = w.id().endpoint, rowKey{}, rowKey{}
	p.flame.zoom, p.flame.selected, p.flame.selNode, p.flame.top, h.Scene().focus = nil, nil, nil, 0, onTimeline
	cmd := h.Open(pageLive)
	arrived()
	h.Refresh()
	return cmd
}

// number is what weights of the endpoint have; 0: it is none.
func (k endpointKey) number(r *store.Reading) flamegraph.EndpointID {
	if k == (endpointKey{}) {
		return 0
	}
	if id := r.Endpoint(flamegraph.Endpoint{Kind: k.kind, Name: k.name}); id != 0 {
		return id
	}
	return flamegraph.NoEndpoint
}

// String is what the screen calls it.
func (k endpointKey) String() string { return canvas.Clean(endpointName(k.kind, k.name)) }
