package recording

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxRecent limits the length of changesState.recent. In a file, a change of the GVL names its thread by the index
	// in recent.
	maxRecent = 128
	// changesUnit is the unit of the times at which the GVL changes, in ns. It is used if all these times in a sample
	// are multiples of it, as in samples of a live process.
	changesUnit = 100
)

// changesState predicts the next changes of the GVL: which thread asks for the GVL, gets it or releases it. A file
// contains only what differs from the prediction.
type changesState struct {
	// toNS is the field ToNS of the previous sample: the time up to which that sample has the changes of the GVL. It is
	// zero if that sample had no changes.
	toNS int64
	// begun is true if an earlier sample of the block had changes of the GVL. complete is true if the map threads has
	// the state of each thread at toNS. After a time whose changes are missing, complete is false. Then the map has
	// only the threads that have changed since that time.
	begun, complete bool
	// threads are the living threads, by the ID of their native thread. Each native thread runs one Ruby thread at a
	// time.
	threads map[int32]*changing
	// recent has the threads with the latest changes, the latest first.
	recent []*changing
	list   []sampler.Change // memory of a decoder, reused for the changes of each sample
	// listed is the total number of changes of the GVL in the samples of the block.
	listed int
}

// changing is a thread with its latest state towards the GVL. The state is that the thread wants, holds or has released
// the GVL.
type changing struct {
	thread sampler.ThreadID
	tid    int32
	state  sampler.GVLState
	// known is true if the thread is one of changesState.threads.
	known bool
	// next has, for each state of this thread, the state that followed it the last time. That state is likely to follow
	// again.
	next [sampler.GVLHeld + 1]sampler.GVLState
}

// usualNext has, for each state, the state that usually follows it. A thread releases the GVL, waits for it and holds
// it, again and again.
var usualNext = [sampler.GVLHeld + 1]sampler.GVLState{
	sampler.GVLGone: sampler.GVLQueued, sampler.GVLReleased: sampler.GVLQueued, sampler.GVLQueued: sampler.GVLChosen,
	sampler.GVLChosen: sampler.GVLHeld, sampler.GVLHeld: sampler.GVLReleased,
}

// Flags that are written before the changes of the GVL in a sample, one bit each.
const (
	changesFresh = 1 << iota // this bit is the value of Fresh
	changesFine              // times are in ns, not in changesUnit
	changesFrom              // FromNS is not the previous sample's ToNS
	changesTo                // ToNS is not TimeNS
	// the states of all threads at FromNS follow; a reader needs them if it reads this block without the block before
	changesStates
)

// Bits of the number that begins each change of the GVL. The higher bits are the index of the thread in
// changesState.recent plus one. If the thread is not in this list, the higher bits are zero, and the thread's ID
// follows.
const (
	changeNoCPU = 1 << iota // NoCPUNS is not 0
	changeOdd               // the state is not the likely one, or the change is doubtful
	changeStack             // Stack and Resumes follow
	changeBits  = iota
)

// oddDoing is a bit in the number with the state of an odd change. A change is odd if its state is not the likely one
// (changeOdd). The bit means that the field Doing follows (since version 7).
const oddDoing = 1 << 4

// checkChanges returns an error for changes of the GVL that a reader of the recording would refuse.
func checkChanges(c *sampler.Changes) error {
	if len(c.List) > sampler.MaxChanges {
		return fmt.Errorf("%w: %d changes of the GVL in a sample", errLimit, len(c.List))
	}
	last := c.FromNS
	for i := range c.List {
		if x := &c.List[i]; x.AtNS < last || x.AtNS > c.ToNS || x.State > sampler.GVLHeld || x.Doing.Kind > sampler.DoingWorks {
			return fmt.Errorf("%w: number %d of %d, to state %d at %d ns, after %d and up to %d", errChanges, i, len(c.List), x.State, x.AtNS, last, c.ToNS)
		}
		last = c.List[i].AtNS
	}
	return nil
}

// reset prepares for a new block. An encoder remembers the threads' states from the block before. It writes them before
// the first changes of the new block.
func (st *changesState) reset() {
	st.recent, st.begun, st.listed = st.recent[:0], false, 0
}

// forget drops the states of all threads.
func (st *changesState) forget() {
	st.recent, st.complete = st.recent[:0], false
	if st.threads == nil {
		st.threads = make(map[int32]*changing)
	}
	clear(st.threads)
}

// find returns a thread and its index in the list recent, or -1 if the thread is not in the list. If the thread is not
// known, find returns a new one. The method move later adds the new thread to the map threads and to the list.
func (st *changesState) find(thread sampler.ThreadID, tid int32) (*changing, int) {
	t := st.threads[tid]
	if t == nil || t.thread != thread {
		return &changing{thread: thread, tid: tid, next: usualNext}, -1
	}
	return t, slices.Index(st.recent, t)
}

// move notes the new state of the thread t towards the GVL. at is the index of t in the list recent, or -1 if t is not
// in the list.
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

// know adds a thread to the map threads. It replaces another Ruby thread that ran on the same native thread.
func (st *changesState) know(t *changing) {
	if before := st.threads[t.tid]; before != nil {
		before.known = false
	}
	st.threads[t.tid], t.known = t, true
}

// changes writes the changes of the GVL in a sample, or reads them if w.reading is true. It is called only if all
// changes since the sample before are known, even if there are no changes. The file has the flags first, then the
// times, and then each change. A change has its thread, its state if it is not the likely one, and its times.
func (w *wire) changes(next *sampler.Changes) sampler.Changes {
	st := &w.changed
	scale := int64(changesUnit)
	var flags uint64
	if !w.reading {
		follows := next.FromNS == st.toNS && st.toNS != 0 && !next.Fresh
		for i := range next.List {
			if x := &next.List[i]; (x.AtNS-next.FromNS)%scale != 0 || x.NoCPUNS%scale != 0 {
				scale = 1
				break
			}
		}
		flags = bit(next.Fresh, changesFresh) | bit(scale == 1, changesFine) | bit(!follows || !st.begun, changesFrom) |
			bit(next.ToNS != w.sample.TimeNS, changesTo) | bit(follows && st.complete && !st.begun, changesStates)
	}
	flags = w.uint(flags)
	c := sampler.Changes{FromNS: st.toNS, ToNS: w.sample.TimeNS, Fresh: flags&changesFresh != 0}
	if flags&changesFine != 0 {
		scale = 1
	}
	if flags&changesFrom != 0 {
		c.FromNS = w.sample.TimeNS - w.time(w.sample.TimeNS-next.FromNS)
	}
	if flags&changesTo != 0 {
		c.ToNS += w.time(next.ToNS - w.sample.TimeNS)
	}
	states := flags&changesStates != 0
	// Without the threads' states in the file, a reader knows no thread's state from here on. So the writer must forget
	// the states as well.
	if (flags&changesFrom != 0 || c.Fresh) && (w.reading || !states) {
		st.forget()
	}
	if states {
		if st.begun {
			w.c.fail("states of threads within a block")
			return sampler.Changes{}
		}
		w.states()
	}
	st.begun, st.toNS, st.complete = true, c.ToNS, st.complete || c.Fresh
	n := w.length(len(next.List), sampler.MaxChanges, 1)
	if st.listed += n; st.listed > maxListedChanges {
		w.c.fail("too many changes in all samples")
		return sampler.Changes{}
	}
	st.list = st.list[:0]
	atNS := c.FromNS
	var y sampler.Change
	for i := range n {
		if !w.reading {
			x := &next.List[i]
			w.change(x, scale)
			w.out[streamTimes] = binary.AppendUvarint(w.out[streamTimes], uint64(x.AtNS-atNS)/uint64(scale))
			atNS = x.AtNS
			continue
		}
		w.change(&y, scale)
		step := w.times.uint()
		if c.ToNS < atNS || step > uint64(c.ToNS-atNS)/uint64(scale) {
			w.c.fail("changes out of their time")
		}
		if w.err() != nil {
			return sampler.Changes{}
		}
		atNS += int64(step) * scale
		y.AtNS = atNS
		st.list = append(st.list, y)
	}
	if n > 0 {
		c.List = st.list
	}
	return c
}

func (st *changesState) noChanges() {
	if st.toNS != 0 {
		st.forget()
		st.toNS = 0
	}
}

// change writes or reads a change of the GVL without its time. When it writes, it does not modify x, because other code
// may read the sample with x.
func (w *wire) change(x *sampler.Change, scale int64) {
	c, st := &w.c, &w.changed
	var t *changing
	place := -1
	var bits uint64
	does := false
	if w.reading {
		bits = c.uint()
	} else {
		t, place = st.find(x.Thread, x.TID)
		does = x.Doing != (sampler.Doing{})
		bits = uint64(place+1)<<changeBits | bit(x.NoCPUNS != 0, changeNoCPU) | bit(x.Doubtful || does || x.State != t.next[t.state], changeOdd) |
			bit(x.Stack != 0 || x.Resumes != 0, changeStack)
		w.put(bits)
	}
	switch n := bits >> changeBits; {
	case c.err != nil:
		return
	case n > uint64(len(st.recent)):
		c.fail("a thread that has not changed")
		return
	case n > 0:
		place = int(n) - 1
		t = st.recent[place]
	default:
		thread, tid := x.Thread, x.TID
		small(w, &thread, thread)
		w.signed(&tid, tid)
		w.name(thread)
		if w.reading {
			if t, place = st.find(thread, tid); place >= 0 {
				c.fail("a thread named twice")
			}
		}
	}
	state := t.next[t.state]
	v := uint64(state) << 1
	if bits&changeOdd != 0 {
		v = w.uint(uint64(x.State)<<1 | bit(x.Doubtful, 1) | bit(does, oddDoing))
		does = v&oddDoing != 0
		v &^= oddDoing
		state = w.gvlState(v >> 1)
	}
	noCPU, stack, resumes, doing := int64(0), sampler.StackID(0), sampler.StackID(0), sampler.Doing{}
	if bits&changeNoCPU != 0 {
		noCPU = w.count(x.NoCPUNS/scale) * scale
	}
	if bits&changeStack != 0 {
		stack = w.stacks.carry(w, x.Stack)
		resumes = w.stacks.carry(w, x.Resumes)
	}
	if does {
		doing = w.doing(x.Doing)
	}
	if w.reading {
		if w.err() != nil {
			return
		}
		*x = sampler.Change{
			Thread: t.thread, TID: t.tid, State: state, Doubtful: v&1 != 0, NoCPUNS: noCPU, Stack: stack, Resumes: resumes, Doing: doing,
		}
	}
	st.move(t, place, state)
}

func (w *wire) doing(next sampler.Doing) (d sampler.Doing) {
	v := w.uint(uint64(next.Kind)<<2 | bit(next.Left || next.Unfound, 2) | bit(next.Region, 1))
	d.Region, d.Left = v&1 != 0, v&2 != 0
	if d.Kind = sampler.DoingKind(v >> 2); v>>2 > uint64(sampler.DoingWorks) {
		w.c.fail("something that threads do not do")
	}
	if d.Kind == sampler.DoingWorks { // since version 13
		d.Work = w.works.carry(w, next.Work)
		d.Left, d.Unfound = false, d.Left && d.Work == 0
		return d
	}
	small(w, &d.Status, next.Status)
	d.Syscall = w.text(next.Syscall)
	w.signed(&d.FD, next.FD)
	w.signed(&d.FDs, next.FDs)
	d.Mutex = uint64(w.count(int64(next.Mutex)))
	return d
}

func (w *wire) gvlState(v uint64) sampler.GVLState {
	if v > uint64(sampler.GVLHeld) {
		w.c.fail("a state that threads do not have")
		return 0
	}
	return sampler.GVLState(v)
}

// states writes or reads the state of each thread towards the GVL, in the order of the native threads' IDs.
func (w *wire) states() {
	var list []*changing
	if !w.reading {
		list = w.changed.sorted()
	}
	thread, tid := int64(0), int64(0)
	for i := range w.length(len(list), maxThreads, 3) {
		t := &changing{}
		if !w.reading {
			t = list[i]
		}
		thread += w.int(int64(t.thread) - thread)
		tid += w.int(int64(t.tid) - tid)
		if thread != int64(uint32(thread)) || tid != int64(int32(tid)) {
			w.c.fail("a number too large")
		}
		state := w.gvlState(w.uint(uint64(t.state)))
		if w.c.err != nil {
			return
		}
		t.next = usualNext // a reader that begins with this block has no better prediction
		w.name(sampler.ThreadID(thread))
		if w.reading {
			t.thread, t.tid, t.state = sampler.ThreadID(thread), int32(tid), state
			w.changed.know(t)
		}
	}
	w.changed.complete = true
}

func (st *changesState) sorted() []*changing {
	list := make([]*changing, 0, len(st.threads))
	for _, t := range st.threads {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *changing) int { return cmp.Compare(a.tid, b.tid) })
	return list
}

// joint describes a receiver of samples: the time up to which it knows the changes of the GVL. The next samples must
// continue from this time.
type joint struct {
	// toNS is ToNS of the last sample that the receiver has. begun is true if the receiver has such a sample. It is
	// also true if the recording begins with the next sample.
	toNS  int64
	begun bool
}

// join changes the first sample for a receiver that lacks the changes of the GVL just before this sample. It replaces
// the sample's changes by the state of each thread at the sample's ToNS. Later changes continue from these states. If
// the states are not known, the sample gets no changes.
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
