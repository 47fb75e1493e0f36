package recording

import (
	"math/rand/v2"

	"github.com/ddtop/ddtop/sampler"
)

// lockModel makes the changes of a GVL. In turn, a thread does not want the GVL, queues for it, is chosen to get it,
// and holds it. lockModel has a separate source of random numbers, so that the generated files of older versions stay
// the same.
type lockModel struct {
	doings  bool // changes also say what threads do
	r       *rand.Rand
	threads []modelThread
	queue   []int // indices of the threads that wait for the GVL; the first one gets it next
	holder  int   // the thread that holds the GVL or is chosen to get it, or -1 if there is none
	atNS    int64 // the time up to which changes were made
	nextID  sampler.ThreadID
	samples int
	// unitNS is the unit of all times. holdNS is the mean time for which a thread holds the GVL. outsideNS is the mean
	// time for which it does not want the GVL.
	unitNS, holdNS, outsideNS int64
}

type modelThread struct {
	id       sampler.ThreadID
	tid      int32
	state    sampler.GVLState
	changeNS int64 // when the state ends; it is not known for a thread in the queue
	delayNS  int64
}

func newLockModel(seed uint64) *lockModel {
	return &lockModel{r: rand.New(rand.NewPCG(seed, 8)), holder: -1, nextID: 1, unitNS: 100, holdNS: 30_000, outsideNS: 200_000}
}

// add adds a thread that does not want the GVL. If listed is true, samples list the thread.
func (m *lockModel) add(listed bool) {
	t := modelThread{tid: int32(4000 + m.nextID), state: sampler.GVLReleased, changeNS: m.later(m.outsideNS)}
	if listed {
		t.id = m.nextID
	}
	m.nextID++
	m.threads = append(m.threads, t)
}

func (m *lockModel) later(meanNS int64) int64 {
	ns := m.atNS + int64(m.r.ExpFloat64()*float64(meanNS))
	return max(ns-ns%m.unitNS, m.atNS)
}

// upTo makes the changes up to a time, and returns them.
func (m *lockModel) upTo(toNS int64) (list []sampler.Change) {
	for {
		next := -1
		for i := range m.threads {
			if m.threads[i].state != sampler.GVLQueued && (next < 0 || m.threads[i].changeNS < m.threads[next].changeNS) {
				next = i
			}
		}
		if next < 0 || m.threads[next].changeNS > toNS {
			return list
		}
		m.atNS = max(m.atNS, m.threads[next].changeNS)
		switch t := &m.threads[next]; t.state {
		case sampler.GVLReleased:
			list = append(list, m.change(next, sampler.GVLQueued))
			m.queue = append(m.queue, next)
		case sampler.GVLChosen:
			t.delayNS = m.later(4000) - m.atNS
			list = append(list, m.change(next, sampler.GVLHeld))
			t.changeNS = m.later(m.holdNS)
		case sampler.GVLHeld:
			m.holder = -1
			list = append(list, m.change(next, sampler.GVLReleased))
			t.changeNS = m.later(m.outsideNS)
		}
		if m.holder < 0 && len(m.queue) > 0 {
			m.holder, m.queue = m.queue[0], m.queue[1:]
			list = append(list, m.change(m.holder, sampler.GVLChosen))
			m.threads[m.holder].changeNS = m.later(15_000)
		}
	}
}

func (m *lockModel) change(i int, to sampler.GVLState) sampler.Change {
	t := &m.threads[i]
	c := sampler.Change{AtNS: m.atNS, Thread: t.id, TID: t.tid, State: to, NoCPUNS: t.delayNS}
	if n := m.atNS / 100; m.doings && n%3 == 0 {
		c.Doing = sampler.Doing{
			Kind: sampler.DoingKind(n % 4), Syscall: []string{"", "read", "futex"}[n/4%3], FD: int32(n%50) - 1, FDs: int32(n % 3),
			Status: sampler.Status(n / 7 % 4), Region: n%2 == 0, Left: n%5 == 0, Mutex: uint64(n % 1000 * 8),
		}
	}
	t.state, t.delayNS = to, 0
	return c
}

// fill makes the changes of the GVL from fromNS to toNS. If fresh is true, the list begins with the states of all
// threads.
func (m *lockModel) fill(c *sampler.Changes, fromNS, toNS int64, fresh bool) {
	*c = sampler.Changes{FromNS: fromNS, ToNS: toNS, Fresh: fresh}
	if m.atNS = max(m.atNS, fromNS); fresh {
		for _, t := range m.threads {
			c.List = append(c.List, sampler.Change{AtNS: fromNS, Thread: t.id, TID: t.tid, State: t.state})
		}
	}
	c.List = append(c.List, m.upTo(toNS)...)
}

// wildChanges makes random changes of the GVL since the sample before, of any kind that the format allows.
func (g *generator) wildChanges() {
	m, c := g.lock, &g.s.Changes
	n, last := m.samples, c.ToNS
	m.doings = true
	m.samples++
	m.holdNS, m.outsideNS = 2e6, 1e8
	if *c = (sampler.Changes{}); g.noChanges || n%23 > 17 {
		return
	}
	fresh := last == 0 && n%3 > 0
	switch {
	case n%11 == 5:
		last = g.s.TimeNS - 1e6 // leaves out changes, so that the recording has a gap
	case last == 0:
		last = g.s.TimeNS - 5e6
	}
	m.unitNS = []int64{100, 100, 100, 1}[n/3%4]
	last = min(last, g.s.TimeNS)
	if m.add(n%4 > 0); n%5 == 0 {
		m.nextID += sampler.ThreadID(m.r.IntN(1000))
	}
	m.fill(c, last, g.s.TimeNS, fresh)
	for i := range c.List {
		x := &c.List[i]
		x.Doubtful = m.r.IntN(50) == 0
		if x.State == sampler.GVLHeld && m.r.IntN(3) > 0 {
			x.Stack, x.Resumes = g.stacks[m.r.IntN(len(g.stacks))], g.stacks[m.r.IntN(len(g.stacks))]
		}
		if !g.noBegun && x.Doing.Kind != sampler.DoingUnknown && i%4 == 0 {
			x.Doing = sampler.Doing{Kind: sampler.DoingWorks, Work: g.works[i/4%len(g.works)]}
			x.Doing.Unfound = x.Doing.Work == 0 && i%8 == 0
		}
		if m.r.IntN(50) == 0 {
			x.State = sampler.GVLState(m.r.IntN(int(sampler.GVLHeld) + 1))
		}
	}
	if len(m.threads) > 20 && m.holder != 0 && m.threads[0].state == sampler.GVLReleased {
		c.List = append(c.List, sampler.Change{AtNS: c.ToNS, Thread: m.threads[0].id, TID: m.threads[0].tid})
		m.threads = m.threads[1:]
		for i := range m.queue {
			m.queue[i]--
		}
		if m.holder--; m.holder < -1 {
			m.holder = -1
		}
	}
}
