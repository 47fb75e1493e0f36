package findings

import (
	"cmp"
	"strconv"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings/internal/contests"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// evalDeadlock matches if threads wait for each other in a circle, and none has moved for the time of the threshold.
func evalDeadlock(w *window) hit {
	var h hit
	for _, cycle := range account.Deadlocks(w.states) {
		age := int64(1 << 62)
		for _, id := range cycle {
			if ts := w.state(id); ts != nil {
				age = min(age, ts.SureNS())
			}
		}
		if score := float64(age) / w.limits.deadlockAge; score > h.score {
			h = hit{score: score, severity: SeverityCrit, threads: cycle}
			if score >= 1 {
				w.deadlockText(&h, cycle)
			}
		}
	}
	return h
}

func (w *window) deadlockText(h *hit, cycle []sampler.ThreadID) {
	h.title = "Deadlock"
	behind := account.StuckBehind(w.states, cycle)
	h.explains = w.sampledNS * int64(len(cycle)+len(behind))
	for i, id := range cycle {
		ts := w.state(id)
		if i == 0 {
			h.stack, h.object = ts.Stack, ts.Detail.Object
		} else {
			h.text += ", "
		}
		holder, who := w.name(cycle[(i+1)%len(cycle)]), w.name(id)
		if name := w.endpointOf(id); name != "" {
			h.endpoint, who = name, who+" ("+name+")"
		}
		switch {
		case ts.State == gvl.Parked:
			h.text += who + " " + tenseWaits + " for " + holder + " to end" + w.in(ts.Stack)
		default:
			h.text += who + " " + tenseWaits + " for " + object(&ts.Detail) + " held by " + holder + w.in(ts.Stack)
		}
	}
	if len(behind) > 0 {
		h.text += "; " + itoa(int64(len(behind))) + " more stuck"
		if name := w.routeOf(behind); name != "" {
			h.endpoint = cmp.Or(h.endpoint, name)
			h.text += ", most for " + name
		}
	}
	h.next = w.deadlockEnds(cycle) + "; take locks in the same order everywhere"
	if places := w.loadCycle(cycle); places != "" {
		h.title = "Loads " + tenseWait + " for each other"
		h.text = places + ": " + h.text
		h.next = w.deadlockEnds(cycle) + "; " + loadAdvice
	}
}

// deadlockEnds describes what can end a deadlock: an exception in one of its threads. For example, Timeout.timeout in
// the program's code raises one. It has no effect if the program delays exceptions (Thread.handle_interrupt).
func (w *moment) deadlockEnds(cycle []sampler.ThreadID) string {
	left := stackkind.MaxLimitFrames
	for _, id := range cycle {
		if ts := w.state(id); ts != nil && w.ev.classes.Limited(ts.Stack, &left) {
			return "the time limit (Timeout) around " + w.name(id) + " will end it: save the stacks (s) before it does"
		}
	}
	return "no time limit was seen around it: save the stacks (s), then use Thread#raise, Thread#kill or a restart"
}

// object returns the name of a lock or Queue: "Mutex 0x7f2c10a8".
func object(d *gvl.Detail) string {
	s := cmp.Or(d.Kind, "a lock")
	if d.Object != 0 {
		s += " 0x" + strconv.FormatUint(d.Object, 16)
	}
	return s
}

// evalConvoy matches if many threads wait for one lock, or if threads spend much of their time waiting for locks.
func evalConvoy(w *window) hit {
	lock, ns := gvl.TopKey(w.recentLocks)
	if lock == 0 {
		lock, _ = gvl.TopKey(w.locks)
	}
	mean := gvl.Ratio(ns, w.recentNS)
	whole := w.total.ns[gvl.Lock]
	byShare := 0.0
	if w.sampledNS >= raiseNS {
		byShare = least(w.ofBusy(whole)/w.limits.convoyShare, w.share(whole)/w.limits.convoyMean)
	}
	h := hit{
		score:  max(mean/w.limits.convoyWaiters, byShare),
		object: lock, severity: SeverityWarn,
	}
	if lock == 0 {
		return hit{} // all waits are for locks of C code; evalNobodyHolds reports them
	}
	if h.score < 1 {
		return h
	}
	ids, _ := w.waiting(func(ts *gvl.ThreadState, _ *watch) bool {
		return ts.State == gvl.Lock && ts.Detail.Object == lock
	})
	h.threads, h.explains = ids, whole
	h.title = "Lock " + tense("makes", "made") + " threads wait"
	kind := "lock"
	var holder sampler.ThreadID
	if len(ids) > 0 {
		d := &w.state(ids[0]).Detail
		kind, holder = object(d), d.Holder
	}
	h.text = number(mean) + " threads " + tenseWait + " for " + kind + w.longestText(", the longest for ", ids)
	if ts := w.state(holder); ts != nil {
		h.threads = append([]sampler.ThreadID{holder}, ids...)
		h.stack = ts.Stack
		h.text += "; held by " + w.behind(holder, ts.Stack) + ", which " + tenseIs + " " + holderDoes(ts)
		w.serves(&h, holder)
	}
	h.next = w.convoyNext(h.stack)
	return h
}

// evalStarved matches if one thread gets a lock again and again, and others that are woken for it do not get it.
func evalStarved(w *window) hit {
	var h hit
	for _, x := range w.ev.contests.List {
		winner, share, vain, looks := x.Winner(w.nowNS)
		ids, longest := w.waiting(func(ts *gvl.ThreadState, _ *watch) bool {
			return ts.Thread != winner && w.ev.contests.Starved(x, ts)
		})
		score := least(float64(longest)/w.limits.starveWait, share/w.limits.starveShare, float64(vain)/w.limits.starveVain)
		if looks < contests.MinCounts || score <= h.score {
			continue
		}
		h = hit{score: score, severity: SeverityWarn, object: x.Object, threads: append([]sampler.ThreadID{winner}, ids...)}
		if score < 1 {
			continue
		}
		h.title = "Thread never " + tense("gets", "got") + " lock"
		h.explains = w.locks[x.Object]
		h.text = w.name(winner) + " had " + object(&w.state(ids[0]).Detail) + " in " + units.RoundPercent(share) + " of the samples with a holder"
		if ts := w.state(winner); ts != nil {
			h.stack = ts.Stack
			if code := w.place(ts.Stack); code != "" {
				h.text += ", " + tense("now ", "") + "in " + code
			}
			w.serves(&h, winner)
		}
		span := int64(looks) * contests.EveryNS
		h.text += "; it " + tense("releases and takes", "released and took") + " it again about " + number(float64(vain)*1e9/float64(span)) + " times per second, for about " +
			units.ProseDuration(span/vain) + " each; " + units.Plural(len(ids), "thread "+tenseWaits, "threads "+tenseWait) + ", woken in vain and not seen elsewhere for up to " +
			units.ProseDuration(longest)
		h.next = "call Thread.pass after releasing the lock, or do less while holding it: a thread that takes it again at once beats one that wakes up"
	}
	return h
}

// leastToldNS is the shortest wait for which a text says "at least", in ns. Stacks are read at this interval.
const leastToldNS = 10e6

// longestText returns the text in lead, followed by the longest wait of the threads in ids. It returns "" if no length
// is known.
func (w *window) longestText(lead string, ids []sampler.ThreadID) string {
	var longest gvl.Bounded
	for _, id := range ids {
		if told := w.state(id).Told(); told.NS > longest.NS {
			longest = told
		}
	}
	if longest.NS == 0 || longest.Bound == gvl.AtLeast && longest.NS < leastToldNS {
		return ""
	}
	return lead + longest.Prose()
}

func holderDoes(ts *gvl.ThreadState) string {
	switch ts.State {
	case gvl.Waiting:
		return "waiting for the GVL"
	case gvl.IO:
		return "waiting for " + cmp.Or(ts.Detail.Op, "I/O")
	case gvl.Lock:
		return "itself waiting for a lock"
	case gvl.Unknown:
		return "doing something unknown"
	}
	return ts.State.String()
}

func (w *window) convoyNext(stack sampler.StackID) string {
	switch flags := w.ev.classes.Of(stack); {
	case flags&stackkind.Log != 0:
		return "the logger's own lock: log less, or to a faster destination"
	case flags&stackkind.Require != 0:
		return "code is loaded while requests run: eager_load it at the start"
	}
	return "do less while holding it: no I/O and no heavy work inside the lock"
}
