package ruby

import (
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxListTries limits how often a tick reads the lists of threads. It reads them again if they change while it reads
// them. After maxListTries, the tick fails (docs/internals/threads.md#lists-of-threads).
const maxListTries = 6

// maxReleased is for ticks that read only locks. Such a tick also reads the stacks of threads that have just released
// the GVL. maxReleased limits the number of these stacks.
const maxReleased = 64

// tickOutcome is the result of one reading of the target's memory in a tick. If the memory cannot be read at all, the
// caller gets an error instead.
type tickOutcome uint8

const (
	// tickRead means that the sample can be made.
	tickRead tickOutcome = iota
	// tickTorn means that the lists of ractors and threads have changed and must be read again.
	tickTorn
	// tickLacksThread means that a selective tick, which reads only some threads, has not read a thread that takes part
	// in the scheduling (selective.go). The next reading includes this thread.
	tickLacksThread
	// tickHeldUp means that a selective tick, which reads only some threads, was delayed for long. Its choice of
	// threads may be wrong, so all threads must be read.
	tickHeldUp
)

// Read takes one sample. It reuses the slices of s. The error is attach.ErrGone if the target has ended. It is
// ErrListTorn if threads came and went too fast for a consistent list. Then the next call may succeed. Any other error
// is from the kernel. After an error s is not valid.
func (r *Reader) Read(depth sampler.Depth, s *sampler.Sample) error {
	r.keepShare()
	r.stacks.boundStacks()
	r.begin()
	for range maxListTries {
		if r.budget.stopped.Load() {
			return r.failed(view.ErrStopped)
		}
		if len(r.list.order) == 0 {
			whole, err := r.walk()
			if err != nil {
				return r.failed(err)
			}
			if !whole {
				r.reads.Retried++
				continue
			}
		}
		r.list.sample++
		if r.choice.lookAt || len(r.choice.entered) > 0 {
			r.choice.takeEntered()
		}
		selective := r.choice.maySelect(depth)
		if selective {
			r.choice.peek()
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
		r.samples.fill(depth, s)
		return nil
	}
	return r.failed(ErrListTorn)
}

// walk calls walkVM, which reads the lists of threads. Then it sets the time limit for the next call of walkVM. This
// limit is twice the time that the present call took. If the present call exceeded its limit, the new limit is twice
// the old one.
func (r *Reader) walk() (whole bool, err error) {
	began := r.now()
	whole, err = r.list.walkVM()
	switch {
	case whole:
		r.counting.listRactors()
		r.samples.forget()
		r.stacks.deepenStacks()
		r.budget.walkNS = min(2*(r.now()-began), maxWalkBudget)
	case errors.Is(err, errLongWalk):
		r.budget.walkNS = min(2*max(tickBudget, r.budget.walkNS), maxWalkBudget)
	}
	return whole, err
}

func (r *Reader) failed(err error) error {
	r.reads.Failed++
	r.samples.filled = nil
	return fmt.Errorf("sampling process %d: %w", r.pid, err)
}

// snapshot makes the main call of a tick, which reads all planned memory. It makes further calls for stacks that
// changed, or were not at the expected place. If selective is true, it reads only the threads that take part in the
// scheduling (selective.go), and some others. If it needs a thread that it has not read, it ends early. The outcome is
// then tickLacksThread.
func (r *Reader) snapshot(depth sampler.Depth, s *sampler.Sample, selective bool) (tickOutcome, error) {
	r.planTick(depth, selective)
	t0 := r.now()
	err := r.readPlan(&r.plan)
	t1 := r.now()
	if err != nil {
		return tickRead, err
	}
	s.TimeNS, s.ReadNS = t0+(t1-t0)/2, t1-t0
	r.list.beganNS = t0
	// whole µs take less room in a recording, and are exact enough: the reading itself takes tens of µs
	s.TimeNS -= s.TimeNS % 1000
	if outcome := r.interpret(s, t1, selective); outcome != tickRead {
		return outcome, nil
	}
	if err := r.dec.Revalidate(t1, s.GC); err != nil {
		return tickRead, err
	}
	r.serving.dropUnreadWork()
	r.finishStacks(depth)
	r.serving.findWork(s.TimeNS, t0, r.waiting.born)
	r.counting.pair(depth, s)
	r.counting.readGCDetail(s)
	return tickRead, nil
}

// planTick plans everything that the main call of a tick reads. It asks selection.needs which threads to read, and
// stackPlan.decide how to read a stack.
func (r *Reader) planTick(depth sampler.Depth, selective bool) {
	r.list.ticks++
	r.plan.reset()
	r.plan.begin(forSchedulers, nil)
	if r.o.VMRactorSet >= 0 {
		r.add(r.vm.Addr+attach.Address(r.o.VMRactorSet), r.list.vmHead[:])
	}
	if r.gvl.currentEC != 0 {
		r.add(r.gvl.currentEC, r.gvl.currentECBuf[:])
	}
	// The main call of a tick first reads the GVL's owners, then the threads' words, then the owners again, and after
	// these the stacks. To know a thread's state, ddtop needs the thread's words and the GVL's owner from the same
	// instant. If the GVL changes hands in between, the two readings of the owner differ.
	for _, rc := range r.list.ractors {
		r.add(rc.base, rc.buf)
	}
	r.choice.planThreads(depth, selective)
	r.plan.begin(forOwners, nil)
	for _, rc := range r.list.ractors {
		if r.gvl.currentEC != 0 {
			r.add(rc.base+attach.Address(r.gvlOff(r.o.GVLAcquired)), rc.end[:])
			r.add(r.gvl.currentEC, rc.end2[:])
			continue
		}
		r.add(rc.base+attach.Address(r.gvlOff(r.o.GVLOwner)), rc.end[:])
	}
	r.plan.needed = len(r.plan.ranges)
	around := r.counting.bracket()
	if around != nil && around.stack.ec == 0 {
		around = nil
	}
	counted := r.gc == nil
	r.counting.around = around
	if depth == sampler.StackTick {
		for _, t := range r.list.order {
			r.blocking.planHolder(t)
		}
	}
	for _, t := range r.list.read {
		t.stack.plan.at = -1
		t.serves.unplan()
		t.still = r.choice.standsStill(t)
		if t.stack.ec == 0 || t.still {
			continue
		}
		owner := t.ractor.owners[1] == t
		if t == around {
			r.counting.countBefore()
		}
		if owner || t.asked() || depth == sampler.StackTick && t.stack.quiet < quietAfter && !t.stack.rests {
			r.stacks.planStack(&r.plan, t, stackMoving)
		} else if depth == sampler.StackTick {
			r.stacks.planStack(&r.plan, t, stackStill)
		}
		if t.stack.plan.at >= 0 {
			r.serving.planWork(t)
		}
		if t == around {
			r.counting.countAfter()
			counted = true
		}
	}
	if !counted {
		r.counting.countBefore()
		r.counting.countAfter()
	}
}

// countBefore and countAfter plan to read the collector's counters, before and after a thread's frames. At some ticks,
// countBefore plans two readings in a row, called a pair. The objects counted between these two readings were allocated
// by the thread whose frames are read next. So ddtop attributes the objects to these frames.
func (r *collector) countBefore() {
	r.plan.begin(forCounters, nil)
	r.plan.ranges = r.gc.PlanBefore(r.plan.ranges)
}

func (r *collector) countAfter() {
	r.plan.begin(forCountersAgain, nil)
	r.plan.ranges = r.gc.PlanAfter(r.plan.ranges)
}

// interpret evaluates what a tick has read, except the stacks: lists, owners of the GVL, queues, holders of Mutexes,
// and the collector. It reads more memory only for threads that it finds in a queue (meet, readRest).
func (r *Reader) interpret(s *sampler.Sample, nowNS int64, selective bool) tickOutcome {
	if r.plan.failed(0, r.plan.needed) || selective && !r.list.selectionIntact() || !selective && !r.list.listIntact() {
		return tickTorn
	}
	if selective && r.choice.tooLate(nowNS) {
		return tickHeldUp
	}
	r.list.allRead = r.list.allRead || !selective
	r.list.tickNS = nowNS
	for _, rc := range r.list.ractors {
		r.gvl.readOwners(rc, r.gvl.currentECBuf[:])
		if !r.gvl.takeQueue(rc, selective) {
			return tickLacksThread
		}
	}
	s.GC = sampler.GC{}
	if r.gc != nil {
		r.gc.Take(r.plan.ranges, &s.GC)
	}
	r.collecting = s.GC.Valid && s.GC.During
	for _, x := range r.plan.parts {
		if x.what == forHolder {
			x.thread.blocked.read = !r.plan.ranges[x.from].Failed
		}
	}
	return tickRead
}

// gvlOff converts an offset in the scheduler's struct into an offset in a ractor's buf. From 3.0 on, buf begins in the
// middle of the struct.
func (r *target) gvlOff(off int) int {
	if r.o.VMRactorSet >= 0 {
		return off - r.o.RactorSet
	}
	return off
}

// readOwners finds which thread owned the GVL at the start and at the end of the call.
func (r *gvlReader) readOwners(rc *ractor, currentEC []byte) {
	if r.era != sampler.EraFlag {
		rc.owners[0] = r.list.threads[attach.Address(le64(rc.buf[r.gvlOff(r.o.GVLOwner):]))]
		rc.owners[1] = r.list.threads[attach.Address(le64(rc.end[:]))]
		return
	}
	// 2.5 has only a flag that shows whether the GVL is taken. If the GVL is taken, the owner is the thread with the
	// current execution context.
	find := func(acquired uint64, ec attach.Address) *thread {
		if acquired == 0 {
			return nil
		}
		for _, t := range rc.threads {
			if attach.Address(le64(t.buf[r.o.ThEC:])) == ec {
				return t
			}
		}
		return nil
	}
	rc.owners[0] = find(le64(rc.buf[r.o.GVLAcquired:]), attach.Address(le64(currentEC)))
	rc.owners[1] = find(le64(rc.end[:]), attach.Address(le64(rc.end2[:])))
}

// finishStacks evaluates the stacks that the plan has read. It makes a further read for a stack that changed, that is
// needed but was not planned, or that now belongs to another fiber.
func (r *Reader) finishStacks(depth sampler.Depth) {
	r.retry = r.retry[:0]
	released, tries := 0, maxStackTries
	r.samples.age(depth)
	first := min(r.budget.from, len(r.list.read))
	r.budget.from = 0
	for i := range r.list.read {
		place := first + i
		if place >= len(r.list.read) {
			place -= len(r.list.read)
		}
		t := r.list.read[place]
		if r.budget.spent && r.over() {
			// The tick has no time left. The remaining threads keep their last known stacks, but these are not marked
			// as fresh.
			r.reads.Failed += uint64(len(r.list.read) - i)
			r.budget.from = place
			break
		}
		st := &t.stack
		ec := attach.Address(le64(t.buf[r.o.ThEC:]))
		owner := t.owns()
		want, active := depth == sampler.StackTick || owner || t.asked(), r.active(t)
		if !want && t.wasActive && !active && released < maxReleased {
			// This thread has just released the GVL. Its stack shows why, so it must be read.
			released++
			want = true
		}
		if active || t.wasActive {
			t.hotUntil, t.warmUntil = r.list.tickNS+hotNS, r.list.tickNS+warmNS
		}
		if active && t.place < 0 {
			t.movedNS = r.list.tickNS
		}
		t.wasActive = active
		if t.still && (owner || ec != st.ec) {
			t.still = false // the thread has just moved, so its stack must be read
		}
		if t.still {
			st.quality |= sampler.StackFresh
			continue
		}
		if !want {
			continue
		}
		if ec == 0 {
			st.ec = 0
			st.empty()
			continue
		}
		if ec != st.ec || st.plan.at < 0 {
			st.ec, st.next = ec, stackMoving
			if !t.wasActive && r.stacks.probe(st) {
				st.next, tries = stackResting, maxStackTries+1
			}
			t.serves.unplan()
			r.retry = append(r.retry, t)
			continue
		}
		if !r.stacks.finishStack(&r.plan, t, owner, false) {
			t.serves.unplan()
			r.retry = append(r.retry, t)
		}
	}
	for try := 1; len(r.retry) > 0 && try <= tries; try++ {
		r.readAgain(try == tries)
	}
	for _, t := range r.list.read {
		if !t.still && t.stack.quality&sampler.StackFresh != 0 {
			t.lookNS, t.serves.looks = r.list.beganNS, 0
		}
	}
}

// readAgain reads the stacks in r.retry in a further call. It leaves in r.retry the stacks that must be read once more.
func (r *Reader) readAgain(last bool) {
	r.plan.reset()
	bracketed := false
	for _, t := range r.retry {
		around := r.counting.countsAround(t)
		if around {
			r.counting.countBefore()
			bracketed = true
		}
		r.stacks.planStack(&r.plan, t, t.stack.next)
		if around {
			r.counting.countAfter()
		}
	}
	err := r.readPlan(&r.plan)
	if bracketed && err == nil {
		// if this call could not read the counters, their values from the first call stay, which are nearly as recent
		r.gc.TakeCounters(r.plan.ranges)
	}
	r.reads.Retried += uint64(len(r.retry))
	left := r.retry[:0]
	for _, t := range r.retry {
		if r.over() {
			r.reads.Failed++
		} else if err != nil {
			t.stack.fail()
		} else if !r.stacks.finishStack(&r.plan, t, t.owns(), last) {
			left = append(left, t)
		}
	}
	r.retry = left
}

// owns reports whether the GVL's owner field pointed to the thread at the start or at the end of the call.
func (t *thread) owns() bool { return t.ractor.owners[0] == t || t.ractor.owners[1] == t }

// active reports whether a thread holds the GVL or wants it. It decides this by the thread's own fields.
func (r *target) active(t *thread) bool {
	return t.owns() || r.queued(t) ||
		sampler.Status(r.o.ThStatus.In(t.buf)) == sampler.Runnable && le64(t.buf[r.o.ThRegion:]) == 0
}

// RecheckOwner reads the owner of a ractor's GVL again, and reports whether the owner is still the thread with the
// given id. ddtop calls it after it has asked the kernel for the thread's state. If the result is true, the thread held
// the GVL while the kernel answered. The state stalled (a holder without a CPU) needs this proof.
func (r *Reader) RecheckOwner(ractor sampler.RactorID, id sampler.ThreadID) bool {
	for _, rc := range r.list.ractors {
		if rc.id != ractor {
			continue
		}
		if r.era == sampler.EraFlag {
			t, ec := rc.owners[1], r.addressAt(r.gvl.currentEC)
			return t != nil && t.id == id && ec != 0 && ec == t.stack.ec && r.wordAt(rc.base+attach.Address(r.o.GVLAcquired)) != 0
		}
		t := r.list.threads[r.addressAt(rc.base+attach.Address(r.gvlOff(r.o.GVLOwner)))]
		return t != nil && t.id == id
	}
	return false
}
