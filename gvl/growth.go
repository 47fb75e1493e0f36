package gvl

import "github.com/ddtop/ddtop/sampler"

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
}

// since finds the note from which on the memory has grown without a pause, not before fromNS. nil: it does not grow.
func (g *growth) since(fromNS int64) *memoryPoint {
	first := 0
	for i := 0; ; i++ {
		older := g.back(i + 2)
		if older == nil || older.atNS < fromNS || float64(g.back(i).rss-older.rss) < min(memoryStep*float64(older.rss), memoryStepMax) {
			break
		}
		first = i + 2
	}
	if first == 0 {
		return nil
	}
	from, lately, now := g.back(first), g.back(2), g.back(0)
	mean := ratio(now.rss-from.rss, now.atNS-from.atNS)
	if ratio(now.rss-lately.rss, now.atNS-lately.atNS) < memoryPace*mean {
		return nil
	}
	return from
}
