package gvl

import (
	"fmt"

	"github.com/ddtop/ddtop/sampler"
)

// NativeLockPlace returns the name of the function that waits for a lock in C code: "getaddrinfo [libc]". It is "" if
// the function is not known.
func NativeLockPlace(l *sampler.NativeLock) string {
	switch {
	case l.Library == "":
		return ""
	case l.Function == "":
		return l.Library
	}
	return l.Function + " [" + l.Library + "]"
}

// NativeLockHolder describes the holder of a lock in C code. The text is the end of a sentence. dict may be nil.
func NativeLockHolder(l *sampler.NativeLock, dict *sampler.Dictionary) string {
	switch {
	case l.State == sampler.LockInherited && l.Owner != 0:
		return fmt.Sprintf("inherited at fork from process %d, whose thread %d held it", l.FromPID, l.Owner)
	case l.State == sampler.LockInherited:
		return fmt.Sprintf("inherited at fork from process %d, where a thread held it", l.FromPID)
	case l.State == sampler.LockLost && l.Owner != 0:
		return fmt.Sprintf("held at fork by a thread that does not exist here, or by a thread that has ended (%d)", l.Owner)
	case l.State == sampler.LockLost:
		return "held at fork by a thread that does not exist here, or by a thread that has ended"
	case l.Holder != 0 && l.State == sampler.LockUnknown:
		return "probably held by " + ThreadName(l.Holder, dict) + ", which is in the same function"
	case l.Holder != 0:
		return "held by " + ThreadName(l.Holder, dict)
	case l.State == sampler.LockHeld:
		return fmt.Sprintf("held by native thread %d", l.Owner)
	}
	return "held by a thread that ddtop cannot tell"
}
