package flamegraph

import (
	"fmt"
	"slices"
	"sync"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// DefaultSlotNS is the default length of a Rolling's slots, in ns. A Rolling drops old data slot by slot.
	DefaultSlotNS = 250_000_000
	// maxSlots limits the number of slots of a Rolling.
	maxSlots = 1 << 14
	// MaxKeys limits how many distinct keys a Rolling has. Beyond this limit, the weights of a new key are added to a
	// key with the same thread and state and the empty stack. Snapshot.Overflow counts these additions. Sums remain
	// correct, but detail is lost.
	MaxKeys = 1 << 19
	// maxStackless limits how many keys with an empty stack are made beyond MaxKeys. Such keys have a thread, so a
	// program that keeps creating threads needs more and more of them. Weights beyond this limit go to the thread ID 0,
	// which no thread has.
	maxStackless = 1 << 16
	// MaxHistoryBytes limits the memory of a Rolling's slots. Beyond this limit, the oldest slots are dropped although
	// they are still in the window. Snapshot.FromNS is the time from which the data is complete.
	MaxHistoryBytes = 64 << 20
)

// noSlot marks an entry to which nothing was added in the current slot.
const noSlot = -1

type entry struct {
	key    Key
	total  Weights
	deltas int32 // number of deltas, in all slots, that belong to this entry
	slot   int64 // number of the slot to which pos belongs, or noSlot
	pos    int32
}

type delta struct {
	entry int32
	w     Weights
}

// slot holds the additions of one period, as deltas. A delta is the weights that were added to one entry in this
// period. The newest slot's deltas are in Rolling.current. The deltas of older slots are packed, because ten minutes of
// a hundred threads have millions of deltas.
type slot struct {
	number int64 // the slot's beginning divided by slotNS
	packed []byte
}

// Rolling keeps Weights per Key over a window of time. The window ends at the newest time that was passed to Add. One
// goroutine may add, and any number of goroutines may take snapshots. If all keys are known and a slot has no more keys
// than earlier slots, Add allocates no memory.
type Rolling struct {
	mu       sync.Mutex
	windowNS int64
	slotNS   int64
	slots    []slot // ring, indexed by number modulo its length; empty when windowNS is 0
	newest   int64  // number of the newest slot; noSlot before the first Add
	oldest   int64  // number of the oldest slot kept
	current  []delta
	bytes    int64 // total capacity of the memory of all slots, in bytes
	maxBytes int64
	firstNS  int64
	lastNS   int64
	index    map[Key]int32
	entries  []entry
	free     []int32
	maxKeys  int
	overflow uint64
	dropped  Weights
	as       []EndpointID // for each EndpointID, the ID that represents it; nil if no request was renamed
	stacks   *ranStacks   // divides Snapshots among C functions; nil if they are not divided
}

// NewRolling returns a Rolling over the last windowNS ns. It drops data in steps of slotNS ns. If slotNS is 0, the
// step is DefaultSlotNS. A window of 0 keeps everything. It fails if the window is negative or needs more than
// maxSlots slots.
func NewRolling(windowNS, slotNS int64) (*Rolling, error) {
	if slotNS == 0 {
		slotNS = DefaultSlotNS
	}
	if windowNS < 0 || slotNS < 0 {
		return nil, fmt.Errorf("rolling window of %d ns in slots of %d ns: both must be positive", windowNS, slotNS)
	}
	n := int64(0)
	if windowNS > 0 {
		n = (windowNS-1)/slotNS + 2 // a window that begins within a slot needs one slot more
		if n > maxSlots {
			return nil, fmt.Errorf("a window of %d ns in slots of %d ns needs %d slots, more than %d: use larger slots", windowNS, slotNS, n, maxSlots)
		}
	}
	r := &Rolling{windowNS: windowNS, slotNS: slotNS, index: make(map[Key]int32), newest: noSlot, maxKeys: MaxKeys, maxBytes: MaxHistoryBytes}
	r.slots = make([]slot, n)
	for i := range r.slots {
		r.slots[i].number = noSlot
	}
	return r, nil
}

// DivideBy makes Snapshots divide the time of running threads among the C functions in which they ran. dict is the
// Dictionary of the keys' stacks.
func (r *Rolling) DivideBy(dict *sampler.Dictionary) { r.stacks = &ranStacks{dict: dict} }

// rename moves the weights of each EndpointID to the ID that now represents this EndpointID. It is called after a
// request has changed its name.
func (r *Rolling) rename(as []EndpointID) {
	r.mu.Lock()
	r.as = as
	r.mu.Unlock()
}

// key returns the key of an entry. If another EndpointID now represents the entry's EndpointID (endpoints.as), the key
// has the other EndpointID. The caller holds mu.
func (r *Rolling) key(e *entry) Key { return e.key.as(standing(r.as, e.key.Endpoint)) }

// Add adds weights that belong to the time atNS, CLOCK_MONOTONIC in ns. atNS must not be negative. If it is newer than
// all earlier times, the window moves forward. Weights from before the window are dropped and counted in
// Snapshot.Dropped.
func (r *Rolling) Add(atNS int64, k Key, w Weights) {
	r.mu.Lock()
	r.add(atNS, k, w)
	r.mu.Unlock()
}

func (r *Rolling) add(atNS int64, k Key, w Weights) {
	atNS = max(atNS, 0)
	n := atNS / r.slotNS
	r.advance(atNS)
	if len(r.slots) > 0 && n < r.oldest {
		r.dropped = r.dropped.Plus(w)
		return
	}
	i, ok := r.index[k]
	if !ok {
		i = r.newEntry(k)
	}
	e := &r.entries[i]
	e.total = e.total.Plus(w)
	if len(r.slots) == 0 {
		return
	}
	if n < r.newest { // late additions are rare, so they are not merged with the slot's other deltas
		s := &r.slots[n%int64(len(r.slots))]
		s.number = n
		r.pack(s, delta{i, w})
		e.deltas++
		return
	}
	if e.slot == n {
		d := &r.current[e.pos]
		d.w = d.w.Plus(w)
		return
	}
	r.current = append(r.current, delta{i, w})
	e.deltas++
	e.slot, e.pos = n, int32(len(r.current)-1)
}

func (r *Rolling) pack(s *slot, d delta) {
	before := cap(s.packed)
	s.packed = appendDelta(s.packed, d)
	r.bytes += int64(cap(s.packed) - before)
}

// Crowded reports whether half of the keys that a Rolling may have are used.
func (r *Rolling) Crowded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.index) >= r.maxKeys/2
}

// newEntry makes an entry for k and returns its index. If there are MaxKeys keys already, it returns the entry for k
// with an empty stack.
func (r *Rolling) newEntry(k Key) int32 {
	if len(r.index) >= r.maxKeys {
		whole := k
		if k.Stack, k.GC, k.Endpoint = 0, 0, 0; len(r.index) >= r.maxKeys+maxStackless {
			k.Thread = 0
		}
		if k != whole {
			r.overflow++
			if i, ok := r.index[k]; ok {
				return i
			}
		}
	}
	var i int32
	if n := len(r.free); n > 0 {
		i = r.free[n-1]
		r.free = r.free[:n-1]
		r.entries[i] = entry{key: k, slot: noSlot}
	} else {
		i = int32(len(r.entries))
		r.entries = append(r.entries, entry{key: k, slot: noSlot})
	}
	r.index[k] = i
	return i
}

func (r *Rolling) advance(atNS int64) {
	n := atNS / r.slotNS
	ring := int64(len(r.slots))
	if r.newest == noSlot {
		r.newest, r.firstNS, r.lastNS = n, atNS, atNS
		r.oldest = n - ring + 1
		return
	}
	r.lastNS = max(r.lastNS, atNS)
	r.firstNS = min(r.firstNS, atNS)
	if n <= r.newest {
		return
	}
	if ring > 0 {
		s := &r.slots[r.newest%ring]
		s.number = r.newest
		for _, d := range r.current {
			r.pack(s, d)
		}
		r.current = r.current[:0]
		r.forget(n-ring+1, false)
	}
	r.newest = n
	for r.bytes > r.maxBytes && r.oldest < r.newest {
		r.forget(r.oldest+1, true)
	}
}

// forget subtracts old slots from the totals: the slots that are older than the slot with the given number. If release
// is true, it also frees their memory.
func (r *Rolling) forget(number int64, release bool) {
	ring := int64(len(r.slots))
	for n := max(r.oldest, 0); n < min(number, r.newest+1); n++ { // this loop has at most len(slots) rounds
		s := &r.slots[n%ring]
		if s.number == n {
			r.unpack(s)
		}
		if release {
			r.bytes -= int64(cap(s.packed))
			s.packed = nil
		}
	}
	r.oldest = max(r.oldest, number)
}

// unpack subtracts a slot's deltas from the totals.
func (r *Rolling) unpack(s *slot) {
	for b := s.packed; len(b) > 0; {
		var d delta
		d, b = readDelta(b)
		e := &r.entries[d.entry]
		e.total = e.total.minus(d.w)
		e.deltas--
		if e.deltas == 0 {
			delete(r.index, e.key)
			r.free = append(r.free, d.entry)
		}
	}
	s.packed = s.packed[:0]
	s.number = noSlot
}

// Entry is one Key with its Weights.
type Entry struct {
	Key     Key
	Weights Weights
}

// Snapshot is the content of a Rolling at one moment. A later snapshot can reuse its memory.
type Snapshot struct {
	// FromNS and ToNS are the period of Entries, CLOCK_MONOTONIC in ns. Both are 0 if the Rolling is empty.
	FromNS, ToNS int64
	// Entries are in no particular order. Each Key occurs once, with two exceptions: a Key whose request has changed
	// its name, and a Key that Ran has divided, can occur several times.
	Entries []Entry
	// Overflow counts additions that lost their stack because of MaxKeys. Dropped is the sum of weights that were added
	// too late: their time was before the window.
	Overflow uint64
	Dropped  Weights
	// Ran has the C functions among which the time of running threads in Entries was divided. It is nil if no C stacks
	// of running threads were copied.
	Ran *Ran

	merge []int32 // scratch of SnapshotRange: 1 + index in Entries, by index in Rolling.entries
}

// Total returns the sum of all entries.
func (s *Snapshot) Total() Weights {
	var t Weights
	for i := range s.Entries {
		t = t.Plus(s.Entries[i].Weights)
	}
	return t
}

// Snapshot copies the whole window into s, re-using s's memory.
func (r *Rolling) Snapshot(s *Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Entries = s.Entries[:0]
	for i := range r.entries {
		e := &r.entries[i]
		if e.total == (Weights{}) || (len(r.slots) > 0 && e.deltas == 0) {
			continue
		}
		s.Entries = append(s.Entries, Entry{r.key(e), e.total})
	}
	r.describe(s)
	s.divide(r.stacks)
}

func (r *Rolling) describe(s *Snapshot) {
	s.FromNS, s.ToNS, s.Overflow, s.Dropped = r.firstNS, r.lastNS, r.overflow, r.dropped
	if len(r.slots) > 0 && r.newest != noSlot {
		s.FromNS = max(s.FromNS, r.oldest*r.slotNS)
	}
}

// SnapshotRange copies into s the additions from fromNS to toNS (CLOCK_MONOTONIC in ns). The first and the last slot
// are included completely. Snapshot.FromNS and ToNS are the edges of these slots. A Rolling without a window keeps no
// slots, so it copies everything.
func (r *Rolling) SnapshotRange(fromNS, toNS int64, s *Snapshot) {
	if len(r.slots) == 0 {
		r.Snapshot(s)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Entries = s.Entries[:0]
	s.merge = slices.Grow(s.merge[:0], len(r.entries))[:len(r.entries)]
	clear(s.merge)
	r.describe(s)
	first, last := r.each(fromNS, toNS, func(_ int64, d delta) { s.merged(r, d) })
	// Remove entries without weights. Their weights were moved, because their request has a new name.
	s.Entries = slices.DeleteFunc(s.Entries, func(e Entry) bool { return e.Weights == Weights{} })
	s.divide(r.stacks)
	s.FromNS = max(s.FromNS, first*r.slotNS)
	s.ToNS = max(s.FromNS, min(s.ToNS, (last+1)*r.slotNS))
}

// each calls visit with all additions in the slots from fromNS to toNS, oldest slot first. It returns the first and the
// last of these slots. The caller holds mu. The Rolling must have slots.
func (r *Rolling) each(fromNS, toNS int64, visit func(slot int64, d delta)) (first, last int64) {
	first, last = max(fromNS/r.slotNS, r.oldest, 0), min(toNS/r.slotNS, r.newest)
	for n := first; n <= last; n++ {
		if n == r.newest {
			for _, d := range r.current {
				visit(n, d)
			}
			break
		}
		s := &r.slots[n%int64(len(r.slots))]
		if s.number != n {
			continue
		}
		for b := s.packed; len(b) > 0; {
			var d delta
			d, b = readDelta(b)
			visit(n, d)
		}
	}
	return first, last
}

func (s *Snapshot) merged(r *Rolling, d delta) {
	i := s.merge[d.entry]
	if i == 0 {
		s.Entries = append(s.Entries, Entry{Key: r.key(&r.entries[d.entry])})
		i = int32(len(s.Entries))
		s.merge[d.entry] = i
	}
	e := &s.Entries[i-1]
	e.Weights = e.Weights.Plus(d.w)
}
