package exact

import "github.com/ddtop/ddtop/sampler"

// Does tells the Machine what a native thread does in its present state, beginning at the time ns (CLOCK_MONOTONIC).
// Calls of Does and Feed must be in order of time.
func (m *Machine) Does(tid int32, ns int64, d sampler.Doing) {
	t := m.threads[tid]
	if t == nil || t.state != sampler.GVLHeld && t.state != sampler.GVLReleased && d.Kind != sampler.DoingWorks {
		return // a thread that waits for the GVL can only begin or end a request
	}
	m.lastNS = max(ns, m.lastNS, m.passedNS+1)
	m.change = Change{AtNS: m.lastNS, Life: t.life, Address: t.address, TID: t.tid, State: t.state, Doubtful: t.doubtful, Doing: d}
	m.changed(&m.change)
}
