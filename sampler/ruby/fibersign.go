package ruby

import "github.com/ddtop/ddtop/attach"

const (
	// signEveryNS is the interval at which ddtop checks whether threads have switched to another fiber, in ns.
	// signBatch is the number of threads that it checks at a time.
	signEveryNS = int64(100e6)
	signBatch   = 64
)

// fiberSign finds out whether a thread of a process has ever switched from its first fiber to another fiber. Before the
// first switch no fiber is suspended, so ddtop need not search the heap for fibers.
//
// When a thread switches, it saves the stack pointer of the fiber that it leaves in rb_fiber_struct.context
// (coroutine_transfer of coroutine/*/Context.S, Ruby 2.6 and later). The first fiber of a thread has zeros there until
// then (rb_threadptr_root_fiber_setup of cont.c).
type fiberSign struct {
	nextNS int64
	next   int // next is the place in Reader.order of the next thread to read
	ranges []attach.Range
	words  [signBatch][8]byte
}

// seen checks some threads, if a check is due, and reports whether a thread has ever switched fibers. It also returns
// true if ddtop cannot find this out in this release.
func (g *fiberSign) seen(r *waitingFibers, nowNS int64) bool {
	at, ok := r.savedStackPointer()
	if !ok {
		return true
	}
	if nowNS < g.nextNS || len(r.list.order) == 0 {
		return false
	}
	g.nextNS = nowNS + signEveryNS
	g.ranges = g.ranges[:0]
	for range min(signBatch, len(r.list.order)) {
		t := r.list.order[g.next%len(r.list.order)]
		g.next++
		root := r.firstFiber(t)
		if root == 0 {
			continue // Ruby sets the root fiber before the thread's first switch
		}
		if t.stack.ec != 0 && t.stack.ec != r.contextOf(root) {
			return true // the thread now runs another fiber
		}
		g.ranges = append(g.ranges, attach.Range{Addr: root + attach.Address(at), Buf: g.words[len(g.ranges)][:]})
	}
	if len(g.ranges) == 0 {
		return false
	}
	calls, err := r.mem.ReadBatch(g.ranges)
	r.reads.Calls += uint64(calls)
	if err != nil {
		return false // the next tick reports the error
	}
	for i := range g.ranges {
		if !g.ranges[i].Failed && le64(g.words[i][:]) != 0 {
			return true
		}
	}
	return false
}

// savedStackPointer returns the offset in rb_fiber_struct of the saved stack pointer. This is the first word of the
// field context, which follows the bits of the field status on all releases.
func (r *waitingFibers) savedStackPointer() (offset int, ok bool) {
	f := r.finder
	if f == nil || !r.vm.Release.AtLeast(2, 6) {
		return 0, false
	}
	const word = 8
	end := f.status.Offset + max(f.status.Size, 4)
	return (end + word - 1) / word * word, true
}
