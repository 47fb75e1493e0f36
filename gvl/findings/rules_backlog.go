package findings

import (
	"github.com/ddtop/ddtop/gvl/findings/internal/backlog"
	"github.com/ddtop/ddtop/gvl/findings/internal/tips"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// ruleQueueGrows is the rule for a Queue into which more items are put than threads take out.
const ruleQueueGrows = "queue_grows"

// evalQueueGrows matches if a Queue has grown during the time limits.queueTime, and has not become shorter in this
// time.
func evalQueueGrows(w *window) hit {
	q, from := w.ev.queues.Growing(int64(w.limits.queueTime))
	if q == nil {
		return hit{}
	}
	h := hit{score: float64(q.Length-from) / w.limits.queueItems, severity: SeverityWarn, object: q.Object}
	if h.score >= 1 {
		w.queueText(&h, q, from)
	}
	return h
}

// queueText describes how fast a Queue grows, and what the threads that were seen taking from it do now.
func (w *moment) queueText(h *hit, q *backlog.Queue, from int64) {
	over := w.limits.queueTime
	h.title = "Queue grows"
	h.text = q.Text() + " " + tense("has grown", "grew") + " from " + units.Count(from) + " to " + units.Count(q.Length) + " items in " +
		units.ProseDuration(int64(over)) + ", by " + number(float64(q.Length-from)*1e9/over) + " per second"
	h.advise(tips.QueueGrows()...)
	var ended []sampler.ThreadID
	for _, id := range q.Waited {
		if w.state(id) == nil {
			ended = append(ended, id)
		} else {
			h.threads = append(h.threads, id)
		}
	}
	if len(ended) > 0 {
		h.text += "; " + units.Plural(len(ended), "thread that took from it "+tense("has", "had"),
			"threads that took from it "+tense("have", "had")) + " ended (" + w.endedBy(ended) + ")"
		h.advise(tips.TakersEnded()...)
	}
	if len(h.threads) > 0 {
		ts := w.state(h.threads[0])
		h.stack = ts.Stack
		h.text += "; " + units.Plural(len(h.threads), "thread "+tense("takes", "took"), "threads "+tense("take", "took")) + " from it: " + w.name(ts.Thread) + w.in(ts.Stack)
	} else if len(ended) == 0 {
		h.text += "; no thread was seen to wait for it"
	}
	for _, id := range q.Producers() {
		if ts := w.state(id); ts != nil {
			h.text += "; " + units.Plural(len(q.Producers()), "thread "+tense("puts", "put"), "threads "+tense("put", "put")) + " into it: " +
				w.name(id) + w.in(ts.Stack)
			break
		}
	}
}

// endedBy names one of the threads in ids, which have ended, and its exception. It prefers a thread with an exception.
func (w *moment) endedBy(ids []sampler.ThreadID) string {
	for _, id := range ids {
		if info, _ := w.dict.Thread(id); info.Exception != "" {
			return w.name(id) + ", by " + info.Exception
		}
	}
	return w.name(ids[0])
}
