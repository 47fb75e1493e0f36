package profile

import (
	"maps"
	"slices"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxTimeline limits the intervals of a Timeline. An interval takes about 100 bytes. Intervals past the limit are
	// only summed up.
	maxTimeline = 1 << 20
	// timelineMergeNS limits the length to which adjacent intervals with the same thread, stack and state are merged,
	// in ns.
	timelineMergeNS = 100_000_000
	// maxTimelineBack limits the number of earlier intervals of a thread that Add searches. It searches because CPU
	// time comes without elapsed time, and belongs to an interval that is already in the list.
	maxTimelineBack = 64
)

// Timeline keeps the weights that a flamegraph.Collector charges, in order of time and as intervals. It is used for
// profiles with timestamps. A flamegraph.Rolling gets the same weights from the Collector, so the sums of both are
// equal. A Timeline is not safe for concurrent use.
type Timeline struct {
	list []charged
	// last is the index in list of each thread's latest interval.
	last map[sampler.ThreadID]int32
	// early has the weights that came without elapsed time and found no recent interval with their key. They are added
	// to the key's next interval.
	early map[flamegraph.Key]flamegraph.Weights
	// rest has the sums of the weights that came after the list was full.
	rest  map[flamegraph.Key]flamegraph.Weights
	limit int
	// cutNS is when the list became full. lastNS is the time of the latest charge. Both are in ns of CLOCK_MONOTONIC,
	// and zero before that happens.
	cutNS, lastNS int64
}

// charged has the weights that were charged to a key up to endNS. before is the index of the thread's previous
// interval, or −1.
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

// CutNS returns the time from which on the Timeline has only sums, because its list is full, in ns of
// CLOCK_MONOTONIC. It returns 0 if the list has all intervals.
func (t *Timeline) CutNS() int64 { return t.cutNS }

// Add adds weights from a Collector. If they include elapsed time, that time ends at atNS.
func (t *Timeline) Add(atNS int64, k flamegraph.Key, w flamegraph.Weights) {
	if k.Ran {
		return // stacks of running threads only divide the weights of a Rolling (flamegraph.Ran)
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

// drop removes the weights of matching keys.
func (t *Timeline) drop(match func(flamegraph.Key) bool) {
	t.list = slices.DeleteFunc(t.list, func(s charged) bool { return match(s.Key) })
	clear(t.last) // the indexes have changed; the next interval of each thread is not merged
	for _, m := range []map[flamegraph.Key]flamegraph.Weights{t.early, t.rest} {
		for k := range m {
			if match(k) {
				delete(m, k)
			}
		}
	}
}

// each calls visit with all weights and the time at which they end, in ns of CLOCK_MONOTONIC. First come the
// intervals in their order, then the weights without elapsed time, then the sums, whose time is 0.
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

// inOrder returns the entries of m in the order of their keys.
func inOrder(m map[flamegraph.Key]flamegraph.Weights) (out []flamegraph.Entry) {
	for _, k := range sorting.Sorted(maps.Keys(m), func(x, y flamegraph.Key) int { return x.Compare(&y) }) {
		out = append(out, flamegraph.Entry{Key: k, Weights: m[k]})
	}
	return out
}
