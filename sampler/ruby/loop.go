package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// loopState remembers which fiber a thread with a fiber scheduler ran at the last tick.
type loopState struct {
	ec   attach.Address // the context of the fiber that was seen last
	turn sampler.ThreadBits
}

// loopBits returns a thread's bits BitLoopFiber and BitFiberTurn, computed from the words that each tick reads.
func (r *target) loopBits(t *thread) (b sampler.ThreadBits) {
	if r.o.ThScheduler < 0 || !r.dec.Objects.IsObject(le64(t.buf[r.o.ThScheduler:])) {
		t.loop = loopState{}
		return 0
	}
	ec, root := attach.Address(le64(t.buf[r.o.ThEC:])), r.firstFiber(t)
	if ec != t.loop.ec {
		t.loop.ec = ec
		t.loop.turn ^= sampler.BitFiberTurn
	}
	if root != 0 && ec != 0 && ec != r.contextOf(root) {
		b = sampler.BitLoopFiber
	}
	return b | t.loop.turn
}
