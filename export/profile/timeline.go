package profile

import (
	"maps"
	"slices"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxTimeline limits how many intervals a Timeline has. An interval takes about 100 bytes of memory. Once the limit
	// is reached, later time is only added to the sums.
	maxTimeline = 1 << 20
	// timelineMergeNS is the longest interval that results from merging, in ns. Adjacent intervals are merged if their
	// thread, stack and state are the same.
	timelineMergeNS = 100_000_000
	// maxTimelineBack limits how many earlier intervals of a thread the method Add searches. Add gets CPU time
	// separately from elapsed time. So it must find the earlier interval in which the thread used the CPU time.
	maxTimelineBack = 64
)

// Timeline keeps the weights from a flamegraph.Collector as intervals in order of time, for profiles with timestamps.
// The Collector also passes the same weights to a flamegraph.Rolling, so the sums of the Timeline and the Rolling are
// equal. A Timeline is not safe for concurrent use.
type Timeline struct {
	list []charged
	// last has, for each thread, the index of its latest interval in list.
	last map[sampler.ThreadID]int32
	// early has weights without elapsed time, such as CPU time, for which the list has no recent interval with the same
	// key. They are added to the next interval with this key.
	early map[flamegraph.Key]flamegraph.Weights
	// rest has the sums of the weights that came after the list was full. These sums have no timestamps.
	rest  map[flamegraph.Key]flamegraph.Weights
	limit int
	// cutNS is when the list became full, or zero if it is not full. lastNS is the time of the latest call of Add, or
	// zero before the first one. Both are in ns of CLOCK_MONOTONIC.
	cutNS, lastNS int64
}

// charged is an interval of a thread that ends at endNS, with the weights of one key (thread, stack and state). The
// field before is the index of the thread's previous interval, or −1.
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

// CutNS returns when the Timeline's list became full, in ns of CLOCK_MONOTONIC. From this time on, the Timeline has
// only sums. CutNS returns 0 if the list has all intervals.
func (t *Timeline) CutNS() int64 { return t.cutNS }

// Add adds weights from a Collector for the key k. If the weights include elapsed time, Add stores them as an interval
// that ends at atNS.
func (t *Timeline) Add(atNS int64, k flamegraph.Key, w flamegraph.Weights) {
	if k.Ran {
		// Such a key counts samples and has no time. A Rolling uses it to divide times among C functions
		// (flamegraph.Ran).
		return
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
	// the indexes in last are wrong now, so remove them; the next interval of each thread is then not merged with its
	// previous one
	clear(t.last)
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
