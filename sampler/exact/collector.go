package exact

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// maxQueued bounds the changes that wait for their sample, about 7 MB. If there are more, all are dropped.
const maxQueued = 2 * sampler.MaxChanges

// List says which threads a sample has, by the addresses of their rb_thread_t. It does not change.
type List struct{ byAddress map[uint64]listed }

type listed struct {
	id  sampler.ThreadID
	tid int32
}

// NewList returns a List of no threads, with room for some.
func NewList(room int) *List { return &List{make(map[uint64]listed, room)} }

// Add adds a thread. It must be called before the List is published. tid is 0 while the thread has no native thread.
func (l *List) Add(address uint64, id sampler.ThreadID, tid int32) {
	l.byAddress[address] = listed{id, tid}
}

// Thread returns the thread at an address. It is zero if there is none, or none with that native thread.
func (l *List) Thread(address uint64, tid int32) sampler.ThreadID {
	if l == nil {
		return 0
	}
	if x := l.byAddress[address]; x.tid == tid {
		return x.id
	}
	return 0
}

// Collector makes the Changes of samples from the reports of a Machine (Watch). One goroutine uses it.
type Collector struct {
	// queue are the changes after doneNS, in order of time. The first head of them have been taken.
	queue []Change
	// lives are the states of the threads at doneNS.
	lives map[uint64]*life
	// doneNS is the time up to which changes have been taken or dropped.
	doneNS int64
	// fresh is true if the next Changes begin with the state of each thread. lost is sampler.Reads.Lost of the last
	// sample.
	fresh bool
	lost  uint64
	// list is the list of the last sample. unnamed is the number of lives without a ThreadID.
	list    *List
	unnamed int
	// out are the changes of the last sample, of the threads that they belong to. ended are the lives that ended
	// meanwhile.
	out   []sampler.Change
	of    []*life
	ended []*life
	spare []*life
	// started are the threads that got a native thread between the last sample and this one.
	started map[sampler.ThreadID]bool
}

// life is a thread from its first record to its end.
type life struct {
	number  uint64
	address uint64
	tid     int32
	id      sampler.ThreadID
	state   sampler.GVLState
	// sinceNS is since when it is known to have been in that state, or in the wait that this is part of.
	sinceNS int64
}

// NewCollector returns a Collector that believes changes from a time on, CLOCK_MONOTONIC in ns. Earlier changes only
// say in which states threads were at that time.
func NewCollector(fromNS int64) *Collector {
	return &Collector{
		lives: make(map[uint64]*life), doneNS: fromNS, fresh: true, list: NewList(0), started: make(map[sampler.ThreadID]bool),
	}
}

// Changed adds a change. Changes come in order of time.
func (c *Collector) Changed(x *Change) {
	if len(c.queue) >= maxQueued {
		c.take(len(c.queue), c.queue[len(c.queue)-1].AtNS, false)
		c.fresh = true
	}
	c.queue = append(c.queue, *x)
}

// Fill sets a sample's Changes. They are valid until the next call. All changes up to the sample's time must have come.
// list has the threads of the sample. If it is nil, because it is not known or the changes are not believed, the sample
// gets no changes.
func (c *Collector) Fill(s *sampler.Sample, list *List) {
	s.Changes = sampler.Changes{}
	if s.Reads.Lost != c.lost {
		// A receiver of samples knows nothing of the time of lost ones.
		c.lost, c.fresh = s.Reads.Lost, true
	}
	if s.TimeNS <= c.doneNS {
		c.fresh = true
		return
	}
	n, _ := slices.BinarySearchFunc(c.queue, s.TimeNS+1, func(x Change, at int64) int { return cmp.Compare(x.AtNS, at) })
	// Changes before doneNS, at the very beginning, only give the states.
	known, _ := slices.BinarySearchFunc(c.queue[:n], c.doneNS+1, func(x Change, at int64) int { return cmp.Compare(x.AtNS, at) })
	c.take(known, c.doneNS, false)
	n -= known
	if list == nil || n > sampler.MaxChanges {
		c.take(n, s.TimeNS, false)
		c.forget()
		c.fresh = true
		return
	}
	s.Changes.FromNS, s.Changes.ToNS, s.Changes.Fresh = c.doneNS, s.TimeNS, c.fresh
	c.begin()
	c.take(n, s.TimeNS, true)
	c.name(list, s.TimeNS)
	s.Changes.List = c.out
	c.forget()
}

// begin empties out. If fresh is true, it puts the states of all threads there.
func (c *Collector) begin() {
	c.out, c.of = c.out[:0], c.of[:0]
	if !c.fresh {
		return
	}
	c.fresh = false
	for _, l := range c.lives {
		c.of = append(c.of, l)
	}
	slices.SortFunc(c.of, func(a, b *life) int { return cmp.Compare(a.number, b.number) })
	for _, l := range c.of {
		l.sinceNS = c.doneNS
		c.out = append(c.out, sampler.Change{AtNS: c.doneNS, TID: l.tid, State: l.state})
	}
}

// forget frees what belongs to ended threads.
func (c *Collector) forget() {
	c.spare = append(c.spare, c.ended...)
	c.ended = c.ended[:0]
}

// take removes the first n changes from the queue and applies them to the states. If tell is true, it also adds them
// to out.
func (c *Collector) take(n int, untilNS int64, tell bool) {
	for i := range c.queue[:n] {
		x := &c.queue[i]
		l := c.lifeOf(x)
		if tell {
			c.out = append(c.out, sampler.Change{
				AtNS: x.AtNS, TID: x.TID, State: x.State, NoCPUNS: min(x.NoCPUNS, x.AtNS-l.sinceNS), Doubtful: x.Doubtful,
				Stack: x.Stack, Resumes: x.Resumes, Doing: x.Doing,
			})
			c.of = append(c.of, l)
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

// name sets the ThreadIDs in out, by the lists of the sample before and of this one.
func (c *Collector) name(list *List, nowNS int64) {
	clear(c.started)
	for _, l := range c.of {
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
		c.out[i].Thread = c.of[i].id
	}
	if list != c.list {
		c.rename(list, nowNS)
	}
	c.list = list
}

// rename adds changes for threads whose ThreadIDs are known only from now on.
func (c *Collector) rename(list *List, nowNS int64) {
	say := func(l *life, state sampler.GVLState) {
		// Since when it is in that state is known of a thread without a number, or of another number, only.
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

// find returns the ThreadID of a life by a list. It is zero if the list has no such thread. A thread that a list has
// without a native thread is the first life with its address.
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
