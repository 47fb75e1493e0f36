package findings

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/pauses"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/sampler"
)

// Collecting adds an interval in which a thread was inside the garbage collector.
func (c *collector) Collecting(i *gvl.GCInterval) {
	if c.cur == nil || c.stopped() {
		return
	}
	c.gc.Interval(i.FromNS, i.ToNS)
	c.spread(i.FromNS, i.ToNS, func(b *second, ns int64) { b.gcNS += ns })
}

// gcTime notes the longest collections of the current second, including the one in progress.
func (c *collector) gcTime(t *gvl.Tick) {
	p, ended := c.gc.Tick(t)
	if ended.WallNS >= pauses.LongNS {
		c.cur.lackedNS += max(ended.WallNS-ended.RanNS, 0)
	}
	if p.RanNS > c.cur.pause.RanNS {
		c.cur.pause = p
	}
	if c.longFull(&p) >= 1 {
		c.gc.Count()
		if p.RanNS > c.cur.full.RanNS {
			c.cur.full = p
		}
	}
}

// longFull returns the length of a full collection divided by its threshold. It is zero in two cases. The collection
// began while the program was starting. Or the program called GC.start while no thread waited, which is a good time for
// a collection. The stack may have been read before the call of GC.start. So longFull also uses the reason that Ruby
// gives for the collection.
func (c *collector) longFull(p *pauses.Pause) float64 {
	asked := p.Reason&sampler.GCByMethod != 0 || c.classes.Of(p.Stack)&stackkind.GCStart != 0
	if !p.Full() || p.FromNS < c.bootNS || !p.Waited && asked {
		return 0
	}
	return max(float64(p.RanNS)/c.limits.gcFull, float64(p.MarkNS)/c.limits.gcMark)
}
