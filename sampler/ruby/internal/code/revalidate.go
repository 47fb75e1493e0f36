package code

import (
	"bytes"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// recheckEvery is the interval at which cached entries are checked again, in ns. recheckBlind replaces it while the
// collector's progress is unknown. Checks are needed because a collection can free or move iseqs and methods
// (docs/internals/code.md#what-moves-and-goes-away). An object is old for ddtop if it has survived oldAge collections.
// (Ruby itself calls it old after three.) Only a major collection frees an old object.
const (
	recheckEvery = 1_000_000_000
	recheckBlind = 100_000_000
	oldAge       = 8
)

// generation counts, from 1 on, the events after which cached entries may need a check. Each counter in this file has a
// type of its own. So the compiler reports an error if code confuses two counters.
type generation uint32

// hotNumber counts the lists of recently used entries (cache.hot). Each cycle of the target's collector begins a new
// list.
type hotNumber uint32

// decodeNumber counts the calls of Decode and Revalidate.
type decodeNumber uint64

// passNumber counts the passes over the frames of a stack. When a Decode has fetched missing memory, it makes another
// pass.
type passNumber uint64

// collections counts the cycles of the target's collector.
type collections uint64

// entry is a cached part of the target's memory: an iseq, a methodEntry or an envMethod.
type entry interface {
	state() *validity
	// cost is the approximate size of the entry, in bytes.
	cost() int
	// drop removes an entry from the cache, because its memory has changed. It returns true if the current Decode may
	// have used the entry.
	drop(d *loader) bool
}

// validity has the memory from which an entry was made. It also says when this memory was last known to be unchanged.
type validity struct {
	// The field read is the memory of the entry itself, as ddtop read it. witnesses describe the memory of the entry's
	// names. The entry is valid while both are unchanged in the target.
	read      []memory
	witnesses []heap.Witness
	// missingNames is true if a name could not be read.
	missingNames bool
	// generation is the Decoder's generation in which the entry was last found unchanged. It is zero if it was not
	// checked yet.
	generation generation
	// dropped is true if the entry was removed from the cache.
	dropped bool
	// hot is the number of the latest list of recently used entries (cache.hot) to which this entry was added.
	hot hotNumber
	// loaded is the number of the Decode that read the entry. listed is the number of the last Decode that added the
	// entry to cache.checks, so that it is compared with memory.
	loaded, listed decodeNumber
	// tried is the generation in which the entry was read.
	tried generation
	// born is how many collections the target had made when the entry was read.
	born collections
}

// memory is the content of the target's memory at an address, as it was read.
type memory struct {
	at   attach.Address
	says []byte
}

func (v *validity) state() *validity { return v }

// valid reports whether an entry is known to be unchanged in the target's memory.
func (c *cache) valid(v *validity) bool {
	switch {
	case v.generation == c.generation:
		return true
	case v.generation == 0:
		return false
	case v.generation >= c.cycleAt, v.generation >= c.majorAt && c.old(v):
		v.generation = c.generation
		return true
	}
	return false
}

func (c *cache) collected() collections { return collections(c.gc.Count) }

// old reports whether an entry has survived so many collections that only a major collection can free it.
func (c *cache) old(v *validity) bool { return c.gc.Valid && c.collected()-v.born >= oldAge }

// Proof shows whether a decoded stack is still valid. It is for a stack whose control frames have not changed. Such a
// stack can become invalid because the code to which its frames refer can be freed, and other code can take its place.
type Proof struct {
	generation generation
	loadPath   loadPathVersion
	// old is true if all objects to which the stack refers have survived oldAge collections. final is true if all names
	// are final, so that decoding again cannot find better names.
	old, final bool
}

// Holds reports whether decoding a stack again would give the same frames, if its control frames have not changed. p is
// the Proof of the earlier decoding.
func (d *validator) Holds(p Proof) bool {
	switch {
	case p.loadPath != d.loadPath.version:
		return false
	case p.generation == d.generation:
		return true
	case !p.final:
		return false
	}
	return p.generation >= d.cycleAt || p.old && p.generation >= d.majorAt
}

// Generation returns a number that changes whenever a decoded stack may become invalid (Proof).
func (d *validator) Generation() uint64 {
	return uint64(d.generation)<<32 | uint64(uint32(d.loadPath.version))
}

// check reads the memory of the entries in d.checks again, and drops the entries that have changed. same is true if the
// current Decode has used none of the dropped entries. An entry that lacks a name is also dropped, so that ddtop tries
// to read the name again, once per generation.
func (d *validator) check() (same bool, err error) {
	if len(d.checks) == 0 {
		return true, nil
	}
	need := 0
	for _, k := range d.checks {
		v := k.state()
		for i := range v.read {
			need += len(v.read[i].says)
		}
		for i := range v.witnesses {
			need += int(v.witnesses[i].Size)
		}
	}
	if cap(d.again) < need || cap(d.again) > maxCheckedBytes {
		d.again = make([]byte, need)
	}
	buf := d.again[:cap(d.again)]
	take := func(addr attach.Address, n int) {
		d.ranges = append(d.ranges, attach.Range{Addr: addr, Buf: buf[:n:n]})
		buf = buf[n:]
	}
	d.ranges = d.ranges[:0]
	for _, k := range d.checks {
		for _, m := range k.state().read {
			take(m.at, len(m.says))
		}
	}
	// All code of a file has the same path, and all methods of a class have the same class name. Read each such name
	// only once.
	clear(d.shared)
	d.order = d.order[:0]
	for _, k := range d.checks {
		witnesses := k.state().witnesses
		for i := range witnesses {
			w := &witnesses[i]
			n, ok := d.shared[w.Addr]
			if !ok || len(d.ranges[n].Buf) != int(w.Size) {
				n = int32(len(d.ranges))
				take(w.Addr, int(w.Size))
				d.shared[w.Addr] = n
			}
			d.order = append(d.order, n)
		}
	}
	calls, err := d.scattered.Read(d.target.Mem, d.ranges)
	d.view.Calls += calls
	if err != nil {
		return false, err
	}
	same = true
	r, order := d.ranges, d.order
	for _, k := range d.checks {
		v := k.state()
		intact := !d.tryAgain(v)
		for i := range v.read {
			intact = intact && !r[i].Failed && bytes.Equal(r[i].Buf, v.read[i].says)
		}
		for i := range v.witnesses {
			seen := &d.ranges[order[i]]
			intact = intact && !seen.Failed && d.Objects.Agrees(&v.witnesses[i], seen.Buf)
		}
		r, order = r[len(v.read):], order[len(v.witnesses):]
		if intact {
			v.generation = d.generation
		} else if k.drop(&d.loader) {
			same = false
		}
	}
	return same, nil
}

// tryAgain reports whether an entry that lacks a name must be read again. This happens once per generation.
func (d *loader) tryAgain(v *validity) bool {
	return v.missingNames && v.loaded != d.decode && v.tried != d.generation
}

// Revalidate informs the Decoder about the progress of the target's garbage collector. Call it once per tick, before
// Decode. nowNS is CLOCK_MONOTONIC in ns. If objects may have been freed or moved since the last tick, cached entries
// are compared with memory again. Recently used entries are compared in one batch while no collection is in progress.
// Other entries are compared when they next occur on a stack. If nothing may have been freed or moved, Revalidate reads
// only $LOAD_PATH, once a second. The error means that the target cannot be read.
func (d *validator) Revalidate(nowNS int64, gc sampler.GC) error {
	d.Objects.SetGC(gc)
	age := nowNS - d.checkedNS
	timed := age < 0 || age >= recheckEvery
	// Code that was on a stack during marking may still be garbage when the collector's cycle ends. If code is on a
	// stack after marking, it is not freed before the next cycle.
	settled := !gc.Valid || !gc.During && (gc.Mode == sampler.GCIdle || gc.Mode == sampler.GCSweeping)
	next := !gc.Valid || gc.Count != d.gc.Count
	cycle := next || settled && !d.settled
	major := !gc.Valid || gc.MajorCount != d.gc.MajorCount || cycle && !next && !gc.Minor
	if !timed && (!cycle || !gc.Valid && age < recheckBlind) {
		return nil
	}
	if !d.gc.Valid {
		d.bornNow(collections(gc.Count))
	}
	d.gc, d.checkedNS, d.settled = gc, nowNS, settled || d.settled && !next
	d.refreshLoadPath(nowNS)
	d.begin()
	d.generation++
	d.Objects.Renew()
	if cycle {
		d.cycleAt = d.generation
	}
	if major {
		d.majorAt = d.generation
	}
	for _, k := range d.hot {
		if h, ok := k.(*methodEntry); ok && !h.dropped && !h.final {
			h.drop(&d.loader) // the class may have got a name
		}
	}
	if !cycle {
		return nil
	}
	// An entry that is on no stack now may be garbage that the collector has not swept yet. Its memory looks unchanged
	// until another object takes its place. So compare the entries only while no collection is in progress.
	rests := !gc.Valid || gc.Mode == sampler.GCIdle && !gc.During
	size := 0
	for _, k := range d.hot {
		v := k.state()
		if size += k.cost(); size > maxCheckedBytes {
			break
		}
		if rests && !v.dropped && !d.valid(v) && len(d.checks) < maxChecked {
			d.checks = append(d.checks, k)
		}
	}
	d.hot = d.hot[:0]
	d.hotList++
	if err := d.checkClasses(); err != nil {
		return err
	}
	_, err := d.check()
	return err
}

// checkClasses drops the methods in d.checks whose class now has another name. It handles only methods without
// witnesses. For these methods, comparing memory does not show a new class name, so checkClasses reads the class names
// again.
func (d *validator) checkClasses() error {
	if len(d.checks) == 0 {
		return nil
	}
	d.view.Reset()
	err := d.view.Settle(func() error {
		var missing error
		for _, k := range d.checks {
			h, ok := k.(*methodEntry)
			if !ok || h.dropped || h.witnesses != nil || h.named == d.generation {
				continue
			}
			same, err := d.sameClass(h)
			if err != nil {
				missing = err
			} else if !same {
				h.drop(&d.loader)
			}
		}
		return missing
	})
	if err != nil {
		return err
	}
	d.checks = slices.DeleteFunc(d.checks, func(k entry) bool { return k.state().dropped })
	return nil
}

// sameClass reports whether a method's class still has the name that is in the method's label. The only error is
// view.ErrMissing.
func (d *loader) sameClass(h *methodEntry) (bool, error) {
	label, final, err := d.Objects.Qualified(h.owner, h.name)
	if err == view.ErrMissing {
		return false, err
	}
	if err != nil || label != h.label || final != h.final {
		return h.missingNames && err != nil, nil // unreadable names are read again because of tryAgain
	}
	h.named = d.generation
	return true, nil
}

// bornNow sets the age of all cached entries to zero. It is called when the number of collections becomes known. The
// entries were read before that, so their real ages are unknown.
func (d *validator) bornNow(count collections) {
	for _, q := range d.iseqs {
		q.born = count
	}
	for _, h := range d.methodEntries {
		h.born = count
	}
	for _, e := range d.envs {
		e.born = count
	}
}
