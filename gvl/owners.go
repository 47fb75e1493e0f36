package gvl

import "github.com/ddtop/ddtop/sampler"

// owner is a ractor's holder in the sample being classified.
type owner struct {
	thread sampler.ThreadID
	place  int
}

// findOwners decides who holds each ractor's GVL: the owner field names the thread and the thread itself is proven to
// run. When the owner changed during the read both can look so; then the later one holds it, since one GVL never has
// two holders.
func (c *Classifier) findOwners(s *sampler.Sample) {
	c.owners = c.owners[:0]
	for range s.Ractors {
		c.owners = append(c.owners, owner{place: -1})
	}
	if c.sameOwners(s) {
		return
	}
	c.places = c.places[:0]
	ri := 0
	for i := range s.Threads {
		t := &s.Threads[i]
		if t.Bits&sampler.BitLinked == 0 {
			continue
		}
		if ri = ractorIndex(s, t.Ractor, ri); ri < 0 {
			continue
		}
		r, o := &s.Ractors[ri], &c.owners[ri]
		if t.ID != r.OwnerStart && t.ID != r.OwnerEnd || c.letGo(t, r) {
			continue
		}
		if o.thread != 0 && t.ID != r.OwnerEnd {
			continue
		}
		*o = owner{thread: t.ID, place: i}
	}
	for i := range c.owners {
		c.places = append(c.places, c.owners[i].place)
	}
}

// sameOwners fills in owners without looking through all threads, where the owner fields name nobody, or the same thread at the start
// and the end that was there last time: so it is in most samples. False: owners holds nothing yet.
func (c *Classifier) sameOwners(s *sampler.Sample) bool {
	for i := range s.Ractors {
		r := &s.Ractors[i]
		if r.OwnerStart == 0 && r.OwnerEnd == 0 {
			continue
		}
		if r.OwnerStart != r.OwnerEnd || i >= len(c.places) || c.places[i] < 0 || c.places[i] >= len(s.Threads) {
			return false
		}
		if t := &s.Threads[c.places[i]]; t.ID != r.OwnerEnd || t.Ractor != r.ID || ractorIndex(s, r.ID, 0) != i {
			return false
		}
	}
	for i := range s.Ractors {
		if s.Ractors[i].OwnerEnd == 0 {
			continue
		}
		if t := &s.Threads[c.places[i]]; t.Bits&sampler.BitLinked != 0 {
			c.owners[i] = owner{thread: t.ID, place: c.places[i]}
		}
	}
	return true
}

// findCollector decides which of the ractors' holders collects: the one whose ractor has the VM's lock; where that is not
// known, the only one there is, or the only one that does not stand at a barrier.
func (c *Classifier) findCollector(s *sampler.Sample) {
	c.collector = -1
	if !s.GC.Valid || !s.GC.During {
		return
	}
	able := 0
	for _, o := range c.owners {
		if o.thread == 0 {
			continue
		}
		t := &s.Threads[o.place]
		if t.Bits&sampler.BitCollects != 0 {
			c.collector = o.place
			return
		}
		if !c.inFutex(s, t) || len(c.owners) == 1 {
			able++
			c.collector = o.place
		}
	}
	if able > 1 {
		c.collector = -1
	}
}

// named reports whether the owner field names a thread that is about to run. From 3.3 on, a thread that was the owner at the
// start of the read and is no longer at its end counts too: its own words, read in between, were not linked yet. To have
// run and unlinked by then it would have to take the lock, run, wake the next one and unlink in the first half of the read.
func (c *Classifier) named(id sampler.ThreadID, r *sampler.Ractor) bool {
	return r.OwnerEnd == id || c.proc.Era == sampler.EraSched && r.OwnerStart == id
}

// letGo reports whether a thread gave the GVL up while the sample was read: the owner field named it at the start and
// another one at the end, and its own words, read in between, say that it is in a blocking region. From 3.3 on its node
// stays linked while it wakes the next thread, which takes longer than a short call runs: counted as running, loads with
// 100,000 hand-overs a second had four times the running time that Ruby's events give them (internal/accuracy).
func (c *Classifier) letGo(t *sampler.Thread, r *sampler.Ractor) bool {
	return c.proc.Era == sampler.EraSched && t.ID == r.OwnerStart && t.ID != r.OwnerEnd &&
		t.Bits&(sampler.BitBlockingRegion|sampler.BitNoStatus) == sampler.BitBlockingRegion && t.Status != sampler.Runnable
}
