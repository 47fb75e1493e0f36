package code

import (
	"strings"
	"unsafe"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These constants limit what a Decoder keeps.
const (
	// MaxKeptBytes limits the size of the cached code, methods and environments, in bytes. When they would exceed the
	// limit, all are dropped, and read again when they are needed.
	MaxKeptBytes = 40 << 20
	// maxQualified limits how many names that include the class are cached for one method. Each alias has a name.
	maxQualified = 256
	// keptEntry is the approximate size of a map's entry without its names, in bytes.
	keptEntry = 128
	// maxMethodEntries, maxEnvMethods and maxFrameIDs limit the numbers of entries in the tables of methods, of
	// environments and of frames.
	maxMethodEntries = 1 << 16
	maxEnvMethods    = 1 << 15
	maxFrameIDs      = 1 << 18
	// forgetGenerations is the number of generations of the Dictionary after which all cached code is dropped. A
	// generation lasts half a minute. Without this rule, a program that redefines its methods would fill the tables to
	// their limits.
	forgetGenerations = 10
	// maxChecked limits how many entries one call of Revalidate compares with memory. Other entries are compared when
	// they are next used.
	maxChecked = 3 * 4096
	// maxCheckedBytes limits the memory that is read at once to compare entries, and the buffers for it, in bytes.
	maxCheckedBytes = 8 << 20
)

// These constants are the largest sizes, in slots, of small caches that are searched before the maps. Each key has only
// one slot in such a cache. The sizes are powers of two.
const (
	frontSize      = 2048
	frameCacheSize = 1 << 13
	stackCacheSize = 1 << 14
	linkCacheSize  = 1 << 13
)

type frameSlot struct {
	key frameKey
	id  sampler.FrameID
}

type stackSlot struct {
	caller sampler.StackID
	frame  sampler.FrameID
	id     sampler.StackID
}

// cache has everything that a Decoder keeps from one Decode to the next.
type cache struct {
	iseqs map[attach.Address]*iseq
	// kept is the number of cached bytes. maxKept is its limit.
	kept, maxKept int
	methodEntries map[uint64]*methodEntry
	envs          map[envKey]*envMethod
	frameIDs      map[frameKey]sampler.FrameID
	// interned is the generation of the Dictionary in which the IDs in frameIDs, frameCache and stackCache are valid.
	interned sampler.Generation
	// generations counts the changes of interned.
	generations uint32
	iseqFront   [frontSize]*iseq
	methodFront [frontSize]*methodEntry
	frameCache  heap.Recent[frameSlot]
	stackCache  heap.Recent[stackSlot]
	links       heap.Recent[link] // calls that are known to be possible

	// waiting is for code whose memory is not fetched yet. It maps the code's address to the last pass that needed the
	// code. Without this map, a recursion of a thousand frames would try the same code a thousand times in a pass.
	waiting map[uint64]passNumber
	pass    passNumber
	// losses counts how often the cache dropped something. A Kept may refer to a dropped entry, so it is valid only
	// while losses is unchanged.
	losses lossNumber

	// generation is a number that grows when cached entries may need a check. It begins at 1. Since the generation
	// cycleAt, certainly no object was freed or moved. Since the generation majorAt, certainly no old object was freed
	// or moved.
	generation, cycleAt, majorAt generation
	decode                       decodeNumber
	checkedNS                    int64
	gc                           sampler.GC
	// settled is true once the collector's current cycle has finished marking and moving objects.
	settled bool

	// checks are the entries that the current Decode must compare with the target's memory before its result may be
	// used.
	checks []entry
	// hot lists the entries that were used since the collector's last cycle. hotList is the number of this list. An
	// entry stores this number when it is added, so that it is not added twice.
	hot     []entry
	hotList hotNumber
	// chain has the environments on the way outward from an environment on the heap. An environment has the variables
	// of a method or block, and a link to the environment around it.
	chain     []envPlace
	ranges    []attach.Range
	scattered view.Scattered
	again     []byte
	// Several entries can depend on the same memory, and each has a heap.Witness for it. But a check reads this memory
	// only once. shared maps an address to its index in ranges. order has this index for each witness.
	shared map[attach.Address]int32
	order  []int32
}

func (c *cache) init() {
	c.iseqs = make(map[attach.Address]*iseq)
	c.methodEntries = make(map[uint64]*methodEntry)
	c.envs = make(map[envKey]*envMethod)
	c.frameIDs = make(map[frameKey]sampler.FrameID)
	c.waiting = make(map[uint64]passNumber)
	c.generation, c.cycleAt, c.majorAt, c.hotList = 1, 1, 1, 1
	c.maxKept = MaxKeptBytes
	c.shared = make(map[attach.Address]int32)
}

func (d *loader) begin() {
	d.decode++
	if g := d.dict.Generation(); g != d.interned {
		// The Dictionary evicts IDs that were not interned again during a generation (sampler.Keeper). So all frames
		// and stacks must be interned again in each generation.
		d.interned = g
		d.losses++
		clear(d.frameIDs)
		d.frameCache.Clear()
		d.stackCache.Clear()
		if d.generations++; d.generations%forgetGenerations == 0 {
			// The program may have freed some of the cached code, so drop all of it. Code that is still in use is read
			// again when it is next needed.
			d.forgetAll()
		}
	}
	if len(d.waiting) > 0 {
		clear(d.waiting)
	}
	d.checks = d.checks[:0]
}

// iseqAt returns the compiled code (iseq) at addr, cached or read now. The error is view.ErrMissing if memory must be
// fetched first.
func (d *loader) iseqAt(addr attach.Address) (*iseq, error) {
	slot := &d.iseqFront[(addr>>3^addr>>14)%frontSize]
	q := *slot
	if q == nil || q.addr != addr {
		var err error
		if q = d.iseqs[addr]; q == nil {
			if d.waiting[uint64(addr)] == d.pass {
				return nil, view.ErrMissing
			}
			if q, err = d.loadISeq(addr); err != nil {
				if err == view.ErrMissing {
					d.waiting[uint64(addr)] = d.pass
				}
				return nil, err
			}
			q.loaded, q.tried, q.born = d.decode, d.generation, d.collected()
			d.keep(q.cost())
			d.iseqs[addr] = q
		}
		*slot = q
	}
	if !d.valid(&q.validity) || d.tryAgain(&q.validity) {
		d.suspect(&q.validity, q)
	}
	d.use(&q.validity, q)
	return q, nil
}

// Known returns the name and the path of the code at the address of an iseq. ok is false if this code is not in the
// cache.
func (d *loader) Known(addr attach.Address) (name, path string, ok bool) {
	q, ok := d.iseqs[addr]
	if !ok {
		return "", "", false
	}
	return q.base, q.path, true
}

// Library returns the origin of cached code (for example the program or a gem), and the name of its gem without a
// version. The name is empty if the code belongs to no gem.
func (d *loader) Library(addr attach.Address) (origin sampler.Origin, gem string) {
	q, ok := d.iseqs[addr]
	if !ok {
		return sampler.OriginUnknown, ""
	}
	origin, gem = d.loadPath.origins.of(q.path, q.abs)
	gem, _, _ = strings.Cut(gem, " ")
	return origin, gem
}

// suspect adds an entry to checks. Before the current Decode returns a result, it compares the entry with the target's
// memory.
func (d *loader) suspect(v *validity, k entry) {
	if v.listed != d.decode {
		v.listed = d.decode
		d.checks = append(d.checks, k)
	}
}

// use adds an entry to the list of recently used entries (hot), unless the entry is already on it.
func (d *loader) use(v *validity, k entry) {
	if v.hot != d.hotList {
		v.hot = d.hotList
		d.hot = append(d.hot, k)
	}
}

func (q *iseq) isFresh(d *loader) bool { return q.loaded == d.decode }

func (q *iseq) drop(d *loader) bool {
	q.dropped = true
	d.losses++
	if slot := &d.iseqFront[(q.addr>>3^q.addr>>14)%frontSize]; *slot == q {
		*slot = nil
	}
	if d.iseqs[q.addr] == q {
		delete(d.iseqs, q.addr)
		d.kept -= q.cost()
	}
	return true
}

// methodEntryAt returns the method entry to which v leads. v is the first word of a frame's environment, and code is
// the frame's iseq.
func (d *loader) methodEntryAt(v uint64, code attach.Address) (*methodEntry, error) {
	slot := &d.methodFront[(v>>3^v>>14)%frontSize]
	h := *slot
	if h == nil || h.addr != v {
		h = d.methodEntries[v]
	}
	// v can also lead to a method's special variables ($~ and $_) instead of a method entry. Each call of a method has
	// its own special variables. So a cached entry for them is valid only for the same code and the same generation.
	if h != nil && h.kind != kindMethod && (h.generation != d.generation || h.code != code) {
		h = nil
	}
	if h != nil && h.kind == kindMethod && h.witnesses == nil && h.named != d.generation && !d.valid(&h.validity) {
		same, err := d.sameClass(h)
		if err != nil {
			return nil, err
		}
		if !same {
			h.drop(d)
			h = nil
		}
	}
	if h == nil {
		if d.waiting[v] == d.pass {
			return nil, view.ErrMissing
		}
		var err error
		if h, err = d.loadMethodEntry(v); err != nil {
			if err == view.ErrMissing {
				d.waiting[v] = d.pass
			}
			return nil, err
		}
		h.loaded, h.tried, h.named, h.born = d.decode, d.generation, d.generation, d.collected()
		if h.kind != kindMethod {
			h.generation, h.code = d.generation, code
		}
		if len(d.methodEntries) >= maxMethodEntries {
			d.forgetAll()
		}
		h.bytes = 4*keptEntry + len(h.label) + len(h.name) + len(h.witnesses)*int(unsafe.Sizeof(heap.Witness{}))
		d.keep(h.bytes)
		if old := d.methodEntries[v]; old != nil {
			d.kept -= old.bytes
		}
		d.methodEntries[v] = h
	}
	*slot = h
	if !d.valid(&h.validity) || d.tryAgain(&h.validity) {
		d.suspect(&h.validity, h)
	}
	if h.kind == kindMethod {
		d.use(&h.validity, h)
	}
	return h, nil
}

func (h *methodEntry) drop(d *loader) bool {
	h.dropped = true
	d.losses++
	if slot := &d.methodFront[(h.addr>>3^h.addr>>14)%frontSize]; *slot == h {
		*slot = nil
	}
	if d.methodEntries[h.addr] == h {
		d.kept -= h.bytes
		delete(d.methodEntries, h.addr)
	}
	return true
}

// keep makes room for n more bytes in the cache, and counts them as kept. It accepts n bytes even if they alone exceed
// the limit.
func (d *loader) keep(n int) {
	if d.kept+n > d.maxKept {
		d.forgetAll()
	}
	d.kept += n
}

// forgetAll empties the caches: the code, the methods, the environments, and the names and frames made from them.
func (d *loader) forgetAll() {
	d.losses++
	clear(d.iseqs)
	clear(d.iseqFront[:])
	d.frameCache.Clear()
	d.links.Clear()
	clear(d.frameIDs)
	clear(d.methodEntries)
	clear(d.methodFront[:])
	clear(d.envs)
	d.Objects.Forget()
	d.kept = 0
	d.hot = d.hot[:0]
}

// forgetFresh drops the entries that the failed Decode has read, because none of them was checked.
func (d *loader) forgetFresh() {
	for _, k := range d.checks {
		if k.state().loaded == d.decode {
			k.drop(d)
		}
	}
}

// hash returns a hash of the key. It represents the code and the method by their addresses.
func (k *frameKey) hash() uint64 {
	x := uint64(k.pos)<<8 ^ uint64(k.at)<<20 ^ uint64(k.kind)
	if k.code != nil {
		x ^= uint64(k.code.addr) >> 3
	}
	x *= 0x9e3779b97f4a7c15
	if k.method != nil {
		x ^= k.method.addr >> 3 * 0xc2b2ae3d27d4eb4f
	}
	return x ^ x>>29
}

func stackHash(caller sampler.StackID, frame sampler.FrameID) uint32 {
	x := uint64(caller)<<32 | uint64(frame)
	x *= 0x9e3779b97f4a7c15
	return uint32(x >> 40)
}
