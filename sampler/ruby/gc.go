package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler"
)

// gcPlaces are the places in rb_objspace that each tick reads (docs/internals/gc.md#the-object-space).
type gcPlaces struct {
	mode       layout.Field `layout:"rb_objspace.flags.mode"`
	during     layout.Field `layout:"rb_objspace.flags.during_gc"`
	minor      layout.Field `layout:"rb_objspace.flags.during_minor_gc,optional"`
	count      int          `layout:"rb_objspace.profile.count"`
	minorCount int          `layout:"rb_objspace.profile.minor_gc_count,optional"`
	majorNr    int          `layout:"rb_objspace.profile.major_gc_count,optional"`
	reason     layout.Field `layout:"rb_objspace.profile.latest_gc_info,optional"`
	totalTime  int          `layout:"rb_objspace.profile.total_time_ns,optional"`   // 3.1, 3.2
	markTime   int          `layout:"rb_objspace.profile.marking_time_ns,optional"` // 3.3+
	sweepTime  int          `layout:"rb_objspace.profile.sweeping_time_ns,optional"`
	allocated  int          `layout:"rb_objspace.total_allocated_objects,optional"` // up to 3.2: one counter; then one a pool
	gcPools
}

// gcPools are the places of the heaps of slots of one size each, called pools from 3.1 to 3.3: an array in rb_objspace. Before,
// there is one heap.
type gcPools struct {
	pools         layout.Field `layout:"rb_objspace.size_pools|heaps,optional"`
	poolSize      int          `layout:"sizeof rb_size_pool_struct|rb_heap_struct,optional"`
	poolAllocated int          `layout:"rb_size_pool_struct|rb_heap_struct.total_allocated_objects,optional"`
}

// poolCount is how many there are, at most maxPools; 0 where there is no array of them.
func (p *gcPools) poolCount() int {
	if !p.pools.Known() || p.poolSize <= 0 {
		return 0
	}
	return min(p.pools.Size/p.poolSize, maxPools)
}

// gcReader reads the collector's flags and counters from rb_objspace.
type gcReader struct {
	objspace attach.Address
	// buf holds [from, to) of rb_objspace, one range of each tick.
	buf  []byte
	from int
	gcPlaces

	vmLock vmLock

	alloc   allocCounter
	classes classCounter
	detail  gcDetail
	// at and last are the indices of the first ranges of planBefore and planAfter, mid the one behind planBefore's.
	at, mid, last int
	// around is the thread whose frames the counters were read around in this tick's first call; nil: none's.
	around *thread
}

// maxPools bounds the size pools of a heap: 5 up to 4.0, 12 in head.
const maxPools = sampler.MaxGCHeaps

// newGCReader resolves the places; a nil reader means that this target's collector can't be read.
func newGCReader(vm *VM, objspace attach.Address) *gcReader {
	g := &gcReader{objspace: objspace}
	if objspace == 0 || vm.resolve(&g.gcPlaces) != nil {
		return nil
	}
	g.from = g.mode.Offset
	to := 0
	for _, o := range []int{g.during.Offset, g.minor.Offset, g.count, g.minorCount, g.majorNr, g.reason.Offset, g.totalTime,
		g.markTime, g.sweepTime, g.allocated} {
		if o >= 0 {
			g.from, to = min(g.from, o), max(to, o+8)
		}
	}
	if n := g.poolCount(); g.allocated < 0 && g.poolAllocated >= 0 && n > 0 {
		g.from, to = min(g.from, g.pools.Offset), max(to, g.pools.Offset+n*g.poolSize)
	}
	g.buf = make([]byte, to-g.from)
	g.alloc.init(g, vm)
	g.classes.init(vm, &g.gcPools)
	g.detail.init(vm, &g.gcPools)
	return g
}

// word is the counter at an offset of rb_objspace, from what the tick has read; 0 when there is none.
func (g *gcReader) word(off int) uint64 {
	if off < 0 {
		return 0
	}
	return le64(g.buf[off-g.from:])
}

// fill decodes what a plan's ranges received.
func (g *gcReader) fill(out *sampler.GC) {
	word := g.word
	flag := func(f layout.Field) uint64 {
		if !f.Known() {
			return 0
		}
		f.Offset -= g.from
		return f.In(g.buf)
	}
	*out = sampler.GC{
		Valid:      true,
		During:     flag(g.during) != 0,
		Mode:       sampler.GCMode(flag(g.mode)),
		Minor:      flag(g.minor) != 0,
		Reason:     uint32(flag(g.reason)),
		Count:      word(g.count),
		MinorCount: word(g.minorCount),
		MajorCount: word(g.majorNr),
		TimeNS:     word(g.totalTime) + word(g.markTime) + word(g.sweepTime),
		Allocated:  g.alloc.total(),
	}
}

// plausible refuses a collector that is another struct than the table says (a modular GC, 3.4 and later).
func (g *gcReader) plausible(c *sampler.GC) bool {
	return c.Mode <= sampler.GCCompacting && c.Count >= c.MajorCount && c.Count >= c.MinorCount
}
