// Package moves reads from the kernel when threads of a process get and lose a CPU (PERF_RECORD_SWITCH).
package moves

import "errors"

// Err means that the kernel cannot report when the threads of a process get and lose a CPU. An error that wraps it
// has the reason in its message.
var Err = errors.New("perf")

// A Kind is the kind of an event of a thread, such as getting a CPU.
type Kind uint8

const (
	// In means that the thread gets a CPU.
	In Kind = iota
	// Out means that the thread goes to sleep. Preempted means that it loses its CPU and remains runnable.
	Out
	Preempted
	// Started means that the thread starts another thread, Move.Child.
	Started
	// Ended means that the thread ends.
	Ended
)

// A Move is one event of a thread: it gets or loses a CPU, starts another thread, or ends.
type Move struct {
	// NS is the time of the event, by CLOCK_MONOTONIC.
	NS   int64
	Kind Kind
	// Child is the thread that was started. It is zero for other kinds of events.
	Child int32
}
