package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
)

// collector reads Ruby's object counters just before it reads a thread's frames. The newest objects can then be charged
// to these frames.
type collector struct {
	*target
	list *threadList
	// The first call of a tick can read a pair of object counters just before the frames of a thread. around is this
	// thread. It is nil if the call reads no pair.
	around *thread
}

// bracket returns the only thread that held a GVL at the last tick. Just before this thread's frames, ddtop reads two
// object counters (a pair). The objects allocated between the two readings are charged to the thread. bracket returns
// nil if ddtop must not read a pair now, or if not exactly one thread held a GVL.
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

// countsAround reports whether ddtop must read a pair of object counters before a second reading of the frames of t. It
// returns true if a pair is due, only t held a GVL, and the first call read no pair for t. If the first call read a
// pair, only this pair may be used. A later pair would be biased against code that makes many calls. The reason is that
// copies of a stack agree most easily while the target stands still.
func (r *collector) countsAround(t *thread) bool {
	if r.gc == nil || !r.gc.PairDue() || r.around == t || r.list.soleOwner() != t {
		return false
	}
	r.gc.Pair()
	return true
}

// soleOwner returns the thread that held a GVL in this tick. It returns nil if no thread held one, or if threads of
// several ractors did. If a ractor's GVL changed hands during the tick, only the later owner counts.
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

// CountClasses reads which objects are new, and returns an estimate of all allocations since the first call, by class.
// It returns nil if there is no estimate yet, or if there can be none. Call it after the Read that filled s, 10 to 100
// times per second. It takes about 10 µs for each heap in use.
func (r *Reader) CountClasses(s *sampler.Sample) *sampler.AllocClasses {
	if r.gc == nil {
		return nil
	}
	return r.gc.CountClasses(s)
}

// ForeignGC returns the name of the garbage collector that a process has loaded as a library. It is "" for Ruby's own
// collector.
func ForeignGC(mappings []attach.Mapping) string { return gc.Foreign(mappings) }

// DisableGC stops the reading of the collector's state. Call it for a modular GC, whose structs are not known.
func (r *Reader) DisableGC() { r.gc = nil }
