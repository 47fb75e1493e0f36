package findings

import (
	"math"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/calls"
)

// groupSleep stands in for a peer group: it counts sleeps in requests and jobs by length, in the same way as calls.
const groupSleep = math.MaxUint32

// called counts an ended wait in input or output, or an ended sleep during a request or job. It leaves out waits whose
// beginning was not seen.
func (c *collector) called(w *watch, toNS int64) {
	if w.group == 0 || w.idle || w.sinceNS <= c.sinceNS || !w.began || toNS <= w.sinceNS || len(c.cur.sums) >= maxSums {
		return
	}
	c.cur.sums[sumKey{dim: dimCall, id: calls.One(w.stillNS, toNS-w.sinceNS).ID(w.group)}]++
}

// callLength returns a typical length of the calls to a peer group in ns (calls.Calls.Length).
func (w *window) callLength(group uint32) int64 {
	var inProgress []calls.Cell
	for i := range w.states {
		ts := &w.states[i]
		if x := w.watch(ts.Thread); x != nil && (ts.State == gvl.IO || group == groupSleep) && !x.idle && x.group == group {
			inProgress = append(inProgress, calls.One(ts.StillNS, ts.DurationNS()))
		}
	}
	return w.calls.Length(group, inProgress)
}
