package ruby

import (
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxListTries is how often a changing list of threads is walked again before a tick is given up
// (docs/internals/threads.md#lists-of-threads).
const maxListTries = 6

// maxReleased is how many threads' stacks are read in a lock tick because they have just released the GVL.
const maxReleased = 64

// tickOutcome is what one reading of a tick has come to where the target could be read.
type tickOutcome uint8

const (
	// tickRead: the sample can be made.
	tickRead tickOutcome = iota
	// tickTorn: the lists of ractors and threads are not those known; they are to be walked again.
	tickTorn
	// tickLacksThread: a thread takes part in the scheduling, or has just done so, that a selective tick has not read. It is noted
	// as wanted.
	tickLacksThread
	// tickHeldUp: a selective tick was held up so long that all are to be read.
	tickHeldUp
)

// Read takes one sample. The slices of s are re-used. An error is attach.ErrGone when the target is gone, ErrListTorn
// when its threads came and went too fast for a consistent list (a failed tick: the next one may do), or what the kernel
// said. Nothing in s holds then.
func (r *Reader) Read(depth sampler.Depth, s *sampler.Sample) error {
	r.keepShare()
	r.boundStacks()
	r.begin()
	for range maxListTries {
		if r.budget.stopped.Load() {
			return r.failed(view.ErrStopped)
		}
		if len(r.order) == 0 {
			whole, err := r.walk()
			if err != nil {
				return r.failed(err)
			}
			if !whole {
				r.reads.Retried++
				continue
			}
		}
		r.sample++
		selective := r.maySelect(depth)
		if selective {
			r.peek()
		}
		outcome, err := r.snapshot(depth, s, selective)
		for again := 0; outcome == tickLacksThread; again++ {
			outcome, err = r.snapshot(depth, s, again < maxSelectiveTries)
		}
		if outcome == tickHeldUp {
			outcome, err = r.snapshot(depth, s, false)
		}
		if err == nil && outcome == tickTorn {
			r.reads.Retried++
			if _, err = r.walk(); err == nil {
				continue
			}
		}
		if err != nil {
			return r.failed(err)
		}
		r.fill(depth, s)
		return nil
	}
	return r.failed(ErrListTorn)
}

// walk is walkVM, and decides how long the next tick's may take: twice as long as this one did, or was allowed to.
func (r *Reader) walk() (whole bool, err error) {
	began := r.now()
	whole, err = r.walkVM()
	switch {
	case whole:
		r.budget.walkNS = min(2*(r.now()-began), maxWalkBudget)
	case errors.Is(err, errLongWalk):
		r.budget.walkNS = min(2*max(tickBudget, r.budget.walkNS), maxWalkBudget)
	}
	return whole, err
}

func (r *Reader) failed(err error) error {
	r.reads.Failed++
	r.filled = nil
	return fmt.Errorf("sampling process %d: %w", r.pid, err)
}

// snapshot does the one call of a tick, and the second one for stacks that changed or were not expected. A selective one
// reads only the threads that take part in the scheduling and some others, and gives up when one turns up that it
// would have to have read.
func (r *Reader) snapshot(depth sampler.Depth, s *sampler.Sample, selective bool) (tickOutcome, error) {
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
	r.planThreads(depth, selective)
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
	r.around = around
	if depth == sampler.StackTick {
		for _, t := range r.order {
			r.planHolder(t)
		}
	}
	for _, t := range r.read {
		t.stack.planned = -1
		if t.stack.ec == 0 {
			continue
		}
		owner := t.ractor.owners[1] == t
		if t == around {
			r.batch = r.gc.PlanBefore(r.batch)
		}
		if depth == sampler.StackTick || owner {
			r.planStack(t, owner || t.stack.quiet < quietAfter && !t.stack.rests)
		}
		if t == around {
			r.batch = r.gc.PlanAfter(r.batch)
			counted = true
		}
	}
	if !counted {
		r.batch = r.gc.PlanAfter(r.gc.PlanBefore(r.batch))
	}
	t0 := r.now()
	calls, err := r.mem.ReadBatch(r.batch)
	t1 := r.now()
	r.reads.Calls += uint64(calls)
	if err != nil {
		return tickRead, err
	}
	s.TimeNS, s.ReadNS = t0+(t1-t0)/2, t1-t0
	s.TimeNS -= s.TimeNS % 1000 // whole µs take less room in a recording, and the read took tens of them
	for i := range r.batch[:fixed] {
		if r.batch[i].Failed {
			return tickTorn, nil
		}
	}
	if selective && !r.selectionIntact() || !selective && !r.listIntact() {
		return tickTorn, nil
	}
	if selective && r.tooLate(t1) {
		return tickHeldUp, nil
	}
	r.allRead = r.allRead || !selective
	r.tickNS = t1
	for _, rc := range r.ractors {
		r.readOwners(rc, r.currentECBuf[:])
		if !r.takeQueue(rc, selective) {
			return tickLacksThread, nil
		}
	}
	s.GC = sampler.GC{}
	if r.gc != nil {
		r.gc.Take(r.batch, &s.GC)
	}
	r.collecting = s.GC.Valid && s.GC.During
	if err := r.dec.Revalidate(t1, s.GC); err != nil {
		return tickRead, err
	}
	if depth == sampler.StackTick {
		for _, t := range r.order {
			t.blocked.read = t.blocked.planned >= 0 && !r.batch[t.blocked.planned].Failed
		}
	}
	r.finishStacks(depth)
	r.pair(depth, s)
	r.readGCDetail(s)
	return tickRead, nil
}

// gvlOff turns an offset within the struct that holds the scheduler into one within a ractor's block.
func (r *Reader) gvlOff(off int) int {
	if r.o.vmRactorSet >= 0 {
		return off - r.o.ractorSet
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
	r.age(depth)
	first := r.budget.from
	r.budget.from = 0
	for i := range r.read {
		place := (first + i) % len(r.read)
		t := r.read[place]
		if r.over() {
			// What was known of the rest stays, without the mark of what is fresh.
			r.reads.Failed += uint64(len(r.read) - i)
			r.budget.from = place
			break
		}
		st := &t.stack
		ec := attach.Address(le64(t.buf[r.o.thEC:]))
		owner := t.owns()
		want := depth == sampler.StackTick || owner
		if !want && t.wasActive && !r.active(t) && released < maxReleased {
			// It has just released the GVL: its stack says what for.
			released++
			want = true
		}
		active := r.active(t)
		if active || t.wasActive {
			t.hotUntil, t.warmUntil = r.tickNS+hotNS, r.tickNS+warmNS
		}
		if active && t.place < 0 {
			t.movedNS = r.tickNS
		}
		t.wasActive = active
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
				r.batch = r.gc.PlanBefore(r.batch)
				bracketed = true
			}
			r.planStack(t, !t.stack.probing)
			if around {
				r.batch = r.gc.PlanAfter(r.batch)
			}
		}
		calls, err := r.mem.ReadBatch(r.batch)
		if bracketed && err == nil {
			r.gc.TakeCounters(r.batch) // a range that failed leaves the first difference, of nearly the same moment
		}
		r.reads.Calls += uint64(calls)
		r.reads.Retried += uint64(len(r.retry))
		left := r.retry[:0]
		for _, t := range r.retry {
			if r.over() {
				r.reads.Failed++
			} else if err != nil {
				t.stack.fail()
			} else if !r.finishStack(t, t.owns(), try == tries) {
				left = append(left, t)
			}
			t.stack.probing = false
		}
		r.retry = left
	}
}

// owns reports whether a thread was named by the owner field at the start or at the end of the call.
func (t *thread) owns() bool { return t.ractor.owners[0] == t || t.ractor.owners[1] == t }

// active reports, by a thread's own fields, whether it holds the GVL or wants it.
func (r *Reader) active(t *thread) bool {
	return t.owns() || r.queued(t) ||
		sampler.Status(r.o.thStatus.In(t.buf)) == sampler.Runnable && le64(t.buf[r.o.thRegion:]) == 0
}

// RecheckOwner reads a ractor's owner once more and reports whether it still is the thread that the sample named: what the
// kernel said in between about that thread holds then for an owner: the state stalled needs it.
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
