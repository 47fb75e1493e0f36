package recording

import "github.com/ddtop/ddtop/sampler"

// gcDetail writes what changed: a mask for what is not a figure, then the figures' mask and their differences, and the
// same for each heap.
func (e *encoder) gcDetail(p, d *sampler.GCDetail) {
	var mask, flags uint64
	a, b := p.Flags(), d.Flags()
	for i := range b {
		if *b[i] {
			flags |= 1 << i
		}
		if *a[i] != *b[i] {
			mask |= detailFlags
		}
	}
	if p.NextMajor != d.NextMajor {
		mask |= detailNextMajor
	}
	if p.HeapCount != d.HeapCount || p.Heaps != d.Heaps {
		mask |= detailHeaps
	}
	e.uint(mask)
	if mask&detailFlags != 0 {
		e.uint(flags)
	}
	if mask&detailNextMajor != 0 {
		e.uint(uint64(d.NextMajor))
	}
	old, now := p.Fields(), d.Fields()
	e.figures(old[:], now[:])
	if mask&detailHeaps != 0 {
		e.uint(uint64(d.HeapCount))
		clear(p.Heaps[d.HeapCount:])
		for i := range d.HeapCount {
			old, now := p.Heaps[i].Fields(), d.Heaps[i].Fields()
			e.figures(old[:], now[:])
		}
	}
	*p = *d
}

// figures writes which figures have changed, and by how much.
func (e *encoder) figures(old, now []*int64) {
	var mask uint64
	for i := range now {
		if *old[i] != *now[i] {
			mask |= 1 << i
		}
	}
	e.uint(mask)
	for i := range now {
		if mask&(1<<i) != 0 {
			e.count(*now[i] - *old[i])
		}
	}
}

func (d *decoder) gcDetail(g *sampler.GCDetail) {
	c := &d.c
	mask := c.uint()
	if mask&detailFlags != 0 {
		flags := c.uint()
		for i, f := range g.Flags() {
			*f = flags&(1<<i) != 0
		}
	}
	if mask&detailNextMajor != 0 {
		g.NextMajor = c.uint32()
	}
	fields := g.Fields()
	d.figures(fields[:])
	if mask&detailHeaps != 0 {
		g.HeapCount = int32(c.count(sampler.MaxGCHeaps, 1))
		clear(g.Heaps[g.HeapCount:])
		for i := range g.HeapCount {
			fields := g.Heaps[i].Fields()
			d.figures(fields[:])
		}
	}
}

func (d *decoder) figures(fields []*int64) {
	mask := d.c.uint()
	for i, f := range fields {
		if mask&(1<<i) != 0 {
			*f += d.counts.int()
		}
	}
}
