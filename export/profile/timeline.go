package profile

import (
	"maps"
	"slices"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxTimeline bounds the stretches of time of a Timeline; one takes some 100 bytes. What comes past it is kept as sums.
	maxTimeline = 1 << 20
	// timelineMergeNS is the length up to which a thread's time in one stack and state is one stretch, in ns.
	timelineMergeNS = 100_000_000
	// maxTimelineBack bounds how far back a thread's stretch is looked for that CPU time belongs to.
	maxTimelineBack = 64
)

// Timeline keeps the weights that a flamegraph.Collector charges in the order of time, a stretch each, for a profile with
// timestamps. It is a flamegraph.Sink, so that sums are those of a Rolling beside it. Not safe for concurrent use.
type Timeline struct {
	list []stretch
	// last is where the latest stretch of each thread is in list.
	last map[sampler.ThreadID]int32
	// early is what was charged without elapsed time to keys that have had no stretch lately: it belongs to their next one.
	early map[flamegraph.Key]flamegraph.Weights
	// rest is what came when there was no room for more stretches.
	rest  map[flamegraph.Key]flamegraph.Weights
	limit int
	// cutNS is since when there was no room, lastNS the time of the latest charge; CLOCK_MONOTONIC in ns, 0: none.
	cutNS, lastNS int64
}

// stretch is what was charged to a key up to endNS. before is where the thread's stretch before it is; -1: there is none.
type stretch struct {
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

// CutNS is since when there was no room for more stretches of time, so that there are sums alone, CLOCK_MONOTONIC in ns; 0: all
// is there.
func (t *Timeline) CutNS() int64 { return t.cutNS }

// Add takes weights from a Collector: elapsed time is that before atNS.
func (t *Timeline) Add(atNS int64, k flamegraph.Key, w flamegraph.Weights) {
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
	t.list = append(t.list, stretch{flamegraph.Entry{Key: k, Weights: w}, atNS, at})
}

// drop leaves out the weights of the keys that match.
func (t *Timeline) drop(match func(flamegraph.Key) bool) {
	t.list = slices.DeleteFunc(t.list, func(s stretch) bool { return match(s.Key) })
	clear(t.last) // their places have changed; the next stretch of a thread begins anew
	for _, m := range []map[flamegraph.Key]flamegraph.Weights{t.early, t.rest} {
		for k := range m {
			if match(k) {
				delete(m, k)
			}
		}
	}
}

// each visits all weights with the time they end at, CLOCK_MONOTONIC in ns: the stretches in the order they came in, then those
// without elapsed time, then sums without a time (0).
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
	for _, k := range slices.SortedFunc(maps.Keys(m), func(x, y flamegraph.Key) int { return x.Compare(&y) }) {
		out = append(out, flamegraph.Entry{Key: k, Weights: m[k]})
	}
	return out
}
