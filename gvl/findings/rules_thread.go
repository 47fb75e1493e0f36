package findings

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/gvl/findings/internal/tips"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// evalStuckThread matches if a thread that was seen at work earlier stays at one place in the code for a long time.
func evalStuckThread(w *window) hit {
	var h hit
	for i := range w.states {
		ts := &w.states[i]
		x := w.watch(ts.Thread)
		if x == nil || !w.canBeStuck(ts, x) {
			continue
		}
		age := min(ts.AtNS-x.stackNS, ts.SureNS())
		score := float64(age) / w.limits.stuckThread
		if score <= h.score {
			continue
		}
		h = hit{score: score, severity: SeverityWarn, stack: x.stack, threads: []sampler.ThreadID{ts.Thread}, peer: ts.Detail.Peer}
		if float64(age) >= w.limits.stuckThreadCrit {
			h.severity = SeverityCrit
		}
		if score >= 1 {
			h.explains = min(age, w.sampledNS)
			h.title = "A thread " + tenseIs + " stuck"
			h.text = w.name(ts.Thread) + " " + tense("has not moved", "did not move") + " for " + units.ProseDuration(age) + ": " + gvl.Describe(*ts, w.dict)
			h.text += w.in(x.stack)
			h.next = "look at what it waits for; give the call a timeout"
		}
	}
	return h
}

// canBeStuck returns false for threads whose normal work is to wait. These are idle threads, and threads that read a
// stream. A thread reads a stream if it was never seen doing anything else, or if it spends nearly all its time at this
// place.
func (w *moment) canBeStuck(ts *gvl.ThreadState, x *watch) bool {
	if x.idle || x.stack == 0 {
		return false
	}
	switch ts.State {
	case gvl.Lock, gvl.Native:
		return true
	case gvl.IO:
		if ts.Detail.Op == gvl.OpChild {
			return x.moved
		}
		if x.listens && x.flags&(stackkind.Server|stackkind.Serving) == 0 {
			return false
		}
		if x.moved && (!x.usual.Matches(x.stack) || x.flags&(stackkind.Server|stackkind.Serving) != 0) {
			return !w.terminal(ts.Detail.Peer)
		}
		if x.group == 0 {
			return false
		}
		db, redis, _ := w.peerIs(x.group)
		return db || redis && ts.Detail.Op != gvl.OpRead || w.asked(x.group)
	}
	return false
}

// evalThreadLeak matches if the number of threads keeps growing, and new threads begin at the same place in the code.
// It leaves out threads of a server's pool, which grows to its size, and threads that begin while the program starts.
func evalThreadLeak(w *window) hit {
	now := len(w.states)
	low := now
	for _, c := range w.ev.counts {
		if c.atNS > w.ev.bootNS && w.nowNS-c.atNS <= threadCounts*threadCountNS {
			low = min(low, c.n)
		}
	}
	h := hit{
		score:    least(float64(now)/w.limits.leakFactor/float64(max(low, 1)), float64(now-low)/w.limits.leakGrowth),
		severity: SeverityWarn,
	}
	if h.score < 1 {
		return h
	}
	roots, unread := make(map[string]int64), false
	for i := range w.states {
		if w.ev.classes.Of(w.states[i].Stack)&stackkind.Server != 0 {
			continue
		}
		if r := code.Root(w.dict, w.states[i].Stack); r != "" {
			roots[r]++
		} else {
			unread = true
		}
	}
	name, n := gvl.TopKey(roots)
	if float64(n) < w.limits.leakSameRoot*float64(now-low) {
		return hit{}
	}
	for i := range w.states {
		if len(h.threads) < 10 && code.Root(w.dict, w.states[i].Stack) == name {
			h.threads = append(h.threads, w.states[i].Thread)
			h.stack = w.states[i].Stack
		}
	}
	h.title = "Threads " + tense("pile", "piled") + " up"
	h.text = itoa(int64(low)) + " threads " + tense("have become", "became") + " " + itoa(int64(now)) + "; "
	if unread {
		h.text += "at least "
	}
	h.text += itoa(n) + " were started in " + name + code.RootLine(w.dict, h.stack)
	h.advise(tips.ThreadLeak()...)
	return h
}

// evalAllBusy matches if all workers of a server's pool are busy.
func evalAllBusy(w *window) hit {
	type pool struct {
		ids        []sampler.ThreadID
		busy, idle int64
	}
	pools := make(map[string]*pool)
	for i := range w.states {
		id := w.states[i].Thread
		x, t := w.watch(id), w.threads[id]
		if x == nil || t == nil || x.flags&stackkind.Server == 0 {
			continue
		}
		name := code.Root(w.dict, x.stack)
		p := pools[name]
		if p == nil {
			p = new(pool)
			pools[name] = p
		}
		p.ids = append(p.ids, id)
		p.busy += t.busy
		p.idle += t.idle
	}
	var h hit
	names := make([]string, 0, len(pools))
	for name := range pools {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(a, b) })
	for _, name := range names {
		p := pools[name]
		share := gvl.Ratio(p.busy, p.busy+p.idle)
		if score := share / w.limits.poolBusy; len(p.ids) > 1 && score > h.score {
			h = hit{score: score, severity: SeverityWarn, threads: p.ids}
			h.explains = p.busy
			h.title = "All workers busy"
			kind, _, _ := strings.Cut(name, "::")
			h.text = itoa(int64(len(p.ids))) + " " + kind + " threads " + tenseAre + " busy " + units.RoundPercent(share) + " of the time, mostly " +
				w.mostly()
			h.advise(tips.AllBusy()...)
		}
	}
	return h
}

// mostly returns the name of the state in which the busy threads spend most of their time.
func (w *window) mostly() string {
	best := gvl.Running
	for s, ns := range w.total.ns {
		if ns > w.total.ns[best] {
			best = gvl.State(s)
		}
	}
	if best == gvl.Waiting {
		return "waiting for the GVL"
	}
	return best.String()
}
