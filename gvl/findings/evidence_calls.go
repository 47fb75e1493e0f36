package findings

import (
	"math"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/calls"
)

// groupSleep is used in place of the number of a peer group. Under this number, sleeps in requests and jobs are counted
// by length, in the same way as calls.
const groupSleep = math.MaxUint32

// called counts a call. This is a wait for input or output that has ended, or a sleep in a request or job that has
// ended. It leaves out waits whose beginning was not seen.
func (c *collector) called(w *watch, toNS int64) {
	if w.group == 0 || w.idle || w.sinceNS <= c.sinceNS || !w.began || toNS <= w.sinceNS || len(c.cur.sums) >= maxSums {
		return
	}
	c.cur.sums[sumKey{dim: dimCall, id: calls.One(w.stillNS, toNS-w.sinceNS).ID(w.group)}]++
}

// callLength returns, in ns, a typical length of the calls to a peer group. calls.Calls.Length says how this length is
// chosen.
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
