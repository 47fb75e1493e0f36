package findings

import (
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/gvl/findings/internal/tips"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// evalSaturated matches if one GVL is nearly always held, and threads lose much time to waits for it. If threads lose
// most of their time to waits, the threshold for the held time is lower. The reason is that the hand-over from one
// thread to the next does not count as held time. In a busy Rails on Ruby 3.1, hand-overs take 18 % of the time.
func evalSaturated(w *window) hit {
	var h hit
	for id, r := range w.ractors {
		held, waiters, lost := w.share(r.held()), w.share(r.ns[gvl.Waiting]), gvl.Ratio(r.ns[gvl.Waiting], r.busy)
		enough := w.limits.fullHeld
		if lost >= w.limits.fullLostCr {
			enough = w.limits.fullHeldLost
		}
		score := least(held/enough, waiters/w.limits.fullWaiters, lost/w.limits.fullLost)
		if score <= h.score {
			continue
		}
		h.score, h.severity = score, SeverityWarn
		if held >= w.limits.fullHeldCrit && lost >= w.limits.fullLostCr {
			h.severity = SeverityCrit
		}
		if score < 1 {
			continue
		}
		h.explains = r.ns[gvl.Waiting]
		h.title = "GVL saturated"
		if len(w.ractors) > 1 {
			h.title = "Ractor " + itoa(int64(id)) + ": GVL saturated"
		}
		h.text = "held " + units.RoundPercent(held) + ", " + number(waiters) + " threads " + tenseWait + ", " + units.RoundPercent(lost) +
			" of their busy time"
		h.tell = nil
		w.blameText(&h)
		h.then(w.whoTakesGVL)
		h.advise(tips.Saturated(gvl.Ratio(r.ns[gvl.IO], r.ns[gvl.IO]+r.held()))...)
		if id, share := batch(w); id != 0 {
			h.severity, h.title = SeverityInfo, "One thread computes"
			h.text = w.name(id) + " " + tense("has", "had") + " the GVL " + units.RoundPercent(share) + " of its time" +
				w.in(w.watch(id).stack) + "; no thread serves requests or jobs; " + h.text
		}
	}
	return h
}

// batchShare applies to a batch program: at least this share of all time with the GVL belongs to its main thread.
const batchShare = .7

// batch finds the main thread of a batch program: a program without requests and jobs, whose main thread holds the GVL
// most. It returns this thread and its share of all time with the GVL. In a batch program, a GVL that is always held is
// no fault: no user waits for the other threads. For other programs, id is zero.
func batch(w *window) (id sampler.ThreadID, share float64) {
	for i := range w.states {
		t := w.states[i].Thread
		x, s := w.watch(t), w.threads[t]
		if x == nil {
			continue
		}
		if x.flags&(stackkind.Server|stackkind.Serving) != 0 {
			return 0, 0
		}
		if s == nil || !w.isMain(t) {
			continue
		}
		if part := gvl.Ratio(s.held(), w.total.held()); part >= batchShare {
			id, share = t, part
		}
	}
	if list, _ := w.endpoints(); len(list) > 0 {
		return 0, 0
	}
	return id, share
}

// blameText adds to the text the code that causes most of the waiting, if its share of the waiting is large enough.
func (w *window) blameText(h *hit) {
	rep := w.blame.Top(1, account.ByFrame, w.blamed())
	by := w.blame.Top(1, account.ByThread, w.blamed())
	if len(rep.Entries) == 0 || len(by.Entries) == 0 {
		return
	}
	e := by.Entries[0]
	h.stack, h.threads = e.Stack, []sampler.ThreadID{e.Thread}
	// If one method on many threads causes more waiting than any single thread, the text names the method.
	if f := rep.Entries[0]; f.Share > e.Share {
		h.stack, h.threads = f.Stack, nil
		if f.Share >= .2 {
			h.text += "; " + units.RoundPercent(f.Share) + " of the waiting " + tenseIs + " behind " + w.place(f.Stack) + " in several threads"
		}
		return
	}
	if e.Share >= .2 {
		h.tell = func(h *hit) {
			h.text += "; " + units.RoundPercent(e.Share) + " of the waiting " + tenseIs + " behind " + w.culprit(e)
		}
	}
}

// culprit names the code and the thread that an entry of the blame report is about.
func (w *window) culprit(e account.BlameEntry) string {
	if m := w.blame.Method(e.Thread, w.blamed()); m != "" {
		at := ""
		if strings.HasPrefix(code.Where(w.dict, e.Stack)+" ", m+" ") {
			at = code.OwnLine(w.dict, e.Stack)
		}
		m, at = gvl.AddLine(m, at)
		return m + " (" + join(w.name(e.Thread), at) + ")"
	}
	return w.behind(e.Thread, e.Stack)
}

// hogHadCPU is a share of the time of a thread's holds. If the thread had a CPU for less than this share, its holds may
// be long only because it waited for a CPU.
const hogHadCPU = .7

// computes returns how much of all threads' CPU time with the GVL one thread used, as a share from 0 to 1. It is 1 if
// CPU times are unknown.
func (w *window) computes(t *sums) float64 {
	var all int64
	for _, x := range w.threads {
		all += min(x.cpu, x.held())
	}
	if all == 0 {
		return 1
	}
	return gvl.Ratio(min(t.cpu, t.held()), all)
}

// usualWait returns an estimate of the 95th percentile of the waits for the GVL, in ns. With the proven lengths of the
// waits (Sure), which are too short, the rule gvl_hog would miss most hogs. The reason is that at 30 Hz, its threshold
// is less than three sampling intervals. The result is at most twice the proven length.
func (w *window) usualWait() int64 {
	return min(w.waits.Likely().Quantile(.95), 2*w.waits.Sure().Quantile(.95))
}

// evalHog matches if one thread, or one route on several threads, causes most of the waits for the GVL. Each of its
// holds takes about a time slice.
func evalHog(w *window) hit {
	h := w.threadHogs()
	if h.score < 1 {
		if r := w.routeHogs(); r.score > h.score {
			return r
		}
	}
	return h
}

// threadHogs is evalHog for a single thread.
func (w *window) threadHogs() hit {
	rep := w.blame.Top(2, account.ByThread, w.blamed())
	if len(rep.Entries) == 0 {
		return hit{}
	}
	e := rep.Entries[0]
	if e.Kind == gvl.GC {
		return hit{}
	}
	lead := w.limits.hogLead
	if len(rep.Entries) > 1 && rep.Entries[1].NS > 0 {
		lead = float64(e.NS) / float64(rep.Entries[1].NS)
	}
	p95 := w.usualWait()
	lost := w.ofBusy(w.total.ns[gvl.Waiting])
	held, computes := 0.0, 1.0
	if t := w.threads[e.Thread]; t != nil {
		held = w.share(t.held()) // a hog holds the GVL for much of the window; one long hold is not enough
		if e.Kind == gvl.Running && float64(t.cpu) < hogHadCPU*float64(t.held()) {
			// Without a CPU a hold takes longer. So compare how much CPU time each thread used while it held the GVL.
			computes = w.computes(t)
		}
	}
	h := hit{
		score: least(min(e.Share, computes)/w.limits.hogBlame, lead/w.limits.hogLead, held/w.limits.hogHeld, float64(p95)/w.limits.hogWait,
			lost/w.limits.hogLost),
		stack: e.Stack, threads: []sampler.ThreadID{e.Thread}, severity: SeverityWarn,
	}
	if h.score < 1 {
		return h
	}
	if id, _ := batch(w); id == e.Thread {
		return hit{} // gvl_saturated reports this case
	}
	h.explains = e.NS
	h.title = "Thread " + tense("hogs", "hogged") + " the GVL"
	h.tell = func(h *hit) {
		h.text = w.culprit(e) + " " + tense("causes", "caused") + " " + units.RoundPercent(e.Share) + " of all waiting; each hold " + tense("costs", "cost") + " others " +
			w.waits.Quantile(.95).Prose() + " (p95)"
	}
	h.then(w.whoTakesGVL)
	h.advise(tips.ThreadHog()...)
	return h
}

// hogWaits is a share of all waiting. A route is a hog only if the other routes have at least this share. Otherwise the
// requests of this route mainly wait for each other.
const hogWaits = .3

// routeHogs is evalHog for a route, or a class of jobs, that runs on several threads.
func (w *window) routeHogs() hit {
	p95, lost, had := w.usualWait(), w.ofBusy(w.total.ns[gvl.Waiting]), 1.0
	if w.holderCPU+w.holderWait > 0 {
		had = gvl.Ratio(w.holderCPU, w.holderCPU+w.holderWait) // without a CPU, any hold is long
	}
	h := hit{score: least(float64(p95)/w.limits.hogWait, lost/w.limits.hogLost, had/hogHadCPU), severity: SeverityWarn}
	if h.score < ClearShare {
		return h
	}
	list, length := w.endpoints()
	all := w.blame.Top(1, account.ByFrame, w.blamed())
	e, _ := mostly(list, all.TotalNS, func(e *account.Endpoint) int64 { return e.BlameNS })
	if e == nil || len(all.Entries) == 0 || all.Entries[0].Kind == gvl.GC {
		return hit{}
	}
	var next, waits, blamed int64
	for i := range list {
		x := &list[i]
		blamed += x.BlameNS
		if x != e {
			next = max(next, x.BlameNS)
			waits += x.NS[gvl.Waiting]
		}
	}
	lead := w.limits.hogLead
	if next > 0 {
		lead = float64(e.BlameNS) / float64(next)
	}
	// The routes' figures can cover more time than all.TotalNS. To get a share of at most 1, divide by the larger sum.
	share, held := gvl.Ratio(e.BlameNS, max(blamed, all.TotalNS)), gvl.Ratio(e.NS[gvl.Running]+e.NS[gvl.Stalled]+e.NS[gvl.GC], length)
	h.score = least(h.score, share/w.limits.hogBlame, lead/w.limits.hogLead, held/w.limits.hogHeld,
		gvl.Ratio(waits, waits+e.NS[gvl.Waiting])/hogWaits)
	if h.score < 1 {
		return h // a finding that was raised before stays until its score is below ClearShare
	}
	h.explains, h.endpoint, h.stack = e.BlameNS, e.Name, all.Entries[0].Stack
	h.title = "Route " + tense("hogs", "hogged") + " the GVL"
	if e.Kind == sampler.WorkJob {
		h.title = "Jobs " + tense("hog", "hogged") + " the GVL"
	}
	h.text = e.Name + " " + tense("causes", "caused") + " " + units.RoundPercent(share) + " of all waiting, on several threads; each hold " +
		tense("costs", "cost") + " others " + w.waits.Quantile(.95).Prose() + " (p95)"
	h.then(w.whoTakesGVL)
	h.advise(tips.RouteHog()...)
	return h
}

// evalStuck matches if a thread holds the GVL longer than Ruby code can, or sleeps while it holds the GVL. Other
// threads must wait for the GVL meanwhile.
func evalStuck(w *window) hit {
	l := &w.longest
	limit := w.limits.stuckHold
	if l.kind == gvl.Stalled {
		limit = w.limits.stuckAsleep
	}
	h := hit{
		score:    least(float64(l.ns)/limit, float64(w.stuckNS)/w.limits.stuckSum),
		severity: SeverityCrit, stack: l.stack, threads: []sampler.ThreadID{l.thread},
	}
	if l.thread == 0 || h.score < 1 {
		return h
	}
	h.explains = w.stuckNS * (1 + l.waiters)
	h.title = "Thread " + tense("keeps", "kept") + " the GVL"
	kept := gvl.Bounded{NS: l.ns}
	if l.least {
		kept.Bound = gvl.AtLeast
	}
	h.text = w.behind(l.thread, l.stack) + " kept it " + kept.Prose() + " without a break"
	if l.kind == gvl.Stalled {
		h.text = w.behind(l.thread, l.stack) + " slept in the kernel for " + kept.Prose() + " and kept the GVL"
	}
	h.text += ", " + units.Plural(int(l.waiters), "thread", "threads") + " waiting; " + units.ProseDuration(w.stuckNS) + " in " +
		units.ProseDuration(w.sampledNS)
	h.then(w.whoTakesGVL)
	h.advise(tips.Stuck(w.innermost(l.stack))...)
	return h
}

// innermost reports whether a stack's innermost frame is known, and whether it is a C function. Ruby code, too, can
// keep the GVL for long, if it works long between two checks of the timer. An example is code that makes a huge string.
// On a very slow machine, the timer itself can be late.
func (w *moment) innermost(stack sampler.StackID) (known, c bool) {
	if w.dict == nil || stack == 0 {
		return false, false
	}
	_, id := w.dict.Stack(stack)
	f := w.dict.Frame(id)
	return id != 0 && !f.Uncertain, f.C
}

// evalRegex matches if a thread has been in one regular expression match for a second of GVL time, and for a second of
// CPU time. Several short matches in a row can look like one long match. They use less CPU time, so they do not match.
// The finding names the thread whose match began first, so the name does not change during this match.
func evalRegex(w *window) hit {
	var first *watch
	// ran is how long the thread first has matched with the GVL; most is the longest such time of all threads
	var ran, most int64
	others := 0
	for i := range w.states {
		ts := &w.states[i]
		x := w.watch(ts.Thread)
		if x == nil || x.flags&stackkind.Regex == 0 || !ts.State.Held() && ts.State != gvl.Waiting {
			continue
		}
		had := w.ev.heldNS(x)
		if x.cpuAt != 0 {
			had = min(had, x.runCPU)
		}
		most = max(most, had)
		if float64(had) < w.limits.regexMatch {
			continue
		}
		if others++; first == nil || x.stackNS < first.stackNS {
			first, ran = x, had
		}
	}
	h := hit{score: float64(most) / w.limits.regexMatch, severity: SeverityCrit}
	if first == nil {
		return h
	}
	h.stack, h.threads, h.explains = first.stack, []sampler.ThreadID{first.id}, w.withWaiters(min(most, w.sampledNS))
	h.title = "Runaway regular expression"
	h.text = w.name(first.id) + " " + tense("has been", "was") + " matching one at " + code.Line(w.dict, first.stack) + " for " + units.ProseDuration(ran)
	if first.cpuAt != 0 {
		h.text += " of CPU"
	}
	w.serves(&h, first.id)
	if others > 1 {
		h.text += "; " + units.Plural(others-1, "other thread", "other threads") + " as well"
	}
	h.next = tips.Regex(w.ev.proc.RubyVersion)
	return h
}
