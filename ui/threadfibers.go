package ui

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
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

// bare is the key of the thread or group that a row belongs to.
func (k rowKey) bare() rowKey { k.fiber = 0; return k }

// fibersOf returns the fibers that wait, by their threads: those with a request first, the oldest before.
func (sc *scene) fibersOf() map[sampler.ThreadID][]*sampler.Fiber {
	look := sc.served.fibers
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
			a, b := sc.dict.Work(x.Serving.Work), sc.dict.Work(y.Serving.Work)
			if (a.Number == 0) != (b.Number == 0) {
				return cmp.Compare(b.Number, a.Number)
			}
			return cmp.Or(cmp.Compare(a.SinceNS, b.SinceNS), cmp.Compare(x.Number, y.Number))
		})
	}
	return of
}

// withFibers adds to the rows of threads what fibers of theirs wait, and below those that are unfolded the fibers.
func (p *threadsPage) withFibers(sc *scene, rows []*tableRow) []*tableRow {
	of := sc.fibersOf()
	if of == nil {
		return rows
	}
	ages := make(map[sampler.WorkNumber]int64)
	for i := range sc.served.running {
		q := &sc.served.running[i]
		ages[q.Work.Number] = max(min(q.ToNS, sc.atNS)-q.FromNS, 0)
	}
	var out []*tableRow
	for _, w := range rows {
		out = append(out, w)
		list := of[w.key.thread]
		if w.isGroup || len(list) == 0 {
			continue
		}
		w.fibers, w.unfolded = len(list), p.unfolded[w.key.thread]
		if !w.unfolded {
			continue
		}
		for _, f := range list[:min(len(list), maxFiberRows)] {
			x := &tableRow{row: row{key: rowKey{thread: w.key.thread, fiber: f.Number}, name: w.name, members: w.members, inGroup: w.inGroup}, p99: "–"}
			x.fiber = &fiberRow{number: f.Number, what: sc.asks(f.Serving)}
			if x.fiber.what == "" {
				x.fiber.what = ownPlace(sc.dict, f.Stack)
			}
			if work := sc.dict.Work(f.Serving.Work); work.Number != 0 {
				x.fiber.name, x.fiber.ageNS = canvas.Clean(endpointName(work.Kind, work.Endpoint)), ages[work.Number]
			}
			out = append(out, x)
		}
	}
	return out
}

// unfold shows or hides the fibers of the selected row's thread, and reports whether there was something to do.
func (p *threadsPage) unfold(open bool) bool {
	i := p.table.index()
	if i < 0 {
		return false
	}
	w := p.table.rows[i]
	if w.fibers == 0 && w.fiber == nil || open == (w.unfolded || w.fiber != nil) {
		return false
	}
	p.unfolded[w.key.thread] = open
	*p.table.cursor = w.key.bare()
	return true
}

// follow makes the row that all views have selected the table's, unless that is one of its fibers.
func (p *threadsPage) follow() {
	if p.cursor.bare() != p.all.selected {
		p.cursor = p.all.selected
	}
}

// choose makes the table's row, or its thread's, the one that all views have selected.
func (p *threadsPage) choose() { p.all.selected = p.cursor.bare() }

// fibersText is what a row says of the fibers of its thread: "+ 60 fibers", or "+60" where that has no room.
func (w *tableRow) fibersText(room int) string {
	if w.fibers == 0 {
		return ""
	}
	if s := "+ " + units.Plural(w.fibers, "fiber", "fibers"); canvas.Width(s) < room-leastName {
		return s
	}
	return "+" + units.Count(int64(w.fibers))
}

// draw writes a fiber's name.
func (f *fiberRow) draw(a canvas.Area, w *tableRow, t *style.Theme) {
	x := 4
	if w.inGroup {
		x += 2
	}
	if f.name == "" {
		a.Put(x, 0, canvas.Cut("fiber", a.W-x), t.Dimmed())
		return
	}
	drawEndpoint(a.Sub(x, 0, max(a.W-x, 0), 1), f.name, "", t)
}

// drawState writes that a fiber waits, and for how long its request has gone on.
func (f *fiberRow) drawState(a canvas.Area, t *style.Theme) {
	x := a.Put(0, 0, "waits", canvas.Style{FG: t.Readable(t.States[gvl.Parked])})
	if f.ageNS > 0 {
		a.Put(x+1, 0, canvas.Cut(units.Duration(f.ageNS)+" old", a.W-x-1), t.Dimmed())
	}
}
