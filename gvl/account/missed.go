package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// mostMissed is a threshold for the share of missed requests. Above it, figures are shown as lower bounds. A missed
	// request is a request that no sample has shown.
	mostMissed = 1. / 20
	// copiedShare is a share of the ended requests. Changes (sampler.Change) must show the beginnings of at least this
	// share. Only then does ddtop use the changes to count how many requests were missed.
	copiedShare = .9
	// tickNS is the time between two records that the BPF programs make about a thread that keeps its CPU, in ns. The
	// programs make these records at the CPU's clock interrupt, at about 100 Hz. A request that begins and ends between
	// two records leaves no record.
	tickNS = 10e6
)

// brief reports whether a request was shorter than 2 * tickNS and ran for most of this time. Some requests as short as
// this leave no record, so it is not known how many were missed.
func (q *PastRequest) brief() bool {
	slept := q.FiberNS
	for s, ns := range q.NS {
		if s := gvl.State(s); s != gvl.Running && s != gvl.GC {
			slept += ns
		}
	}
	return q.DurationNS() < 2*tickNS && 2*slept < q.DurationNS()
}

// begunCount counts requests. begun is the number of requests whose beginning is shown by changes of the GVL. missed is
// how many of these no sample has shown.
type begunCount struct{ begun, missed int }

func (b *begunCount) merge(o begunCount) { b.begun, b.missed = b.begun+o.begun, b.missed+o.missed }

// mark sets AtLeast of all endpoints of one period if so many requests were missed that figures are only lower bounds.
// The endpoint of a missed request is not known, so the request can belong to any endpoint.
func (b begunCount) mark(list []Endpoint) {
	ended := 0
	for i := range list {
		ended += list[i].Ended
	}
	for i := range list {
		list[i].begun = b
		list[i].AtLeast = b.atLeast(ended, list[i:i+1])
	}
}

// AtLeast reports whether the sums of endpoints are lower bounds, because requests were missed. list has all endpoints
// of one period.
func AtLeast(list []Endpoint) bool {
	if len(list) == 0 {
		return false
	}
	ended := 0
	for i := range list {
		ended += list[i].Ended
	}
	return list[0].begun.atLeast(ended, list)
}

// atLeast reports whether more than the share mostMissed of the requests may be missed. ended is the number of all
// requests that were seen to end. list has the endpoints in question.
//
// If changes show when requests begin, they also show how many were missed, except brief ones. Without changes, a
// request is missed if it begins and ends between two readings of its thread. SlackNS is the mean time between two such
// readings. To decide whether this is likely, atLeast examines the requests that were seen. If the share mostMissed of
// them is shorter than twice SlackNS, other requests were probably too short to be seen.
func (b begunCount) atLeast(ended int, list []Endpoint) bool {
	if b.begun > 0 && float64(b.begun) >= copiedShare*float64(ended) {
		own, brief := 0, 0
		for i := range list {
			own, brief = own+list[i].Ended, brief+list[i].brief
		}
		return float64(b.missed) > mostMissed*float64(b.begun) || float64(brief) > mostMissed*float64(own)
	}
	var lengths gvl.Histogram
	var slackNS, own int64
	for i := range list {
		e := &list[i]
		n, _ := e.Durations.Count()
		lengths.Merge(&e.Durations)
		slackNS += n * e.SlackNS
		own += int64(e.Ended)
	}
	n, _ := lengths.Count()
	if n == 0 {
		return own > 0
	}
	return lengths.Quantile(mostMissed) < 2*slackNS/n
}

// begunRequests has the requests of which ddtop knows only the beginning, from a change of the GVL. No sample has shown
// them yet.
type begunRequests struct {
	// unfound is, for each thread, the time at which it began a request that no sample has shown yet, CLOCK_MONOTONIC
	// in ns.
	unfound map[sampler.ThreadID]int64
}

// changes counts the requests that begin in the changes in list. It also counts how many of them were missed because no
// sample has shown them. r has the requests that samples have shown.
func (b *begunRequests) changes(list []sampler.Change, r *Requests) {
	for i := range list {
		c := &list[i]
		if c.Doing.Kind != sampler.DoingWorks || c.Thread == 0 {
			continue
		}
		if c.Doing.Work != 0 {
			if w := r.dict.OwnWork(c.Doing.Work); b.seen(c.Thread, &w) {
				continue // the request was counted at its first record, which did not show which request it is
			}
		}
		if at, ok := b.unfound[c.Thread]; ok { // the thread has left that request
			delete(b.unfound, c.Thread)
			r.endpoints.countBegun(at, begunCount{missed: 1})
		}
		if c.Doing.Work == 0 && !c.Doing.Unfound {
			continue
		}
		r.endpoints.countBegun(c.AtNS, begunCount{begun: 1})
		if c.Doing.Unfound && !shown(r.slots, c.Thread, c.AtNS) && len(b.unfound) < maxOpenRequests {
			b.unfound[c.Thread] = c.AtNS
		}
	}
}

// seen notes that a sample or a change has shown the request w of a thread. It reports whether w is the request whose
// beginning is in unfound.
func (b *begunRequests) seen(id sampler.ThreadID, w *sampler.Work) bool {
	at, ok := b.unfound[id]
	if ok = ok && within(w, at); ok {
		delete(b.unfound, id)
	}
	return ok
}

// shown reports whether a sample has already shown the request that a thread began at atNS.
func shown(slots []requestSlot, id sampler.ThreadID, atNS int64) bool {
	for i := range slots {
		if s := &slots[i]; s.thread == id && s.q != nil {
			return within(&s.q.Work, atNS)
		}
	}
	return false
}

// within reports whether the request w may have begun at atNS.
func within(w *sampler.Work, atNS int64) bool { return w.BeforeNS < atNS && atNS <= w.SinceNS }

func (e *endpointSums) countBegun(atNS int64, n begunCount) {
	e.run.begun.merge(n)
	if t := e.recentOf(atNS / 1e9); t != nil {
		t.begun.merge(n)
	}
}
