package findings

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/gates"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// poolUse is a pool, and the threads that hold its objects. ddtop finds most pools by their gate: the method that hands
// out objects and lets only a few threads in at a time. It finds Active Record's pools by the list that Active Record
// keeps.
type poolUse struct {
	// gate is nil for Active Record's pools. queue is the address of their queue, and zero for other pools.
	gate    *gates.Gate
	queue   uint64
	holders []sampler.ThreadID
}

// waits reports whether a thread waits for the pool.
func (p *poolUse) waits(ts *gvl.ThreadState, x *watch) bool {
	if p.gate != nil {
		return x.gate == p.gate
	}
	return ts.State == gvl.Parked && ts.Detail.Object == p.queue
}

// fullPools returns the pools whose objects are all held by threads.
func fullPools(w *window) (out []poolUse) {
	for _, g := range w.ev.gates.List() {
		if holders := w.insideOf(g); g.Open && len(holders) >= max(g.Size, 1) {
			out = append(out, poolUse{gate: g, holders: holders})
		}
	}
	if w.s.Queues == nil {
		return out
	}
	for _, l := range w.s.Queues.Leases {
		if int64(len(l.Owners)) < l.Size {
			continue
		}
		holders := slices.Clone(l.Owners)
		slices.Sort(holders)
		if holders = slices.Compact(holders); w.watch(holders[0]) != nil {
			out = append(out, poolUse{queue: l.Queue, holders: holders})
		}
	}
	return out
}

// poolCycle matches if a pool hangs: each thread that holds an object of it waits for a thread that waits for the pool.
func (w *window) poolCycle() hit {
	var h hit
	for _, p := range fullPools(w) {
		age, ends := w.nowNS, make(map[sampler.ThreadID]sampler.ThreadID)
		for _, id := range p.holders {
			if ts := w.state(id); p.gate != nil {
				age = min(age, p.gate.InsideNS(w.nowNS, id))
			} else if ts != nil {
				age = min(age, ts.DurationNS())
			}
			if ends[id] = w.atPool(&p, id); ends[id] == 0 {
				age = 0
			}
		}
		if score := float64(age) / w.limits.poolWait; score > h.score {
			h = hit{score: score, severity: SeverityCrit, threads: p.holders, stack: w.watch(p.holders[0]).stack}
			if score >= 1 {
				w.poolCycleText(&h, &p, ends)
			}
		}
	}
	return h
}

// atPool follows a chain of threads from id on. Each thread in the chain waits until the next one ends or releases a
// lock. If the last thread waits for the pool p, atPool returns this last thread. Otherwise it returns zero.
func (w *moment) atPool(p *poolUse, id sampler.ThreadID) sampler.ThreadID {
	for range w.states {
		ts, x := w.state(id), w.watch(id)
		switch {
		case ts == nil || x == nil:
			return 0
		case p.waits(ts, x):
			return id
		case ts.State != gvl.Parked && ts.State != gvl.Lock:
			return 0
		}
		id = cmp.Or(ts.Detail.Joined, ts.Detail.Holder)
	}
	return 0
}

// poolCycleText describes which threads wait for each other, and how large the pool must be.
func (w *window) poolCycleText(h *hit, p *poolUse, ends map[sampler.ThreadID]sampler.ThreadID) {
	waiting, helpers := 0, make(map[sampler.ThreadID]bool)
	for holder, end := range ends {
		helpers[end] = helpers[end] || end != holder
	}
	// users counts the threads that need a second object later: all holders, and the threads that wait for their first
	// object. A thread for which a holder waits is not counted again.
	users := len(ends)
	at := sampler.StackID(0)
	for i := range w.states {
		id := w.states[i].Thread
		x := w.watch(id)
		if x == nil || !p.waits(&w.states[i], x) {
			continue
		}
		waiting++
		at = x.stack
		if _, holds := ends[id]; !holds && !helpers[id] {
			users++
		}
	}
	h.object = w.state(ends[h.threads[0]]).Detail.Object
	h.explains = w.ofAll(1)
	h.title = "Cycle through a pool"
	all := "all " + itoa(int64(len(ends))) + " that it has " + tenseAre + " held by threads"
	if len(ends) == 1 {
		all = "the only one that it has " + tenseIs + " held by a thread"
	}
	var said []string
	for _, id := range h.threads[:min(len(h.threads), maxInside)] {
		text, stack := w.name(id)+" "+tenseWaits+" for another one", w.callerOf(p.gate, w.watch(id).stack)
		if end := ends[id]; end != id {
			text, stack = w.name(id)+" "+tenseWaits+" for "+w.name(end), w.watch(id).stack
		}
		said = append(said, text+w.in(stack))
	}
	if more := len(h.threads) - len(said); more > 0 {
		said = append(said, itoa(int64(more))+" more")
	}
	where := "for a connection of Active Record" + w.in(at)
	if p.gate != nil {
		where = "in " + w.gatePlace(p.gate, at)
	}
	h.text = units.Plural(waiting, "thread "+tenseWaits, "threads "+tenseWait) + " " + where + ", and " + all +
		" that " + map[bool]string{true: tenseWaits, false: tenseWait}[len(ends) == 1] + " for the same pool: " +
		strings.Join(said, ", ") + "; it needs at least " + itoa(int64(users+1))
	h.next = "take no second one while a thread has one, or give it back before waiting for another thread; " +
		"until then make the pool larger than the number of threads that use it"
}

// callerOf returns the part of a stack that called the gate g, at which the thread waits. Without a gate (g is nil), it
// returns the whole stack.
func (w *moment) callerOf(g *gates.Gate, stack sampler.StackID) sampler.StackID {
	called := false
	for at, f := range code.Frames(w.dict, stack, code.MaxFrames) {
		is := g != nil && w.ev.gates.Is(&f, g.ID)
		if called && !is {
			return at
		}
		called = called || is
	}
	return stack
}
