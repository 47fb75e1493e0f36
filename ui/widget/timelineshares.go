package widget

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// ShareStates are the states that can have a column of shares, in their order on the screen. The states Stalled and GC
// have no columns. A thread holds the GVL in them, so their time is added to Running.
var ShareStates = []gvl.State{gvl.Running, gvl.Waiting, gvl.IO, gvl.Lock, gvl.Native, gvl.Parked, gvl.Sleeping, gvl.Unknown}

// shareHeads are the heads of the columns with shares of time, one for each state. Each has at most scene.ShareW-1
// letters.
var shareHeads = [gvl.NumStates]string{gvl.Running: "run", gvl.Waiting: "wait", gvl.IO: "io", gvl.Lock: "lock", gvl.Native: "nativ",
	gvl.Parked: "park", gvl.Sleeping: "sleep", gvl.Unknown: "?"}

// shareColumns are the columns with percentages beside the timeline. They are for the states with the most time. The
// last column can be a thread's blame: its share of all waiting for the GVL that threads cause.
type shareColumns struct {
	States []gvl.State
	blame  bool
	// blamed says for each thread how long other threads waited for the GVL while this thread held it, in ns. The field
	// all is the sum over all threads.
	blamed map[sampler.ThreadID]int64
	all    int64
}

// The column of blame appears when at least blameComes threads wait for the GVL on average. It disappears when fewer
// than BlameGoes threads wait. The two differ so that the column does not come and go all the time.
const (
	blameComes = 0.5
	BlameGoes  = 0.25
)

// Choose chooses for which states there are columns: as many as fit. It prefers states in which threads do not rest. A
// state that has a column keeps it until another state has much more time.
func (s *shareColumns) Choose(threads scene.Threads, room int, waiting float64) {
	const keep, little = 1.3, 0.005
	n := (room + 1) / scene.ShareW
	s.blame = n >= 4 && (waiting >= blameComes || s.blame && waiting >= BlameGoes)
	if s.blame {
		n--
	}
	var totals [gvl.NumStates]float64
	for i := range threads {
		for st, ns := range threads[i].Totals {
			totals[ShownAs(gvl.State(st))] += float64(ns)
		}
	}
	active := 0.0
	for st, ns := range totals {
		if !gvl.State(st).Idle() {
			active += ns
		}
	}
	for _, st := range s.States {
		totals[st] *= keep
	}
	order := slices.Clone(ShareStates)
	slices.SortStableFunc(order, func(x, y gvl.State) int {
		rests := func(s gvl.State) int {
			switch {
			case totals[s] <= little*active:
				return 2
			case s.Idle():
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(rests(x), rests(y)), cmp.Compare(totals[y], totals[x]))
	})
	order = order[:min(n, len(order))]
	slices.SortFunc(order, func(x, y gvl.State) int {
		return cmp.Compare(slices.Index(ShareStates, x), slices.Index(ShareStates, y))
	})
	s.States = order
}

// ShownAs returns the state whose column of shares includes the time in state s.
func ShownAs(s gvl.State) gvl.State {
	if s.Held() {
		return gvl.Running
	}
	return s
}

// LoadBlame adds up, for each thread, how long other threads waited for the GVL while it held the GVL.
func (s *shareColumns) LoadBlame(sc *scene.Scene) {
	s.blamed, s.all = make(map[sampler.ThreadID]int64), 0
	for i := range sc.Weights.Entries {
		if e := &sc.Weights.Entries[i]; e.Weights.BlameNS > 0 {
			s.blamed[e.Key.Thread] += e.Weights.BlameNS
			s.all += e.Weights.BlameNS
		}
	}
}

// drawHead writes the heads of the columns.
func (s *shareColumns) drawHead(a canvas.Area, t *style.Theme) {
	for i, st := range s.States {
		a.Put(i*scene.ShareW, 0, canvas.PadLeft(shareHeads[st], scene.ShareW-1), canvas.Style{FG: t.Readable(t.States[st])})
	}
	if s.blame {
		a.Put(len(s.States)*scene.ShareW, 0, "blame", canvas.Style{FG: t.Readable(t.States[gvl.Waiting])})
	}
}

// drawShares writes in which share of its time the row was in each state that has a column. It also writes which share
// of all waiting for the GVL the row's threads caused. The shares of all states add up to 100.
func (v *Timeline) drawShares(a canvas.Area, w *scene.Row, t *style.Theme) {
	if a.W == 0 {
		return
	}
	parts := make([]int64, gvl.NumStates)
	for st, ns := range w.Totals {
		parts[ShownAs(gvl.State(st))] += ns
	}
	percents := units.Percents(parts...)
	put := func(x, n int, st canvas.Style) {
		if n == 0 {
			st = t.Faded()
		}
		if w.Key == v.Selected {
			st = t.OnSelection(st)
		}
		a.Put(x, 0, fmt.Sprintf("%3d %%", n), st)
	}
	for i, s := range v.Shares.States {
		st := canvas.Style{FG: t.Readable(t.States[s])}
		if s == gvl.Waiting && percents[s] >= 10 {
			st.Attr = canvas.Bold
		}
		put(i*scene.ShareW, percents[s], st)
	}
	if !v.Shares.blame {
		return
	}
	const much = 50
	var blamed int64
	for _, m := range w.Members {
		blamed += v.Shares.blamed[v.Threads[m].ID]
	}
	st := canvas.Style{FG: t.Readable(t.States[gvl.Waiting])}
	n := int(style.Share(blamed, v.Shares.all)*100 + 0.5)
	if n >= much {
		st.Attr = canvas.Bold
	}
	put(len(v.Shares.States)*scene.ShareW, n, st)
}
