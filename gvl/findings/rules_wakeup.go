package findings

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// ruleLostWakeup is the rule for threads that wait for a Queue although it has items.
const ruleLostWakeup = "lost_wakeup"

// vainly updates vainNS, the time since which the thread waits to take from a Queue although the Queue has items.
func (w *watch) vainly(t *sampler.Thread, ts *gvl.ThreadState, at int64) {
	switch {
	case ts.State != gvl.Parked || t.Bits&sampler.BitItems == 0:
		w.vainNS = 0
	case w.vainNS == 0:
		w.vainNS = at
	}
}

// inVain has the threads that wait for one Queue although it has items. ageNS is the length of the longest wait.
type inVain struct {
	ids   []sampler.ThreadID
	ageNS int64
}

// evalLostWakeup matches if threads wait to take from a Queue that has items. A push wakes only one thread. If this
// thread ends or is interrupted before it takes the item, the others sleep on.
func evalLostWakeup(w *window) hit {
	var queues map[uint64]*inVain
	for i := range w.states {
		ts := &w.states[i]
		x := w.watch(ts.Thread)
		if x == nil || x.vainNS == 0 {
			continue
		}
		if queues == nil {
			queues = make(map[uint64]*inVain)
		}
		q := queues[ts.Detail.Object]
		if q == nil {
			q = new(inVain)
			queues[ts.Detail.Object] = q
		}
		q.ids = append(q.ids, ts.Thread)
		q.ageNS = max(q.ageNS, ts.AtNS-x.vainNS)
	}
	var h hit
	for address, q := range queues {
		score := float64(q.ageNS) / w.limits.lostTime
		if score < h.score || score == h.score && address > h.object {
			continue
		}
		h = hit{score: score, severity: SeverityCrit, threads: q.ids, object: address}
		if score >= 1 {
			w.lostText(&h, q)
		}
	}
	return h
}

// lostText describes which threads wait, for which Queue, and why.
func (w *window) lostText(h *hit, q *inVain) {
	ts := w.state(q.ids[0])
	h.stack = ts.Stack
	h.title = "Lost wake-up"
	who := units.Plural(len(q.ids), "thread "+tenseWaits, "threads "+tenseWait)
	h.text = who + " for " + object(&ts.Detail) + ", which " + tense("has had", "had") + " items for " +
		units.ProseDuration(q.ageNS) + "; " + w.name(q.ids[0]) + w.in(h.stack) +
		"; most likely the push woke a thread that ended or was interrupted before it took the item"
	h.next = "push one more item for each waiting thread; let consumers end by a marker in the Queue or Queue#close, " +
		"not by Thread#kill, Thread#raise or a Timeout around pop"
}
