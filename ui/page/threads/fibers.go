package threads

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// maxFiberRows bounds the fibers that are listed below a thread.
const maxFiberRows = 500

// fiberRow is a fiber that waits, as of the last look at it.
type fiberRow struct {
	number sampler.FiberNumber
	name   string // what it waits for: a request or a job; "" for nobody
	ageNS  int64  // the request's; 0: not known
	what   string // what it asks, or where it is in the code
}

// fibersOf returns the fibers that wait, by their threads: those with a request first, the oldest before.
func fibersOf(sc *scene.Scene) map[sampler.ThreadID][]*sampler.Fiber {
	look := sc.Served.Fibers
	if look == nil || len(look.List) == 0 {
		return nil
	}
	of := make(map[sampler.ThreadID][]*sampler.Fiber)
	for i := range look.List {
		f := &look.List[i]
		of[f.Thread] = append(of[f.Thread], f)
	}
	for _, list := range of {
		slices.SortStableFunc(list, func(x, y *sampler.Fiber) int {
			a, b := sc.Dict.Work(x.Serving.Work), sc.Dict.Work(y.Serving.Work)
			if (a.Number == 0) != (b.Number == 0) {
				return cmp.Compare(b.Number, a.Number)
			}
			return cmp.Or(cmp.Compare(a.SinceNS, b.SinceNS), cmp.Compare(x.Number, y.Number))
		})
	}
	return of
}

// withFibers adds to the rows of threads what fibers of theirs wait, and below those that are unfolded the fibers.
func (p *Page) withFibers(sc *scene.Scene, rows []*TableRow) []*TableRow {
	of := fibersOf(sc)
	if of == nil {
		return rows
	}
	ages := make(map[sampler.WorkNumber]int64)
	for i := range sc.Served.Running {
		q := &sc.Served.Running[i]
		ages[q.Work.Number] = max(min(q.ToNS, sc.AtNS)-q.FromNS, 0)
	}
	var out []*TableRow
	for _, w := range rows {
		out = append(out, w)
		list := of[w.Key.Thread]
		if w.IsGroup || len(list) == 0 {
			continue
		}
		w.fibers, w.unfolded = len(list), p.unfolded[w.Key.Thread]
		if !w.unfolded {
			continue
		}
		for _, f := range list[:min(len(list), maxFiberRows)] {
			x := &TableRow{Row: scene.Row{Key: scene.RowKey{Thread: w.Key.Thread, Fiber: f.Number}, Name: w.Name, Members: w.Members, InGroup: w.InGroup}, p99: "–"}
			x.fiber = &fiberRow{number: f.Number, what: sc.Asks(f.Serving)}
			if x.fiber.what == "" {
				x.fiber.what = scene.OwnPlace(sc.Dict, f.Stack)
			}
			if work := sc.Dict.Work(f.Serving.Work); work.Number != 0 {
				x.fiber.name, x.fiber.ageNS = canvas.Clean(scene.EndpointName(work.Kind, work.Endpoint)), ages[work.Number]
			}
			out = append(out, x)
		}
	}
	return out
}

// unfold shows or hides the fibers of the selected row's thread, and reports whether there was something to do.
func (p *Page) unfold(open bool) bool {
	i := p.Table.Index()
	if i < 0 {
		return false
	}
	w := p.Table.Rows[i]
	if w.fibers == 0 && w.fiber == nil || open == (w.unfolded || w.fiber != nil) {
		return false
	}
	p.unfolded[w.Key.Thread] = open
	*p.Table.Cursor = w.Key.Bare()
	return true
}

// follow makes the row that all views have selected the table's, unless that is one of its fibers.
func (p *Page) follow() {
	if p.Cursor.Bare() != p.all.Selected {
		p.Cursor = p.all.Selected
	}
}

// choose makes the table's row, or its thread's, the one that all views have selected.
func (p *Page) choose() { p.all.Selected = p.Cursor.Bare() }

// fibersText is what a row says of the fibers of its thread: "+ 60 fibers", or "+60" where that has no room.
func (w *TableRow) fibersText(room int) string {
	if w.fibers == 0 {
		return ""
	}
	if s := "+ " + units.Plural(w.fibers, "fiber", "fibers"); canvas.Width(s) < room-leastName {
		return s
	}
	return "+" + units.Count(int64(w.fibers))
}

// draw writes a fiber's name.
func (f *fiberRow) draw(a canvas.Area, w *TableRow, t *style.Theme) {
	x := 4
	if w.InGroup {
		x += 2
	}
	if f.name == "" {
		a.Put(x, 0, canvas.Cut("fiber", a.W-x), t.Dimmed())
		return
	}
	widget.DrawEndpoint(a.Sub(x, 0, max(a.W-x, 0), 1), f.name, "", t)
}

// drawState writes that a fiber waits, and for how long its request has gone on.
func (f *fiberRow) drawState(a canvas.Area, t *style.Theme) {
	x := a.Put(0, 0, "waits", canvas.Style{FG: t.Readable(t.States[gvl.Parked])})
	if f.ageNS > 0 {
		a.Put(x+1, 0, canvas.Cut(units.Duration(f.ageNS)+" old", a.W-x-1), t.Dimmed())
	}
}
