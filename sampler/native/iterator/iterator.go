package iterator

import (
	"encoding/binary"
	"fmt"

	"github.com/ddtop/ddtop/sampler/native"
)

// maxThreads bounds the threads of one reading.
const maxThreads = 1 << 16

// uninterruptible is the bit of state D (TASK_UNINTERRUPTIBLE, linux/sched.h).
const uninterruptible = 2

// Thread is a thread that sleeps.
type Thread struct {
	Registers native.Registers
	// Turns is how often the thread was given a CPU, as in task/TID/schedstat. The registers are the thread's own
	// until Turns grows.
	Turns int64
	// Call is the number of its system call. It is negative if the thread sleeps outside of one.
	Call int64
	// Uninterruptible is true in state D.
	Uninterruptible bool
}

// What the program writes for each thread: these words, then the registers.
const (
	recordTID = 8 * iota
	recordTurns
	recordCall
	recordState
	recordRegisters
	recordSize = recordRegisters + 8*native.NumRegisters
)

// decode adds the threads in what the program has written.
func decode(b []byte, to map[int32]Thread) error {
	if len(b)%recordSize != 0 {
		return fmt.Errorf("%d bytes of threads, of %d each", len(b), recordSize)
	}
	for ; len(b) > 0; b = b[recordSize:] {
		if len(to) >= maxThreads {
			return nil
		}
		at := func(place int) uint64 { return binary.LittleEndian.Uint64(b[place:]) }
		var registers [native.NumRegisters]uint64
		for i := range registers {
			registers[i] = at(recordRegisters + 8*i)
		}
		to[int32(at(recordTID))] = Thread{Registers: native.AllRegisters(registers), Turns: int64(at(recordTurns)),
			Call: int64(at(recordCall)), Uninterruptible: at(recordState)&uninterruptible != 0}
	}
	return nil
}
