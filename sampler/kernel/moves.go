package kernel

import "errors"

// ErrMoves: the kernel does not tell ddtop when the threads of the process get and lose a CPU. The message says why.
var ErrMoves = errors.New("perf")

// MoveKind says what a thread did.
type MoveKind uint8

const (
	// MoveIn: the thread gets a CPU.
	MoveIn MoveKind = iota
	// MoveOut: the thread goes to sleep. MovePreempted: it loses its CPU and remains runnable.
	MoveOut
	MovePreempted
	// MoveStarted: the thread makes another one, Move.Child.
	MoveStarted
	// MoveEnded: the thread ends.
	MoveEnded
)

// Move is one event of a thread.
type Move struct {
	// NS is CLOCK_MONOTONIC of the machine.
	NS   int64
	Kind MoveKind
	// Child is the thread that was made.
	Child int32
}
