package kernel

import "errors"

// ErrMoves means that the kernel cannot report when the threads of a process get and lose a CPU. An error that wraps it
// has the reason in its message.
var ErrMoves = errors.New("perf")

// A MoveKind is the kind of an event of a thread, such as getting a CPU.
type MoveKind uint8

const (
	// MoveIn means that the thread gets a CPU.
	MoveIn MoveKind = iota
	// MoveOut means that the thread goes to sleep. MovePreempted means that it loses its CPU and remains runnable.
	MoveOut
	MovePreempted
	// MoveStarted means that the thread starts another thread, Move.Child.
	MoveStarted
	// MoveEnded means that the thread ends.
	MoveEnded
)

// A Move is one event of a thread: it gets or loses a CPU, starts another thread, or ends.
type Move struct {
	// NS is the time of the event, by CLOCK_MONOTONIC.
	NS   int64
	Kind MoveKind
	// Child is the thread that was started. It is zero for other kinds of events.
	Child int32
}
