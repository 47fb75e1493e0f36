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

// maxFiberRows limits how many fibers are listed below a thread.
const maxFiberRows = 500

// fiberRow is a row of the table for a waiting fiber. It shows the fiber as it was when ddtop last read the fibers.
type fiberRow struct {
	number sampler.FiberNumber
	name   string // the fiber's request or job, or ""
	ageNS  int64  // the request's age, or zero if not known
	what   string // the fiber's statement (SQL), or its place in the code
}

// fibersOf returns the waiting fibers of each thread. Fibers that work for a request come first, with the oldest
// request at the top.
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

// withFibers sets in each thread's row how many of its fibers wait. If the user has unfolded a thread, it adds a row
// for each of these fibers after the thread's row.
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

// unfold shows the fibers below the selected thread, or hides them. It reports whether anything changed.
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

// follow moves the table's cursor to the thread or group that is selected in all views. If the cursor is on a fiber of
// this thread, it stays there.
func (p *Page) follow() {
	if p.Cursor.Bare() != p.all.Selected {
		p.Cursor = p.all.Selected
	}
}

// choose makes the row under the table's cursor the selection of all views. If this row is a fiber, choose selects its
// thread, because other views have no fibers.
func (p *Page) choose() { p.all.Selected = p.Cursor.Bare() }

// fibersText returns the text that says how many fibers a thread has: "+ 60 fibers", or "+60" if there is little room.
func (w *TableRow) fibersText(room int) string {
	if w.fibers == 0 {
		return ""
	}
	if s := "+ " + units.Plural(w.fibers, "fiber", "fibers"); canvas.Width(s) < room-leastName {
		return s
	}
	return "+" + units.Count(int64(w.fibers))
}

// draw draws a fiber's name: its request or job. A fiber without a request or job has the name "fiber".
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

// drawState writes that the fiber waits, and how old its request is.
func (f *fiberRow) drawState(a canvas.Area, t *style.Theme) {
	x := a.Put(0, 0, "waits", canvas.Style{FG: t.Readable(t.States[gvl.Parked])})
	if f.ageNS > 0 {
		a.Put(x+1, 0, canvas.Cut(units.Duration(f.ageNS)+" old", a.W-x-1), t.Dimmed())
	}
}
