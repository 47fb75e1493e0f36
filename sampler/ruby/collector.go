package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

// collector reads what the garbage collector counts, around the frames of the thread that it is charged to.
type collector struct {
	*target
	list *threadList
	// around is the thread whose frames the counters of objects were read around in this tick's first call; nil:
	// none's.
	around *thread
}

// bracket is the thread before whose frames the counters are to be read: the only one that held a GVL the last time it
// was looked. nil: none, or several at once, whose allocations can't be distinguished, or no pair is due.
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

// countsAround reports whether a thread's frames that are read again need the counters before them: when it holds the
// GVL and they were not before its frames in the first call. If they were, that difference counts, however often the
// frames have to be read until two copies agree: they agree most easily while the target stands still, so taking the
// difference of the reading that succeeded would underrate the code that makes most calls.
func (r *collector) countsAround(t *thread) bool {
	if r.gc == nil || !r.gc.PairDue() || r.around == t || r.list.soleOwner() != t {
		return false
	}
	r.gc.Pair()
	return true
}

// soleOwner is the thread that held a GVL in this tick; nil when there was none or several ractors had one. Of two that
// held one ractor's, the later.
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

// newGCReader returns the reader of a VM's collector, whose object space is at an address; nil: it can't be read.
func newGCReader(vm *VM, objspace attach.Address, objects *heap.Objects, now func() int64, reads *sampler.Reads) *gc.Reader {
	return gc.New(gc.Target{Mem: vm.Mem, Table: vm.Table, Release: vm.Release, VM: vm.Addr, Objspace: objspace,
		ZJITFrames: vm.ZJITFrames, Objects: objects, Now: now, Reads: reads})
}

// listRactors tells the collector's reader where the ractors are.
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

// readGCDetail gives the sample the details of the collector.
func (r *collector) readGCDetail(s *sampler.Sample) {
	s.GCDetail = sampler.GCDetail{}
	if r.gc != nil && !r.gc.ReadDetail(s) {
		r.gc = nil
	}
}

// pair charges the difference of the counters to the owner.
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

// CountClasses looks at the objects that were allocated since the last look, and returns the estimate of all since the
// first one; nil where it can't be told, or nothing was seen yet. It belongs right behind the Read that filled s. It
// costs some 10 µs a heap in use, and is to be called some 10 to 100 times a second.
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
