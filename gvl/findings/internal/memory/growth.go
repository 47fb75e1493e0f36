// Package memory notes a process's memory, and says since when it has grown.
package memory

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// EveryNS is the interval between notes of the process's memory, in ns. notes is how many are kept: three minutes.
	EveryNS = 3e9
	notes   = 61
	// step is the least part of itself by which the memory must grow from one note to the next but one.
	step = .01
	// stepMax is enough of a step for large programs, in bytes.
	stepMax = 8 << 20
	// pace is the part of its mean pace at which the memory must have grown lately: what fills up slows down.
	pace = .5
	// rubyPart is the part of the growth below which Ruby's own memory is not the reason.
	rubyPart = .25
)

// Note is a note of the memory at a time, CLOCK_MONOTONIC in ns.
type Note struct {
	AtNS, RSS int64
	// RSS is in bytes. Slots is the size of all objects' slots in bytes, Marked how many objects survived the last
	// marking. Both can be GCUnknown.
	Slots, Marked int64
	// Malloc is the number of bytes that Ruby has malloc'ed less those it freed, since the attach. It includes memory
	// that C code takes with Ruby's own functions (xmalloc). It is GCUnknown if Ruby's count cannot be read.
	Malloc  int64
	GC      sampler.GC
	Classes *sampler.AllocClasses
}

// Growth notes the process's memory.
type Growth struct {
	points [notes]Note
	n      int // how many were noted since the attach
	// level is the note after the last full collection, before the one before that. first is the note since which
	// each was higher than the one before. AtNS is zero if there is none. If full collections are rare, only these
	// notes show growth.
	level, before, first Note
	mallocs              mallocs
}

// mallocs adds up Ruby's count of malloc'ed bytes, which begins anew at each full collection.
type mallocs struct {
	sum, last, step, atNS int64
	majors                uint64
}

// add adds a reading of the count. A full collection begins it anew. What was added before that, since the last
// reading, is not known, and taken for as much as between the two readings before.
func (m *mallocs) add(s *sampler.Sample) {
	d := &s.GCDetail
	if d.AtNS == 0 || d.AtNS == m.atNS || d.OldMallocIncrease == sampler.GCUnknown {
		return
	}
	step := d.OldMallocIncrease - m.last
	switch {
	case m.atNS == 0:
		step = 0
	case s.GC.MajorCount != m.majors:
		step = d.OldMallocIncrease + max(m.step, 0)
	}
	m.sum += step
	m.last, m.step, m.atNS, m.majors = d.OldMallocIncrease, step, d.AtNS, s.GC.MajorCount
}

// OfC reports whether the memory that has grown since a note is memory of C code. It is if Ruby's slots and its own
// count of malloc'ed bytes account for less than a quarter. ruby is what they account for, in bytes. known is false if
// one of them is not known.
func (n *Note) OfC(from *Note) (ofC bool, ruby int64, known bool) {
	for _, x := range [...]int64{n.Slots, from.Slots, n.Malloc, from.Malloc} {
		if x == sampler.GCUnknown {
			return false, 0, false
		}
	}
	ruby = max(n.Slots-from.Slots, 0) + max(n.Malloc-from.Malloc, 0)
	return float64(ruby) < rubyPart*float64(n.RSS-from.RSS), ruby, true
}

// Back returns the n-th note before the last, or nil.
func (g *Growth) Back(n int) *Note {
	if n >= min(g.n, notes) {
		return nil
	}
	return &g.points[(g.n-1-n)%notes]
}

// Add notes the memory at intervals.
func (g *Growth) Add(s *sampler.Sample) {
	g.mallocs.add(s)
	if s.Proc.AtNS == 0 || s.Proc.RSSBytes == 0 {
		return
	}
	if last := g.Back(0); last != nil && s.Proc.AtNS-last.AtNS < EveryNS {
		return
	}
	p := &g.points[g.n%notes]
	*p = Note{AtNS: s.Proc.AtNS, RSS: s.Proc.RSSBytes, Slots: sampler.GCUnknown, Marked: sampler.GCUnknown, Malloc: sampler.GCUnknown, GC: s.GC, Classes: s.Classes}
	if g.mallocs.atNS != 0 {
		p.Malloc = g.mallocs.sum
	}
	if d := &s.GCDetail; d.AtNS != 0 {
		p.Marked, p.Slots = d.Marked, 0
		for i := range min(d.HeapCount, sampler.MaxGCHeaps) {
			p.Slots += max(d.Heaps[i].SlotSize, 0) * max(d.Heaps[i].Slots, 0)
		}
	}
	g.n++
	g.noteLevel(p)
}

func (g *Growth) noteLevel(p *Note) {
	switch last := &g.level; {
	case last.AtNS == 0:
		*last, g.first = *p, *p
	case p.GC.MajorCount <= last.GC.MajorCount || p.AtNS-last.AtNS < 2*EveryNS:
	case !grew(last, p):
		g.before, g.first, *last = Note{}, *p, *p
	default:
		g.before, *last = *last, *p
	}
}

// grew reports whether the memory has grown from one note to another.
func grew(from, to *Note) bool {
	return float64(to.RSS-from.RSS) >= min(step*float64(from.RSS), stepMax)
}

// SinceLevel returns the full collection, not before fromNS, since which the memory has grown from each to the next,
// and lately too, for longer than the notes go back. It returns nil if the memory does not grow.
func (g *Growth) SinceLevel(fromNS int64) *Note {
	now := g.Back(0)
	if g.before.AtNS == 0 || now == nil || g.first.AtNS < fromNS || now.AtNS-g.first.AtNS < notes*EveryNS {
		return nil
	}
	mean := gvl.Ratio(now.RSS-g.first.RSS, now.AtNS-g.first.AtNS)
	if gvl.Ratio(now.RSS-g.before.RSS, now.AtNS-g.before.AtNS) < pace*mean {
		return nil
	}
	return &g.first
}

// Since returns the note from which on the memory has grown without a pause. The note is not from before fromNS. It
// returns nil if the memory does not grow.
func (g *Growth) Since(fromNS int64) *Note {
	first := 0
	for i := 0; ; i++ {
		older := g.Back(i + 2)
		if older == nil || older.AtNS < fromNS || !grew(older, g.Back(i)) {
			break
		}
		first = i + 2
	}
	if first == 0 {
		return nil
	}
	from, lately, now := g.Back(first), g.Back(2), g.Back(0)
	mean := gvl.Ratio(now.RSS-from.RSS, now.AtNS-from.AtNS)
	if gvl.Ratio(now.RSS-lately.RSS, now.AtNS-lately.AtNS) < pace*mean {
		return nil
	}
	return from
}
