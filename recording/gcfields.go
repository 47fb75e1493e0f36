package recording

import (
	"github.com/ddtop/ddtop/sampler"
)

// reads writes or reads sampler.Reads. Each counter has a prediction. The recording has a mask of the counters that
// differ from their prediction, and the differences.
func (w *wire) reads(next *sampler.Reads, flags uint64) {
	before := w.sample.Reads.Calls
	r := w.predictReads(w.sample.Depth)
	if flags&sampleReads != 0 {
		a, b := readsFields(&r), readsFields(next)
		var mask uint64
		if !w.reading {
			for i := range a {
				mask |= bit(*a[i] != *b[i], 1<<i)
			}
		}
		mask = w.uint(mask)
		for i := range a {
			if mask&(1<<i) != 0 {
				*a[i] += uint64(w.int(int64(*b[i] - *a[i])))
			}
		}
	}
	w.callsStep = r.Calls - before
	w.sample.Reads = r
}

func (w *wire) gc(p, g *sampler.GC) {
	pair := w.predictPair()
	var mask uint64
	if !w.reading {
		mask = bit(g.Valid, gcValid) | bit(g.During, gcDuring) | bit(g.Minor, gcMinor) | bit(p.Allocated != g.Allocated, gcAllocated) |
			bit(p.Mode != g.Mode, gcMode) | bit(p.Count != g.Count || p.MinorCount != g.MinorCount || p.MajorCount != g.MajorCount, gcCounts) |
			bit(p.Reason != g.Reason, gcReason) | bit(p.TimeNS != g.TimeNS, gcTime) | bit(g.Pair.Thread != pair.Thread, gcPairThread) |
			bit(g.Pair.Objects != 0, gcPairObjects)
	}
	mask = w.uint(mask)
	p.Valid, p.During, p.Minor = mask&gcValid != 0, mask&gcDuring != 0, mask&gcMinor != 0
	if mask&gcAllocated != 0 {
		p.Allocated += uint64(w.count(int64(g.Allocated - p.Allocated)))
	}
	if mask&gcMode != 0 {
		small(w, &p.Mode, g.Mode)
	}
	if mask&gcCounts != 0 {
		p.Count += uint64(w.int(int64(g.Count - p.Count)))
		p.MinorCount += uint64(w.int(int64(g.MinorCount - p.MinorCount)))
		p.MajorCount += uint64(w.int(int64(g.MajorCount - p.MajorCount)))
	}
	if mask&gcReason != 0 {
		small(w, &p.Reason, g.Reason)
	}
	if mask&gcTime != 0 {
		p.TimeNS += uint64(w.count(int64(g.TimeNS - p.TimeNS)))
	}
	if mask&gcPairThread != 0 {
		small(w, &pair.Thread, g.Pair.Thread)
	}
	if mask&gcPairObjects != 0 {
		small(w, &pair.Objects, g.Pair.Objects)
	}
	p.Pair = pair
	w.notePair(pair)
}

// gcDetail writes or reads what has changed in GCDetail since the last sample. It consists of these parts:
//
// - a mask of what has changed: the flags, the reason for the next major collection, the heaps
// - the flags and the reason, if they have changed
// - a mask of the changed figures, and their differences
// - if the heaps have changed, the same for the figures of each heap
func (w *wire) gcDetail(p, d *sampler.GCDetail) {
	var flags uint64
	a, b := p.Flags(), d.Flags()
	changed := false
	for i := range b {
		flags |= bit(*b[i], 1<<i)
		changed = changed || *a[i] != *b[i]
	}
	mask := w.uint(bit(changed, detailFlags) | bit(p.NextMajor != d.NextMajor, detailNextMajor) |
		bit(p.HeapCount != d.HeapCount || p.Heaps != d.Heaps, detailHeaps))
	if mask&detailFlags != 0 {
		flags = w.uint(flags)
		for i, f := range a {
			*f = flags&(1<<i) != 0
		}
	}
	if mask&detailNextMajor != 0 {
		small(w, &p.NextMajor, d.NextMajor)
	}
	fields, next := p.Fields(), d.Fields()
	w.figures(fields[:], next[:])
	if mask&detailHeaps != 0 {
		p.HeapCount = int32(w.length(int(d.HeapCount), sampler.MaxGCHeaps, 1))
		clear(p.Heaps[p.HeapCount:])
		for i := range p.HeapCount {
			fields, next := p.Heaps[i].Fields(), d.Heaps[i].Fields()
			w.figures(fields[:], next[:])
		}
	}
}

func (w *wire) proc(p, n *sampler.Proc) {
	a, b := procFields(p), procFields(n)
	for i := range a {
		*a[i] += w.count(*b[i] - *a[i])
	}
	var flags uint8
	small(w, &flags, uint8(n.Pressure.Source)|uint8(bit(n.Stopped, procStopped))|uint8(bit(n.Frozen, procFrozen)))
	p.Stopped, p.Frozen = flags&procStopped != 0, flags&procFrozen != 0
	source := sampler.PressureSource(flags &^ (procStopped | procFrozen))
	if source > sampler.PressureMachine {
		source = sampler.PressureNone // a later version may have more sources; this version cannot interpret them
	}
	p.Pressure.Source = source
}

// procFields returns pointers to the counters of Proc, in the order in which they are written.
func procFields(p *sampler.Proc) [16]*int64 {
	return [...]*int64{&p.AtNS, &p.UserNS, &p.SystemNS, &p.RSSBytes, &p.MajorFaults, &p.ThrottledNS, &p.ThrottledPeriods,
		&p.Periods, &p.SwapBytes, &p.Pressure.CPUSomeNS, &p.Pressure.MemorySomeNS, &p.Pressure.MemoryFullNS,
		&p.Pressure.IOSomeNS, &p.Pressure.IOFullNS, &p.PSSBytes, &p.Switches}
}

// readsFields returns pointers to the counters of Reads, in the order in which they are written.
func readsFields(r *sampler.Reads) [14]*uint64 {
	return [14]*uint64{&r.Ticks, &r.StackTicks, &r.Late, &r.Torn, &r.Retried, &r.Partial, &r.Failed, &r.Uncertain,
		&r.Truncated, &r.Calls, &r.Pauses, &r.PausesCut, &r.PausedNS, &r.Lost}
}
