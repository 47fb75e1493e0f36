package profile

import (
	"maps"
	"slices"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxTimeline bounds the intervals of a Timeline. One takes about 100 bytes. Later ones are kept as sums.
	maxTimeline = 1 << 20
	// timelineMergeNS is the length up to which a thread's time in one stack and state is one interval, in ns.
	timelineMergeNS = 100_000_000
	// maxTimelineBack bounds how far back CPU time looks for its interval.
	maxTimelineBack = 64
)

// Timeline keeps the weights that a flamegraph.Collector charges in the order of time, as intervals, for a profile with
// timestamps. It is a flamegraph.Sink, so its sums are the same as in a Rolling beside it. Not safe for concurrent use.
type Timeline struct {
	list []charged
	// last is the place in list of each thread's latest interval.
	last map[sampler.ThreadID]int32
	// early has the weights that were charged without elapsed time to keys without a recent interval. They belong to
	// their next interval.
	early map[flamegraph.Key]flamegraph.Weights
	// rest has the weights that came when there was no room for more intervals.
	rest  map[flamegraph.Key]flamegraph.Weights
	limit int
	// cutNS is since when there was no room, lastNS the time of the latest charge, in ns of CLOCK_MONOTONIC. Each is 0
	// if there is no such time.
	cutNS, lastNS int64
}

// charged has the weights charged to a key up to endNS. before is the place of the thread's previous one, or −1.
type charged struct {
	flamegraph.Entry
	endNS  int64
	before int32
}

// NewTimeline returns an empty Timeline.
func NewTimeline() *Timeline {
	return &Timeline{
		last: make(map[sampler.ThreadID]int32), early: make(map[flamegraph.Key]flamegraph.Weights),
		rest: make(map[flamegraph.Key]flamegraph.Weights), limit: maxTimeline,
	}
}

// CutNS returns the time from which on there are only sums, because there was no room for more intervals, in ns of
// CLOCK_MONOTONIC. It is 0 if all intervals are there.
func (t *Timeline) CutNS() int64 { return t.cutNS }

// Add adds weights from a Collector. Elapsed time ends at atNS.
func (t *Timeline) Add(atNS int64, k flamegraph.Key, w flamegraph.Weights) {
	if k.Ran {
		return // the Rolling beside it divides (flamegraph.Ran)
	}
	t.lastNS = max(t.lastNS, atNS)
	at, known := t.last[k.Thread]
	if !known {
		at = -1
	}
	if w.WallNS == 0 {
		for n, back := at, 0; n >= 0 && back < maxTimelineBack; n, back = t.list[n].before, back+1 {
			if s := &t.list[n]; s.Key == k {
				s.Weights = s.Weights.Plus(w)
				return
			}
		}
		t.early[k] = t.early[k].Plus(w)
		return
	}
	if at >= 0 {
		s := &t.list[at]
		if s.Key == k && s.endNS == atNS-w.WallNS && s.Weights.WallNS+w.WallNS <= timelineMergeNS {
			s.Weights, s.endNS = s.Weights.Plus(w), atNS
			return
		}
	}
	if len(t.list) >= t.limit {
		if t.cutNS == 0 {
			t.cutNS = atNS
		}
		t.rest[k] = t.rest[k].Plus(w)
		return
	}
	if e, ok := t.early[k]; ok {
		w = w.Plus(e)
		delete(t.early, k)
	}
	t.last[k.Thread] = int32(len(t.list))
	t.list = append(t.list, charged{flamegraph.Entry{Key: k, Weights: w}, atNS, at})
}

// drop leaves out the weights of the keys that match.
func (t *Timeline) drop(match func(flamegraph.Key) bool) {
	t.list = slices.DeleteFunc(t.list, func(s charged) bool { return match(s.Key) })
	clear(t.last) // their places have changed; the next interval of a thread begins anew
	for _, m := range []map[flamegraph.Key]flamegraph.Weights{t.early, t.rest} {
		for k := range m {
			if match(k) {
				delete(m, k)
			}
		}
	}
}

// each visits all weights with the time they end at, in ns of CLOCK_MONOTONIC: first the intervals in their order, then
// weights without elapsed time, then sums without a time (0).
func (t *Timeline) each(visit func(e flamegraph.Entry, endNS int64)) {
	for _, s := range t.list {
		visit(s.Entry, s.endNS)
	}
	for _, e := range inOrder(t.early) {
		visit(e, t.lastNS)
	}
	for _, e := range inOrder(t.rest) {
		visit(e, 0)
	}
}

// inOrder returns entries in the order of their keys.
func inOrder(m map[flamegraph.Key]flamegraph.Weights) (out []flamegraph.Entry) {
	for _, k := range sorting.Sorted(maps.Keys(m), func(x, y flamegraph.Key) int { return x.Compare(&y) }) {
		out = append(out, flamegraph.Entry{Key: k, Weights: m[k]})
	}
	return out
}
