package findings

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// memoryPointNS is the interval between notes of the process's memory. memoryPoints is how many are kept: three
	// minutes.
	memoryPointNS = 3e9
	memoryPoints  = 61
	// memoryStep is the least part of itself by which the memory must grow from one note to the next but one.
	memoryStep = .01
	// memoryStepMax is enough of a step for large programs, in bytes.
	memoryStepMax = 8 << 20
	// memoryPace is the part of its mean pace at which the memory must have grown lately: what fills up slows down.
	memoryPace = .5
)

// memoryPoint is a note of the memory.
type memoryPoint struct {
	atNS, rss int64
	// slots is the size of all objects' slots in bytes, marked how many objects survived the last marking. Both can be
	// GCUnknown.
	slots, marked int64
	gc            sampler.GC
	classes       *sampler.AllocClasses
}

// growth notes the process's memory.
type growth struct {
	points [memoryPoints]memoryPoint
	n      int // how many were noted since the attach
	// level is the note after the last full collection, before the one before that. first is the note since which
	// each was higher than the one before. atNS is zero if there is none. If full collections are rare, only these
	// notes show growth.
	level, before, first memoryPoint
}

// back returns the n-th note before the last, or nil.
func (g *growth) back(n int) *memoryPoint {
	if n >= min(g.n, memoryPoints) {
		return nil
	}
	return &g.points[(g.n-1-n)%memoryPoints]
}

// note notes the memory at intervals.
func (g *growth) note(s *sampler.Sample) {
	if s.Proc.AtNS == 0 || s.Proc.RSSBytes == 0 {
		return
	}
	if last := g.back(0); last != nil && s.Proc.AtNS-last.atNS < memoryPointNS {
		return
	}
	p := &g.points[g.n%memoryPoints]
	*p = memoryPoint{atNS: s.Proc.AtNS, rss: s.Proc.RSSBytes, slots: sampler.GCUnknown, marked: sampler.GCUnknown, gc: s.GC, classes: s.Classes}
	if d := &s.GCDetail; d.AtNS != 0 {
		p.marked, p.slots = d.Marked, 0
		for i := range min(d.HeapCount, sampler.MaxGCHeaps) {
			p.slots += max(d.Heaps[i].SlotSize, 0) * max(d.Heaps[i].Slots, 0)
		}
	}
	g.n++
	g.noteLevel(p)
}

func (g *growth) noteLevel(p *memoryPoint) {
	switch last := &g.level; {
	case last.atNS == 0:
		*last, g.first = *p, *p
	case p.gc.MajorCount <= last.gc.MajorCount || p.atNS-last.atNS < 2*memoryPointNS:
	case !grew(last, p):
		g.before, g.first, *last = memoryPoint{}, *p, *p
	default:
		g.before, *last = *last, *p
	}
}

// grew reports whether the memory has grown from one note to another.
func grew(from, to *memoryPoint) bool {
	return float64(to.rss-from.rss) >= min(memoryStep*float64(from.rss), memoryStepMax)
}

// sinceLevel returns the full collection, not before fromNS, since which the memory has grown from each to the next,
// and lately too, for longer than the notes go back. It returns nil if the memory does not grow.
func (g *growth) sinceLevel(fromNS int64) *memoryPoint {
	now := g.back(0)
	if g.before.atNS == 0 || now == nil || g.first.atNS < fromNS || now.atNS-g.first.atNS < memoryPoints*memoryPointNS {
		return nil
	}
	mean := gvl.Ratio(now.rss-g.first.rss, now.atNS-g.first.atNS)
	if gvl.Ratio(now.rss-g.before.rss, now.atNS-g.before.atNS) < memoryPace*mean {
		return nil
	}
	return &g.first
}

// since returns the note, not before fromNS, since which the memory has grown without a pause. It returns nil if the
// memory does not grow.
func (g *growth) since(fromNS int64) *memoryPoint {
	first := 0
	for i := 0; ; i++ {
		older := g.back(i + 2)
		if older == nil || older.atNS < fromNS || !grew(older, g.back(i)) {
			break
		}
		first = i + 2
	}
	if first == 0 {
		return nil
	}
	from, lately, now := g.back(first), g.back(2), g.back(0)
	mean := gvl.Ratio(now.rss-from.rss, now.atNS-from.atNS)
	if gvl.Ratio(now.rss-lately.rss, now.atNS-lately.atNS) < memoryPace*mean {
		return nil
	}
	return from
}
