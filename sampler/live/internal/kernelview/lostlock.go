package kernelview

import (
	"slices"

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

// isLost reports whether a call waits for a lost mutex of glibc, or for a lock in LostLocks. The owner of a lost mutex
// is no thread of the process.
func (v *View) isLost(call *kernel.Call) bool {
	if !call.AwaitsLock() {
		return false
	}
	v.LockWaitNS.Store(v.now())
	if lost := v.LostLocks.Load(); lost != nil && slices.Contains(*lost, call.Args[0]) {
		return true
	}
	owner, ok := kernel.MutexOwner(v.mem, call.Args[0])
	if !ok {
		return false
	}
	if has, known := v.Spaces.Has(owner); has || !known {
		return false
	}
	// It owned the mutex while it was looked for.
	again, ok := kernel.MutexOwner(v.mem, call.Args[0])
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
