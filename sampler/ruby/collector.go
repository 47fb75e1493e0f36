package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
)

// collector reads what the garbage collector counts, around the frames of the thread that it is charged to.
type collector struct {
	*target
	list *threadList
	// around is the thread whose frames are read between two readings of the object counters, in the first call of
	// this tick. It is nil if there is none.
	around *thread
}

// bracket returns the thread whose frames are read between two readings of the object counters. It is the only thread
// that held a GVL at the last tick. bracket returns nil if no such pair of readings is due. It also returns nil if no
// thread held a GVL, or if several did, because their allocations cannot be told apart.
func (r *collector) bracket() *thread {
	if r.gc == nil || !r.gc.AskPair() {
		return nil
	}
	var found *thread
	for _, rc := range r.list.ractors {
		t := rc.owners[1]
		if t == nil {
			continue
		}
		if found != nil {
			return nil
		}
		found = t
	}
	if found != nil {
		r.gc.Pair()
	}
	return found
}

// countsAround reports whether a repeated reading of a thread's frames needs the counters before them. It does if the
// thread holds the GVL and the first call did not read them. If the first call did, its difference counts, even if the
// frames are read again until two copies agree. The copies agree most easily while the target stands still. So the
// difference of the last reading would underrate the code that makes most calls.
func (r *collector) countsAround(t *thread) bool {
	if r.gc == nil || !r.gc.PairDue() || r.around == t || r.list.soleOwner() != t {
		return false
	}
	r.gc.Pair()
	return true
}

// soleOwner returns the thread that held a GVL in this tick. It returns nil if no thread did, or if threads of several
// ractors did. If a ractor's GVL changed hands during the tick, the later owner counts.
func (r *threadList) soleOwner() *thread {
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

func (r *collector) listRactors() {
	if r.gc == nil {
		return
	}
	list := make([]attach.Address, len(r.list.ractors))
	for i, rc := range r.list.ractors {
		list[i] = rc.addr
	}
	r.gc.SetRactors(list)
}

func (r *collector) readGCDetail(s *sampler.Sample) {
	s.GCDetail = sampler.GCDetail{}
	if r.gc != nil && !r.gc.ReadDetail(s) {
		r.gc = nil
	}
}

func (r *collector) pair(depth sampler.Depth, s *sampler.Sample) {
	s.GC.Pair = sampler.AllocPair{}
	if r.gc == nil {
		return
	}
	t := r.list.soleOwner()
	if objects, ok := r.gc.EndPair(depth, s, t != nil); ok {
		s.GC.Pair = sampler.AllocPair{Thread: t.id, Objects: objects}
	}
}

// CountClasses samples the newest objects and returns the estimate of all allocations since the first call. It
// returns nil if there is no estimate yet, or if there can be none. Call it after the Read that filled s, 10 to 100
// times per second. It takes about 10 µs for each heap in use.
func (r *Reader) CountClasses(s *sampler.Sample) *sampler.AllocClasses {
	if r.gc == nil {
		return nil
	}
	return r.gc.CountClasses(s)
}

// ForeignGC names the collector of a process that loaded another one than Ruby's own as a library; "" for Ruby's own.
func ForeignGC(mappings []attach.Mapping) string { return gc.Foreign(mappings) }

// DisableGC stops the reading of the collector: a modular GC keeps other structs.
func (r *Reader) DisableGC() { r.gc = nil }
