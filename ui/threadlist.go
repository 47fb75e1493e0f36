package ui

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// rowKey names a row: a thread, or a group by its pattern.
type rowKey struct {
	thread sampler.ThreadID
	group  string
	// fiber is one of the thread's that waits; 0: it is the thread's row. Only the table of threads has such rows.
	fiber sampler.FiberNumber
}

// selection is whom all views show: the selected thread or group, whom the flamegraph is narrowed to, and the route or the class of
// jobs that timeline and flamegraph are narrowed to.
type selection struct {
	selected, filter rowKey
	route            endpointKey
}

// threadList are the threads of the time shown, in Ruby's order.
type threadList []threadRow

// threadRow is a thread, and what it did in the time shown.
type threadRow struct {
	id     sampler.ThreadID
	name   string
	ractor sampler.RactorID
	state  gvl.ThreadState
	// known: state holds, with its detail. seen: of state only State holds, taken from the last column.
	known, seen bool
	totals      [gvl.NumStates]int64
	busyNS      int64 // of totals, neither parked nor asleep
	active      bool
	leftOut     bool // it does not match what is searched for
	listens     bool // in io, it has nothing to do: a server without a client, a poller
}

// activeShare is the part of its time that a thread must have been seen neither parked nor asleep, nor listening, to be listed among
// the active ones. Of threads that ended it is a part of the time shown: one that lived for some ms was busy for most of them.
const activeShare = 0.005

// load reads which threads there are between two times, and their totals. states are those at the end of that time, nil when
// they are not known.
func (l *threadList) load(r *store.Reading, states []gvl.ThreadState, fromNS, toNS int64) {
	*l = (*l)[:0]
	now := make(map[sampler.ThreadID]int, len(states))
	for i := range states {
		now[states[i].Thread] = i
	}
	for _, id := range r.Timeline.Threads(nil, fromNS, toNS) {
		t := threadRow{id: id, totals: r.Timeline.Totals(id, fromNS, toNS)}
		info, _ := r.Dict.Thread(id)
		t.name, t.ractor = gvl.NameOf(id, info), info.Ractor
		if i, ok := now[id]; ok {
			t.state, t.known, t.seen = states[i], true, true
			t.listens = r.Resting.IdleIO(t.state.State, &t.state.Detail, t.state.Stack)
		} else if states == nil {
			t.state.State, t.seen = lastState(r.Timeline, id, toNS)
		}
		var listed, idle int64
		for s, ns := range t.totals {
			listed += ns
			if gvl.State(s).Idle() || gvl.State(s) == gvl.Unknown || gvl.State(s) == gvl.IO && t.listens {
				idle += ns
			}
		}
		t.busyNS = listed - idle
		if t.seen {
			t.active = float64(t.busyNS) > activeShare*float64(listed)
		} else {
			t.active = float64(t.busyNS) > activeShare*float64(toNS-fromNS)
		}
		*l = append(*l, t)
	}
}

// waitForPool shows the threads that findings say wait for a pool as what they are. A Queue that a pool is made of is to Ruby what
// idle workers wait for, too.
func (l threadList) waitForPool(findings []gvl.Finding) {
	for i := range findings {
		if findings[i].ID != "pool_wait" {
			continue
		}
		for k := range l {
			t := &l[k]
			if kind := t.state.Detail.Kind; t.known && t.state.State.Idle() && kind != "" && kind != "Thread" &&
				slices.Contains(findings[i].Threads, t.id) {
				t.state.State, t.active = gvl.Lock, true
			}
		}
	}
}

// anyActive reports whether some of the threads did something that counts, each or those that ended together.
func (l threadList) anyActive(members []int, spanNS int64) bool {
	var ended int64
	for _, m := range members {
		if l[m].active {
			return true
		}
		if !l[m].seen {
			ended += l[m].busyNS
		}
	}
	return float64(ended) > activeShare*float64(spanNS)
}

// mostlyGone reports whether most of the threads have ended: their rows would take the room of others'.
func (l threadList) mostlyGone(members []int) bool {
	gone := 0
	for _, m := range members {
		if !l[m].seen {
			gone++
		}
	}
	return gone*2 > len(members)
}

// search leaves out those that have a name, and ran no function in the time of the weights, that the expression matches; nil: none
// is left out.
func (l threadList) search(re *regexp.Regexp, weights *flamegraph.Snapshot, dict *sampler.Dictionary) {
	if re == nil {
		return
	}
	hit, stacks := make(map[sampler.ThreadID]bool), make(map[sampler.StackID]bool)
	var frames []sampler.FrameID
	labels := make(map[sampler.FrameID]bool)
	holds := func(id sampler.StackID) bool {
		found, ok := stacks[id]
		if !ok {
			frames = dict.Frames(id, frames[:0])
			found = slices.ContainsFunc(frames, func(f sampler.FrameID) bool {
				hit, ok := labels[f]
				if !ok {
					x := dict.Frame(f)
					hit = re.MatchString(x.Label) || re.MatchString(x.Path)
					labels[f] = hit
				}
				return hit
			})
			stacks[id] = found
		}
		return found
	}
	for i := range weights.Entries {
		if k := weights.Entries[i].Key; !hit[k.Thread] && holds(k.Stack) {
			hit[k.Thread] = true
		}
	}
	for i := range l {
		t := &l[i]
		t.leftOut = !hit[t.id] && !re.MatchString(t.name) && !(t.known && holds(t.state.Stack))
	}
}

// serve leaves out those that did not work for an endpoint in the time of the weights; 0: none is left out.
func (l threadList) serve(endpoint flamegraph.EndpointID, weights *flamegraph.Snapshot) {
	if endpoint == 0 {
		return
	}
	served := make(map[sampler.ThreadID]bool)
	for i := range weights.Entries {
		if k := &weights.Entries[i].Key; k.Endpoint == endpoint {
			served[k.Thread] = true
		}
	}
	for i := range l {
		l[i].leftOut = l[i].leftOut || !served[l[i].id]
	}
}

// listed is how many are not left out.
func (l threadList) listed() (n int) {
	for i := range l {
		if !l[i].leftOut {
			n++
		}
	}
	return n
}

// listedOf takes those that are left out from groups, and the groups that are empty then.
func (l threadList) listedOf(groups []group) []group {
	out := groups[:0]
	for _, g := range groups {
		g.members = slices.DeleteFunc(g.members, func(i int) bool { return l[i].leftOut })
		if len(g.members) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// counted is how many there are, and how many of them are listed: "15 threads", "3 of 15 threads".
func (l threadList) counted() string {
	all, n := units.Count(int64(len(l))), l.listed()
	if n < len(l) {
		return units.Count(int64(n)) + " of " + all + " threads"
	}
	return all + " threads"
}

// lastState is what is known of a thread's state at a moment in the past: the largest share of the kept column before it.
func lastState(tl *gvl.Timeline, id sampler.ThreadID, ns int64) (gvl.State, bool) {
	for _, c := range tl.Row(id, ns-tl.ColumnNS(), ns, 1) {
		if c.Listed() > 0 {
			return c.Dominant, true
		}
	}
	return gvl.Unknown, false
}

// row is the line of a thread.
func (l threadList) row(i int, inGroup bool) row {
	t := &l[i]
	return row{key: rowKey{thread: t.id}, name: t.name, members: []int{i}, inGroup: inGroup, totals: t.totals, state: t.state.State, listens: t.listens}
}

// members returns the threads that a row stands for, and its name; nil when the row is gone.
func (l threadList) members(k rowKey) (ids map[sampler.ThreadID]bool, name string) {
	if k == (rowKey{}) {
		return nil, ""
	}
	for i := range l {
		t := &l[i]
		if t.id == k.thread || k.thread == 0 && gvl.PoolName(t.name) == k.group {
			if ids == nil {
				ids = make(map[sampler.ThreadID]bool)
			}
			ids[t.id] = true
			name = t.name
		}
	}
	if k.thread == 0 && ids != nil {
		name = k.group
	}
	return ids, name
}

// urgency is the order in which the states of a group are counted.
var urgency = [...]gvl.State{gvl.Stalled, gvl.GC, gvl.Running, gvl.Waiting, gvl.Lock, gvl.IO, gvl.Native,
	gvl.Unknown, gvl.Parked, gvl.Sleeping}

// stateCounts is how many threads are in each state.
type stateCounts [gvl.NumStates]int

// states counts what some of the threads do, as far as it is known.
func (l threadList) states(members []int) (c stateCounts) {
	for _, m := range members {
		if t := &l[m]; t.seen {
			c[t.state.State]++
		}
	}
	return c
}

// String names the states, the most urgent first: "6 waiting · 1 io".
func (c stateCounts) String() string {
	var parts []string
	for _, s := range urgency {
		if c[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c[s], s))
		}
	}
	return strings.Join(parts, " · ")
}

// shortStates are words for the states of a group where there is little room.
var shortStates = [gvl.NumStates]string{gvl.Unknown: "?", gvl.Running: "run", gvl.Stalled: "stall", gvl.GC: "gc", gvl.Waiting: "wait",
	gvl.Native: "native", gvl.IO: "io", gvl.Lock: "lock", gvl.Parked: "park", gvl.Sleeping: "sleep"}

// draw writes the counts: in the words of everywhere, in short ones, or in letters, as there is room.
func (c stateCounts) draw(a canvas.Area, t *style.Theme, st canvas.Style) {
	short := -1
	for s, n := range c {
		if n > 0 {
			short += canvas.Width(fmt.Sprint(n, " ", shortStates[s])) + 1
		}
	}
	x, whole := 0, canvas.Width(c.String()) <= a.W
	for _, s := range urgency {
		n, word := c[s], canvas.Style{FG: t.Readable(t.States[s])}
		if n == 0 {
			continue
		}
		switch {
		case whole:
			if x > 0 {
				x = a.Put(x, 0, " · ", st)
			}
			x = a.Put(x, 0, fmt.Sprintf("%d ", n), st)
			x = a.Put(x, 0, s.String(), word)
		case short <= a.W:
			x = a.Put(x, 0, fmt.Sprintf("%d ", n), st)
			x = a.Put(x, 0, shortStates[s], word) + 1
		default:
			letter := rune(s.Letter())
			if s == gvl.Sleeping { // a point behind a number is none of its own
				letter = s.Glyph()
			}
			x = a.Put(x, 0, fmt.Sprintf("%d%c ", n, letter), word.With(canvas.Bold))
		}
	}
}
