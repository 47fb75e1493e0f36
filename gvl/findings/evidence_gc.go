package findings

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// pause is one collection: its length so far, the part with a CPU (all of it if that is not known), and its stack.
type pause struct {
	wallNS, ranNS int64
	stack         sampler.StackID
}

// Collecting adds time inside the collector.
func (c *collector) Collecting(i *gvl.GCInterval) {
	if c.cur == nil || c.stopped() {
		return
	}
	if i.FromNS != c.gcUntil || c.gcSince == 0 {
		c.gcSince = i.FromNS
	}
	c.gcUntil = i.ToNS
	c.spread(i.FromNS, i.ToNS, func(b *second, ns int64) { b.gcNS += ns })
}

// gcTime follows the collection in progress.
func (c *collector) gcTime(t *gvl.Tick) {
	during, states := t.GC.Valid && t.GC.During, t.States
	if t.Gap {
		c.gcSince, c.gcUntil = 0, 0
	}
	if !during {
		if lacked := c.gcLast.wallNS - c.gcLast.ranNS; c.gcLast.wallNS >= longGC && lacked > 0 {
			c.cur.lackedNS += lacked
		}
		c.gcSince, c.gcUntil, c.gcThread, c.gcCPU, c.gcLast = 0, 0, 0, 0, pause{}
		return
	}
	p := pause{wallNS: c.gcUntil - c.gcSince}
	p.ranNS = p.wallNS
	for i := range states {
		if states[i].State != gvl.GC {
			continue
		}
		p.stack = states[i].Stack
		// The kernel counts a wait for a CPU when it is over, so what the collector had of one is known by its time on it.
		k := &t.Threads[i].Kernel
		if c.gcThread != states[i].Thread {
			c.gcThread, c.gcCPU = states[i].Thread, 0
		}
		switch {
		case k.CPUAtNS == 0:
		case c.gcCPU == 0:
			c.gcCPU = k.CPUNS
			p.ranNS = 0
		default:
			p.ranNS = min(p.ranNS, k.CPUNS-c.gcCPU)
		}
		break
	}
	if p.ranNS > c.cur.pause.ranNS {
		c.cur.pause = p
	}
	c.gcLast = p
}

// longGC is the shortest collection whose time on a CPU is known: that is read at stack ticks.
const longGC = 50e6
