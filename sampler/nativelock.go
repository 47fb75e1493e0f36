package sampler

// MaxNativeLocks limits how many locks of C code a sample lists. MaxLockWaiters limits how many waiting threads it
// lists for one lock.
const MaxNativeLocks, MaxLockWaiters = 64, 1024

// LockState says what is known about the holder of a lock of C code.
type LockState uint8

// These constants are the states of a NativeLock.
const (
	// LockUnknown means that ddtop does not know whether a thread of the process holds the lock.
	LockUnknown LockState = iota
	// LockHeld means that a thread of the process holds the lock.
	LockHeld
	// LockLost means that no thread of the process holds the lock, although threads wait for it. Its holder has ended,
	// or is a thread of the parent process that forked this process.
	LockLost
	// LockInherited means that this process was forked while a thread of its parent, the process FromPID, held the
	// lock.
	LockInherited
)

// String returns the word for the state in JSON: unknown, held, lost, inherited.
func (s LockState) String() string {
	return wordOf(s, "unknown", "unknown", "held", "lost", "inherited")
}

// NativeLocks are the locks of C code that threads wait for. ddtop reads them about once a second while at least one
// thread waits for such a lock.
type NativeLocks struct {
	// AtNS is when the locks were read, CLOCK_MONOTONIC in ns.
	AtNS int64
	List []NativeLock
}

// Lost returns a lock that no thread of the process holds, although threads wait for it. If there are several, it
// returns the one with the most waiters. It returns nil if there is none.
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
	// Function is the C function that waits for the lock. Library is the short name of the function's file. Each is
	// empty if its value is not known.
	Function, Library string
	State             LockState
	// Owner is the thread id (TID) that the mutex itself stores, in the process's PID namespace. It is zero for locks
	// that store no owner. Holder is the same thread if it is a Ruby thread. If State is LockUnknown, Holder is a
	// thread that may hold the lock: the only thread inside the function that takes the lock. If there is no such
	// thread, or there are several, Holder is zero. FromPID is zero unless State is LockInherited.
	Owner   int32
	Holder  ThreadID
	FromPID int32
	// Waiters are the Ruby threads that wait for the lock. Others is how many other threads wait for it.
	Waiters []ThreadID
	Others  int32
}

// Lost reports whether no thread of the process can ever release the lock.
func (l *NativeLock) Lost() bool { return l.State == LockLost || l.State == LockInherited }

// LockOf returns the lock of C code that a thread waits for. It returns nil if the thread waits for none.
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
