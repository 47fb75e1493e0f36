// Package memory regularly notes the size of a process's memory, and finds out since when it has grown.
package memory

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// EveryNS is the interval between two notes of the process's memory, in ns. notes is the number of kept notes: they
	// cover three minutes.
	EveryNS = 3e9
	notes   = 61
	// step is the smallest growth that is treated as growth, as a share of the memory. It is the growth from one note
	// to the second note after it.
	step = .01
	// stepMax is a growth in bytes that is always treated as growth, even if it is below the share step. This happens
	// in programs with much memory.
	stepMax = 8 << 20
	// pace is the smallest rate of the latest growth, as a multiple of the mean rate since the growth began. At a lower
	// rate, the memory does not count as growing. It may be a cache that fills up, which grows more and more slowly.
	pace = .5
	// rubyPart is a share of the growth. If Ruby's own memory makes up at least this share, Ruby's memory is named as
	// the cause of the growth, and C code is not.
	rubyPart = .25
)

// Note has the figures of the memory at one time. AtNS is this time, CLOCK_MONOTONIC in ns.
type Note struct {
	AtNS, RSS int64
	// RSS is the process's memory in bytes. Slots is the size of all slots for objects, in bytes. Marked is the number
	// of objects that survived the last marking. Slots and Marked can be GCUnknown.
	Slots, Marked int64
	// Malloc is the number of bytes that Ruby has malloc'ed and not freed since ddtop attached. It includes memory that
	// C code allocates with Ruby's own functions (xmalloc). It is GCUnknown if Ruby's count cannot be read.
	Malloc  int64
	GC      sampler.GC
	Classes *sampler.AllocClasses
}

// Growth keeps the last notes, and finds out whether the memory grows.
type Growth struct {
	points [notes]Note
	n      int // number of notes since the attach
	// level is the note after the last full collection, and before the note after the full collection before it. first
	// is the earliest note since which the memory has been larger after each full collection. If a note does not exist,
	// its AtNS is zero. These notes are needed if full collections are rare, because the other notes then do not show
	// growth.
	level, before, first Note
	mallocs              mallocs
}

// mallocs adds up the bytes that Ruby counts as malloc'ed. It is needed because Ruby's count restarts at zero at each
// full collection.
type mallocs struct {
	sum, last, step, atNS int64
	majors                uint64
}

// add adds a reading of Ruby's count. A full collection sets the count to zero, so the growth between the last reading
// and the collection is lost. add assumes that the lost growth was as large as the growth between the last two
// readings.
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

// OfC reports whether C code has caused the growth since the note from. This is so if Ruby's slots and its count of
// malloc'ed bytes explain less than a quarter of the growth. ruby is how many bytes they explain. known is false if one
// of these figures is unknown.
func (n *Note) OfC(from *Note) (ofC bool, ruby int64, known bool) {
	for _, x := range [...]int64{n.Slots, from.Slots, n.Malloc, from.Malloc} {
		if x == sampler.GCUnknown {
			return false, 0, false
		}
	}
	ruby = max(n.Slots-from.Slots, 0) + max(n.Malloc-from.Malloc, 0)
	return float64(ruby) < rubyPart*float64(n.RSS-from.RSS), ruby, true
}

// Back returns the n-th note before the last, or nil if there is no such note.
func (g *Growth) Back(n int) *Note {
	if n >= min(g.n, notes) {
		return nil
	}
	return &g.points[(g.n-1-n)%notes]
}

// Add adds a sample. It notes the size of the memory every EveryNS.
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

// grew reports whether the memory has grown enough from one note to another (step, stepMax).
func grew(from, to *Note) bool {
	return float64(to.RSS-from.RSS) >= min(step*float64(from.RSS), stepMax)
}

// SinceLevel returns the earliest note since which the memory has been larger after each full collection. The memory
// must also have grown lately. It returns nil if there is no such note, or if the note is older than fromNS. It also
// returns nil if the kept notes include this note, because the method Since then judges the growth.
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

// Since returns the note since which the memory has grown without a pause, among the notes from fromNS on. It returns
// nil if the memory does not grow.
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
