package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// allocCounter reads the number of objects allocated, twice in one call, just before a thread's frames. The difference belongs
// to those frames. Charging what was allocated between two ticks to a stack seen at either would charge time instead: it mixes
// what ran in between (docs/internals/gc.md#who-allocates).
//
// What is read between the two readings is a word that the target hardly ever writes (gapReads times), not the frames: reading
// takes from the CPU that runs the target the cache lines that it is writing, which slows down a method that computes more
// than one that allocates. With the frames in between, 75 % of the objects came out as 77 on 3.4, whose two methods differ
// less than those of 3.3 in the time that an object takes (1.54 instead of 1.97 times: what was seen in the gap was 1.85).
//
// Up to 3.2 there is one counter, from 3.3 on one a heap. From 4.0 on each ractor counts in a cache of its own, which is
// added to the heap's counter now and then (every 1,024 objects, say), in two steps; so the caches are read between two
// readings of the heaps, and a flush in between is made good (flushed). docs/internals/gc.md#counting-allocations
type allocCounter struct {
	g *gcReader
	// off and stride are where the counters are in rb_objspace, n how many.
	off, stride, n int
	// from is the offset that after starts at.
	from  int
	after []byte

	newobjCounters
	caches []allocCache
	// walk is the walk that caches was made after.
	walk walkNumber
	// gap receives what is read between the two readings.
	gap [8]byte
	// askedNS is when it was decided last whether this tick has a pair, dueNS when the next one is due. due is the decision,
	// pairing says that the plan has a gap: the difference counts.
	askedNS, dueNS int64
	due, pairing   bool
	// locks and stacks are how long calls take in lock ticks and in stack ticks.
	locks, stacks usual
	// uncounted: inlined code makes objects that are in no counter (ZJIT of 4.1; docs/internals/gc.md#counting-allocations).
	uncounted bool
	sums      [maxPools]heapSum
	// totals are the objects allocated in each heap, at the first reading.
	totals [maxPools]uint64
}

// newobjCounters are the places of the counters in a ractor's cache, from 4.0 on: cachePtr is that of the pointer to the cache.
type newobjCounters struct {
	cachePtr   int `layout:"rb_ractor_struct.newobj_cache"`
	cacheAt    int `layout:"ractor_newobj_cache.heaps"`
	cacheSize  int `layout:"sizeof ractor_newobj_heap_cache"`
	cacheCount int `layout:"ractor_newobj_heap_cache.allocated_objects_count"`
}

// allocCache is one ractor's cache, read twice.
type allocCache struct {
	addr attach.Address
	b, a []byte // before and after
}

type heapSum struct {
	heap1, heap2   uint64 // the heap's counter before and after
	cache1, cache2 uint64 // the sum of all caches
	cached         bool   // the release has caches
}

func (c *allocCounter) init(g *gcReader, vm *VM) {
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
	if vm.resolve(&c.newobjCounters) != nil || c.n == 0 {
		c.cachePtr = -1
	}
}

// known reports whether the release's counter can be read.
func (c *allocCounter) known() bool { return c.n > 0 && !c.uncounted }

// follow finds the caches of the ractors there are, after a walk over them.
func (c *allocCounter) follow(r *Reader) {
	if c.cachePtr < 0 || c.walk == r.walks {
		return
	}
	c.walk = r.walks
	c.uncounted = r.vm.ZJITFrames && r.vm.Release.AtLeast(4, 1)
	c.caches = c.caches[:0]
	for _, rc := range r.ractors {
		var p [8]byte
		if r.mem.Read(rc.addr+attach.Address(c.cachePtr), p[:]) != nil || le64(p[:]) == 0 {
			continue // it has not started yet, or is gone: the next walk will tell
		}
		size := (c.n-1)*c.cacheSize + 8
		c.caches = append(c.caches, allocCache{
			addr: attach.Address(le64(p[:])) + attach.Address(c.cacheAt+c.cacheCount), b: make([]byte, size), a: make([]byte, size),
		})
	}
}

// planBefore adds the collector's flags and counters to the batch; for a pair, the gap and the counters once more, too.
func (g *gcReader) planBefore(r *Reader) {
	g.alloc.follow(r)
	g.at = len(r.batch)
	r.add(g.objspace+attach.Address(g.from), g.buf)
	g.vmLock.plan(r)
	for i := range g.alloc.caches {
		c := &g.alloc.caches[i]
		r.add(c.addr, c.b)
	}
	g.mid = len(r.batch)
	if g.alloc.pairing {
		for range gapReads {
			r.add(r.vm.Addr, g.alloc.gap[:])
		}
		g.planAgain(r)
	}
}

// planAfter adds the counters once more, where planBefore has not done so.
func (g *gcReader) planAfter(r *Reader) {
	if !g.alloc.pairing {
		g.planAgain(r)
	}
}

func (g *gcReader) planAgain(r *Reader) {
	g.last = len(r.batch)
	c := &g.alloc
	if c.n == 0 {
		return
	}
	for i := range c.caches {
		r.add(c.caches[i].addr, c.caches[i].a)
	}
	r.add(g.objspace+attach.Address(c.from), c.after)
}

// take decodes what the ranges of planBefore and planAfter received. It is false when one of them could not be read.
func (g *gcReader) take(batch []attach.Range) bool {
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
		s := heapSum{heap1: g.word(c.off + h*c.stride), heap2: le64(c.after[h*c.stride:]), cached: c.cachePtr >= 0}
		for i := range c.caches {
			s.cache1 += le64(c.caches[i].b[h*c.cacheSize:])
			s.cache2 += le64(c.caches[i].a[h*c.cacheSize:])
		}
		c.settle(h, s)
	}
	return true
}

// settle takes what was read of a heap. Where a cache was emptied while the call was under way, and the sampler lost its CPU
// within it, which value of the heap goes with the cache's is a guess; no object is taken back then.
func (c *allocCounter) settle(heap int, s heapSum) {
	n := s.total()
	if s.cached && s.heap1 != s.heap2 {
		n = max(n, c.totals[heap])
	}
	c.sums[heap], c.totals[heap] = s, n
}

// total is the number of objects allocated at the first reading.
func (c *allocCounter) total() uint64 {
	var sum uint64
	for _, n := range c.totals[:c.n] {
		sum += n
	}
	return sum
}

// delta is what was allocated between the two readings. It is 0 rather than negative: with several ractors the releases up
// to 3.4 lose counts (docs/internals/gc.md#counting-allocations).
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

// What a pair may be. More means that the sampler was taken off its CPU in the middle of the call: the frames say nothing
// about what was allocated meanwhile, and one such pair would outweigh all others.
const (
	// maxPairObjects is the most objects: the fastest loads make 60 a µs, and the frames take some 10 µs.
	maxPairObjects = 1024
	// maxPairNS is the longest call, in ns: 500 threads' stacks take as long.
	maxPairNS = 500_000
	// longCall is how many times longer than the shortest recent one a call may be: 9 of 10 take less than three times as long.
	longCall = 4
)

// usual is about the shortest that calls of one kind have taken recently, in ns: it follows a shorter one at once, and a longer
// one by a 64th of itself a call.
type usual int64

// interrupted takes a call's length and reports whether it was so long that the sampler must have lost its CPU within it.
func (u *usual) interrupted(ns int64) bool {
	if *u == 0 || ns < int64(*u) {
		*u = usual(ns)
	} else {
		*u = min(usual(ns), *u+*u/64+1)
	}
	return ns > longCall*int64(*u)
}

// gapReads is how many words are read between the two readings: some 2 µs, in which the fastest loads make 100 objects.
const gapReads = 10

// pairNS is the least time between two pairs in ns: every tick at 1 kHz has one, and at 10 kHz every fourth or so, which is
// what they cost (1 to 2 µs) and enough of them.
const pairNS = 400_000

// total is the heap's counter with the caches' part. A flush between the first reading of the heap and that of the caches
// shows as a heap that grew while the caches did not shrink: then the caches were empty already when they were read, and
// the later value of the heap goes with them. (A flush behind both readings of the caches looks the same except for caches
// that were nearly full.)
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

// delta is what was allocated between the two readings of the caches, or of the heap where there are none.
func (s heapSum) delta() int64 {
	if !s.cached {
		return int64(s.heap2 - s.heap1)
	}
	d := int64(s.cache2 - s.cache1)
	if d < 0 {
		d += int64(s.heap2 - s.heap1) // flushed in between
	}
	return d
}

// bracket is the thread before whose frames the counters are to be read: the only one that held a GVL the last time it
// was looked. nil: none, or several at once, whose allocations can't be distinguished, or no pair is due.
func (r *Reader) bracket() *thread {
	if r.gc == nil || !r.gc.alloc.known() {
		return nil
	}
	c := &r.gc.alloc
	c.askedNS = r.now()
	c.due, c.pairing = c.askedNS >= c.dueNS, false
	if !c.due {
		return nil
	}
	var found *thread
	for _, rc := range r.ractors {
		t := rc.owners[1]
		if t == nil {
			continue
		}
		if found != nil {
			return nil
		}
		found = t
	}
	c.pairing = found != nil
	return found
}

// countsAround reports whether a thread's frames that are read again need the counters before them: when it holds the GVL
// and they were not before its frames in the first call. If they were, that difference counts, however often the frames
// have to be read until two copies agree: they agree most easily while the target stands still, so taking the difference
// of the reading that succeeded would underrate the code that makes most calls.
func (r *Reader) countsAround(t *thread) bool {
	if r.gc == nil || !r.gc.alloc.due || r.gc.around == t || r.soleOwner() != t {
		return false
	}
	r.gc.alloc.pairing = true
	return true
}

// soleOwner is the thread that held a GVL in this tick; nil when there was none or several ractors had one. Of two that
// held one ractor's, the later.
func (r *Reader) soleOwner() *thread {
	var found *thread
	for _, rc := range r.ractors {
		t := rc.owners[1]
		if t == nil {
			t = rc.owners[0]
		}
		if t == nil {
			continue
		}
		if found != nil {
			return nil
		}
		found = t
	}
	return found
}

// pair charges the difference of the counters to the owner. Objects that a compaction moves are counted as new ones from
// 3.4 on (sampler.GCDetail.Moved), so a tick within one says nothing. One within another part of a collection does: the
// collector works in steps of some microseconds, and an owner that goes on allocating before the gap ends counts as one does that
// stops before its end.
func (r *Reader) pair(depth sampler.Depth, s *sampler.Sample) {
	g := &s.GC
	g.Pair = sampler.AllocPair{}
	if r.gc == nil {
		return
	}
	c := &r.gc.alloc
	paired := c.pairing
	c.due, c.pairing = false, false
	calls := &c.locks
	if depth == sampler.StackTick {
		calls = &c.stacks
	}
	if interrupted := calls.interrupted(s.ReadNS); interrupted || !paired || !g.Valid || !c.known() || g.During && g.Mode == sampler.GCCompacting || s.ReadNS > maxPairNS {
		return
	}
	if t := r.soleOwner(); t != nil {
		g.Pair = sampler.AllocPair{Thread: t.id, Objects: c.delta()}
		c.dueNS = c.askedNS + pairNS
	}
}
