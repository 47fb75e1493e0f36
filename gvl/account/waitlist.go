package account

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/report"
)

// maxLongestWaits is how many waits a waitList keeps.
const maxLongestWaits = 100

// waitList keeps the longest waits for the GVL of a run, by their upper bound MostNS. A gap in the samples ends a wait
// (Wait.Cut).
type waitList struct {
	// top has the longest waits seen so far. It is a heap with the shortest of them at its root. A longer wait replaces
	// the root.
	top []gvl.Wait
}

func (l *waitList) add(w *gvl.Wait) {
	if len(l.top) < maxLongestWaits {
		l.top = append(l.top, *w)
		for i := len(l.top) - 1; i > 0 && l.top[(i-1)/2].MostNS > l.top[i].MostNS; i = (i - 1) / 2 {
			l.top[i], l.top[(i-1)/2] = l.top[(i-1)/2], l.top[i]
		}
		return
	}
	if w.MostNS <= l.top[0].MostNS {
		return
	}
	l.top[0] = *w
	for i := 0; ; {
		low := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(l.top) && l.top[c].MostNS < l.top[low].MostNS {
				low = c
			}
		}
		if low == i {
			return
		}
		l.top[i], l.top[low] = l.top[low], l.top[i]
		i = low
	}
}

// Longest returns the n longest waits of at least thresholdNS, the longest first. It includes waits in progress. The
// caller owns the slice.
func (a *Account) Longest(n int, thresholdNS int64) []gvl.Wait {
	all := slices.Clone(a.longest.top)
	a.stream.Waiting(func(w *gvl.Wait) { all = append(all, *w) })
	all = slices.DeleteFunc(all, func(w gvl.Wait) bool { return w.MostNS < thresholdNS })
	sorting.By(all, func(a, b gvl.Wait) int {
		return cmp.Or(cmp.Compare(b.MostNS, a.MostNS), cmp.Compare(a.FromNS, b.FromNS), cmp.Compare(a.Thread, b.Thread))
	})
	return all[:min(n, len(all))]
}

// LongestWaits returns the longest waits of at least waitNS.
func (a *Account) LongestWaits(waitNS int64) []report.StatWait {
	out := []report.StatWait{}
	for _, w := range a.Longest(maxLongestWaits, waitNS) {
		told := w.Told()
		x := report.StatWait{
			Thread: w.Thread, StartNS: w.FromNS, NS: told.NS, Bound: told.Bound, LeastNS: w.LeastNS, InProgress: w.InProgress, Exact: w.Exact, HandoverNS: w.HandoverNS,
			NoCPUNS: w.NoCPUNS, FirstHolder: w.FirstHolder, LastHolder: w.LastHolder, Method: code.RubyMethod(a.dict, w.Stack),
		}
		if !w.Open() {
			most := w.MostNS
			x.MostNS = &most
		}
		if w.Before.State != gvl.Unknown {
			b := w.Before
			x.Before = &report.StatBefore{
				State: b.State.String(), Detail: b.Detail.JSON(b.State, a.dict), Words: gvl.Describe(b, a.dict), NS: b.DurationNS(),
			}
		}
		out = append(out, x)
	}
	return out
}
