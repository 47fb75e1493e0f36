package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// vmLock is the lock of the whole VM, of which only processes with several ractors make use: a ractor collects garbage under it,
// and stops the others at a barrier where marking needs that (docs/internals/threads.md#ractors).
type vmLock struct {
	ownerBuf         [8]byte
	barrierBuf       [1]byte
	asked            bool // planned in this tick
	during, stopping bool // in this tick: the collector works; a barrier is asked for
	holder           attach.Address
}

// plan adds the lock to the batch. It comes beside the collector's flags, so that both are of one instant.
func (l *vmLock) plan(r *Reader) {
	if l.asked = len(r.ractors) > 1 && r.o.vmLockOwner >= 0 && r.o.vmBarrier >= 0; l.asked {
		r.add(r.vm.Addr+attach.Address(r.o.vmLockOwner), l.ownerBuf[:])
		r.add(r.vm.Addr+attach.Address(r.o.vmBarrier), l.barrierBuf[:])
	}
}

// take decodes what plan's ranges received.
func (l *vmLock) take(gc *sampler.GC) {
	l.during, l.stopping, l.holder = false, false, 0
	if l.asked {
		l.during, l.stopping, l.holder = gc.Valid && gc.During, l.barrierBuf[0] != 0, attach.Address(le64(l.ownerBuf[:]))
	}
}

// bits are those of a thread of a ractor.
func (l *vmLock) bits(ractor attach.Address) sampler.ThreadBits {
	var b sampler.ThreadBits
	if l.during && l.holder == ractor {
		b |= sampler.BitCollects
	}
	if l.stopping {
		b |= sampler.BitBarrier
	}
	return b
}
