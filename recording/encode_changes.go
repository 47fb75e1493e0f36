package recording

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxRecent is how many threads a change names by how long ago they changed last.
	maxRecent = 128
	// changesUnit is in how many ns the times of changes are written, where all of a sample are whole ones: those of a live
	// process are.
	changesUnit = 100
)

// changesState is what the changes of the GVL are written as the difference to.
type changesState struct {
	// toNS is ToNS of the sample before; 0: of then none are known.
	toNS int64
	// begun: the block has had changes. complete: threads holds the state of each thread at toNS, and not only of those that have
	// changed since there was a gap.
	begun, complete bool
	// threads are those that have not gone, by their native thread, which serves one of them at a time.
	threads map[int32]*changing
	// recent are those that changed last, the latest first.
	recent []*changing
	list   []sampler.Change // of a decoder: the memory of the sample's
	// listed is how many changes the samples of the block list in all.
	listed int
}

// changing is a thread as its last change left it.
type changing struct {
	thread sampler.ThreadID
	tid    int32
	state  sampler.GVLState
	// known: it is one of changesState.threads.
	known bool
	// next is what followed each state the last time, which it likely does again.
	next [sampler.GVLHeld + 1]sampler.GVLState
}

// usualNext is what follows a state of a thread that is new: it is released, waits and holds the GVL in turns.
var usualNext = [sampler.GVLHeld + 1]sampler.GVLState{
	sampler.GVLGone: sampler.GVLQueued, sampler.GVLReleased: sampler.GVLQueued, sampler.GVLQueued: sampler.GVLChosen,
	sampler.GVLChosen: sampler.GVLHeld, sampler.GVLHeld: sampler.GVLReleased,
}

// Bits of the flags of a sample's changes.
const (
	changesFresh  = 1 << iota // the value
	changesFine               // times are in ns, not in changesUnit
	changesFrom               // FromNS is not ToNS of the sample before
	changesTo                 // ToNS is not TimeNS
	changesStates             // the states at FromNS follow, for whoever reads this block and not the one before
)

// Bits of a change. Those above are the place of the thread in changesState.recent, one added; 0: it is named.
const (
	changeNoCPU = 1 << iota // NoCPUNS is not 0
	changeOdd               // the state is not the likely one, or the change is doubtful
	changeStack             // Stack and Resumes follow
	changeBits  = iota
)

// checkChanges refuses what could not be read again.
func checkChanges(c *sampler.Changes) error {
	if len(c.List) > sampler.MaxChanges {
		return fmt.Errorf("%w: %d changes of the GVL in a sample", errLimit, len(c.List))
	}
	last := c.FromNS
	for i := range c.List {
		if x := &c.List[i]; x.AtNS < last || x.AtNS > c.ToNS || x.State > sampler.GVLHeld {
			return fmt.Errorf("%w: number %d of %d, to state %d at %d ns, after %d and up to %d", errChanges, i, len(c.List), x.State, x.AtNS, last, c.ToNS)
		}
		last = c.List[i].AtNS
	}
	return nil
}

// reset goes back to the start of a block. What an encoder knows of the threads stays, for the next block says it.
func (st *changesState) reset() {
	st.recent, st.begun, st.listed = st.recent[:0], false, 0
}

// forget notes that nothing is known of the threads.
func (st *changesState) forget() {
	st.recent, st.complete = st.recent[:0], false
	if st.threads == nil {
		st.threads = make(map[int32]*changing)
	}
	clear(st.threads)
}

// find returns a thread and its place in recent; -1: it is not there, and new if it was not known at all.
func (st *changesState) find(thread sampler.ThreadID, tid int32) (*changing, int) {
	t := st.threads[tid]
	if t == nil || t.thread != thread {
		return &changing{thread: thread, tid: tid, next: usualNext}, -1
	}
	return t, slices.Index(st.recent, t)
}

// move notes a thread's change; at is its place in recent.
func (st *changesState) move(t *changing, at int, state sampler.GVLState) {
	if at < 0 {
		if len(st.recent) < maxRecent {
			st.recent = append(st.recent, nil)
		}
		at = len(st.recent) - 1
	}
	copy(st.recent[1:at+1], st.recent[:at])
	st.recent[0] = t
	t.next[t.state], t.state = state, state
	switch {
	case state == sampler.GVLGone:
		delete(st.threads, t.tid)
		t.known = false
	case !t.known:
		st.know(t)
		if len(st.threads) > maxThreads {
			st.forget()
		}
	}
}

// know adds a thread in place of one that its native thread served before.
func (st *changesState) know(t *changing) {
	if before := st.threads[t.tid]; before != nil {
		before.known = false
	}
	st.threads[t.tid], t.known = t, true
}

// changes writes the changes of a sample that has some, or knows that there were none: flags and limits in time, and each change: its
// thread, its state unless that is the likely one, and the times.
func (e *encoder) changes(c *sampler.Changes) {
	st := &e.changed
	follows := c.FromNS == st.toNS && st.toNS != 0 && !c.Fresh
	states := follows && st.complete && !st.begun
	unit := int64(changesUnit)
	for i := range c.List {
		if x := &c.List[i]; (x.AtNS-c.FromNS)%unit != 0 || x.NoCPUNS%unit != 0 {
			unit = 1
			break
		}
	}
	from, to := !follows || !st.begun, c.ToNS != e.sample.TimeNS
	e.uint(bit(c.Fresh, changesFresh) | bit(unit == 1, changesFine) | bit(from, changesFrom) | bit(to, changesTo) | bit(states, changesStates))
	if from {
		e.time(e.sample.TimeNS - c.FromNS)
	}
	if to {
		e.time(c.ToNS - e.sample.TimeNS)
	}
	switch {
	case states:
		e.states()
	case !follows || !st.begun:
		st.forget()
	}
	st.begun, st.toNS, st.complete = true, c.ToNS, st.complete || c.Fresh
	st.listed += len(c.List)
	e.uint(uint64(len(c.List)))
	at := c.FromNS
	for i := range c.List {
		x := &c.List[i]
		e.change(x, unit)
		e.out[streamTimes] = binary.AppendUvarint(e.out[streamTimes], uint64(x.AtNS-at)/uint64(unit))
		at = x.AtNS
	}
}

// noChanges notes that a sample has no changes.
func (st *changesState) noChanges() {
	if st.toNS != 0 {
		st.forget()
		st.toNS = 0
	}
}

func (e *encoder) change(x *sampler.Change, unit int64) {
	st := &e.changed
	t, at := st.find(x.Thread, x.TID)
	odd := x.Doubtful || x.State != t.next[t.state]
	stack := x.Stack != 0 || x.Resumes != 0
	e.uint(uint64(at+1)<<changeBits | bit(x.NoCPUNS != 0, changeNoCPU) | bit(odd, changeOdd) | bit(stack, changeStack))
	if at < 0 {
		e.uint(uint64(x.Thread))
		e.int(int64(x.TID))
		if e.local != nil && x.Thread != 0 {
			e.local.threads[x.Thread] = struct{}{}
		}
	}
	if odd {
		e.uint(uint64(x.State)<<1 | bit(x.Doubtful, 1))
	}
	if x.NoCPUNS != 0 {
		e.count(x.NoCPUNS / unit)
	}
	if stack {
		e.uint(e.stack(x.Stack))
		e.uint(e.stack(x.Resumes))
	}
	st.move(t, at, x.State)
}

// states writes the state of each thread, in the order of the native threads' ids.
func (e *encoder) states() {
	list := e.changed.sorted()
	e.uint(uint64(len(list)))
	last := changing{}
	for _, t := range list {
		e.int(int64(t.thread) - int64(last.thread))
		e.int(int64(t.tid) - int64(last.tid))
		e.uint(uint64(t.state))
		if last = *t; e.local != nil && t.thread != 0 {
			e.local.threads[t.thread] = struct{}{}
		}
		t.next = usualNext // a reader of this block knows no more
	}
}

func (st *changesState) sorted() []*changing {
	list := make([]*changing, 0, len(st.threads))
	for _, t := range st.threads {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *changing) int { return cmp.Compare(a.tid, b.tid) })
	return list
}

// changes reads the changes of a sample.
func (d *decoder) changes(s *sampler.Sample) {
	c, st := &d.c, &d.changed
	flags := c.uint()
	out := sampler.Changes{FromNS: st.toNS, ToNS: s.TimeNS, Fresh: flags&changesFresh != 0}
	unit := int64(changesUnit)
	if flags&changesFine != 0 {
		unit = 1
	}
	if flags&changesFrom != 0 {
		out.FromNS = s.TimeNS - d.times.int()
	}
	if flags&changesTo != 0 {
		out.ToNS += d.times.int()
	}
	if flags&changesFrom != 0 || out.Fresh {
		st.forget()
	}
	if flags&changesStates != 0 {
		if st.begun {
			c.fail("states of threads within a block")
			return
		}
		d.states()
	}
	st.begun, st.toNS, st.complete = true, out.ToNS, st.complete || out.Fresh
	n := c.count(sampler.MaxChanges, 1)
	if st.listed += n; st.listed > maxListedChanges {
		c.fail("too many changes in all samples")
		return
	}
	st.list = st.list[:0]
	at := out.FromNS
	for range n {
		x := d.change(unit)
		step := d.times.uint()
		if out.ToNS < at || step > uint64(out.ToNS-at)/uint64(unit) {
			c.fail("changes out of their time")
		}
		if d.err() != nil {
			return
		}
		at += int64(step) * unit
		x.AtNS = at
		st.list = append(st.list, x)
	}
	if n > 0 {
		out.List = st.list
	}
	s.Changes = out
}

func (d *decoder) change(unit int64) (x sampler.Change) {
	c, st := &d.c, &d.changed
	bits := c.uint()
	var t *changing
	at := -1
	switch place := bits >> changeBits; {
	case c.err != nil:
		return x
	case place > uint64(len(st.recent)):
		c.fail("a thread that has not changed")
		return x
	case place > 0:
		at = int(place) - 1
		t = st.recent[at]
	default:
		thread := sampler.ThreadID(c.uint32())
		if t, at = st.find(thread, c.int32()); at >= 0 {
			c.fail("a thread named twice")
		}
	}
	x = sampler.Change{Thread: t.thread, TID: t.tid, State: t.next[t.state]}
	if bits&changeOdd != 0 {
		v := c.uint()
		x.State, x.Doubtful = d.gvlState(v>>1), v&1 != 0
	}
	if bits&changeNoCPU != 0 {
		x.NoCPUNS = d.counts.int() * unit
	}
	if bits&changeStack != 0 {
		x.Stack, x.Resumes = d.stack(), d.stack()
	}
	if d.err() == nil {
		st.move(t, at, x.State)
	}
	return x
}

func (d *decoder) gvlState(v uint64) sampler.GVLState {
	if v > uint64(sampler.GVLHeld) {
		d.c.fail("a state that threads do not have")
		return 0
	}
	return sampler.GVLState(v)
}

// states reads the state of each thread.
func (d *decoder) states() {
	c, st := &d.c, &d.changed
	thread, tid := int64(0), int64(0)
	for range c.count(maxThreads, 3) {
		thread, tid = thread+c.int(), tid+c.int()
		if thread != int64(uint32(thread)) || tid != int64(int32(tid)) {
			c.fail("a number too large")
		}
		state := d.gvlState(c.uint())
		if c.err != nil {
			return
		}
		st.know(&changing{thread: sampler.ThreadID(thread), tid: int32(tid), state: state, next: usualNext})
	}
	st.complete = true
}

// joint is how far somebody who is handed samples knows the changes of the GVL.
type joint struct {
	// toNS is ToNS of the last sample; begun: there was one, or the recording begins with what comes.
	toNS  int64
	begun bool
}

// join makes the changes of the first sample of a block, or of a part of one, fit for somebody who has not had those just before: they
// begin anew, with the state of each thread at the sample's ToNS. Where these are not known, nothing is at the beginning of a part.
func (d *decoder) join(j joint) {
	c, st := &d.sample.Changes, &d.changed
	if !c.Known() || c.Fresh || c.FromNS == j.toNS || j.begun && !st.complete {
		return
	}
	to := c.ToNS
	if *c = (sampler.Changes{}); !st.complete {
		return
	}
	st.list = st.list[:0]
	for _, t := range st.sorted() {
		st.list = append(st.list, sampler.Change{AtNS: to, Thread: t.thread, TID: t.tid, State: t.state})
	}
	*c = sampler.Changes{FromNS: to, ToNS: to, Fresh: true, List: st.list}
}
