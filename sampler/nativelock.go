package sampler

// MaxNativeLocks bounds the locks of C code in a sample, and MaxLockWaiters the threads that wait for one of them.
const MaxNativeLocks, MaxLockWaiters = 64, 1024

// LockState says who holds a lock of C code.
type LockState uint8

// The states of a NativeLock.
const (
	// LockUnknown means that it is not known whether a thread of the process holds the lock.
	LockUnknown LockState = iota
	// LockHeld means that a thread of the process holds the lock.
	LockHeld
	// LockLost means that no thread of the process holds the lock: its holder has ended, or is in the process that
	// forked this one.
	LockLost
	// LockInherited means that a thread of the process FromPID held the lock when that process forked this one.
	LockInherited
)

// String is the word used in JSON: unknown, held, lost, inherited.
func (s LockState) String() string {
	return wordOf(s, "unknown", "unknown", "held", "lost", "inherited")
}

// NativeLocks are the locks of C code that threads wait for. They are read about once a second while at least one
// thread waits for such a lock.
type NativeLocks struct {
	// AtNS is when they were read, CLOCK_MONOTONIC in ns.
	AtNS int64
	List []NativeLock
}

// Lost returns a lock that no thread of the process holds: the one with the most waiters. It returns nil if there is no
// such lock.
func (n *NativeLocks) Lost() (most *NativeLock) {
	if n == nil {
		return nil
	}
	waiters := func(l *NativeLock) int { return len(l.Waiters) + int(l.Others) }
	for i := range n.List {
		if l := &n.List[i]; l.Lost() && (most == nil || waiters(l) > waiters(most)) {
			most = l
		}
	}
	return most
}

// NativeLock is a lock of C code: a mutex, or a lock within the C library.
type NativeLock struct {
	Address uint64
	// Function is the function that waits for the lock, and Library the short name of its file. Either is empty if not
	// known.
	Function, Library string
	State             LockState
	// Owner is the thread id (TID) that the mutex itself stores, in the process's PID namespace. It is zero for locks
	// that store none. Holder is the same thread if it is a Ruby thread. If the State is LockUnknown, Holder is a
	// thread that may hold the lock. In this case it is set only if a single thread is inside the function that takes
	// the lock. FromPID is zero unless the State is LockInherited.
	Owner   int32
	Holder  ThreadID
	FromPID int32
	// Waiters are the Ruby threads that wait. Others is how many other threads wait.
	Waiters []ThreadID
	Others  int32
}

// Lost reports whether no thread of the process can release the lock.
func (l *NativeLock) Lost() bool { return l.State == LockLost || l.State == LockInherited }

// LockOf returns the lock that a thread waits for, or nil.
func (n *NativeLocks) LockOf(id ThreadID) *NativeLock {
	if n == nil {
		return nil
	}
	for i := range n.List {
		for _, w := range n.List[i].Waiters {
			if w == id {
				return &n.List[i]
			}
		}
	}
	return nil
}
