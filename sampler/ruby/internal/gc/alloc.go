package gc

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// allocCounter reads how many objects were allocated so far. It reads this number twice in one system call, just before
// a thread's frames, and charges the difference to these frames. It cannot charge the objects allocated between two
// ticks to the stack of either tick, because other code ran in between (docs/internals/gc.md#who-allocates).
//
// Between the two readings, ddtop lets time pass by reading one word gapReads times. The target hardly ever writes this
// word. If ddtop read the frames in this gap instead, it would take away cache lines that the target's CPU writes. This
// would slow down methods that compute more than methods that allocate. On 3.4, 75 % of the objects were then measured
// as 77 %.
//
// Up to Ruby 3.2 there is one counter. From 3.3 on there is one for each heap. From 4.0 on each ractor counts in a
// cache. After every 1,024 objects or so, Ruby flushes the cache: it adds the cache's count to the heap's counter and
// then clears the cache. So the caches are read between two readings of the heaps, and total corrects for a flush in
// between. See docs/internals/gc.md#counting-allocations.
type allocCounter struct {
	g *Reader
	// off is the offset of the first of n counters in rb_objspace. stride is the distance between two of them.
	off, stride, n int
	// after holds the second reading of the counters. It is the part of rb_objspace from the offset from on.
	from  int
	after []byte

	newobjCounters
	caches []allocCache
	// walk is the number of the walk over the ractors (Reader.walk) in which the ractors' caches were found.
	walk walkNumber
	// gap receives the words that are read to let time pass between the two readings.
	gap [8]byte
	// A pair is two readings of the counters in one call. At the time askedNS, AskPair decides whether the tick gets a
	// pair, and stores its decision in due. dueNS is the earliest time of the next pair. pairing is true once the
	// caller has called Pair.
	askedNS, dueNS int64
	due, pairing   bool
	// locks and stacks are the usual durations of system calls in two kinds of ticks (sampler.LockTick and
	// sampler.StackTick).
	locks, stacks usual
	// uncounted is true if compiled code makes objects without counting them (ZJIT of 4.1;
	// docs/internals/gc.md#counting-allocations).
	uncounted bool
	sums      [maxPools]heapSum
	// totals has, for each heap, the number of objects allocated until the counters were first read in this tick.
	totals [maxPools]uint64
}

// newobjCounters are the offsets of the counters in a ractor's cache, from 4.0 on. cachePtr is the offset of the
// pointer to the cache.
type newobjCounters struct {
	cachePtr   int `layout:"rb_ractor_struct.newobj_cache"`
	cacheAt    int `layout:"ractor_newobj_cache.heaps"`
	cacheSize  int `layout:"sizeof ractor_newobj_heap_cache"`
	cacheCount int `layout:"ractor_newobj_heap_cache.allocated_objects_count"`
}

// allocCache is one ractor's cache, read twice.
type allocCache struct {
	addr attach.Address
	b, a []byte // the first and the second reading
}

type heapSum struct {
	heap1, heap2   uint64 // the heap's counter at the first and the second reading
	cache1, cache2 uint64 // the sum of all caches at the first and the second reading
	cached         bool   // the release has caches
}

func (c *allocCounter) init(g *Reader) {
	c.g = g
	switch {
	case g.allocated >= 0:
		c.off, c.n, c.stride = g.allocated, 1, 8
	case g.poolAllocated >= 0:
		c.off, c.n, c.stride = g.pools.Offset+g.poolAllocated, g.poolCount(), g.poolSize
	}
	if c.n > 0 {
		c.from = c.off
		c.after = make([]byte, (c.n-1)*c.stride+8)
	}
	if g.resolve(&c.newobjCounters) != nil || c.n == 0 {
		c.cachePtr = -1
	}
}

func (c *allocCounter) known() bool { return c.n > 0 && !c.uncounted }

// follow searches again for the caches in which ractors count new objects, if there was a new walk over the ractors.
func (c *allocCounter) follow(g *Reader) {
	if c.cachePtr < 0 || c.walk == g.walk {
		return
	}
	c.walk = g.walk
	c.uncounted = g.ZJITFrames && g.Release.AtLeast(4, 1)
	c.caches = c.caches[:0]
	for _, ractor := range g.ractors {
		var p [8]byte
		if g.Mem.Read(ractor+attach.Address(c.cachePtr), p[:]) != nil || view.U64(p[:]) == 0 {
			continue // the ractor has not started yet, or has ended
		}
		size := (c.n-1)*c.cacheSize + 8
		c.caches = append(c.caches, allocCache{
			addr: attach.Address(view.U64(p[:])) + attach.Address(c.cacheAt+c.cacheCount), b: make([]byte, size), a: make([]byte, size),
		})
	}
}

// PlanBefore adds the collector's flags and counters to a batch of reads. If the tick reads the counters twice in this
// call (a pair), PlanBefore also adds the gap between the readings and the second reading.
func (g *Reader) PlanBefore(batch []attach.Range) []attach.Range {
	g.alloc.follow(g)
	g.at = len(batch)
	batch = append(batch, attach.Range{Addr: g.Objspace + attach.Address(g.from), Buf: g.buf})
	batch = g.vmLock.plan(batch, g)
	for i := range g.alloc.caches {
		c := &g.alloc.caches[i]
		batch = append(batch, attach.Range{Addr: c.addr, Buf: c.b})
	}
	g.mid = len(batch)
	if g.alloc.pairing {
		for range gapReads {
			batch = append(batch, attach.Range{Addr: g.VM, Buf: g.alloc.gap[:]})
		}
		batch = g.planAgain(batch)
	}
	return batch
}

// PlanAfter adds the second reading of the counters, unless PlanBefore has already added it for a pair.
func (g *Reader) PlanAfter(batch []attach.Range) []attach.Range {
	if !g.alloc.pairing {
		batch = g.planAgain(batch)
	}
	return batch
}

func (g *Reader) planAgain(batch []attach.Range) []attach.Range {
	g.last = len(batch)
	c := &g.alloc
	if c.n == 0 {
		return batch
	}
	for i := range c.caches {
		batch = append(batch, attach.Range{Addr: c.caches[i].addr, Buf: c.caches[i].a})
	}
	return append(batch, attach.Range{Addr: g.Objspace + attach.Address(c.from), Buf: c.after})
}

// TakeCounters decodes the counters of objects that PlanBefore and PlanAfter read. It returns false if one of their
// ranges could not be read.
func (g *Reader) TakeCounters(batch []attach.Range) bool {
	c := &g.alloc
	after := 0
	if c.n > 0 {
		after = len(c.caches) + 1
	}
	for _, part := range [][]attach.Range{batch[g.at:g.mid], batch[g.last : g.last+after]} {
		for i := range part {
			if part[i].Failed {
				return false
			}
		}
	}
	for h := range c.n {
		s := heapSum{heap1: g.word(c.off + h*c.stride), heap2: view.U64(c.after[h*c.stride:]), cached: c.cachePtr >= 0}
		for i := range c.caches {
			s.cache1 += view.U64(c.caches[i].b[h*c.cacheSize:])
			s.cache2 += view.U64(c.caches[i].a[h*c.cacheSize:])
		}
		c.settle(h, s)
	}
	return true
}

// settle stores the counters of one heap. New objects are counted in a ractor's cache first, and later in the heap's
// counter. If a cache was flushed between the two readings, both readings may lack its objects. The sum is then only a
// guess. In this case settle never lets the sum fall below the previous sum.
func (c *allocCounter) settle(heap int, s heapSum) {
	n := s.total()
	if s.cached && s.heap1 != s.heap2 {
		n = max(n, c.totals[heap])
	}
	c.sums[heap], c.totals[heap] = s, n
}

// total returns the number of objects allocated until the counters were first read in this tick.
func (c *allocCounter) total() uint64 {
	var sum uint64
	for _, n := range c.totals[:c.n] {
		sum += n
	}
	return sum
}

// delta returns the number of objects allocated between the two readings of the counters in a tick. The difference can
// be negative, because releases up to 3.4 lose counts with several ractors (docs/internals/gc.md#counting-allocations).
// In this case delta returns 0.
func (c *allocCounter) delta() uint32 {
	var sum int64
	for h := range c.n {
		sum += c.sums[h].delta()
	}
	if sum < 0 || sum > maxPairObjects {
		return 0
	}
	return uint32(sum)
}

// These constants limit a pair, which is two readings of the allocation counters in one system call. If a limit is
// exceeded, the sampler has lost its CPU in the middle of the call. The frames then do not show which code allocated
// the objects. One such pair has so many objects that it would outweigh all others.
const (
	// maxPairObjects limits how many objects are allocated between the two readings of a pair. The fastest loads make
	// 60 objects per µs, and reading the frames takes about 10 µs.
	maxPairObjects = 1024
	// maxPairNS limits the duration of the system call that reads a pair, in ns. Reading the stacks of 500 threads
	// takes about maxPairNS.
	maxPairNS = 500_000
	// longCall limits the duration of a system call, as a multiple of the duration of the shortest recent call. 9 of 10
	// calls take less than three times the duration of the shortest.
	longCall = 4
)

// usual is the approximate duration of the shortest recent system call of one kind, in ns. A shorter call replaces the
// value at once. A longer call raises the value by a 64th of it. So the effect of one unusually short call soon ends.
type usual int64

// interrupted adds the duration of a system call. It reports whether the call took so long that the sampler must have
// lost its CPU in the middle.
func (u *usual) interrupted(ns int64) bool {
	if *u == 0 || ns < int64(*u) {
		*u = usual(ns)
	} else {
		*u = min(usual(ns), *u+*u/64+1)
	}
	return ns > longCall*int64(*u)
}

// gapReads is how many words are read to let time pass between the two readings of the counters. This takes about 2 µs,
// in which the fastest loads make 100 objects.
const gapReads = 10

// pairNS is the least time between two pairs, in ns. A pair is two readings of the allocation counters in one call. At
// 1 kHz every tick gets a pair, and at 10 kHz about every fourth tick. A pair costs 1 to 2 µs.
const pairNS = 400_000

// total returns the sum of the heap's counter and the caches' counts. They are read in the order heap, caches, caches,
// heap. If the heap grew but the caches did not shrink, a cache was flushed before the first reading of the caches. The
// heap's first reading then lacks the flushed objects, so total uses the second reading. (A flush after both readings
// of the caches looks the same, unless the caches are nearly full.)
func (s heapSum) total() uint64 {
	if !s.cached {
		return s.heap1
	}
	flushed := s.heap2 - s.heap1
	if flushed != 0 && s.cache2 >= s.cache1 && s.cache1 < flushed/2 {
		return s.heap2 + s.cache1
	}
	return s.heap1 + s.cache1
}

// delta returns the number of objects allocated between the two readings of the ractors' caches, which count new
// objects. If the release has no caches, delta compares the heap's two readings.
func (s heapSum) delta() int64 {
	if !s.cached {
		return int64(s.heap2 - s.heap1)
	}
	d := int64(s.cache2 - s.cache1)
	if d < 0 {
		d += int64(s.heap2 - s.heap1) // add the objects of the caches that were flushed between the two readings
	}
	return d
}

// AskPair decides, at the beginning of a tick, whether the tick gets a pair: two readings of the allocation counters in
// one call. If the tick gets a pair, the caller calls Pair for the thread whose frames are read.
func (g *Reader) AskPair() (due bool) {
	c := &g.alloc
	c.due, c.pairing = false, false
	if c.known() {
		c.askedNS = g.Now()
		c.due = c.askedNS >= c.dueNS
	}
	return c.due
}

// PairDue reports whether AskPair has decided that this tick gets a pair.
func (g *Reader) PairDue() bool { return g.alloc.due }

// Pair requests a pair for this tick: PlanBefore then reads the counters twice. The tick must read the frames of the
// only thread that holds a GVL.
func (g *Reader) Pair() { g.alloc.pairing = true }

// EndPair returns the number of objects allocated between the two readings of the pair in the tick that filled s. ok is
// false if the tick had no pair, or if the pair cannot be used. sole is true if only one thread held a GVL. From 3.4
// on, objects that a compaction moves count as new (sampler.GCDetail.Moved), so a pair within a compaction cannot be
// used. All other parts of a collection work in steps of a few microseconds and do not matter.
func (g *Reader) EndPair(depth sampler.Depth, s *sampler.Sample, sole bool) (objects uint32, ok bool) {
	c, gc := &g.alloc, &s.GC
	paired := c.pairing
	c.due, c.pairing = false, false
	calls := &c.locks
	if depth == sampler.StackTick {
		calls = &c.stacks
	}
	if interrupted := calls.interrupted(s.ReadNS); interrupted || !paired || !sole || !gc.Valid || !c.known() ||
		gc.During && gc.Mode == sampler.GCCompacting || s.ReadNS > maxPairNS {
		return 0, false
	}
	c.dueNS = c.askedNS + pairNS
	return c.delta(), true
}
