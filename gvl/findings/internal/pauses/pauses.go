// Package pauses follows the garbage collections of a process, and adds up the long ones.
package pauses

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// LongNS is the length from which on a pause counts as long, in ns. A shorter pause cannot be judged, because CPU times
// are read too rarely for this: only when stacks are read (stack ticks).
const LongNS = 50e6

// Pause is a pause for garbage collection: the time from entering the collector until leaving it. The zero value stands
// for no pause.
type Pause struct {
	FromNS, WallNS int64
	// RanNS is the part of the pause in which the collecting thread had a CPU, in ns. MarkNS is the part of RanNS in
	// which it marked. If the thread's CPU time is not known, RanNS is WallNS.
	RanNS, MarkNS int64
	Stack         sampler.StackID
	// Reason says why Ruby collects, in the bits of sampler.GC.Reason. Compacts is set if the collection moves objects.
	Reason   uint32
	Compacts bool
	// Waited is set if a thread waited for the GVL while another thread collected garbage.
	Waited bool
}

// Full reports whether the pause belongs to a full collection.
func (p *Pause) Full() bool { return sampler.GCIsMajor(p.Reason) }

// AutoCompacts reports whether the collection moves objects (compacts) only because GC.auto_compact is on.
func (p *Pause) AutoCompacts() bool { return p.Compacts && p.Reason&sampler.GCCompact == 0 }

// Watch follows the garbage collections of a process.
type Watch struct {
	// pause is the pause in progress. The field until is the end of its last interval. thread is the collecting thread.
	// cpuNS is this thread's CPU time when the pause began.
	pause  Pause
	until  int64
	thread sampler.ThreadID
	cpuNS  int64
	last   sampler.GC
	// Long is the sum of all long pauses since ddtop attached. counted is the part of the pause in progress, in ns,
	// that is already included in Long.
	Long    Sum
	counted int64
	// FirstOld and LastOld are the first and the last known number of old objects in Ruby's heap.
	FirstOld, LastOld Level
}

// Sum is the number of pauses, their total length, and when the first one began.
type Sum struct {
	N           int
	NS, FirstNS int64
}

// Level is the number of objects at one time. AtNS is zero if the number is not known.
type Level struct{ AtNS, Objects int64 }

// Interval adds an interval in which Ruby was inside the collector. For each sample, call Interval before Tick.
func (w *Watch) Interval(fromNS, toNS int64) {
	if fromNS != w.until || w.pause.FromNS == 0 {
		w.pause.FromNS = fromNS
	}
	w.until = toNS
}

// Tick adds a sample. The result now is the pause in progress, and the result ended is a pause that has ended since the
// last Tick. If there is no such pause, the result is the zero Pause.
func (w *Watch) Tick(t *gvl.Tick) (now, ended Pause) {
	g, was := &t.GC, w.last
	w.last = *g
	w.oldObjects(t.Sample)
	during := g.Valid && g.During
	switch {
	case t.Gap:
		w.pause = Pause{}
	case during && w.pause.WallNS != 0 && left(&was, g):
		ended = w.pause
		w.pause = Pause{FromNS: t.FromNS}
	case !during:
		ended, w.pause = w.pause, Pause{}
	}
	if w.pause.FromNS == 0 || ended != (Pause{}) {
		w.thread, w.cpuNS, w.counted = 0, 0, 0
	}
	if !during {
		w.until = 0
		return w.pause, ended
	}
	w.during(t)
	return w.pause, ended
}

// left reports whether Ruby left the collector between two samples and entered it again. Both samples show Ruby inside
// the collector.
func left(was, now *sampler.GC) bool {
	// Ruby adds to its total time when it leaves the collector, and makes no objects inside. So a change of either
	// figure shows that Ruby has left the collector. From 3.4 on, compaction counts moved objects as new ones, but
	// these releases have the total time, which is enough.
	return now.Count != was.Count || now.TimeNS != was.TimeNS || now.TimeNS == 0 && now.Allocated != was.Allocated
}

// during adds a sample to the pause in progress. The sample must show a thread inside the collector.
func (w *Watch) during(t *gvl.Tick) {
	p, ran := &w.pause, w.pause.RanNS
	p.WallNS = max(w.until-p.FromNS, 0)
	p.RanNS, p.Reason = p.WallNS, t.GC.Reason
	p.Compacts = p.Compacts || t.GC.Mode == sampler.GCCompacting || t.GCDetail.Compacting && t.GCDetail.AtNS >= p.FromNS
	found, waiting := false, false
	for i := range t.States {
		ts := &t.States[i]
		waiting = waiting || ts.State == gvl.Waiting
		if ts.State != gvl.GC || found {
			continue
		}
		found = true
		p.Stack = ts.Stack
		// Compute RanNS from the time on a CPU. The time without a CPU is of no use here, because the kernel counts a
		// wait for a CPU only when this wait has ended.
		k := &t.Threads[i].Kernel
		if w.thread != ts.Thread {
			w.thread, w.cpuNS = ts.Thread, 0
		}
		switch {
		case k.CPUAtNS == 0:
		case w.cpuNS == 0:
			w.cpuNS, p.RanNS = k.CPUNS, 0
		default:
			p.RanNS = min(p.RanNS, k.CPUNS-w.cpuNS)
		}
	}
	// A thread counts as waiting for the collector only if the sample shows that another thread collects. Otherwise the
	// waiting thread itself may be about to collect, because the collector's flags were read later.
	p.Waited = p.Waited || waiting && found
	if t.GC.Mode == sampler.GCMarking {
		p.MarkNS += max(p.RanNS-ran, 0)
	}
}

// Count adds the pause in progress to Long. The caller calls it for a pause that is long, and may call it again while
// the pause lasts.
func (w *Watch) Count() {
	p, l := &w.pause, &w.Long
	if w.counted == 0 {
		l.N++
	}
	if l.FirstNS == 0 {
		l.FirstNS = p.FromNS
	}
	l.NS += p.WallNS - w.counted
	w.counted = p.WallNS
}

// oldObjects notes the number of old objects. During marking this number is wrong, because marking counts the old
// objects again from zero. So samples during marking are skipped.
func (w *Watch) oldObjects(s *sampler.Sample) {
	d := &s.GCDetail
	marks := s.GC.During || s.GC.Mode == sampler.GCMarking || d.Incremental
	if d.AtNS <= w.LastOld.AtNS || d.OldObjects < 0 || marks {
		return
	}
	w.LastOld = Level{d.AtNS, d.OldObjects}
	if w.FirstOld.AtNS == 0 {
		w.FirstOld = w.LastOld
	}
}
