package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler"
)

// gcReader reads the collector's flags and counters from rb_objspace (docs/internals/gc.md#the-object-space).
type gcReader struct {
	objspace attach.Address
	// buf holds [from, to) of rb_objspace, one range of each tick.
	buf  []byte
	from int

	mode, during, minor        bitField
	count, minorCount, majorNr int
	reason                     bitField
	totalTime                  int // 3.1, 3.2
	markTime, sweepTime        int // 3.3+
	allocated                  int // up to 3.2: one counter
	pools, poolSize, poolCount int // 3.3+: one counter a pool
	poolAllocated              int

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
func newGCReader(t *layout.Table, objspace attach.Address) *gcReader {
	if objspace == 0 {
		return nil
	}
	field := func(name string) bitField {
		f, ok := t.Field("rb_objspace." + name)
		if !ok {
			return bitField{off: -1}
		}
		return bitField{off: f.Offset, width: f.Size, shift: uint(f.BitOffset), size: uint(f.BitSize)}
	}
	off := func(name string) int { return t.Offset("rb_objspace." + name) }
	g := &gcReader{
		objspace: objspace,
		mode:     field("flags.mode"), during: field("flags.during_gc"), minor: field("flags.during_minor_gc"),
		count: off("profile.count"), minorCount: off("profile.minor_gc_count"), majorNr: off("profile.major_gc_count"),
		reason:    field("profile.latest_gc_info"),
		totalTime: off("profile.total_time_ns"), markTime: off("profile.marking_time_ns"), sweepTime: off("profile.sweeping_time_ns"),
		allocated: off("total_allocated_objects"),
		pools:     -1, poolAllocated: -1,
	}
	if !g.mode.known() || !g.during.known() || g.count < 0 {
		return nil
	}
	if g.allocated < 0 {
		for _, c := range [][2]string{{"heaps", "rb_heap_struct"}, {"size_pools", "rb_size_pool_struct"}} {
			f, ok := t.Field("rb_objspace." + c[0])
			size := t.Size(c[1])
			a := t.Offset(c[1] + ".total_allocated_objects")
			if ok && size > 0 && a >= 0 {
				g.pools, g.poolSize, g.poolAllocated = f.Offset, size, a
				g.poolCount = min(f.Size/size, maxPools)
				break
			}
		}
	}
	g.from = g.mode.off
	to := 0
	for _, o := range []int{g.during.off, g.minor.off, g.count, g.minorCount, g.majorNr, g.reason.off, g.totalTime, g.markTime,
		g.sweepTime, g.allocated} {
		if o >= 0 {
			g.from, to = min(g.from, o), max(to, o+8)
		}
	}
	if g.pools >= 0 {
		g.from, to = min(g.from, g.pools), max(to, g.pools+g.poolCount*g.poolSize)
	}
	g.buf = make([]byte, to-g.from)
	g.vmLock.init(t)
	g.alloc.init(g, t)
	g.classes.init(t)
	g.detail.init(t)
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
	flag := func(b bitField) uint64 {
		if !b.known() {
			return 0
		}
		b.off -= g.from
		return b.get(g.buf)
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
