package flamegraph

import (
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxSegments bounds the changes of tag remembered between two readings of one thread's stack. Past it the last
	// segment is lengthened: with 1 kHz and 100 Hz there are at most 10.
	maxSegments = 128
	// maxCPUShares bounds the stacks among which the CPU time between two readings of schedstat is shared.
	maxCPUShares = 64
)

// Meaning tells a Collector what tags mean.
type Meaning struct {
	// Waiting are the tags of threads that want the GVL and lack it; Held those of threads that hold it.
	Waiting, Held TagSet
	// OnCPU are the tags in which a thread can use a CPU: its CPU time is charged to the stacks seen with them, if any.
	OnCPU TagSet
	// GapNS is the length of an interval between two samples past which nothing is known of the time in it: it goes to
	// GapTag and the empty stack, and Collector.NotSampledNS counts it. SlowGapNS is the same while Sample.Slow is set.
	// 0: no interval is too long.
	GapNS, SlowGapNS int64
	GapTag           uint8
}

// segment is a stretch of time with one tag.
type segment struct {
	fromNS, toNS int64
	tag          uint8
}

type cpuShare struct {
	key Key
	ns  int64
}

// threadState is what a Collector remembers of a thread between ticks.
type threadState struct {
	id       sampler.ThreadID
	seen     uint64 // number of the tick it was last listed in
	lastNS   int64  // time up to which segments reach
	lastTag  uint8
	stack    sampler.StackID // at the last reading
	stackTag uint8
	segments []segment // since the last reading, in order

	tid      int32
	cpuAtNS  int64
	cpuNS    int64
	cpuKnown bool
	shares   []cpuShare
}

// ractorState is who held a ractor's GVL at the last tick, and how many waited.
type ractorState struct {
	id      sampler.RactorID
	holder  Key
	held    bool
	waiting int64
	// of the tick being fed
	nowHolder  Key
	nowHeld    bool
	nowWaiting int64
}

// Sink takes weights as a Collector charges them: at the end of the stretch of time that they belong to. A Rolling is one.
type Sink interface {
	Add(atNS int64, k Key, w Weights)
}

// Collector turns samples into weights, for one or more Sinks. Per thread, WallNS sums to the time from the first tick
// that listed it to the last, exactly:
//
//   - The time between two ticks goes half to the tag of the first, half to that of the second.
//   - The time between two readings of a stack is split the same way, but a stretch whose tag is the tag of only one of
//     the two goes to that one's stack: a thread that ran and then began to read a socket was not reading while it ran.
//   - A thread's CPU time, known from schedstat at a lower rate, is shared among the stacks seen since, by the time they
//     were seen with a tag of Meaning.OnCPU (with any tag where there was none).
//   - BlameNS is the time that others of the same ractor wait, charged to the holder's stack.
//   - AllocSeen is what was allocated just before a stack was read (sampler.AllocPair).
//
// Feed allocates nothing in the steady state. Not safe for concurrent use; Rollings are.
type Collector struct {
	mean    Meaning
	out     []Sink
	tick    uint64
	lastNS  int64
	slow    bool // the last sample was
	missed  int64
	listed  int // distinct threads of the last tick
	threads map[sampler.ThreadID]*threadState
	order   []*threadState // the last tick's, in its order: most often the next tick's too
	spare   []*threadState
	ractors []ractorState
	alloc   allocState
}

// NewCollector returns a Collector that adds to each of the given Sinks.
func NewCollector(m Meaning, out ...Sink) *Collector {
	return &Collector{mean: m, out: out, threads: make(map[sampler.ThreadID]*threadState)}
}

// Feed takes one sample. tags is parallel to s.Threads; of different lengths, the shorter counts. Samples must come in
// order of time.
func (c *Collector) Feed(s *sampler.Sample, tags []uint8) {
	c.tick++
	n := min(len(s.Threads), len(tags))
	for i := range c.ractors {
		c.ractors[i].nowHeld, c.ractors[i].nowWaiting = false, 0
	}
	gap := c.isGap(s)
	fresh, listed := 0, 0
	for i := 0; i < n; i++ {
		t := &s.Threads[i]
		tag := clampTag(tags[i])
		st, isNew := c.state(i, t.ID)
		if st.seen == c.tick { // listed twice: a torn list; the first one counts
			continue
		}
		st.seen = c.tick
		listed++
		switch {
		case isNew:
			fresh++
			c.begin(st, t, tag, s.TimeNS)
		case gap:
			c.release(st)
			c.emit(s.TimeNS, Key{st.id, 0, c.mean.GapTag}, Weights{WallNS: s.TimeNS - st.lastNS})
			c.begin(st, t, tag, s.TimeNS)
		default:
			c.advance(st, tag, s.TimeNS)
			if s.Depth == sampler.StackTick || t.Quality&sampler.StackFresh != 0 {
				c.read(st, t.Stack, tag, s.TimeNS)
			}
		}
		if s.Depth == sampler.StackTick {
			c.emit(s.TimeNS, Key{t.ID, t.Stack, tag}, Weights{Samples: 1})
		}
		c.cpu(st, t)
		c.role(t, tag)
		if t.ID == s.GC.Pair.Thread {
			c.alloc.key, c.alloc.found = Key{t.ID, t.Stack, tag}, true
		}
	}
	if listed < c.listed+fresh {
		c.endGone()
	}
	c.listed = listed
	c.blame(s.TimeNS, gap)
	c.allocations(s)
	c.slow = s.Slow
}

// isGap tells whether the interval that ends with s is too long to be charged, and counts it.
func (c *Collector) isGap(s *sampler.Sample) bool {
	limit := c.mean.GapNS
	if s.Slow || c.slow {
		limit = max(limit, c.mean.SlowGapNS)
	}
	d := s.TimeNS - c.lastNS
	if limit <= 0 || c.lastNS == 0 || d <= limit {
		return false
	}
	c.missed += d
	return true
}

// NotSampledNS returns the total length of the gaps so far, in ns.
func (c *Collector) NotSampledNS() int64 { return c.missed }

// Finish charges what is still held back to the last stacks known: after the last sample. The Collector forgets all
// threads.
func (c *Collector) Finish() {
	c.tick++
	c.endGone()
	c.flushAllocations(c.lastNS)
	c.listed, c.lastNS, c.slow, c.ractors = 0, 0, false, c.ractors[:0]
}

func (c *Collector) emit(atNS int64, k Key, w Weights) {
	for _, r := range c.out {
		r.Add(atNS, k, w)
	}
}

// state returns what is known of the thread at position i of the sample.
func (c *Collector) state(i int, id sampler.ThreadID) (st *threadState, isNew bool) {
	if i < len(c.order) && c.order[i].id == id {
		return c.order[i], false
	}
	st, ok := c.threads[id]
	if !ok {
		isNew = true
		if n := len(c.spare); n > 0 {
			st = c.spare[n-1]
			c.spare = c.spare[:n-1]
			*st = threadState{id: id, segments: st.segments[:0], shares: st.shares[:0]}
		} else {
			st = &threadState{id: id}
		}
		c.threads[id] = st
	}
	if i < len(c.order) {
		c.order[i] = st
	} else {
		c.order = append(c.order, st)
	}
	return st, isNew
}

func (c *Collector) begin(st *threadState, t *sampler.Thread, tag uint8, atNS int64) {
	st.lastNS, st.lastTag = atNS, tag
	st.stack, st.stackTag = t.Stack, tag
}

// advance lengthens the segments up to now.
func (c *Collector) advance(st *threadState, tag uint8, now int64) {
	if now <= st.lastNS {
		st.lastTag = tag
		return
	}
	if tag == st.lastTag {
		st.lengthen(st.lastNS, now, tag)
	} else {
		mid := st.lastNS + (now-st.lastNS)/2
		st.lengthen(st.lastNS, mid, st.lastTag)
		st.lengthen(mid, now, tag)
	}
	st.lastNS, st.lastTag = now, tag
}

func (st *threadState) lengthen(from, to int64, tag uint8) {
	if from == to {
		return
	}
	if n := len(st.segments); n > 0 && (st.segments[n-1].tag == tag || n >= maxSegments) {
		st.segments[n-1].toNS = to
		return
	}
	st.segments = append(st.segments, segment{from, to, tag})
}

// read shares the time since the last reading of the stack between that one and this one.
func (c *Collector) read(st *threadState, stack sampler.StackID, tag uint8, now int64) {
	if len(st.segments) > 0 {
		first := st.segments[0].fromNS
		mid := first + (now-first)/2
		for _, g := range st.segments {
			switch {
			case stack == st.stack, g.tag == tag && g.tag != st.stackTag:
				c.wall(st, stack, g.tag, g.fromNS, g.toNS)
			case g.tag == st.stackTag && g.tag != tag:
				c.wall(st, st.stack, g.tag, g.fromNS, g.toNS)
			default:
				cut := min(max(mid, g.fromNS), g.toNS)
				c.wall(st, st.stack, g.tag, g.fromNS, cut)
				c.wall(st, stack, g.tag, cut, g.toNS)
			}
		}
		st.segments = st.segments[:0]
	}
	st.stack, st.stackTag = stack, tag
}

func (c *Collector) wall(st *threadState, stack sampler.StackID, tag uint8, from, to int64) {
	if to <= from {
		return
	}
	k := Key{st.id, stack, tag}
	w := Weights{WallNS: to - from}
	if c.mean.Waiting.Has(tag) {
		w.WaitNS = w.WallNS
	}
	c.emit(to, k, w)
	st.share(k, w.WallNS)
}

// endGone charges what is held back of threads that this tick did not list, and forgets them.
func (c *Collector) endGone() {
	c.order = c.order[:0]
	for id, st := range c.threads {
		if st.seen == c.tick {
			continue
		}
		c.release(st)
		delete(c.threads, id)
		c.spare = append(c.spare, st)
	}
}

// release charges what is held back of a thread to its last stack known.
func (c *Collector) release(st *threadState) {
	for _, g := range st.segments {
		c.wall(st, st.stack, g.tag, g.fromNS, g.toNS)
	}
	st.segments = st.segments[:0]
}
