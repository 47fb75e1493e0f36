package findings

import (
	"iter"
	"math"
	"path"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/gates"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/gvl/findings/internal/tips"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// evalPoolWait matches if threads wait for a pool's connections. The pool is too small, or threads keep them too long.
func evalPoolWait(w *window) hit {
	share := w.ofBusy(w.flag(stackkind.Pool))
	if h := w.poolCycle(); h.score >= 1 {
		return h
	}
	if h := w.gateWait(share); h.score >= 1 || w.poolNS == 0 {
		return h
	}
	ids, _ := w.waiting(func(ts *gvl.ThreadState, x *watch) bool { return x.gate == nil && x.waitsForPool(ts.State) })
	h := hit{score: max(float64(w.poolNS)/w.limits.poolWait, share/w.limits.poolShare), severity: SeverityCrit, threads: ids}
	if h.score < 1 {
		return h
	}
	h.explains = w.flag(stackkind.Pool)
	h.title = "Connection pool empty"
	h.text, h.stack = "threads waited for a connection", w.poolStack
	if len(ids) > 0 {
		h.text = units.Plural(len(ids), "thread "+tenseWaits, "threads "+tenseWait) + " for a connection"
	}
	if w.poolTold.NS > 0 {
		h.text += ", longest wait " + w.poolTold.Prose() + w.longestForOne(ids, w.poolTold.NS)
	}
	awaited := ""
	h.text += w.in(h.stack) + "; " + units.RoundPercent(share) + " of the busy time"
	if holders := poolHolders(w, ids); len(holders) > 0 {
		var said []string
		for _, id := range holders[:min(len(holders), maxInside)] {
			said = append(said, w.name(id)+w.in(w.watch(id).stack)+" ("+gvl.Describe(*w.state(id), w.dict)+")")
			if x := w.watch(id); awaited == "" && w.state(id).State == gvl.IO && x.group != 0 && x.group != groupSleep {
				if _, _, other := w.peerIs(x.group); other {
					awaited = gvl.PeerName(w.ev.peers.Group(x.group).Peer)
				}
			}
		}
		if more := len(holders) - len(said); more > 0 {
			said = append(said, itoa(int64(more))+" more")
		}
		h.text += "; " + units.Plural(len(holders), "thread has one: ", "threads have one: ") + strings.Join(said, ", ")
		if h.endpoint = w.routeOf(holders); h.endpoint != "" {
			h.text += ", for " + h.endpoint
		}
	}
	h.next = tips.Pool(awaited)
	return h
}

// inPool sets poolNS, the time since which the thread waits for a pool's connection in one request or job. If the
// thread wakes up but another thread takes the connection first, the same wait goes on.
func (w *watch) inPool(dict *sampler.Dictionary, id sampler.WorkID, at int64) {
	switch {
	case w.flags&stackkind.Pool == 0 || id == 0 || dict == nil:
		w.poolNS = 0
	case w.poolNS == 0 || w.poolFor != dict.Work(id).Number:
		w.poolNS, w.poolFor = at, dict.Work(id).Number
	}
}

// longestForOne returns a text about how long a thread has waited in total for one request or job. The parameter told
// is the longest single wait, in ns. The text is "" if the total is less than twice told.
func (w *moment) longestForOne(ids []sampler.ThreadID, told int64) string {
	longest := int64(0)
	for _, id := range ids {
		if x := w.watch(id); x.poolNS != 0 {
			longest = max(longest, w.nowNS-x.poolNS)
		}
	}
	if longest < 2*told || longest < leastToldNS {
		return ""
	}
	return ", in all ≥" + units.ProseDuration(longest) + " for one request or job"
}

// poolHolders returns the threads that have a connection of the awaited pool, the longest wait first. For Active
// Record's pools, the pool's list of owners shows them. Other pools have no such list. There, a thread counts if it is
// in the same method of the pool as a waiting thread, but does not wait for the pool.
func poolHolders(w *window, waiting []sampler.ThreadID) []sampler.ThreadID {
	owners, methods := make(map[sampler.ThreadID]bool), make(map[string]bool)
	for _, id := range waiting {
		if w.s.Queues != nil {
			for _, l := range w.s.Queues.Leases {
				for _, o := range l.Owners {
					owners[o] = owners[o] || l.Queue == w.state(id).Detail.Object
				}
			}
		}
		for m := range w.poolMethods(w.watch(id).stack) {
			methods[m] = true
		}
	}
	ids, _ := w.waiting(func(ts *gvl.ThreadState, x *watch) bool {
		if x.waitsForPool(ts.State) || x.idle {
			// leave out idle threads: Sidekiq's scheduler sleeps in a pool of its own (scheduled.rb, Sidekiq 6)
			return false
		}
		for m := range w.poolMethods(x.stack) {
			if methods[m] {
				return true
			}
		}
		return owners[ts.Thread]
	})
	return ids
}

// poolMethods yields the methods of pool classes on a stack. It finds them by name: "ConnectionPool#with".
func (w *moment) poolMethods(stack sampler.StackID) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, f := range code.Frames(w.dict, stack, code.MaxFrames) {
			if m := code.Method(f.Label); !f.C && strings.Contains(code.Owner(m), "ConnectionPool") && !yield(m) {
				return
			}
		}
	}
}

// gateWait matches if many threads wait at a gate: a method of the program that lets only a few threads in at a time.
func (w *window) gateWait(share float64) hit {
	var g *gates.Gate
	waiting := 0.0
	for _, x := range w.ev.gates.List() {
		if n := x.Waiting(w.nowNS); x.Open && n > waiting {
			g, waiting = x, n
		}
	}
	h := hit{severity: SeverityCrit}
	if g == nil {
		return h
	}
	h.score = least(waiting/w.limits.poolWaiting, share/w.limits.poolShare)
	if h.score < 1 {
		return h
	}
	ids, _ := w.waiting(func(_ *gvl.ThreadState, x *watch) bool { return x.gate == g })
	if len(ids) == 0 {
		return hit{score: ClearShare} // no thread waits now, but a finding that was raised before stays
	}
	h.threads, h.stack, h.explains = ids, w.watch(ids[0]).stack, w.flag(stackkind.Pool)
	h.object = w.state(ids[0]).Detail.Object
	h.title = "Pool empty"
	name := PoolName(w.name(ids[0]))
	names := make(map[string]bool) // threads of several pools may wait at one gate
	for _, id := range ids {
		names[PoolName(w.name(id))] = true
	}
	all := 0
	for i := range w.states {
		if names[PoolName(w.name(w.states[i].Thread))] {
			all++
		}
	}
	if len(names) > 1 || name == "main" || strings.HasPrefix(name, "thread") {
		name = ""
	} else {
		name += " "
	}
	// waiting is a mean over the window. It can exceed the present number of threads, so limit it to this number.
	h.text = itoa(min(int64(math.Round(waiting)), int64(all))) + " of " + itoa(int64(all)) + " " + name + "threads"
	what := "one of " + itoa(int64(g.Size))
	if g.Size == 1 {
		what = "the only one"
	}
	h.next = "give it back sooner, or make the pool larger"
	if g.Nested {
		h.next = "a thread inside waits for a second one: use one per thread, or all threads wait forever"
	}
	h.text += " " + tenseWait + " in " + w.gatePlace(g, h.stack) + " for " + what + w.longestText(", the longest for ", ids)
	if in := w.gateInside(g); in != "" {
		h.text += "; inside: " + in
	}
	return h
}

// gatePlace returns the name of a gate's method, and the line at which the given stack is in this method.
func (w *window) gatePlace(g *gates.Gate, stack sampler.StackID) string {
	for at, f := range code.Frames(w.dict, stack, code.MaxFrames) {
		if w.ev.gates.Is(&f, g.ID) {
			label := code.Method(f.Label)
			if f.Own() {
				return label + " (" + path.Base(f.Path) + ":" + itoa(int64(f.Line)) + ")"
			}
			return label + ", called at " + code.OwnLine(w.dict, at)
		}
	}
	return w.place(stack)
}

// maxInside limits how many threads a text names as inside a gate, or as owners of a pool's connections.
const maxInside = 2

// gateInside returns a text about the threads that have been inside the gate for longest, and what they do.
func (w *window) gateInside(g *gates.Gate) string {
	ids := w.insideOf(g)
	var said []string
	for _, id := range ids[:min(len(ids), maxInside)] {
		said = append(said, w.name(id)+" for ≤ "+units.ProseDuration(max(g.InsideNS(w.nowNS, id), gates.EveryNS))+w.in(w.watch(id).stack))
	}
	if more := len(ids) - len(said); more > 0 {
		said = append(said, itoa(int64(more))+" more")
	}
	return strings.Join(said, ", ")
}

// insideOf returns the threads inside a gate. The thread that has been inside for longest comes first.
func (w *window) insideOf(g *gates.Gate) []sampler.ThreadID {
	return w.ev.gates.Inside(g, w.nowNS, w.states, w.ev.threadAt(w.ev.slots))
}
