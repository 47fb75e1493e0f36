package recording

import (
	"encoding/binary"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

func (w *wire) fields(s *sampler.Sample, flags uint64) {
	flags = w.uint(flags)
	p := &w.sample
	scale := timeScale(flags)
	p.TimeNS += w.time((s.TimeNS-p.TimeNS)/scale) * scale
	if w.reading {
		p.ReadNS += w.times.int() * unit
	} else {
		w.time(units(s.ReadNS) - units(p.ReadNS))
		p.ReadNS = s.ReadNS
	}
	pause := s.PauseNS
	if p.PauseNS = 0; flags&samplePause != 0 {
		p.PauseNS = w.time(pause)
	}
	p.Depth = sampler.LockTick
	if flags&sampleStackTick != 0 {
		p.Depth = sampler.StackTick
	}
	p.Slow = flags&sampleSlow != 0
	w.startTimes()
	w.reads(&s.Reads, flags)
	if flags&sampleRactorList != 0 {
		w.ractorList(s.Ractors)
	}
	if flags&sampleRactors != 0 {
		for i := range p.Ractors {
			w.ractor(&p.Ractors[i], &s.Ractors[i])
		}
	}
	if flags&sampleThreadList != 0 {
		w.threadList(s.Threads)
	}
	if w.listed += len(p.Threads); w.listed > maxListed {
		w.c.fail("too many threads in all samples")
		return
	}
	if w.reading {
		w.readThreads()
	} else {
		w.writeThreads(s.Threads)
	}
	if flags&sampleGC != 0 {
		w.gc(&p.GC, &s.GC)
	}
	if flags&sampleGCDetail != 0 {
		w.gcDetail(&p.GCDetail, &s.GCDetail)
	}
	if flags&sampleProc != 0 {
		w.proc(&p.Proc, &s.Proc)
	}
	if flags&sampleSelf != 0 {
		p.Self.CPUNS += w.count(s.Self.CPUNS - p.Self.CPUNS)
		p.Self.MaxRSSBytes += w.count(s.Self.MaxRSSBytes - p.Self.MaxRSSBytes)
		small(w, &p.Self.Priority, s.Self.Priority)
	}
	p.Self.Halved, p.Self.Lowered = flags&sampleHalved != 0, flags&sampleLowered != 0
	p.Self.Extended = flags&sampleExtended != 0
	if flags&sampleClasses != 0 {
		p.Classes = w.allocClasses(s.Classes)
	}
	if flags&sampleFibers != 0 {
		p.Fibers = w.waiting(s.Fibers)
	}
	if flags&sampleQueues != 0 {
		p.Queues = carryQueues(w, s.Queues)
	}
	if flags&sampleNativeLocks != 0 {
		p.NativeLocks = carryNativeLocks(w, s.NativeLocks)
	}
	if flags&sampleCPUUse != 0 {
		p.CPUUse = carryCPUUse(w, s.CPUUse)
	}
	if flags&sampleChanges != 0 {
		p.Changes = w.changes(&s.Changes)
	} else {
		p.Changes = sampler.Changes{}
		w.changed.noChanges()
	}
	if flags&sampleRuns != 0 {
		p.Runs = carryRuns(w, s.Runs)
	} else {
		p.Runs = nil
	}
}

// timeScale returns the unit, in ns, in which the difference between the times of two samples is written.
func timeScale(flags uint64) int64 {
	if flags&sampleFineTime != 0 {
		return 1
	}
	return unit
}

func (w *wire) ractorList(next []sampler.Ractor) {
	w.rids = w.rids[:0]
	for i := range w.length(len(next), maxRactors, 1) {
		var id sampler.RactorID
		small(w, &id, at(next, i).ID)
		w.rids = append(w.rids, id)
	}
	w.editRactors(w.rids)
	w.queued = 0
	for i := range w.sample.Ractors {
		w.queued += len(w.sample.Ractors[i].Queue)
	}
}

// threadList writes or reads the list of threads. First come two numbers: how many threads at the beginning and at the
// end are the same as in the previous sample. Then come the IDs of the threads in between.
func (w *wire) threadList(next []sampler.Thread) {
	old := w.sample.Threads
	prefix, suffix := 0, 0
	if !w.reading {
		for prefix < len(old) && prefix < len(next) && old[prefix].ID == next[prefix].ID {
			prefix++
		}
		for suffix < min(len(old), len(next))-prefix && old[len(old)-1-suffix].ID == next[len(next)-1-suffix].ID {
			suffix++
		}
	}
	prefix = w.index(prefix, len(old)+1)
	suffix = w.index(suffix, len(old)-prefix+1)
	w.mids = w.mids[:0]
	count := w.length(len(next)-prefix-suffix, maxThreads, 1)
	if prefix+suffix+count > maxThreads {
		w.c.fail("a list too long")
	}
	last := int64(0)
	for i := range count {
		id := int64(0)
		if !w.reading {
			id = int64(next[prefix+i].ID)
		}
		last += w.int(id - last)
		if last != int64(uint32(last)) {
			w.c.fail("a number too large")
		}
		if w.c.err != nil {
			return
		}
		w.mids = append(w.mids, sampler.ThreadID(last))
		w.name(sampler.ThreadID(last))
	}
	if w.c.err != nil {
		return
	}
	w.editThreads(prefix, suffix, w.mids)
	w.resumers = 0
	for i := range w.sample.Threads {
		w.resumers += len(w.sample.Threads[i].Resumers)
	}
}

// writeThreads writes the threads that differ from their predictions. A thread's prediction is the same thread in the
// previous sample. For each such thread, writeThreads first writes how many unchanged threads come between it and the
// last written thread. Then come the changed values. At the end comes the number of unchanged threads that are left, so
// that a reader knows that no changed thread follows.
func (w *wire) writeThreads(next []sampler.Thread) {
	gap := uint64(0)
	for i := range next {
		p, t := &w.sample.Threads[i], &next[i]
		p.Quality = w.predictQuality(p)
		mask := threadMask(p, t)
		if mask == 0 {
			gap++
			continue
		}
		w.uint(gap)
		gap = 0
		w.thread(p, t, &w.memories[i], mask)
		setThread(p, t)
	}
	w.uint(gap)
}

func (w *wire) readThreads() {
	threads := w.sample.Threads
	for i := range threads {
		threads[i].Quality = w.predictQuality(&threads[i])
	}
	for i := 0; w.c.err == nil; i++ {
		i += w.c.below(len(threads) - i + 1)
		if i >= len(threads) {
			return
		}
		w.thread(&threads[i], &threads[i], &w.memories[i], 0)
	}
}

func (w *wire) thread(p, t *sampler.Thread, m *memory, mask uint64) {
	mask = w.uint(mask)
	pk, k := &p.Kernel, &t.Kernel
	if mask&threadStatus != 0 {
		small(w, &p.Status, t.Status)
	}
	if mask&threadBits != 0 {
		small(w, &p.Bits, t.Bits)
	}
	if mask&threadStack != 0 {
		p.Stack = w.stacks.carry(w, t.Stack)
	}
	if mask&threadCPU != 0 {
		pk.CPUAtNS = w.kernelTime(k.CPUAtNS)
		w.kernelSum(&pk.CPUNS, k.CPUNS)
		w.kernelSum(&pk.RunDelayNS, k.RunDelayNS)
	}
	if mask&threadStateAt != 0 {
		pk.StateAtNS = w.kernelTime(k.StateAtNS)
	}
	if mask&threadNoStateAt != 0 {
		pk.StateAtNS = 0
	}
	if mask&threadCall != 0 {
		before := callOf(pk)
		w.call(callOf(k), m.call).set(pk)
		m.call = before
	}
	if mask&threadBlocked != 0 {
		before, deadline := blockedOf(p), p.Blocked.DeadlineNS
		p.Blocked = w.blocked(blockedOf(t), m.blocked)
		p.Blocked.DeadlineNS = deadline
		m.blocked = before
	}
	if mask&threadQuality != 0 {
		small(w, &p.Quality, t.Quality)
	}
	if mask&threadDeadline != 0 {
		p.Blocked.DeadlineNS = w.sample.TimeNS + w.time(t.Blocked.DeadlineNS-w.sample.TimeNS)
	}
	if mask&threadNoDeadline != 0 {
		p.Blocked.DeadlineNS = 0
	}
	if mask&threadTID != 0 {
		w.signed(&p.TID, t.TID)
	}
	if mask&threadRactor != 0 {
		small(w, &p.Ractor, t.Ractor)
	}
	if mask&threadResumers != 0 {
		w.resumers -= len(p.Resumers)
		count := w.length(len(t.Resumers), min(maxResumers, maxAllResumers-w.resumers), 1)
		w.resumers += count
		p.Resumers = p.Resumers[:0]
		for i := range count {
			p.Resumers = append(p.Resumers, w.stacks.carry(w, at(t.Resumers, i)))
		}
	}
	if mask&threadOmitted != 0 {
		small(w, &p.Omitted, t.Omitted)
	}
	// These two values are bools. So a bit in mask means that the value has changed to the opposite.
	if mask&threadRechecked != 0 {
		pk.Rechecked = !pk.Rechecked
	}
	if mask&threadListens != 0 {
		pk.Listens = !pk.Listens
	}
	if mask&threadTurns != 0 {
		pk.Turns += w.count(k.Turns - pk.Turns)
	}
	if mask&threadNative != 0 {
		p.Native = w.stacks.carry(w, t.Native)
	}
	w.serving(&p.Serving, &t.Serving, mask)
}

// serving writes or reads the values of a thread's Serving that have changed. Each bit of mask stands for a changed
// value.
func (w *wire) serving(p, s *sampler.Serving, mask uint64) {
	if mask&threadWork != 0 {
		p.Work = w.works.carry(w, s.Work)
	}
	if mask&threadStatement != 0 {
		p.Statement = w.statements.carry(w, s.Statement)
	}
	if mask&threadException != 0 {
		p.Exception = w.exceptions.carry(w, s.Exception)
	}
	if mask&threadSpans != 0 {
		p.Span = uint64(w.count(int64(s.Span)))
		p.RootSpan = uint64(w.count(int64(s.RootSpan)))
	}
	if mask&threadTrace != 0 {
		for half := 0; half < len(p.Trace); half += 8 {
			binary.LittleEndian.PutUint64(p.Trace[half:], uint64(w.count(int64(binary.LittleEndian.Uint64(s.Trace[half:])))))
		}
	}
}

func servingMask(p, s *sampler.Serving) uint64 {
	return bit(p.Work != s.Work, threadWork) | bit(p.Statement != s.Statement, threadStatement) |
		bit(p.Exception != s.Exception, threadException) | bit(p.Span != s.Span || p.RootSpan != s.RootSpan, threadSpans) |
		bit(p.Trace != s.Trace, threadTrace)
}

// kernelTime writes or reads the time at which ddtop asked the kernel about a thread. It returns this time, in ns.
func (w *wire) kernelTime(ns int64) int64 {
	if w.reading {
		w.atTime(w.at + w.times.int())
	} else {
		at := units(ns)
		w.time(at - w.at)
		w.atTime(at)
	}
	return w.at * unit
}

// kernelSum writes or reads a sum of times that the kernel keeps for a thread, such as its CPU time.
func (w *wire) kernelSum(field *int64, next int64) {
	if w.reading {
		*field += w.counts.int() * unit
	} else {
		w.count(units(next) - units(*field))
		*field = next
	}
}

// call writes or reads a thread's call, which is the system call in which it waits. back is the call before the last
// one. A thread often alternates between two calls, so back is written in fewer bytes than other calls.
func (w *wire) call(c, back call) call {
	if w.uint(bit(!w.reading && c != back, changeOther)) == changeBack {
		return back
	}
	c.syscall = w.text(c.syscall)
	w.signed(&c.fd, c.fd)
	w.signed(&c.fds, c.fds)
	c.peer = w.peers.carry(w, c.peer)
	w.signed(&c.child, c.child)
	return c
}

// blocked writes or reads what a thread is blocked on (Thread.Blocked). back is the value before the last one. A thread
// often alternates between two values, so back is written in fewer bytes than other values.
func (w *wire) blocked(b, back sampler.Blocked) sampler.Blocked {
	if w.uint(bit(!w.reading && b != back, changeOther)) == changeBack {
		return back
	}
	small(w, &b.Kind, b.Kind)
	b.Object = uint64(w.count(int64(b.Object)))
	small(w, &b.Holder, b.Holder)
	w.signed(&b.FD, b.FD)
	w.signed(&b.Child, b.Child)
	return b
}

func (w *wire) ractor(p, r *sampler.Ractor) {
	var mask uint64
	if !w.reading {
		mask = bit(p.OwnerStart != r.OwnerStart, ractorOwnerStart) | bit(r.OwnerEnd != r.OwnerStart, ractorOwnerEnd) |
			bit(!slices.Equal(p.Queue, r.Queue), ractorQueue) | bit(int(r.Waiting) != len(r.Queue), ractorWaiting) | bit(r.Torn, ractorTorn)
	}
	mask = w.uint(mask)
	if mask&ractorOwnerStart != 0 {
		small(w, &p.OwnerStart, r.OwnerStart)
	}
	if mask&ractorOwnerEnd != 0 {
		small(w, &p.OwnerEnd, r.OwnerEnd)
	} else {
		p.OwnerEnd = p.OwnerStart
	}
	if mask&ractorQueue != 0 {
		w.queued -= len(p.Queue)
		kept := 0
		if !w.reading {
			kept = overlap(p.Queue, r.Queue)
		}
		kept = w.index(kept, len(p.Queue)+1)
		p.Queue = p.Queue[:copy(p.Queue, p.Queue[len(p.Queue)-kept:])]
		count := w.length(len(r.Queue)-kept, maxThreads, 1)
		if w.reading && (kept+count > maxThreads || w.queued+kept+count > maxQueued) {
			w.c.fail("a list too long")
			count = 0
		}
		w.queued += kept + count
		for i := range count {
			var id sampler.ThreadID
			small(w, &id, at(r.Queue, kept+i))
			p.Queue = append(p.Queue, id)
		}
	}
	if mask&ractorWaiting != 0 {
		w.signed(&p.Waiting, r.Waiting)
	} else {
		p.Waiting = int32(len(p.Queue))
	}
	p.Torn = mask&ractorTorn != 0
}

// overlap returns the number of entries that are both at the end of the old queue and at the beginning of the new one.
// Threads leave a queue at its front and join it at its end.
func overlap(old, list []sampler.ThreadID) int {
	if len(list) == 0 {
		return 0
	}
	i := slices.Index(old, list[0])
	if i < 0 {
		return 0
	}
	kept := old[i:]
	if len(kept) > len(list) || !slices.Equal(kept, list[:len(kept)]) {
		return 0
	}
	return len(kept)
}

// procStopped and procFrozen are the bits for Proc.Stopped and Proc.Frozen. They are in the same number as the source
// of the pressure figures (PressureSource).
const (
	procStopped = 1 << 4
	procFrozen  = 1 << 5
)
