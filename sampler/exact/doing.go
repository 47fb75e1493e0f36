package exact

import "github.com/ddtop/ddtop/sampler"

// Does records what a native thread does in its present state from a time on, CLOCK_MONOTONIC in ns. Call it in order
// of time with Feed.
func (m *Machine) Does(tid int32, ns int64, d sampler.Doing) {
	t := m.threads[tid]
	if t == nil || t.state != sampler.GVLHeld && t.state != sampler.GVLReleased && d.Kind != sampler.DoingWorks {
		return // a thread that waits only begins or ends a request
	}
	m.lastNS = max(ns, m.lastNS, m.passedNS+1)
	m.change = Change{AtNS: m.lastNS, Life: t.life, Address: t.address, TID: t.tid, State: t.state, Doubtful: t.doubtful, Doing: d}
	m.changed(&m.change)
}
