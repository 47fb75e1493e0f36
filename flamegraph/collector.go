package flamegraph

import (
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxSegments bounds the changes of tag remembered between two readings of one thread's stack. Past it what is held
	// back goes to the last stack known: with 1 kHz and 100 Hz there are at most 10.
	maxSegments = 128
	// maxUntold bounds the stacks seen in one stretch of time whose tag is still to be told. Past it the last of them gets
	// the time of those that follow.
	maxUntold = 128
	// openTag stands for a tag that is still to be told; no Sink sees it.
	openTag = NumTags
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
	// BackNS is how long, in ns, a tag may be told late (Seen.Open).
	BackNS int64
}

// Seen is what a thread was seen to do at a sample.
type Seen struct {
	Tag uint8
	// Open: Tag stands in for one that is still to be told. Time with it is held back until another tag comes: if that one
	// began no later than this one, it is the tag of this time too. After Meaning.BackNS, Tag stays what it is.
	Open bool
	// SinceNS is when Tag began, CLOCK_MONOTONIC in ns; a later one than before begins anew. 0: not known.
	SinceNS int64
}

// segment is a stretch of time with one tag.
type segment struct {
	fromNS, toNS int64
	tag          uint8
}

// stretch is some time with one stack.
type stretch struct {
	fromNS, toNS int64
	stack        sampler.StackID
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
	tag      uint8  // since runNS; open: it is still to be told, and segments have openTag
	open     bool
	runNS    int64
	stack    sampler.StackID // at the last reading
	stackTag uint8
	segments []segment // since the last reading, in order
	untold   []stretch // of earlier readings, all of the open run

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

// Collector turns samples into weights, for one or more Sinks. Per thread, WallNS sums to the time it was listed,
// exactly, half of the time before its first tick and after its last one included:
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
	slow    bool   // the last sample was
	lost    uint64 // as the last sample had it
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

// Feed takes one sample. seen is parallel to s.Threads; of different lengths, the shorter counts. Samples must come in
// order of time: one that does not is taken to be of the time of the last one.
func (c *Collector) Feed(s *sampler.Sample, seen []Seen) {
	c.tick++
	n := min(len(s.Threads), len(seen))
	now, mid := max(s.TimeNS, c.lastNS), s.TimeNS
	if c.lastNS != 0 {
		mid = c.lastNS + (now-c.lastNS)/2
	}
	for i := range c.ractors {
		c.ractors[i].nowHeld, c.ractors[i].nowWaiting = false, 0
	}
	gap := c.isGap(s)
	appearsNS, goneNS := mid, mid
	if gap {
		appearsNS, goneNS = now, c.lastNS
	}
	fresh, listed := 0, 0
	for i := 0; i < n; i++ {
		t, x := &s.Threads[i], seen[i]
		x.Tag = clampTag(x.Tag)
		tag := x.Tag
		st, isNew := c.state(i, t.ID)
		if st.seen == c.tick { // listed twice: a torn list; the first one counts
			continue
		}
		st.seen = c.tick
		listed++
		switch {
		case isNew:
			fresh++
			c.begin(st, t, x, appearsNS)
			c.lengthen(st, now)
		case gap:
			c.end(st, goneNS)
			c.emit(now, Key{st.id, 0, c.mean.GapTag}, Weights{WallNS: now - st.lastNS})
			c.begin(st, t, x, now)
		default:
			c.advance(st, x, mid, now)
			if s.Depth == sampler.StackTick || t.Quality&sampler.StackFresh != 0 {
				c.read(st, t.Stack, now)
			}
		}
		if s.Depth == sampler.StackTick {
			c.emit(now, Key{t.ID, t.Stack, tag}, Weights{Samples: 1})
		}
		c.cpu(st, t)
		c.role(t, tag)
		if t.ID == s.GC.Pair.Thread {
			c.alloc.key, c.alloc.found = Key{t.ID, t.Stack, tag}, true
		}
	}
	if listed < c.listed+fresh {
		c.endGone(goneNS)
	}
	c.listed = listed
	c.blame(now, gap)
	c.allocations(s)
	c.slow, c.lost = s.Slow, s.Reads.Lost
}

// isGap reports whether the interval that ends with s is too long to be charged, or samples of it were lost, and counts it.
func (c *Collector) isGap(s *sampler.Sample) bool {
	limit := c.mean.GapNS
	if s.Slow || c.slow {
		limit = max(limit, c.mean.SlowGapNS)
	}
	d := s.TimeNS - c.lastNS
	if limit <= 0 || c.lastNS == 0 || d <= limit && s.Reads.Lost == c.lost {
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
	c.endGone(c.lastNS)
	c.flushAllocations(c.lastNS)
	c.listed, c.lastNS, c.slow, c.lost, c.ractors = 0, 0, false, 0, c.ractors[:0]
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
			*st = threadState{id: id, segments: st.segments[:0], untold: st.untold[:0], shares: st.shares[:0]}
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

func (c *Collector) begin(st *threadState, t *sampler.Thread, x Seen, atNS int64) {
	st.lastNS = atNS
	st.run(x, atNS)
	st.stack, st.stackTag = t.Stack, st.lastTag()
}

// run begins a stretch of time with one tag.
func (st *threadState) run(x Seen, atNS int64) { st.tag, st.open, st.runNS = x.Tag, x.Open, atNS }

// lastTag is the tag for the segment that goes on.
func (st *threadState) lastTag() uint8 {
	if st.open {
		return openTag
	}
	return st.tag
}

// advance lengthens the segments up to now; mid is where the earlier tag ends and the later one begins.
func (c *Collector) advance(st *threadState, x Seen, mid, now int64) {
	if st.open && st.lastNS-st.runNS > c.mean.BackNS {
		c.tell(st, st.tag)
	}
	switch {
	case st.open && x.Tag != st.tag && x.SinceNS <= st.runNS && mid-st.runNS <= c.mean.BackNS:
		c.tell(st, x.Tag)
	case x.Tag != st.tag || x.SinceNS > st.runNS:
		c.lengthen(st, mid)
		c.tell(st, st.tag)
		st.run(x, mid)
	}
	c.lengthen(st, now)
}

// lengthen lets the present tag last up to a time.
func (c *Collector) lengthen(st *threadState, to int64) {
	from, tag := st.lastNS, st.lastTag()
	if to <= from {
		return
	}
	st.lastNS = to
	if n := len(st.segments); n > 0 && st.segments[n-1].tag == tag {
		st.segments[n-1].toNS = to
		return
	}
	if len(st.segments) >= maxSegments {
		c.release(st)
	}
	st.segments = append(st.segments, segment{from, to, tag})
}

// tell ends an open run: the tag of its time is known now, or never will be. What is not open stays as it is.
func (c *Collector) tell(st *threadState, tag uint8) {
	if !st.open {
		return
	}
	st.tag, st.open = tag, false
	for _, u := range st.untold {
		c.wall(st, u.stack, tag, u.fromNS, u.toNS)
	}
	st.untold = st.untold[:0]
	for i := range st.segments {
		if st.segments[i].tag == openTag {
			st.segments[i].tag = tag
		}
	}
	if st.stackTag == openTag {
		st.stackTag = tag
	}
}

// read shares the time since the last reading of the stack between that one and this one.
func (c *Collector) read(st *threadState, stack sampler.StackID, now int64) {
	tag := st.lastTag()
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
	if tag == openTag {
		st.hold(stretch{from, to, stack})
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

// hold keeps time whose tag is still to be told.
func (st *threadState) hold(u stretch) {
	if n := len(st.untold); n > 0 && (st.untold[n-1].stack == u.stack || n >= maxUntold) {
		st.untold[n-1].toNS = u.toNS
		return
	}
	st.untold = append(st.untold, u)
}

// endGone charges what is held back of threads that this tick did not list up to a time, and forgets them.
func (c *Collector) endGone(atNS int64) {
	c.order = c.order[:0]
	for id, st := range c.threads {
		if st.seen == c.tick {
			continue
		}
		c.end(st, atNS)
		delete(c.threads, id)
		c.spare = append(c.spare, st)
	}
}

// end charges all that is held back of a thread, up to a time.
func (c *Collector) end(st *threadState, atNS int64) {
	c.lengthen(st, atNS)
	c.tell(st, st.tag)
	c.release(st)
}

// release charges a thread's segments to its last stack known.
func (c *Collector) release(st *threadState) {
	for _, g := range st.segments {
		c.wall(st, st.stack, g.tag, g.fromNS, g.toNS)
	}
	st.segments = st.segments[:0]
}
