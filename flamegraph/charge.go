package flamegraph

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// share notes that a thread was seen with the stack and state of k for ns nanoseconds. When the thread's CPU time is
// read next, it is divided in proportion to the times in these notes. The table of notes is small. If it is full, a new
// stack gets no note, and its CPU time goes to the stacks with notes.
func (st *threadState) share(k Key, ns int64) {
	for i := len(st.shares) - 1; i >= 0; i-- {
		if st.shares[i].key == k {
			st.shares[i].ns += ns
			return
		}
	}
	if len(st.shares) < maxCPUShares {
		st.shares = append(st.shares, cpuShare{k, ns})
	}
}

// cpu charges the CPU time that a thread has used since the last reading of the kernel's counter (schedstat). If the
// native thread has changed (M:N threads) or the counter went back, cpu charges nothing. The difference of the counters
// would then include the time of another thread.
func (c *Collector) cpu(st *threadState, t *sampler.Thread, ts *gvl.ThreadState) {
	k := &t.Kernel
	if k.CPUAtNS == 0 || k.CPUAtNS == st.cpuAtNS {
		return
	}
	delta := k.CPUNS - st.cpuNS
	known := st.cpuKnown && t.TID == st.tid
	st.cpuAtNS, st.cpuNS, st.tid, st.cpuKnown = k.CPUAtNS, k.CPUNS, t.TID, true
	if known && delta > 0 {
		if st.last.Thread == 0 {
			st.last = Key{Thread: t.ID, Stack: t.Stack, State: ts.State, Endpoint: c.request(&t.Serving)}
		}
		c.shareCPU(st, delta, k.CPUAtNS)
	}
	st.shares = st.shares[:0]
}

// shareCPU divides delta, a thread's CPU time, among the keys. Each key gets a part in proportion to the time for which
// the thread was seen with this key. The parts sum to delta exactly.
func (c *Collector) shareCPU(st *threadState, delta, atNS int64) {
	able := onCPU
	total := st.seenWith(able)
	if total == 0 {
		able = AllStates
		total = st.seenWith(able)
	}
	if total == 0 {
		c.emit(atNS, st.last, Weights{CPUNS: delta})
		return
	}
	left, leftTotal := delta, total
	for _, sh := range st.shares {
		if !able.Has(sh.key.State) {
			continue
		}
		part := mulDiv(left, sh.ns, leftTotal)
		left -= part
		leftTotal -= sh.ns
		if part > 0 {
			c.emit(atNS, sh.key, Weights{CPUNS: part})
		}
	}
}

func (st *threadState) seenWith(able StateSet) int64 {
	total := int64(0)
	for _, sh := range st.shares {
		if able.Has(sh.key.State) {
			total += sh.ns
		}
	}
	return total
}
