package kernel

import (
	"encoding/binary"

	"github.com/ddtop/ddtop/attach"
)

// lockedWithWaiters is the value of a glibc lock that is held and waited for (sysdeps/nptl/lowlevellock.h).
const lockedWithWaiters = 2

// AwaitsLock reports whether a call waits in futex(2) for a lock of glibc. If so, the call's argument 0 is the lock's
// address.
func (c *Call) AwaitsLock() bool {
	const (
		futexWait, futexWaitBitset = 0, 9
		private, realtime          = 128, 256
	)
	op := uint32(c.Args[1]) &^ (private | realtime)
	return c.Name == "futex" && (op == futexWait || op == futexWaitBitset) && uint32(c.Args[2]) == lockedWithWaiters
}

// MutexOwner returns the TID of the thread that holds a glibc mutex for which other threads wait. The TID is of the
// process's PID namespace. ok is false if the memory at the address cannot be such a mutex. The fields are in struct
// __pthread_mutex_s of struct_mutex.h: lock, count, owner, users, kind.
func MutexOwner(mem attach.Memory, address uint64) (owner int32, ok bool) {
	const maxUsers, maxKind = 1 << 16, 0x3ff
	var b [20]byte
	if mem.Read(attach.Address(address), b[:]) != nil {
		return 0, false
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	owner = int32(word(2))
	return owner, word(0) == lockedWithWaiters && owner > 0 && word(3) >= 1 && word(3) <= maxUsers && word(4) <= maxKind
}

// LockAwaited reports whether threads still wait for the glibc lock at an address.
func LockAwaited(mem attach.Memory, address uint64) bool {
	var b [4]byte
	return mem.Read(attach.Address(address), b[:]) == nil && binary.LittleEndian.Uint32(b[:]) == lockedWithWaiters
}
