package scene

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// RowKey identifies a row of threads: by the thread, or for a group by the pattern of its threads' names.
type RowKey struct {
	Thread sampler.ThreadID
	Group  string
	// Fiber is a waiting fiber of the thread, for a row about a fiber. It is zero in the thread's own row. Only the
	// table of threads has rows of fibers.
	Fiber sampler.FiberNumber
}

// Selection is a choice of the user that applies to all views, in whichever view the user has made it. Selected is the
// selected thread or group. Filter limits the flamegraph to a thread or group. Route limits the timeline and the
// flamegraph to a route or a class of jobs.
type Selection struct {
	Selected, Filter RowKey
	Route            EndpointKey
}

// Threads are the threads in the time on the screen, in the order of Ruby's own list.
type Threads []Thread

// Thread is a thread of the target, with what it did in the time on the screen.
type Thread struct {
	ID     sampler.ThreadID
	Name   string
	Ractor sampler.RactorID
	State  gvl.ThreadState
	// Known is true if all of State is known. Seen is true if at least State.State is known. To know State.State, the
	// timeline's last column is enough.
	Known, Seen bool
	Totals      [gvl.NumStates]int64
	BusyNS      int64 // the part of Totals in which the thread was busy
	Active      bool
	LeftOut     bool // the thread does not match the search
	Listens     bool // if the thread's state is io, it has nothing to do: it waits for clients, or polls
	// Idle is a text that says what an idle thread waits for. It is empty if the thread works for a request or a job.
	Idle string
}

// Forms returns texts that say what a thread does, if its state is known. The longest text comes first.
func (t *Thread) Forms(dict *sampler.Dictionary) []string {
	if t.Idle != "" {
		return gvl.DescribeIdle(t.State, t.Idle, dict)
	}
	return gvl.DescribeFit(t.State, dict)
}

// StateWord returns a word that says what a thread does, and the word's style. It is the name of the state, or "idle"
// if the thread rests.
func StateWord(s gvl.State, rests bool, t *style.Theme) (string, canvas.Style) {
	if rests {
		return idle, t.Plain()
	}
	return s.String(), t.State(s)
}

// idle is shown instead of the state io for a thread that only waits for its next work.
const idle = "idle"

// activeShare is a share of a thread's time. If the thread was busy for at least this share, ddtop regards it as
// active. Busy means neither parked nor asleep nor listening. For a thread that has ended, its time is the whole time
// on the screen, and not only its life. Otherwise each thread that lived for a few ms would be active, because it was
// busy for most of its life.
const activeShare = 0.005

// Load reads which threads there were between two times, and how long each was in each state. states are the threads'
// states at the end of this time, or nil if they are not known.
func (l *Threads) Load(r *store.Reading, states []gvl.ThreadState, fromNS, toNS int64) {
	*l = (*l)[:0]
	now := make(map[sampler.ThreadID]int, len(states))
	for i := range states {
		now[states[i].Thread] = i
	}
	for _, id := range r.Timeline.Threads(nil, fromNS, toNS) {
		t := Thread{ID: id, Totals: r.Timeline.Totals(id, fromNS, toNS)}
		info, _ := r.Dict.Thread(id)
		t.Name, t.Ractor = gvl.NameOf(id, info), info.Ractor
		if i, ok := now[id]; ok {
			t.State, t.Known, t.Seen = states[i], true, true
			t.Idle = r.Resting.Idle(t.State.State, &t.State.Detail, t.State.Stack)
			t.Listens = t.Idle != ""
		} else if states == nil {
			t.State.State, t.Seen = lastState(r.Timeline, id, toNS)
		}
		var listed, idle int64
		for s, ns := range t.Totals {
			listed += ns
			if gvl.State(s).Idle() || gvl.State(s) == gvl.Unknown || gvl.State(s) == gvl.IO && t.Listens {
				idle += ns
			}
		}
		t.BusyNS = listed - idle
		if t.Seen {
			t.Active = float64(t.BusyNS) > activeShare*float64(listed)
		} else {
			t.Active = float64(t.BusyNS) > activeShare*float64(toNS-fromNS)
		}
		*l = append(*l, t)
	}
}

// WaitForOthers corrects the state of some threads to gvl.Lock. To Ruby these threads only sleep. But they wait for a
// connection of a pool, or they wait for another thread during a request or a job. The flamegraph uses the same rule
// (findings.Resting.State). s is the sample of the threads' states, or nil. WaitForOthers also clears Idle for threads
// that work for a request or a job.
func (l Threads) WaitForOthers(resting *findings.Resting, s *sampler.Sample) {
	if s == nil {
		return
	}
	works := make(map[sampler.ThreadID]sampler.WorkID, len(s.Threads))
	for i := range s.Threads {
		works[s.Threads[i].ID] = s.Threads[i].Serving.Work
	}
	for k := range l {
		t := &l[k]
		if works[t.ID] != 0 {
			t.Idle = ""
		}
		if ts := &t.State; t.Known && resting.State(ts.State, &ts.Detail, ts.Stack, works[t.ID]) == gvl.Lock {
			ts.State, t.Active, t.Idle = gvl.Lock, true, ""
		}
	}
}

// AnyActive reports whether at least one of the given threads is active. Threads that have ended are treated as one
// thread: their busy times are added up.
func (l Threads) AnyActive(members []int, spanNS int64) bool {
	var ended int64
	for _, m := range members {
		if l[m].Active {
			return true
		}
		if !l[m].Seen {
			ended += l[m].BusyNS
		}
	}
	return float64(ended) > activeShare*float64(spanNS)
}

// MostlyGone reports whether most threads of a group have ended. Such a group is not opened automatically, because its
// rows should not take room on the screen.
func (l Threads) MostlyGone(members []int) bool {
	gone := 0
	for _, m := range members {
		if !l[m].Seen {
			gone++
		}
	}
	return gone*2 > len(members)
}

// Search marks the threads that do not match a search, so that lists leave them out. A thread matches if its name
// matches the expression. It also matches if it ran a matching function in the time of the weights. If re is nil, all
// threads are listed.
func (l Threads) Search(re *regexp.Regexp, weights *flamegraph.Snapshot, dict *sampler.Dictionary) {
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
		t.LeftOut = !hit[t.ID] && !re.MatchString(t.Name) && !(t.Known && holds(t.State.Stack))
	}
}

// Serve marks the threads that did not work for an endpoint (a route or a class of jobs) in the time of the weights.
// Lists leave these threads out. If endpoint is zero, all threads are listed.
func (l Threads) Serve(endpoint flamegraph.EndpointID, weights *flamegraph.Snapshot) {
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
		l[i].LeftOut = l[i].LeftOut || !served[l[i].ID]
	}
}

// Listed returns how many threads are listed: the ones that neither Search nor Serve has left out.
func (l Threads) Listed() (n int) {
	for i := range l {
		if !l[i].LeftOut {
			n++
		}
	}
	return n
}

// ListedOf removes from groups the threads that Search or Serve has left out. It also removes groups that are empty
// after this.
func (l Threads) ListedOf(groups []Group) []Group {
	out := groups[:0]
	for _, g := range groups {
		g.Members = slices.DeleteFunc(g.Members, func(i int) bool { return l[i].LeftOut })
		if len(g.Members) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// Counted returns a text that says how many threads there are. If threads are left out, it also says how many are
// listed: "15 threads", "3 of 15 threads".
func (l Threads) Counted() string {
	all, n := units.Count(int64(len(l))), l.Listed()
	if n < len(l) {
		return units.Count(int64(n)) + " of " + all + " threads"
	}
	if len(l) == 1 {
		return "1 thread"
	}
	return all + " threads"
}

// lastState returns a thread's state at a moment in the past. It looks at the timeline's last column before this
// moment, and returns the state with the largest share in this column.
func lastState(tl *timeline.Timeline, id sampler.ThreadID, ns int64) (gvl.State, bool) {
	for _, c := range tl.Row(id, ns-tl.ColumnNS(), ns, 1) {
		if c.Listed() > 0 {
			return c.Dominant, true
		}
	}
	return gvl.Unknown, false
}

// Row returns the row of a thread.
func (l Threads) Row(i int, inGroup bool) Row {
	t := &l[i]
	return Row{Key: RowKey{Thread: t.ID}, Name: t.Name, Members: []int{i}, InGroup: inGroup, Totals: t.Totals, State: t.State.State, Listens: t.Listens}
}

// GroupRow returns the row of a group.
func (l Threads) GroupRow(g Group) Row {
	w := Row{Key: RowKey{Group: g.Name}, Name: fmt.Sprintf("%s ×%d", g.Name, len(g.Members)), Members: g.Members, IsGroup: true, Listens: true}
	for _, i := range g.Members {
		t := &l[i]
		w.Listens = w.Listens && (t.Listens || t.Totals[gvl.IO] == 0)
		for s, ns := range t.Totals {
			w.Totals[s] += ns
		}
	}
	return w
}

// Members returns the threads of the row with key k, and the row's name. ids is nil if none of these threads exists at
// the moment on the screen.
func (l Threads) Members(k RowKey) (ids map[sampler.ThreadID]bool, name string) {
	if k == (RowKey{}) {
		return nil, ""
	}
	for i := range l {
		t := &l[i]
		if t.ID == k.Thread || k.Thread == 0 && findings.PoolName(t.Name) == k.Group {
			if ids == nil {
				ids = make(map[sampler.ThreadID]bool)
			}
			ids[t.ID] = true
			name = t.Name
		}
	}
	if k.Thread == 0 && ids != nil {
		name = k.Group
	}
	return ids, name
}

// StateCounts is the number of threads in each state. Idle threads are not included in these numbers. The last number
// is the number of idle threads.
type StateCounts [gvl.NumStates + 1]int

// States returns how many of the given threads are in each state. Threads whose state is not known are not counted.
func (l Threads) States(members []int) (c StateCounts) {
	for _, m := range members {
		switch t := &l[m]; {
		case t.Idle != "":
			c[gvl.NumStates]++
		case t.Seen:
			c[t.State.State]++
		}
	}
	return c
}

// String returns the numbers as text, with the names of the states. The most urgent state comes first: "6 waiting · 1
// io".
func (c StateCounts) String() string {
	var parts []string
	for _, s := range gvl.ByUrgency {
		if c[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c[s], s))
		}
	}
	if n := c[gvl.NumStates]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d %s", n, idle))
	}
	return strings.Join(parts, " · ")
}

// Draw writes the numbers with the full names of the states. If there is too little room, it writes short names. If
// there is very little room, it writes only letters.
func (c StateCounts) Draw(a canvas.Area, t *style.Theme, st canvas.Style) {
	short := -1
	for s, n := range c {
		word := idle
		if s < int(gvl.NumStates) {
			word = gvl.State(s).Short()
		}
		if n > 0 {
			short += canvas.Width(fmt.Sprint(n, " ", word)) + 1
		}
	}
	x, whole := 0, canvas.Width(c.String()) <= a.W
	for _, s := range gvl.ByUrgency {
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
			x = a.Put(x, 0, s.Short(), word) + 1
		default:
			letter := rune(s.Letter())
			// for these states, write the glyph that the timeline shows, and not the letter
			if s == gvl.Sleeping || s == gvl.Running {
				letter = s.Glyph()
			}
			if text := fmt.Sprintf("%d%c", n, letter); x+canvas.Width(text) <= a.W {
				x = a.Put(x, 0, text, word.With(canvas.Bold)) + 1
			}
		}
	}
	text := fmt.Sprintf("%d %s", c[gvl.NumStates], idle)
	if whole && x > 0 {
		text = " · " + text
	}
	if c[gvl.NumStates] > 0 && x+canvas.Width(text) <= a.W {
		a.Put(x, 0, text, st)
	}
}

// Bare returns the key without the fiber: the key of the fiber's thread. Other keys stay the same.
func (k RowKey) Bare() RowKey { k.Fiber = 0; return k }

// Group is one thread, or a pool of at least two threads whose names follow the same pattern. The timeline has a row
// for each Group.
type Group struct {
	// Name is the pattern that the names of the pool's threads follow. It is "" for a single thread.
	Name    string
	Members []int // indexes into the threads
}

// minGroup is the least number of threads that form a pool.
const minGroup = 2

// GroupThreads divides threads into groups. A group has the place of its first thread in the list. names are the
// threads' names, in an order that does not change. If only one thread has a pattern, it is in no pool. Names without a
// digit form a pool only if they are the same.
func GroupThreads(names []string) []Group {
	byPattern := make(map[string]int, len(names))
	out := make([]Group, 0, len(names))
	for i, n := range names {
		p := findings.PoolName(n)
		at, ok := byPattern[p]
		if !ok {
			at = len(out)
			byPattern[p] = at
			out = append(out, Group{Name: p})
		}
		out[at].Members = append(out[at].Members, i)
	}
	for i := range out {
		if len(out[i].Members) < minGroup {
			out[i].Name = ""
		}
	}
	return out
}

// RowDetail describes a row of the timeline. For a thread it says what the thread does. For a group it says how many of
// its threads are in each state.
func (sc *Scene) RowDetail(w *Row) (name, rest string) {
	var parts []string
	if w.IsGroup {
		var listed int64
		for _, ns := range w.Totals {
			listed += ns
		}
		states := gvl.ByUrgency
		slices.SortStableFunc(states[:], func(x, y gvl.State) int { return cmp.Compare(w.Totals[y], w.Totals[x]) })
		for _, s := range states {
			if sh := style.Share(w.Totals[s], listed); sh >= 0.005 {
				parts = append(parts, fmt.Sprintf("%s %s", s, units.Percent(sh)))
			}
		}
		return w.Name, strings.Join(parts, " · ")
	}
	th := &sc.Threads[w.Members[0]]
	info, _ := sc.Dict.Thread(th.ID)
	if th.Known {
		parts = append(parts, th.Forms(sc.Dict)[0])
		if _, f := sc.Dict.Stack(th.State.Stack); f != 0 {
			fr := sc.Dict.Frame(f)
			where := fr.Label
			if fr.Path != "" && !fr.C {
				where += " " + style.LineIn(fr.Path, fr.Line, fr.Uncertain)
			}
			parts = append(parts, "in "+where)
		}
	}
	if info.TID != 0 {
		parts = append(parts, fmt.Sprintf("tid %d", info.TID))
	}
	if info.Ractor > 1 {
		parts = append(parts, fmt.Sprintf("ractor %d", info.Ractor))
	}
	return th.Name, strings.Join(parts, "  ")
}

// Row is a row of the timeline: a thread, the first row of a group, or a thread of an opened group.
type Row struct {
	Key     RowKey
	Name    string
	Members []int // indexes into threads
	IsGroup bool
	Open    bool
	InGroup bool
	Totals  [gvl.NumStates]int64
	Cells   []timeline.Cell
	Now     []string  // what the thread does now, the longest form first
	State   gvl.State // a thread's state now
	Ident   int       // the thread's number in the GVL lane; zero if it has none
	Holds   bool      // the thread holds the GVL now
	// if the thread's state is io, it has nothing to do; for a group, this is true of all its threads in io
	Listens  bool
	AtMoment bool // Now describes a moment of the time axis
}

// Words returns a text that says what the thread does now, the longest that there is. It is empty if this is not known.
func (w *Row) Words() string {
	if len(w.Now) == 0 {
		return ""
	}
	return w.Now[0]
}

func (w Row) ID() RowKey { return w.Key }

func (w Row) Line() *Row { return &w }
