// Package gc reads the state of Ruby's garbage collector: its flags and counters, and the figures of GC.stat. It also
// finds out which code allocates objects, and of which classes (docs/internals/gc.md), and reads the pages of the heap.
package gc

import (
	"errors"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
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
	// up to 3.2; later, each pool has this counter
	allocated int `layout:"rb_objspace.total_allocated_objects,optional"`
	gcPools
}

// gcPools are the places of the fields of the array of heaps in rb_objspace. All slots of a heap have the same size.
// From 3.1 to 3.3 Ruby calls the heaps size pools. Before 3.1 there is only one heap.
type gcPools struct {
	pools         layout.Field `layout:"rb_objspace.size_pools|heaps,optional"`
	poolSize      int          `layout:"sizeof rb_size_pool_struct|rb_heap_struct,optional"`
	poolAllocated int          `layout:"rb_size_pool_struct|rb_heap_struct.total_allocated_objects,optional"`
}

// poolCount returns the number of heaps, at most maxPools. It is zero if the release has no array of heaps.
func (p *gcPools) poolCount() int {
	if !p.pools.Known() || p.poolSize <= 0 {
		return 0
	}
	return min(p.pools.Size/p.poolSize, maxPools)
}

// Target is the VM whose collector is read, together with its memory.
type Target struct {
	Mem     attach.Memory
	Table   *layout.Table
	Release places.Release
	// VM and Objspace are the addresses of rb_vm_t and of rb_objspace.
	VM, Objspace attach.Address
	ZJITFrames   bool
	// Objects reads the names of classes.
	Objects *heap.Objects
	// Now returns CLOCK_MONOTONIC in ns.
	Now func() int64
	// Reads counts reads and failed reads.
	Reads *sampler.Reads
}

// ErrNoHeap means that ddtop cannot read the heap of this collector.
var ErrNoHeap = errors.New("this collector's heap cannot be read")

// resolve sets the fields that have a layout tag, in the structs to which into points. Its error names everything that
// the layout table lacks.
func (t *Target) resolve(into ...any) error { return places.Resolve(t.Table, t.Release, into...) }

// Reader reads the collector of one VM. Each tick reads the flags and counters in rb_objspace with the same system call
// as the rest of the tick. Everything else is read more rarely.
type Reader struct {
	Target
	// ractors are the addresses of the ractors that the last walk found. The field walk counts these walks.
	ractors []attach.Address
	walk    walkNumber
	batch   []attach.Range
	// buf holds the bytes [from, to) of rb_objspace, which each tick reads with one range.
	buf  []byte
	from int
	gcPlaces

	vmLock vmLock
	pages  pageReads
	whole  *wholeReads // nil until Whole is called

	alloc   allocCounter
	classes classCounter
	detail  gcDetail
	// The fields at and last are indexes in the batch of reads. The counters' first reading begins at index at and ends
	// before index mid. The second reading begins at index last.
	at, mid, last int
}

// walkNumber counts the walks over the ractors, from 1 on.
type walkNumber uint64

// maxPools limits the number of heaps: Ruby has 5 up to 4.0, and 12 on its development branch.
const maxPools = sampler.MaxGCHeaps

// New returns a Reader, or nil if this target's collector cannot be read.
func New(t Target) *Reader {
	g := &Reader{Target: t}
	if t.Objspace == 0 || t.resolve(&g.gcPlaces) != nil {
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
	// The lock is used only in processes with several ractors, and some releases lack its fields. So ignore the error.
	_ = t.resolve(&g.vmLock.lockPlaces)
	g.alloc.init(g)
	g.classes.init(&g.Target, &g.gcPools)
	g.detail.init(&g.Target, &g.gcPools)
	return g
}

// Collects returns the address of the word with the collector's flags, and the flag in it that is set while the
// collector works.
func (g *Reader) Collects() (attach.Address, layout.Field) {
	f := g.during
	at := f.Offset &^ 7
	f.BitOffset += 8 * (f.Offset - at)
	if f.BitSize == 0 {
		f.BitSize = 8 * f.Size
	}
	return g.Objspace + attach.Address(at), f
}

// Collections returns the address of the counter of collections that have begun.
func (g *Reader) Collections() attach.Address { return g.Objspace + attach.Address(g.count) }

// KeepsUsed reports whether every object that is in use now survives the collection in progress, or whether there is no
// collection. It returns false during marking, because the collector may have passed an object before the program began
// to use it. word is the word at the address that Collects returns.
func (g *Reader) KeepsUsed(word uint64) bool {
	at := 8*(g.mode.Offset-g.during.Offset&^7) + g.mode.BitOffset
	if at < 0 || at >= 64 || g.mode.BitSize == 0 {
		return false
	}
	mode := sampler.GCMode(word >> at & (1<<g.mode.BitSize - 1))
	return mode == sampler.GCIdle || mode == sampler.GCSweeping
}

// SetRactors sets the addresses of the ractors after a walk over them.
func (g *Reader) SetRactors(ractors []attach.Address) {
	g.ractors = ractors
	g.walk++
}

// word returns the counter at an offset of rb_objspace, as this tick has read it. It returns 0 if the release lacks the
// counter.
func (g *Reader) word(off int) uint64 {
	if off < 0 {
		return 0
	}
	return view.U64(g.buf[off-g.from:])
}

// Take decodes the ranges of PlanBefore and PlanAfter into out. out.Valid is false if one of them could not be read. It
// is also false if the collector's struct is not the one in the layout table (a modular GC, 3.4 and later).
func (g *Reader) Take(batch []attach.Range, out *sampler.GC) {
	*out = sampler.GC{}
	if !g.TakeCounters(batch) {
		return
	}
	g.fill(out)
	if out.Mode > sampler.GCCompacting || out.Count < out.MajorCount || out.Count < out.MinorCount {
		*out = sampler.GC{}
	}
	g.vmLock.take(out)
}

func (g *Reader) fill(out *sampler.GC) {
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
