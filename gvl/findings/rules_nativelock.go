package findings

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// evalNobodyHolds matches if threads wait, for ever, for a lock of C code that no thread of the process holds.
func evalNobodyHolds(w *window) hit {
	lock := w.s.NativeLocks.Lost()
	var ids []sampler.ThreadID
	for i := range w.states {
		ts := &w.states[i]
		if ts.State == gvl.Lock && gvl.LostLock(&ts.Detail) || lock != nil && slices.Contains(lock.Waiters, ts.Thread) {
			ids = append(ids, ts.Thread)
		}
	}
	others := int32(0)
	if lock != nil {
		others = lock.Others
	}
	// others counts helper threads. Do not add it to len(ids): a helper thread works for a Ruby thread that also waits,
	// and ids already counts this Ruby thread.
	waiters := max(len(ids), int(others))
	h := hit{score: float64(waiters) / w.limits.nobodyHoldsWaiters, severity: SeverityCrit, threads: ids}
	if h.score < 1 || waiters == 0 {
		return h
	}
	h.title = "Lock no thread holds"
	h.text = units.Plural(waiters, "thread "+tenseWaits, "threads "+tenseWait) +
		" for ever for a lock of C code"
	if lock != nil {
		h.object = lock.Address
		if place := gvl.NativeLockPlace(lock); place != "" {
			h.text += " in " + place
		}
		h.text += ", " + gvl.NativeLockHolder(lock, w.dict)
	} else {
		h.text += ", held at fork by a thread that does not exist here, or by a thread that has ended"
	}
	if len(ids) > 0 {
		if ts := w.state(ids[0]); ts != nil {
			h.stack, h.explains = ts.Stack, w.sampledNS*int64(len(ids))
			h.text += "; " + w.name(ids[0]) + w.in(ts.Stack)
			w.serves(&h, ids[0])
		}
	}
	h.next = "restart the process, because the lock will never be free; start threads that call this library after the fork"
	return h
}
