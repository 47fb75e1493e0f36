package exact

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// maxQueued limits the changes of the GVL that wait for the next sample. They take about 7 MB. If there are more
// changes, the Collector drops all of them.
const maxQueued = 2 * sampler.MaxChanges

// List has the threads that a sample has seen. It finds a thread by the address of its rb_thread_t, Ruby's struct for a
// thread. After a List was published to other goroutines, it does not change.
type List struct{ byAddress map[uint64]listed }

type listed struct {
	id  sampler.ThreadID
	tid int32
}

// NewList returns an empty List with memory for a number of threads (room). The List can take more threads.
func NewList(room int) *List { return &List{make(map[uint64]listed, room)} }

// Add adds a thread. It must be called before the List is published. tid is 0 if the thread has no native thread yet.
func (l *List) Add(address uint64, id sampler.ThreadID, tid int32) {
	l.byAddress[address] = listed{id, tid}
}

// Thread returns the ID of the thread whose rb_thread_t has this address. It returns zero if there is no such thread,
// or if the thread's native thread is not tid.
func (l *List) Thread(address uint64, tid int32) sampler.ThreadID {
	if l == nil {
		return 0
	}
	if x := l.byAddress[address]; x.tid == tid {
		return x.id
	}
	return 0
}

// Collector puts changes of the GVL into samples. It gets the changes from a Machine, and each change gets into the
// Changes of the next sample. Only one goroutine may use a Collector.
type Collector struct {
	// queue has the changes that are not in a sample yet, in order of time. All are later than doneNS.
	queue []Change
	// lives has the state of each thread at the time doneNS. The key is the thread's number (Change.Life).
	lives map[uint64]*life
	// doneNS is the time up to which all changes were assigned to samples or dropped.
	doneNS int64
	// fresh is true if earlier changes are missing. Then the next sample's Changes must begin with the state of each
	// thread. lost is sampler.Reads.Lost of the last sample. If this number grows, samples were lost.
	fresh bool
	lost  uint64
	// list has the threads of the last sample. unnamed is the number of threads (lives) whose ThreadID is not known,
	// because no sample has listed them yet.
	list    *List
	unnamed int
	// out has the changes of the last sample. outLives has the thread (life) to which each of these changes belongs.
	// ended are the threads (lives) that have ended since the previous sample.
	out      []sampler.Change
	outLives []*life
	ended    []*life
	spare    []*life
	// started are the threads that got a native thread between the previous sample and this sample.
	started map[sampler.ThreadID]bool
}

// life is what is known about one thread from its first record to its end. If a later thread has the same address or
// the same native thread, it gets another life.
type life struct {
	number  uint64
	address uint64
	tid     int32
	id      sampler.ThreadID
	state   sampler.GVLState
	// sinceNS is the time from which on the thread is known to be in this state. A wait has two states, GVLQueued and
	// GVLChosen. For both of them, sinceNS is when the whole wait began.
	sinceNS int64
}

// NewCollector returns a Collector that reports the changes after fromNS, CLOCK_MONOTONIC in ns. It uses earlier
// changes only to find the state of each thread at fromNS.
func NewCollector(fromNS int64) *Collector {
	return &Collector{
		lives: make(map[uint64]*life), doneNS: fromNS, fresh: true, list: NewList(0), started: make(map[sampler.ThreadID]bool),
	}
}

// Changed adds a change that a Machine reports. Changes must come in order of time.
func (c *Collector) Changed(x *Change) {
	if len(c.queue) >= maxQueued {
		c.applyFirst(len(c.queue), c.queue[len(c.queue)-1].AtNS, false)
		c.fresh = true
	}
	c.queue = append(c.queue, *x)
}

// Fill sets a sample's Changes, which are valid until the next call of Fill. The caller must have added all changes up
// to the sample's time. list has the threads of the sample. It is nil if the threads are not known, or if the changes
// cannot be trusted. Then the sample gets no changes.
func (c *Collector) Fill(s *sampler.Sample, list *List) {
	s.Changes = sampler.Changes{}
	if s.Reads.Lost != c.lost {
		// Samples were lost, and with them their changes. So the receiver of samples does not know the threads' states
		// now. Begin this sample's changes with the states of all threads.
		c.lost, c.fresh = s.Reads.Lost, true
	}
	if s.TimeNS <= c.doneNS {
		c.fresh = true
		return
	}
	n, _ := slices.BinarySearchFunc(c.queue, s.TimeNS+1, func(x Change, at int64) int { return cmp.Compare(x.AtNS, at) })
	// Before the first sample, the queue can have changes up to doneNS, the time at which reporting begins. Use such
	// changes only for the states of threads, and do not report them.
	known, _ := slices.BinarySearchFunc(c.queue[:n], c.doneNS+1, func(x Change, at int64) int { return cmp.Compare(x.AtNS, at) })
	c.applyFirst(known, c.doneNS, false)
	n -= known
	if list == nil || n > sampler.MaxChanges {
		c.applyFirst(n, s.TimeNS, false)
		c.forget()
		c.fresh = true
		return
	}
	s.Changes.FromNS, s.Changes.ToNS, s.Changes.Fresh = c.doneNS, s.TimeNS, c.fresh
	c.begin()
	c.applyFirst(n, s.TimeNS, true)
	c.name(list, s.TimeNS)
	s.Changes.List = c.out
	c.forget()
}

// begin prepares the changes of a new sample. It empties c.out. If fresh is true, it then adds the state of each thread
// to c.out.
func (c *Collector) begin() {
	c.out, c.outLives = c.out[:0], c.outLives[:0]
	if !c.fresh {
		return
	}
	c.fresh = false
	for _, l := range c.lives {
		c.outLives = append(c.outLives, l)
	}
	slices.SortFunc(c.outLives, func(a, b *life) int { return cmp.Compare(a.number, b.number) })
	for _, l := range c.outLives {
		l.sinceNS = c.doneNS
		c.out = append(c.out, sampler.Change{AtNS: c.doneNS, TID: l.tid, State: l.state})
	}
}

// forget makes the memory of ended threads (lives) available for new threads.
func (c *Collector) forget() {
	c.spare = append(c.spare, c.ended...)
	c.ended = c.ended[:0]
}

// applyFirst removes the first n changes from the queue and updates the states of their threads. If emit is true, it
// also adds the changes to c.out, the list that the sample gets.
func (c *Collector) applyFirst(n int, untilNS int64, emit bool) {
	for i := range c.queue[:n] {
		x := &c.queue[i]
		l := c.lifeOf(x)
		if emit {
			c.out = append(c.out, sampler.Change{
				AtNS: x.AtNS, TID: x.TID, State: x.State, NoCPUNS: min(x.NoCPUNS, x.AtNS-l.sinceNS), Doubtful: x.Doubtful,
				Stack: x.Stack, Resumes: x.Resumes, Doing: x.Doing,
			})
			c.outLives = append(c.outLives, l)
		}
		c.apply(l, x)
	}
	if n == len(c.queue) {
		c.queue = c.queue[:0]
	} else if n > 0 {
		c.queue = slices.Delete(c.queue, 0, n)
	}
	c.doneNS = untilNS
}

func (c *Collector) lifeOf(x *Change) *life {
	l := c.lives[x.Life]
	if l == nil {
		if n := len(c.spare); n > 0 {
			l, c.spare = c.spare[n-1], c.spare[:n-1]
		} else {
			l = new(life)
		}
		*l = life{number: x.Life, address: x.Address, tid: x.TID, sinceNS: x.AtNS}
		c.lives[x.Life] = l
		c.unnamed++
	}
	return l
}

func (c *Collector) apply(l *life, x *Change) {
	if x.State != l.state && (x.State != sampler.GVLChosen || l.state != sampler.GVLQueued) {
		l.sinceNS = x.AtNS
	}
	l.state = x.State
	if x.State == sampler.GVLGone {
		delete(c.lives, l.number)
		c.ended = append(c.ended, l)
		if l.id == 0 {
			c.unnamed--
		}
	}
}

// name sets the ThreadIDs of the changes in c.out. It searches for these IDs in the lists of threads of this sample and
// of the previous sample.
func (c *Collector) name(list *List, nowNS int64) {
	clear(c.started)
	for _, l := range c.outLives {
		if l.id != 0 {
			continue
		}
		if l.state == sampler.GVLGone {
			if l.id = c.find(c.list, l); l.id == 0 {
				l.id = c.find(list, l)
			}
			continue
		}
		if l.id = c.find(list, l); l.id != 0 {
			c.unnamed--
		}
	}
	for i := range c.out {
		c.out[i].Thread = c.outLives[i].id
	}
	if list != c.list {
		c.rename(list, nowNS)
	}
	c.list = list
}

// rename adds changes for threads whose ThreadID has become known or has changed. These changes report the thread's
// present state under the new ID.
func (c *Collector) rename(list *List, nowNS int64) {
	say := func(l *life, state sampler.GVLState) {
		// The thread's state began before the thread got this ThreadID. So the change's time is later than the true
		// beginning of the state, and the change is doubtful.
		c.out = append(c.out, sampler.Change{AtNS: nowNS, Thread: l.id, TID: l.tid, State: state, Doubtful: state != sampler.GVLGone})
	}
	for _, l := range c.lives {
		id := c.find(list, l)
		if id == 0 || id == l.id {
			continue
		}
		if l.id != 0 {
			say(l, sampler.GVLGone)
		} else {
			c.unnamed--
		}
		l.id, l.sinceNS = id, nowNS
		say(l, l.state)
	}
}

// find returns the ThreadID of a life in a list, or zero if the list does not have the thread. If a thread in the list
// has no native thread yet, Ruby is about to start it. Its ThreadID belongs to the first life with its address.
func (c *Collector) find(list *List, l *life) sampler.ThreadID {
	x, ok := list.byAddress[l.address]
	switch {
	case !ok:
		return 0
	case x.tid == l.tid:
		return x.id
	case x.tid != 0:
		return 0
	case l.id == 0 && c.started[x.id]:
		return 0
	}
	c.started[x.id] = true
	return x.id
}
