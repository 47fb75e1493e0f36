package kernelview

import (
	"encoding/binary"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
)

const (
	// lostAgainNS is how long the owner of an awaited mutex is believed, in ns.
	lostAgainNS = 1_000_000_000
	// maxHelpers bounds the native threads unknown to Ruby that are checked.
	maxHelpers = 64
)

// lostWait is the last result for a thread's wait in a futex.
type lostWait struct {
	args [6]uint64
	atNS int64
	lost bool
}

// lostHelpers is whether a native thread that Ruby does not know waits for a mutex of no thread.
type lostHelpers struct {
	atNS  int64
	found bool
}

// lostName returns the name of a wait in a futex: futex, or what says that no thread can end it.
func (v *View) lostName(call *kernel.Call, w *threadView) string {
	if v.Spaces == nil || v.mem == nil {
		return call.Name
	}
	now := v.now()
	if w.lost.atNS == 0 || w.lost.args != call.Args || now-w.lost.atNS > lostAgainNS {
		w.lost = lostWait{call.Args, now, v.isLost(call)}
	}
	switch {
	case w.lost.lost:
		return sampler.SyscallLostLock
	case v.helperLost(now):
		return sampler.SyscallLostHelper
	}
	return call.Name
}

// isLost reports whether a futex is a lost mutex of glibc: it is locked with waiters, and its owner is no thread of
// the process. (struct __pthread_mutex_s of sysdeps/nptl/bits/struct_mutex.h: lock, count, owner, users, kind.)
func (v *View) isLost(call *kernel.Call) bool {
	const (
		futexWait, futexWaitBitset = 0, 9
		private, realtime          = 128, 256
		lockedWithWaiters          = 2
		maxUsers, maxKind          = 1 << 16, 0x3ff
	)
	op := uint32(call.Args[1]) &^ (private | realtime)
	if op != futexWait && op != futexWaitBitset || uint32(call.Args[2]) != lockedWithWaiters {
		return false
	}
	read := func() (owner int32, ok bool) {
		var b [20]byte
		if v.mem.Read(attach.Address(call.Args[0]), b[:]) != nil {
			return 0, false
		}
		word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
		owner = int32(word(2))
		return owner, word(0) == lockedWithWaiters && owner > 0 && word(3) >= 1 && word(3) <= maxUsers && word(4) <= maxKind
	}
	owner, ok := read()
	if !ok {
		return false
	}
	if has, known := v.Spaces.Has(owner); has || !known {
		return false
	}
	// It owned the mutex while it was looked for.
	again, ok := read()
	return ok && again == owner
}

// helperLost reports whether a native thread unknown to Ruby waits for a mutex of no thread. It asks once a second.
func (v *View) helperLost(now int64) bool {
	if v.lost.atNS != 0 && now-v.lost.atNS <= lostAgainNS {
		return v.lost.found
	}
	v.lost = lostHelpers{atNS: now}
	tids, err := v.tasks.List()
	if err != nil {
		return false
	}
	known := make(map[int32]bool, len(v.threads))
	for _, w := range v.threads {
		known[w.tid] = true
	}
	asked := 0
	for _, tid := range tids {
		if known[tid] {
			continue
		}
		if asked++; asked > maxHelpers {
			break
		}
		if call, err := v.tasks.Call(tid); err == nil && call.Name == "futex" && v.isLost(&call) {
			v.lost.found = true
			break
		}
	}
	return v.lost.found
}
