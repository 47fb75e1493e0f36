package flamegraph

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// share notes that a thread was seen under k for ns, for the next reading of its CPU time. The table is small; when it is
// full, a stack not in it gets none of that reading's CPU time and the others get its part.
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

// cpu charges the CPU time since the last reading of schedstat. A change of native thread (M:N), or a counter that went
// back, begins again: the difference would be another thread's time.
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
			st.last = Key{t.ID, t.Stack, uint8(ts.State)}
		}
		c.shareCPU(st, delta, k.CPUAtNS)
	}
	st.shares = st.shares[:0]
}

// shareCPU splits delta in proportion to the time seen, so that the parts sum to delta exactly.
func (c *Collector) shareCPU(st *threadState, delta, atNS int64) {
	able := onCPU
	total := st.seenWith(able)
	if total == 0 {
		able = AllTags
		total = st.seenWith(able)
	}
	if total == 0 {
		c.emit(atNS, st.last, Weights{CPUNS: delta})
		return
	}
	left, leftTotal := delta, total
	for _, sh := range st.shares {
		if !able.Has(sh.key.Tag) {
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

func (st *threadState) seenWith(able TagSet) int64 {
	total := int64(0)
	for _, sh := range st.shares {
		if able.Has(sh.key.Tag) {
			total += sh.ns
		}
	}
	return total
}

// role notes a thread's part in its ractor's GVL at this tick.
func (c *Collector) role(t *sampler.Thread, state gvl.State) {
	held, waiting := state.Held(), state == gvl.Waiting
	if !held && !waiting {
		return
	}
	r := c.ractor(t.Ractor)
	switch {
	case waiting:
		r.nowWaiting++
	case !r.nowHeld:
		r.nowHeld = true
		r.nowHolder = Key{t.ID, t.Stack, uint8(state)}
	}
}

func (c *Collector) ractor(id sampler.RactorID) *ractorState {
	for i := range c.ractors {
		if c.ractors[i].id == id {
			return &c.ractors[i]
		}
	}
	c.ractors = append(c.ractors, ractorState{id: id})
	return &c.ractors[len(c.ractors)-1]
}

// blame charges waiting time since the last tick, half at the last tick's holder and number of waiters, half at this
// one's. What nobody held is charged to nobody. A ractor in which nothing is held or waited for is forgotten.
func (c *Collector) blame(t *gvl.Tick) {
	kept := c.ractors[:0]
	for _, r := range c.ractors {
		if !t.First && !t.Gap {
			c.blameOne(t.ToNS, r.holder, r.held, (t.MidNS-t.FromNS)*r.waiting)
			c.blameOne(t.ToNS, r.nowHolder, r.nowHeld, (t.ToNS-t.MidNS)*r.nowWaiting)
		}
		if r.nowHeld || r.nowWaiting > 0 {
			r.holder, r.held, r.waiting = r.nowHolder, r.nowHeld, r.nowWaiting
			kept = append(kept, r)
		}
	}
	c.ractors = kept
}

func (c *Collector) blameOne(at int64, k Key, held bool, ns int64) {
	if held && ns > 0 {
		c.emit(at, k, Weights{BlameNS: ns})
	}
}
