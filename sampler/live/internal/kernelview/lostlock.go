package kernelview

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
)

const (
	// lostAgainNS is how long ddtop uses the result of a check for lost locks before it checks again, in ns. A lost
	// lock is one that no thread can release.
	lostAgainNS = 1_000_000_000
	// maxHelpers is the largest number of helper threads that are checked. A helper thread is a native thread that Ruby
	// does not know.
	maxHelpers = 64
)

// lostWait is the last result of isLost for a thread that waits in a futex.
type lostWait struct {
	args [6]uint64
	atNS int64
	lost bool
}

// lostHelpers says what helper threads wait for. A helper thread is a native thread that Ruby does not know. found is
// SyscallLostHelper if one of them waits for a lock that no thread can release. It is SyscallHelperLock if one of them
// waits for another lock, and none is in a system call of the list asks. Otherwise it is empty.
type lostHelpers struct {
	atNS  int64
	found string
}

// lostName returns the name to display for a thread's wait in a futex. It is SyscallLostLock if no thread can end the
// wait. If helper threads wait for a lock, it is the name from lostHelpers. Otherwise it is the name of the system
// call.
func (v *View) lostName(call *kernel.Call, w *threadView) string {
	if v.Spaces == nil || v.mem == nil {
		return call.Name
	}
	now := v.now()
	if w.lost.atNS == 0 || w.lost.args != call.Args || now-w.lost.atNS > lostAgainNS {
		w.lost = lostWait{call.Args, now, v.isLost(call)}
	}
	if w.lost.lost {
		return sampler.SyscallLostLock
	}
	return cmp.Or(v.helpers(now), call.Name)
}

// isLost reports whether a system call waits for a lock that no thread can release. Such a lock is in LostLocks, or is
// a mutex of glibc whose owner is not a thread of the process.
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
	// Read the owner again. If it has changed since the first reading, the lock is not lost.
	again, ok := kernel.MutexOwner(v.mem, call.Args[0])
	return ok && again == owner
}

// asks are system calls in which a helper thread waits for a server, for example to resolve a name. A helper thread in
// such a call does not wait for a lock.
var asks = map[string]bool{
	"poll": true, "ppoll": true, "select": true, "pselect6": true, "connect": true, "read": true, "recvfrom": true,
	"recvmsg": true, "recvmmsg": true, "sendto": true, "sendmsg": true, "sendmmsg": true,
}

// helpers returns what helper threads wait for (see lostHelpers). It asks the kernel at most once a second.
func (v *View) helpers(now int64) string {
	if v.lost.atNS != 0 && now-v.lost.atNS <= lostAgainNS {
		return v.lost.found
	}
	v.lost = lostHelpers{atNS: now}
	tids, err := v.tasks.List()
	if err != nil {
		return ""
	}
	known := make(map[int32]bool, len(v.threads))
	for _, w := range v.threads {
		known[w.tid] = true
	}
	asked, locked, other := 0, false, false
	for _, tid := range tids {
		if known[tid] {
			continue
		}
		if asked++; asked > maxHelpers {
			other = true
			break
		}
		call, err := v.tasks.Call(tid)
		switch {
		case err != nil || asks[call.Name]:
			other = true
		case call.Name == "futex" && v.isLost(&call):
			v.lost.found = sampler.SyscallLostHelper
			return v.lost.found
		case call.AwaitsLock():
			locked = true
		}
	}
	if locked && !other {
		v.lost.found = sampler.SyscallHelperLock
	}
	return v.lost.found
}
