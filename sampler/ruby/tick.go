package ruby

import (
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// maxListTries is how often a changing list of threads is walked again before a tick is given up (facts-gvl, section 9:
// under extreme churn five tries close all but 0.5 to 5 % of the walks).
const maxListTries = 6

// maxReleased is how many threads' stacks are read in a lock tick because they have just released the GVL.
const maxReleased = 64

// Read takes one sample. The slices of s are re-used. An error is attach.ErrGone when the target is gone, ErrListTorn
// when its threads came and went too fast for a consistent list (a failed tick: the next one may do), or what the kernel
// said. Nothing in s holds then.
func (r *Reader) Read(depth sampler.Depth, s *sampler.Sample) error {
	var err error
	for try := 0; try < maxListTries; try++ {
		if len(r.order) == 0 {
			if err = r.walkVM(); err != nil {
				if errors.Is(err, ErrListTorn) {
					r.reads.Retried++
					continue
				}
				return r.failed(err)
			}
		}
		err = r.snapshot(depth, s, r.mayThin(depth))
		if errors.Is(err, errCold) {
			err = r.snapshot(depth, s, false)
		}
		if err == nil {
			r.fill(depth, s)
			return nil
		}
		if !errors.Is(err, ErrListTorn) {
			return r.failed(err)
		}
		r.reads.Retried++
		if err = r.walkVM(); err != nil && !errors.Is(err, ErrListTorn) {
			return r.failed(err)
		}
	}
	return r.failed(err)
}

func (r *Reader) failed(err error) error {
	r.reads.Failed++
	return fmt.Errorf("sampling process %d: %w", r.pid, err)
}

// snapshot does the one call of a tick, and the second one for stacks that changed or were not expected. A thin one reads
// only the threads that take part in the scheduling and some others, and gives up with errCold when one turns up that it has
// not read.
func (r *Reader) snapshot(depth sampler.Depth, s *sampler.Sample, thin bool) error {
	r.batch = r.batch[:0]
	r.ticks++
	if r.o.vmRactorSet >= 0 {
		r.add(r.vm.Addr+attach.Address(r.o.vmRactorSet), r.vmHead[:])
	}
	if r.currentEC != 0 {
		r.add(r.currentEC, r.currentECBuf[:])
	}
	// The owners, the threads' own words and the owners again stand side by side, before the stacks: a thread's state is its
	// own words with the owner of the same instant, and what is read in between is time in which the GVL moves on.
	for _, rc := range r.ractors {
		r.add(rc.base, rc.buf)
	}
	r.planThreads(depth, thin)
	for _, rc := range r.ractors {
		if r.currentEC != 0 {
			r.add(rc.base+attach.Address(r.gvlOff(r.o.gvlAcquired)), rc.end[:])
			r.add(r.currentEC, rc.end2[:])
			continue
		}
		r.add(rc.base+attach.Address(r.gvlOff(r.o.gvlOwner)), rc.end[:])
	}
	fixed := len(r.batch)
	around := r.bracket()
	if around != nil && around.stack.ec == 0 {
		around = nil
	}
	counted := r.gc == nil
	if r.gc != nil {
		r.gc.around = around
	}
	for _, t := range r.order {
		t.stack.planned = -1
		if depth == sampler.StackTick {
			r.planHolder(t)
		}
		if t.stack.ec == 0 {
			continue
		}
		owner := t.ractor.owners[1] == t
		if t == around {
			r.gc.planBefore(r)
		}
		if depth == sampler.StackTick && t.readIn == r.ticks || owner {
			r.planStack(t, owner || t.stack.quiet < quietAfter && !t.stack.rests)
		}
		if t == around {
			r.gc.planAfter(r)
			counted = true
		}
	}
	if !counted {
		r.gc.planBefore(r)
		r.gc.planAfter(r)
	}
	t0 := r.now()
	calls, err := r.mem.ReadBatch(r.batch)
	t1 := r.now()
	r.reads.Calls += uint64(calls)
	if err != nil {
		return err
	}
	s.TimeNS, s.ReadNS = t0+(t1-t0)/2, t1-t0
	s.TimeNS -= s.TimeNS % 1000 // whole µs take less room in a recording, and the read took tens of them
	for i := range r.batch[:fixed] {
		if r.batch[i].Failed {
			return ErrListTorn
		}
	}
	if thin && !r.thinIntact() || !thin && !r.listIntact() {
		return ErrListTorn
	}
	r.allRead = r.allRead || !thin
	for _, rc := range r.ractors {
		r.readOwners(rc, r.currentECBuf[:])
		if thin && r.cold(rc) {
			return errCold
		}
	}
	s.GC = sampler.GC{}
	if r.gc != nil && r.gc.take(r.batch) {
		r.gc.fill(&s.GC)
		if !r.gc.plausible(&s.GC) {
			s.GC = sampler.GC{}
		}
	}
	if err := r.dec.Revalidate(t1, s.GC); err != nil {
		return err
	}
	for _, t := range r.order {
		t.blocked.read = depth == sampler.StackTick && t.blocked.planned >= 0 && !r.batch[t.blocked.planned].Failed
	}
	r.finishStacks(depth)
	r.pair(s)
	r.readGCDetail(s)
	r.warm(t1)
	return nil
}

// gvlOff turns an offset within the struct that holds the scheduler into one within a ractor's block.
func (r *Reader) gvlOff(off int) int {
	if r.o.vmRactorSet >= 0 {
		return off - r.o.ractorBlock
	}
	return off
}

// readOwners finds the owner at the start and at the end of the call.
func (r *Reader) readOwners(rc *ractor, currentEC []byte) {
	if r.era != sampler.EraFlag {
		rc.owners[0] = r.threads[attach.Address(le64(rc.buf[r.gvlOff(r.o.gvlOwner):]))]
		rc.owners[1] = r.threads[attach.Address(le64(rc.end[:]))]
		return
	}
	// 2.5 has a flag; who runs is who has the current execution context.
	find := func(acquired uint64, ec attach.Address) *thread {
		if acquired == 0 {
			return nil
		}
		for _, t := range rc.threads {
			if attach.Address(le64(t.buf[r.o.thEC:])) == ec {
				return t
			}
		}
		return nil
	}
	rc.owners[0] = find(le64(rc.buf[r.o.gvlAcquired:]), attach.Address(le64(currentEC)))
	rc.owners[1] = find(le64(rc.end[:]), attach.Address(le64(rc.end2[:])))
}

// finishStacks takes the stacks that were planned, and reads again those that changed, were not planned although they are
// wanted, or belong to another fiber by now.
func (r *Reader) finishStacks(depth sampler.Depth) {
	r.retry = r.retry[:0]
	released, tries := 0, maxStackTries
	for _, t := range r.order {
		st := &t.stack
		st.quality &^= sampler.StackFresh
		if t.readIn != r.ticks {
			if depth == sampler.StackTick {
				st.quality |= sampler.StackFresh // looked at less than coldNS ago, and it has not taken part since
			}
			continue
		}
		ec := attach.Address(le64(t.buf[r.o.thEC:]))
		owner := t.owns()
		want := depth == sampler.StackTick || owner
		if !want && t.wasActive && !r.active(t) && released < maxReleased {
			// It has just released the GVL: its stack says what for.
			released++
			want = true
		}
		t.wasActive = owner || r.active(t)
		if !want {
			continue
		}
		if ec == 0 {
			st.ec = 0
			st.empty()
			continue
		}
		if ec != st.ec || st.planned < 0 {
			st.ec = ec
			if st.probing = !t.wasActive && r.probe(st); st.probing {
				tries = maxStackTries + 1
			}
			r.retry = append(r.retry, t)
			continue
		}
		if !r.finishStack(t, owner, false) {
			r.retry = append(r.retry, t)
		}
	}
	for try := 1; len(r.retry) > 0 && try <= tries; try++ {
		r.batch = r.batch[:0]
		bracketed := false
		for _, t := range r.retry {
			around := r.countsAround(t)
			if around {
				r.gc.planBefore(r)
				bracketed = true
			}
			r.planStack(t, !t.stack.probing)
			if around {
				r.gc.planAfter(r)
			}
		}
		calls, err := r.mem.ReadBatch(r.batch)
		if bracketed && err == nil {
			r.gc.take(r.batch) // a range that failed leaves the first difference, of nearly the same moment
		}
		r.reads.Calls += uint64(calls)
		r.reads.Retried += uint64(len(r.retry))
		left := r.retry[:0]
		for _, t := range r.retry {
			if err != nil {
				t.stack.fail()
			} else if !r.finishStack(t, t.owns(), try == tries) {
				left = append(left, t)
			}
			t.stack.probing = false
		}
		r.retry = left
	}
}

// owns tells whether a thread was named by the owner field at the start or at the end of the call.
func (t *thread) owns() bool { return t.ractor.owners[0] == t || t.ractor.owners[1] == t }

// active tells from a thread's own fields whether it holds the GVL or wants it.
func (r *Reader) active(t *thread) bool {
	return t.owns() || r.queued(t) ||
		sampler.Status(r.o.thStatus.get(t.buf)) == sampler.Runnable && le64(t.buf[r.o.thRegion:]) == 0
}

// queued tells whether the thread's own node is linked into the queue for the GVL. Up to 3.2 the node is shared with the
// list of threads to be unblocked, which it is on while unblock.func is set (facts-gvl, section 3).
func (r *Reader) queued(t *thread) bool {
	off := r.o.thReadyNode
	if off < 0 || !linked(t, off) {
		return false
	}
	return r.era == sampler.EraSched || le64(t.buf[r.o.thUnblockFunc:]) == 0
}

// linked: a removed node points at itself, a never used one is zero.
func linked(t *thread, off int) bool {
	next := le64(t.buf[off:])
	return next != 0 && next != uint64(t.addr)+uint64(off)
}

// fill makes the Sample from what was read.
func (r *Reader) fill(depth sampler.Depth, s *sampler.Sample) {
	s.Depth = depth
	s.Ractors = s.Ractors[:0]
	for _, rc := range r.ractors {
		s.Ractors = appendRactor(s.Ractors)
		r.fillRactor(rc, &s.Ractors[len(s.Ractors)-1])
	}
	s.Threads = s.Threads[:0]
	for _, t := range r.order {
		s.Threads = append(s.Threads, sampler.Thread{})
		r.fillThread(depth, t, &s.Threads[len(s.Threads)-1])
	}
	r.reads.Ticks++
	if depth == sampler.StackTick {
		r.reads.StackTicks++
	}
	s.Reads = r.reads
}

// appendRactor grows the slice by one element whose Queue keeps its capacity.
func appendRactor(list []sampler.Ractor) []sampler.Ractor {
	if len(list) < cap(list) {
		list = list[:len(list)+1]
		e := &list[len(list)-1]
		*e = sampler.Ractor{Queue: e.Queue[:0]}
		return list
	}
	return append(list, sampler.Ractor{})
}

func (r *Reader) fillRactor(rc *ractor, out *sampler.Ractor) {
	out.ID = rc.id
	if t := rc.owners[0]; t != nil {
		out.OwnerStart = t.id
	}
	if t := rc.owners[1]; t != nil {
		out.OwnerEnd = t.id
	}
	if r.era == sampler.EraFlag {
		out.Waiting = int32(le64(rc.buf[r.o.gvlWaiting:]))
		return
	}
	head := rc.base + attach.Address(r.gvlOff(r.o.gvlQueue))
	off := r.gvlOff(r.o.gvlQueue)
	prev, node := head, attach.Address(le64(rc.buf[off:]))
	for node != head {
		t := r.threads[node-attach.Address(r.o.thReadyNode)]
		if t == nil || len(out.Queue) >= len(rc.threads) || attach.Address(le64(t.buf[r.o.thReadyNode+8:])) != prev {
			out.Torn = true
			break
		}
		out.Queue = append(out.Queue, t.id)
		prev, node = node, attach.Address(le64(t.buf[r.o.thReadyNode:]))
	}
	out.Waiting = int32(len(out.Queue))
	if out.Torn {
		r.reads.Torn++
		out.Queue = out.Queue[:0]
		out.Waiting = 0
		for _, t := range rc.threads {
			if r.queued(t) {
				out.Waiting++
			}
		}
	}
}

func (r *Reader) fillThread(depth sampler.Depth, t *thread, out *sampler.Thread) {
	if depth == sampler.StackTick || t.info.ID == 0 {
		r.identify(t)
	}
	st := &t.stack
	out.ID, out.Ractor, out.TID = t.id, t.ractor.id, t.tid
	out.Status = sampler.Status(r.o.thStatus.get(t.buf))
	out.Stack, out.Quality, out.Omitted = st.id, st.quality, st.omitted
	if r.queued(t) {
		out.Bits |= sampler.BitQueued
	}
	owns := t.owns()
	if r.era == sampler.EraSched && linked(t, r.o.thRunningNode) || r.era != sampler.EraSched && owns {
		out.Bits |= sampler.BitLinked
	}
	if le64(t.buf[r.o.thRegion:]) != 0 {
		out.Bits |= sampler.BitBlockingRegion
	}
	if r.o.thNT >= 0 && le64(t.buf[r.o.thNT:]) == 0 {
		out.Bits |= sampler.BitUnmounted
	}
	if t.main {
		out.Bits |= sampler.BitMain
	}
	if st.ec == 0 || st.end == 0 && st.id == 0 {
		out.Bits |= sampler.BitStarting
	}
	if r.era == sampler.EraFlag {
		out.Bits |= sampler.BitInferred
	}
	if st.quality&sampler.StackFresh != 0 && t.readIn == r.ticks {
		r.count(st.quality)
		r.readResumers(t)
	}
	out.Resumers = st.fibers
	if owns || out.Bits&sampler.BitQueued != 0 || out.Status == sampler.Killed ||
		out.Status == sampler.Runnable && out.Bits&sampler.BitBlockingRegion == 0 {
		t.blocked.forget()
	} else if st.quality&sampler.StackFresh != 0 {
		r.describeBlocked(t)
	}
	out.Blocked = t.blocked.value
	out.Kernel = sampler.Kernel{FD: -1}
}

func (r *Reader) count(q sampler.StackQuality) {
	if q&sampler.StackPartial != 0 {
		r.reads.Partial++
	}
	if q&sampler.StackFailed != 0 {
		r.reads.Failed++
	}
	if q&sampler.StackUncertainTop != 0 {
		r.reads.Uncertain++
	}
	if q&sampler.StackTruncated != 0 {
		r.reads.Truncated++
	}
}

// RecheckOwner reads a ractor's owner once more and tells whether it still is the thread that the sample named: what the
// kernel said in between about that thread holds then for an owner (design, state stalled).
func (r *Reader) RecheckOwner(ractor sampler.RactorID, id sampler.ThreadID) bool {
	for _, rc := range r.ractors {
		if rc.id != ractor {
			continue
		}
		var w, ec [8]byte
		if r.era == sampler.EraFlag {
			if r.mem.Read(rc.base+attach.Address(r.o.gvlAcquired), w[:]) != nil || r.mem.Read(r.currentEC, ec[:]) != nil || le64(w[:]) == 0 {
				return false
			}
			t := rc.owners[1]
			return t != nil && t.id == id && t.stack.ec == attach.Address(le64(ec[:]))
		}
		if r.mem.Read(rc.base+attach.Address(r.gvlOff(r.o.gvlOwner)), w[:]) != nil {
			return false
		}
		t := r.threads[attach.Address(le64(w[:]))]
		return t != nil && t.id == id
	}
	return false
}
