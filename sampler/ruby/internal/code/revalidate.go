package code

import (
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// When what is kept is checked again, in ns. Iseqs and methods are garbage collected objects: they go away or move in a
// collection (docs/internals/code.md#what-moves-and-goes-away). One that has survived oldAge collections is old (Ruby
// takes three) and only goes in a major one.
const (
	recheckEvery = 1_000_000_000
	recheckBlind = 100_000_000
	oldAge       = 8
)

// generation counts the times at which the kept entries may have to be checked again, from 1 on. This and the other
// counters below are types of their own, because many places compare them and all are small numbers.
type generation uint32

// hotNumber counts the lists of what is in use, of which each cycle of the target's collector begins a new one.
type hotNumber uint32

// decodeNumber counts the calls of Decode and Revalidate.
type decodeNumber uint64

// passNumber counts the passes over the frames of a stack, of which a Decode makes one for each fetch.
type passNumber uint64

// collections counts the cycles of the target's collector.
type collections uint64

// validity says when a kept entry was last known to be what is in the target's memory.
type validity struct {
	// generation is the Decoder's generation in which it was last found unchanged. It is zero if it was not checked
	// yet.
	generation generation
	// dropped: it is kept no more.
	dropped bool
	// hot is the number of the list of what is in use that it was last put on.
	hot hotNumber
	// loaded and listed are the numbers of the Decode that read it and of the last one that put it on the list to
	// check.
	loaded, listed decodeNumber
	// tried is the generation in which it was read.
	tried generation
	// born is the number of collections at the time it was read.
	born collections
}

// valid reports whether an entry is known to stand unchanged in the target's memory.
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

// old reports whether an entry has survived so many collections that only a major one can take it away.
func (c *cache) old(v *validity) bool { return c.gc.Valid && c.collected()-v.born >= oldAge }

// Proof says how long a decoded stack stays what it is while its control frames don't change: the code that they name
// can go away, and other code come to stand in its place.
type Proof struct {
	generation generation
	loadPath   loadPathVersion
	// old: all that it was made of is old. final: no later event can give its frames better names.
	old, final bool
}

// Holds reports whether a stack that was decoded with this proof would be decoded alike now.
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

// Generation changes when a Proof may have ceased to hold.
func (d *validator) Generation() uint64 {
	return uint64(d.generation)<<32 | uint64(uint32(d.loadPath.version))
}

// check reads what is on the lists again and drops what has changed; same says that nothing has. What lacked a name is
// dropped as well, to be tried again once a generation.
func (d *validator) check() (same bool, err error) {
	same = true
	if len(d.checkISeqs)+len(d.checkMethods)+len(d.checkEnvs) == 0 {
		return true, nil
	}
	need := len(d.checkISeqs)*(iseqHead+d.bodyHead) + len(d.checkMethods)*(meSize+defSize)
	for _, q := range d.checkISeqs {
		for i := range q.witnesses {
			need += int(q.witnesses[i].Size)
		}
	}
	for _, h := range d.checkMethods {
		for i := range h.witnesses {
			need += int(h.witnesses[i].Size)
		}
	}
	for _, e := range d.checkEnvs {
		need += len(e.chain) * envSize
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
	for _, q := range d.checkISeqs {
		take(q.addr, iseqHead)
		take(q.at, d.bodyHead)
	}
	for _, h := range d.checkMethods {
		take(attach.Address(h.addr), meSize)
		take(h.defAt, defSize)
	}
	for _, e := range d.checkEnvs {
		for _, p := range e.chain {
			take(p.ep-envBelow, envSize)
		}
	}
	// The code of a file shares its path, the methods of a class its name: that is read once.
	clear(d.shared)
	d.order = d.order[:0]
	share := func(witnesses []heap.Witness) {
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
	for _, q := range d.checkISeqs {
		share(q.witnesses)
	}
	for _, h := range d.checkMethods {
		share(h.witnesses)
	}
	calls, err := d.target.Mem.ReadBatch(d.ranges)
	d.view.Calls += calls
	if err != nil {
		return false, err
	}
	r, order := d.ranges, d.order
	agree := func(witnesses []heap.Witness) bool {
		same := true
		for i := range witnesses {
			seen := &d.ranges[order[i]]
			same = same && !seen.Failed && d.Objects.Agrees(&witnesses[i], seen.Buf)
		}
		order = order[len(witnesses):]
		return same
	}
	for _, q := range d.checkISeqs {
		intact := !r[0].Failed && !r[1].Failed && q.unchanged(r[0].Buf, r[1].Buf) && !d.tryAgain(q.missingNames, &q.validity)
		if agree(q.witnesses) && intact {
			q.generation = d.generation
		} else {
			d.dropISeq(q)
			same = false
		}
		r = r[2:]
	}
	for _, h := range d.checkMethods {
		intact := !r[0].Failed && !r[1].Failed && h.unchanged(r[0].Buf, r[1].Buf) && !d.tryAgain(h.missingNames, &h.validity)
		if agree(h.witnesses) && intact {
			h.generation = d.generation
			if h.witnesses != nil {
				h.named = d.generation
			}
		} else {
			d.dropMethodEntry(h)
			same = false
		}
		r = r[2:]
	}
	for _, e := range d.checkEnvs {
		if e.unchanged(r) { // else it is walked again when it is next met
			e.generation = d.generation
		}
		r = r[len(e.chain):]
	}
	return same, nil
}

// tryAgain reports whether an entry that lacks a name is to be read again: once a generation.
func (d *loader) tryAgain(missingNames bool, v *validity) bool {
	return missingNames && v.loaded != d.decode && v.tried != d.generation
}

// Revalidate says how far the target's garbage collector has come; call it once a tick, before Decode. nowNS is
// CLOCK_MONOTONIC in ns. When objects may have gone or moved since the last tick, what is kept is compared with memory
// again: what is in use in one batch, where the collector rests, and all else when it is next met on a stack. Without
// need it costs nothing. The error is the target's.
func (d *validator) Revalidate(nowNS int64, gc sampler.GC) error {
	d.Objects.SetGC(gc)
	age := nowNS - d.checkedNS
	timed := age < 0 || age >= recheckEvery
	// What was on a stack while a cycle still marked may be garbage by the end of that. What was on one after that
	// stays until the next cycle.
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
	for _, h := range d.hotMethods {
		if !h.dropped && !h.final {
			d.dropMethodEntry(h) // its class may have got a name
		}
	}
	if !cycle {
		return nil
	}
	// What is in use but on no stack right now may be garbage that has not been swept yet: it looks unchanged up to the
	// moment in which something else takes its place.
	rests := !gc.Valid || gc.Mode == sampler.GCIdle && !gc.During
	bytes := 0
	for _, q := range d.hotISeqs {
		if bytes += q.cost(); bytes > maxCheckedBytes {
			break
		}
		if rests && !q.dropped && !d.valid(&q.validity) && len(d.checkISeqs) < maxChecked {
			d.checkISeqs = append(d.checkISeqs, q)
		}
	}
	for _, h := range d.hotMethods {
		if rests && !h.dropped && !d.valid(&h.validity) && len(d.checkMethods) < maxChecked {
			d.checkMethods = append(d.checkMethods, h)
		}
	}
	for _, e := range d.hotEnvs {
		if rests && !d.valid(&e.validity) && len(d.checkEnvs) < maxChecked {
			d.checkEnvs = append(d.checkEnvs, e)
		}
	}
	d.hotISeqs, d.hotMethods, d.hotEnvs = d.hotISeqs[:0], d.hotMethods[:0], d.hotEnvs[:0]
	d.hotList++
	if err := d.checkClasses(); err != nil {
		return err
	}
	_, err := d.check()
	return err
}

// checkClasses drops the methods to check whose class has another name now.
func (d *validator) checkClasses() error {
	if len(d.checkMethods) == 0 {
		return nil
	}
	d.view.Reset()
	err := d.view.Settle(func() error {
		var missing error
		for _, h := range d.checkMethods {
			if h.dropped || h.witnesses != nil || h.named == d.generation {
				continue
			}
			same, err := d.sameClass(h)
			if err != nil {
				missing = err
			} else if !same {
				d.dropMethodEntry(h)
			}
		}
		return missing
	})
	if err != nil {
		return err
	}
	d.checkMethods = slices.DeleteFunc(d.checkMethods, func(h *methodEntry) bool { return h.dropped })
	return nil
}

// sameClass reports whether a method's class still has the name that it was labelled with; its error is
// view.ErrMissing.
func (d *loader) sameClass(h *methodEntry) (bool, error) {
	label, final, err := d.Objects.Qualified(h.owner, h.name)
	if err == view.ErrMissing {
		return false, err
	}
	if err != nil || label != h.label || final != h.final {
		return h.missingNames && err != nil, nil // what could not be read is read again in its turn
	}
	h.named = d.generation
	return true, nil
}

// bornNow takes what was read before the number of collections was known to be as young as can be.
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
