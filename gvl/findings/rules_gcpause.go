package findings

import (
	"strings"

	"github.com/ddtop/ddtop/gvl/findings/internal/pauses"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// gcMajorCauses says why a collection was a full one. The key is Ruby's word for the cause (sampler.GCMajorBy).
var gcMajorCauses = map[string]string{
	"nofree": "no slot was free", "oldgen": "old objects had reached their limit", "force": "code asked for it",
	"shady": "objects without a write barrier had reached their limit", "oldmalloc": "malloc had reached its limit",
}

// evalGCPause matches if a garbage collection takes at least the time gcPause. For a full collection, the thresholds of
// longFull also apply.
func evalGCPause(w *window) hit {
	p, full := w.pause, false
	h := hit{score: float64(p.RanNS) / w.limits.gcPause, severity: SeverityWarn}
	if score := w.ev.longFull(&w.full); score >= 1 && (h.score < 1 || p.FromNS == w.full.FromNS) {
		p, full, h.score = w.full, true, max(score, h.score)
	}
	if h.score < 1 {
		return h
	}
	h.stack, h.explains = p.Stack, w.withWaiters(p.WallNS)
	h.title = "Long garbage collection"
	one := "one"
	if full {
		one = "a full one"
	}
	h.text = one + " kept all Ruby code from running for " + units.ProseDuration(p.WallNS)
	if len(w.ractors) > 1 {
		// do not write "kept all Ruby code from running", because other ractors run during the sweep
		h.text = one + " took " + units.ProseDuration(p.WallNS)
	}
	h.text += w.in(p.Stack)
	h.next = "collect out of band between requests; GC.config(rgengc_allow_full_mark: false) on 3.4 and later"
	if full {
		h.text += w.fullText(&p)
	}
	if p.Compacts {
		h.next = "turn GC.auto_compact off, or compact between requests"
	}
	return h
}

// fullText describes a long full collection, and how many of them there were so far.
func (w *window) fullText(p *pauses.Pause) string {
	said := []string{""}
	if cause := gcMajorCauses[sampler.GCMajorBy(p.Reason)]; cause != "" {
		said = append(said, "it was a full one because "+cause)
	}
	gc := &w.ev.gc
	if n := gc.Long.N; n > 1 {
		said = append(said, itoa(int64(n))+" such collections in "+units.ProseDuration(w.nowNS-gc.Long.FirstNS)+
			" took "+units.ProseDuration(gc.Long.NS)+" together")
	}
	switch {
	case p.AutoCompacts():
		said = append(said, "it moved objects, too, because GC.auto_compact is on")
	case p.Compacts:
		said = append(said, "it moved objects, too (compaction)")
	}
	if from, to := gc.FirstOld, gc.LastOld; to.AtNS != 0 {
		text := units.Count(to.Objects) + " old objects"
		if more := to.Objects - from.Objects; more > 0 && from.Objects > 0 {
			text += ", " + units.RoundPercent(float64(more)/float64(from.Objects)) + " more than " +
				units.ProseDuration(to.AtNS-from.AtNS) + " before"
		}
		said = append(said, text)
	}
	if stack, made := w.maker(); stack != 0 {
		said = append(said, made)
	}
	return strings.Join(said, "; ")
}
