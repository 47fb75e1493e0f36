package requests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl/account"
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
	ID:      scene.PageRequests,
	Key:     "9",
	Help:    "requests and jobs in progress, and where the time of each route goes",
	Shared:  page.SearchShared,
	Offered: func(o scene.Offers) bool { return o.Requests },
	Make:    page.Makes(New),
}

// Page shows the requests and jobs in progress. Below them it shows the routes, and the classes of jobs, in the time on
// the screen.
type Page struct {
	flame *widget.Flame // the flamegraph's search selects the rows
	now   *widget.Now
	page.Plain
	// both has the rows of the table of requests and of the table of routes. The tables share one cursor.
	both      widget.List[widget.WorkKey, widget.WorkKey]
	Running   widget.Table[*widget.RequestRow, widget.WorkKey]
	Endpoints widget.Table[*endpointRow, widget.WorkKey]
	// The field all has the numbers of rows of the table of requests and of the table of routes, without a search.
	// During a search the tables show only the rows that match.
	all [2]int
	// rowOf maps each thread to its index in Scene.Threads.
	rowOf map[sampler.ThreadID]int
}

// endpointRow is a route or a class of jobs.
type endpointRow struct {
	*account.Endpoint
	Title string
	Blame float64 // the share of all waiting for the GVL that this route or class of jobs caused
}

func (w *endpointRow) ID() widget.WorkKey {
	return widget.WorkKey{Endpoint: scene.EndpointKey{Kind: w.Kind, Name: w.Endpoint.Name, Other: w.Other}}
}

func New(c *widget.Parts) *Page {
	cursor := new(widget.WorkKey)
	p := &Page{flame: &c.Flame, now: &c.Now, both: widget.List[widget.WorkKey, widget.WorkKey]{Cursor: cursor}}
	p.Running = widget.Table[*widget.RequestRow, widget.WorkKey]{List: widget.List[*widget.RequestRow, widget.WorkKey]{Cursor: cursor}, Columns: requestColumns(), Left: 1, Right: 1, By: "age"}
	p.Endpoints = widget.Table[*endpointRow, widget.WorkKey]{List: widget.List[*endpointRow, widget.WorkKey]{Cursor: cursor}, Columns: endpointColumns(), Left: 1, Right: 1,
		Natural: mostTime, Unsorted: "time", By: "time"}
	p.KeyMap = scene.KeyMap{Title: "requests", Bindings: slices.Concat([]scene.Binding{
		{Keys: []string{"enter"}, Show: "enter", Short: "open", Help: "open the thread of a request, which says when it is over, or the flamegraph of a route or class of jobs",
			Do: func(h scene.Host) tea.Cmd { return p.enter(h) }},
		{Keys: []string{"tab", "shift+tab"}, Show: "tab", Short: "below", Help: "move between the requests in progress and the routes",
			Do: func(h scene.Host) tea.Cmd { p.switchTable(); h.Refresh(); return nil }},
	}, widget.CursorKeys("", "select a request, a job or a route", p.move),
		widget.SortKeys("sort by the next or previous column: the routes, or what is in progress while the cursor is there", func() widget.Sorter {
			if p.Running.Index() >= 0 {
				return &p.Running
			}
			return &p.Endpoints
		}))}
	return p
}

// move moves the cursor through both tables.
func (p *Page) move(_ scene.Host, by widget.Step) tea.Cmd {
	if p.both.Height = p.Endpoints.Height; p.Running.Index() >= 0 {
		p.both.Height = p.Running.Height
	}
	p.both.Move(by)
	return nil
}

// switchTable moves the cursor to the other table, to its first row.
func (p *Page) switchTable() {
	first := slices.IndexFunc(p.both.Rows, func(k widget.WorkKey) bool { return (k.Number == 0) == (p.Running.Index() >= 0) })
	if first >= 0 {
		*p.both.Cursor = p.both.Rows[first]
	}
}

// enter opens the thread of the selected request. For a route or a class of jobs it opens the flamegraph.
func (p *Page) enter(h scene.Host) tea.Cmd {
	if i := p.Running.Index(); i >= 0 {
		h.Showing().Selected = scene.RowKey{Thread: p.Running.Rows[i].Thread}
		h.Showing().Opened = scene.OpenedOf(p.Running.Rows[i].Request)
		return h.Open(scene.PageThread)
	}
	if i := p.Endpoints.Index(); i >= 0 {
		return p.openEndpoint(h, p.Endpoints.Rows[i])
	}
	return p.move(h, widget.Step{Rows: +1})
}

func (p *Page) Load(sc *scene.Scene, r *store.Reading) {
	if i := p.both.Index(); i >= 0 {
		p.both.At = i // a click may have moved the cursor, so the row's index may have changed
	}
	p.all = [2]int{len(sc.Served.Running), len(sc.Served.Endpoints)}
	p.Running.Rows, p.Endpoints.Rows, p.both.Rows = p.Running.Rows[:0], p.Endpoints.Rows[:0], p.both.Rows[:0]
	re := p.flame.Listed()
	if p.rowOf == nil {
		p.rowOf = make(map[sampler.ThreadID]int)
	}
	clear(p.rowOf)
	if len(sc.Served.Running) > 0 {
		for i := range sc.Threads {
			p.rowOf[sc.Threads[i].ID] = i
		}
	}
	for i := range sc.Served.Running {
		q := &sc.Served.Running[i]
		at, listed := p.rowOf[q.Thread]
		if !listed {
			at = -1
		}
		if w := widget.NewRequestRow(sc, q, at); re == nil || w.Matches(re, sc) {
			p.Running.Rows = append(p.Running.Rows, w)
		}
	}
	for i := range sc.Served.Endpoints {
		if !sc.Figures.Enough(sampler.FigureRequests) {
			break
		}
		e := &sc.Served.Endpoints[i]
		w := &endpointRow{Endpoint: e, Title: canvas.Clean(scene.EndpointName(e.Kind, e.Name)), Blame: min(style.Share(e.BlameNS, sc.Served.WaitNS), 1)}
		if e.Other {
			w.Title = "(all others)"
		}
		if re == nil || re.MatchString(w.Title) {
			p.Endpoints.Rows = append(p.Endpoints.Rows, w)
		}
	}
	p.Running.Sort(p.Running.Rows)
	p.Endpoints.Sort(p.Endpoints.Rows)
	for _, w := range p.Running.Rows {
		p.both.Rows = append(p.both.Rows, w.ID())
	}
	for _, w := range p.Endpoints.Rows {
		p.both.Rows = append(p.both.Rows, w.ID())
	}
}

// mostTime compares endpoints (routes and classes of jobs), for sorting. The endpoint in which threads and fibers spent
// most time comes first.
func mostTime(x, y *endpointRow) int {
	return cmp.Compare(y.TotalNS()+y.FiberNS, x.TotalNS()+x.FiberNS)
}

func (p *Page) About(sc *scene.Scene) string {
	s := &sc.Served
	parts := []string{s.RunningText()}
	if by := p.Endpoints.Sorted("time"); by != "" {
		parts[0] += ", " + by
	}
	if fibers := s.FibersText(); fibers != "" {
		parts = append(parts, fibers)
	}
	if sc.Figures.Enough(sampler.FigureRequests) {
		parts = append(parts, scene.PerSecondText(s.PerSecond, s.AtLeast)+"/s", s.QuantileName(.5)+" "+s.Length(.5), s.QuantileName(.95)+" "+s.Length(.95))
	}
	if s.LeftOut > 0 {
		parts = append(parts, units.Count(int64(s.LeftOut))+" not kept apart")
	}
	if queued := s.QueuedText(); queued != "" {
		parts = append(parts, queued)
	}
	if p.flame.Listed() != nil {
		parts = append([]string{fmt.Sprintf("%d of %d listed", len(p.both.Rows), p.all[0]+p.all[1])}, parts...)
	}
	parts = append(parts, sc.When())
	return strings.Join(parts, style.Between)
}

func (p *Page) Detail(sc *scene.Scene) (name, rest string) {
	if i := p.Running.Index(); i >= 0 {
		return p.Running.Rows[i].Detail(sc)
	}
	if i := p.Endpoints.Index(); i >= 0 {
		w := p.Endpoints.Rows[i]
		parts := []string{fmt.Sprintf("%s seen, %s/s", units.Count(int64(w.Ended+w.Running)), scene.PerSecondText(w.PerSecond, w.AtLeast)), strings.Join(PartsOf(&w.NS, w.FiberNS, w.Peers, sc, true), "  ")}
		if w.BlameNS > 0 {
			parts = append(parts, fmt.Sprintf("made others wait %s (%s of all waiting)", units.Duration(w.BlameNS), units.Percent(w.Blame)))
		}
		return w.Title, strings.Join(parts, "   ")
	}
	return "", "↑ ↓ select   enter opens the thread of a request, the flamegraph of a route"
}

// openEndpoint opens the live view for a route or a class of jobs. The timeline and the flamegraph then show only the
// time that was spent for this route or class.
func (p *Page) openEndpoint(h scene.Host, w *endpointRow) tea.Cmd {
	if w.Other {
		h.Message().Say("these are many routes, which are not kept apart")
		return nil
	}
	arrived := h.Leave()
	h.Showing().Route, h.Showing().Filter, h.Showing().Selected = w.ID().Endpoint, scene.RowKey{}, scene.RowKey{}
	p.flame.Zoom, p.flame.Selected, p.flame.SelNode, p.flame.Top, h.Showing().Focus = nil, nil, nil, 0, scene.OnTimeline
	cmd := h.Open(scene.PageLive)
	arrived()
	h.Refresh()
	return cmd
}
