package gvl

import "github.com/ddtop/ddtop/sampler"

// owner is the holder of a ractor's GVL in the sample that is being classified. place is the thread's index in the
// sample, or -1 if there is no holder.
type owner struct {
	thread sampler.ThreadID
	place  int
}

// findOwners finds the holder of each ractor's GVL. The ractor's owner field must name the thread, and the thread's own
// data must show that it holds the GVL. If the owner changed while memory was read, this can be true of two threads. In
// this case the later owner is the holder.
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

// sameOwners finds the holders without looking at all threads, to save work. This is possible if each ractor's owner
// field names no thread or the holder of the last sample, as in most samples. Otherwise sameOwners returns false.
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

// findCollector finds the thread that collects garbage: the GVL holder of the ractor that has the VM's lock. If no
// ractor is known to have this lock, the only holder collects. If there are several holders, the only one that does not
// sleep in a futex collects. The others wait in a futex until the collection ends.
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

// named reports whether the owner field names a thread that is about to run. The caller knows that the thread's own
// data does not show it as running (BitLinked). This data was read after the field.
//
// From 3.3 on, it is enough if the field named the thread at the beginning of the read. In half the time of a read, the
// thread cannot take the lock, run, wake the next thread and unlink itself. So it has not run yet.
func (c *Classifier) named(id sampler.ThreadID, r *sampler.Ractor) bool {
	return r.OwnerEnd == id || c.proc.Era == sampler.EraSched && r.OwnerStart == id
}

// letGo reports whether a thread released the GVL while memory was read. The owner field named this thread at the start
// of the read, and another thread at the end. The thread's own data, read in between, shows that it is in a blocking
// region.
//
// From 3.3 on, the thread's data still marks it as running while it wakes the next thread. This takes longer than a
// short call runs. If such a thread counted as running, programs with 100,000 hand-overs per second would show four
// times the running time that Ruby's events show (internal/accuracy).
func (c *Classifier) letGo(t *sampler.Thread, r *sampler.Ractor) bool {
	return c.proc.Era == sampler.EraSched && t.ID == r.OwnerStart && t.ID != r.OwnerEnd &&
		t.Bits&(sampler.BitBlockingRegion|sampler.BitNoStatus) == sampler.BitBlockingRegion && t.Status != sampler.Runnable
}
