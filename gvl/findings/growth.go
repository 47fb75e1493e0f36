package findings

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// memoryPointNS is how often the process's memory is noted, memoryPoints how many of the notes are kept: three minutes.
	memoryPointNS = 3e9
	memoryPoints  = 61
	// memoryStep is by how much it has to grow from one note to the next but one, as a part of itself: it goes on growing.
	memoryStep = .01
	// memoryStepMax is as much of a step as is enough for large programs, in bytes.
	memoryStepMax = 8 << 20
	// memoryPace is the part of the mean pace at which it has to have grown lately: what fills up slows down.
	memoryPace = .5
)

// memoryPoint is what was known of the memory at a time.
type memoryPoint struct {
	atNS, rss int64
	// slots is the size of the slots of all objects in bytes, marked how many objects survived the last marking; GCUnknown where not known.
	slots, marked int64
	gc            sampler.GC
	classes       *sampler.AllocClasses
}

// growth notes the process's memory.
type growth struct {
	points [memoryPoints]memoryPoint
	n      int // how many were noted since the attach
	// levels are the notes after full collections: the last, the one before it, and the first since which each was higher than the one
	// before; atNS is 0 where there is none. Where full collections come seldom, growth shows in them alone.
	level, before, first memoryPoint
}

// back returns the note of so many before the last; nil: there is none.
func (g *growth) back(n int) *memoryPoint {
	if n >= min(g.n, memoryPoints) {
		return nil
	}
	return &g.points[(g.n-1-n)%memoryPoints]
}

// note notes the memory, now and then.
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

// noteLevel notes the memory after a full collection.
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

// sinceLevel finds the full collection from which on the memory has grown from each to the next, and lately too, for longer than the notes
// go back; not before fromNS. nil: it does not grow.
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

// since finds the note from which on the memory has grown without a pause, not before fromNS. nil: it does not grow.
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
