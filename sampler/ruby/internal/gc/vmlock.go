package gc

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// vmLock is the lock of the whole VM. Only processes with several ractors use it. A ractor that collects garbage holds
// the lock. If it marks, it may have to stop the other ractors, which then wait at a barrier
// (docs/internals/threads.md#ractors).
type vmLock struct {
	lockPlaces
	ownerBuf   [8]byte
	barrierBuf [1]byte
	asked      bool // the lock is read in this tick
	// during is true if the collector was running when this tick read its flags. stopping is true if a ractor has asked
	// the others to stop at a barrier.
	during, stopping bool
	holder           attach.Address
}

// lockPlaces are places in rb_vm_t.
type lockPlaces struct {
	owner   int `layout:"rb_vm_struct.ractor.sync.lock_owner,optional"`
	barrier int `layout:"rb_vm_struct.ractor.sched.barrier_waiting|ractor.sync.barrier_waiting,optional"`
}

// plan adds the lock's fields to the batch directly after the collector's flags, so that both are read at the same
// moment.
func (l *vmLock) plan(batch []attach.Range, g *Reader) []attach.Range {
	if l.asked = len(g.ractors) > 1 && l.owner >= 0 && l.barrier >= 0; l.asked {
		batch = append(batch, attach.Range{Addr: g.VM + attach.Address(l.owner), Buf: l.ownerBuf[:]},
			attach.Range{Addr: g.VM + attach.Address(l.barrier), Buf: l.barrierBuf[:]})
	}
	return batch
}

// take decodes the ranges of plan.
func (l *vmLock) take(gc *sampler.GC) {
	l.during, l.stopping, l.holder = false, false, 0
	if l.asked {
		l.during, l.stopping, l.holder = gc.Valid && gc.During, l.barrierBuf[0] != 0, attach.Address(view.U64(l.ownerBuf[:]))
	}
}

// LockBits returns BitCollects and BitBarrier for the threads that own a ractor's GVL. The caller sets them for no
// other thread. BitCollects means that the collector works, and that this ractor has the VM's lock. BitBarrier is the
// same for all ractors: it means that one of them has asked the others to stop.
func (g *Reader) LockBits(ractor attach.Address) sampler.ThreadBits {
	l := &g.vmLock
	var b sampler.ThreadBits
	if l.during && l.holder == ractor {
		b |= sampler.BitCollects
	}
	if l.stopping {
		b |= sampler.BitBarrier
	}
	return b
}
