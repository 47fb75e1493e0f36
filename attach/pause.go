package attach

import "errors"

// ErrTraced means that another process traces the target with ptrace (a debugger, strace). Then ddtop can read the
// target, but not stop it.
var ErrTraced = errors.New("another process traces it")

// ErrStillGrown means that a Still cannot copy the target's memory, because it is larger than the buffer that
// Still.Reserve has allocated for the copy.
var ErrStillGrown = errors.New("its memory has grown since it was measured")

// Pause has the results of one pause, in which ddtop stopped the target's threads.
type Pause struct {
	// NS is how long threads were stopped, in ns. It counts from the first order to stop until the last thread was
	// released.
	NS int64
	// Threads is the number of native threads that were stopped.
	Threads int
	// Cut is true if a thread ran during a part of the reading. Either ddtop could not stop it in time, or the time
	// limit of the pause was reached.
	Cut bool
}
