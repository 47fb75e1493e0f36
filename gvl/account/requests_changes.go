package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// roundedNS is the largest error, in ns, by which the times of changes are rounded.
const roundedNS = 1000

// afterOthers raises BeforeNS, the time at which a request had certainly not begun. A request cannot begin before its
// thread has ended its earlier work. Changes of the GVL show when the thread ended earlier work. The last such end
// before SinceNS becomes BeforeNS. The loop skips the change with which the request itself begins (beginOf).
func afterOthers(s *stream.Stream, w *sampler.Work, thread sampler.ThreadID) {
	own := beginOf(w, 0)
	for left := w.BeforeNS; w.BeforeNS > 0 && left != 0 && left <= w.SinceNS; left, _ = s.LeftWork(thread, left+1) {
		if left < own-roundedNS || left > own+roundedNS {
			w.BeforeNS = left
		}
	}
}

// beginOf returns when a request began, or atNS if the beginning is not known.
func beginOf(w *sampler.Work, atNS int64) int64 {
	switch {
	case w.SinceNS > 0 && w.BeforeNS > 0 && w.BeforeNS <= w.SinceNS:
		return w.BeforeNS + (w.SinceNS-w.BeforeNS)/2
	case w.SinceNS > 0:
		return w.SinceNS
	}
	return atNS
}

// over reports whether a sample still shows work that the thread has already ended, as changes of the GVL show. In this
// case, over also notes that this work has ended. Call it for samples that did not read the thread's stack.
func (r *Requests) over(s *requestSlot, t *sampler.Thread) bool {
	if q := s.q; q != nil && !q.done && t.Serving.Work == s.work {
		if left, slack := leftRequest(r.stream, q, t.ID); left != 0 {
			q.cut, q.slackNS, q.unread = false, slack, false
			r.leave(q, left)
			s.over, s.work, s.q = s.work, 0, nil
		}
	}
	return s.over != 0 && s.over == t.Serving.Work
}

// setNow sets the field Now of a request that changes have shown, but no sample (unsampled). It ignores other requests.
// q may be nil.
func setNow(q *openRequest, now gvl.ThreadState) {
	if q != nil && q.unsampled {
		q.Now = now
	}
}

// leftRequest returns when a thread stopped working for a request, as changes of the GVL show, and the possible error
// of this time, in ns. Both are zero if no change shows this.
func leftRequest(s *stream.Stream, q *openRequest, thread sampler.ThreadID) (atNS, slackNS int64) {
	fromNS := max(q.readNS, q.FromNS+1)
	left, exact := s.LeftWork(thread, fromNS)
	if left == 0 || exact {
		return left, 0
	}
	slackNS = (left - fromNS) / 2
	return left - slackNS, slackNS
}
