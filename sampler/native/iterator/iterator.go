package iterator

import (
	"encoding/binary"
	"fmt"

	"github.com/ddtop/ddtop/sampler/native"
)

// maxThreads is the largest number of threads in one reading.
const maxThreads = 1 << 16

// uninterruptible is the bit of state D in a task's state (TASK_UNINTERRUPTIBLE, linux/sched.h).
const uninterruptible = 2

// Thread has the registers of a sleeping thread.
type Thread struct {
	Registers native.Registers
	// Turns is how often the thread has got a CPU, as in task/TID/schedstat. If Turns is the same later, the thread has
	// not run, so the registers are still valid.
	Turns int64
	// Call is the number of the system call in which the thread sleeps, or negative if it sleeps outside one.
	Call int64
	// Uninterruptible is true if the thread is in state D (uninterruptible sleep).
	Uninterruptible bool
}

// These constants are offsets in the record that the program writes for each thread. The record has these words, and
// then the registers.
const (
	recordTID = 8 * iota
	recordTurns
	recordCall
	recordState
	recordRegisters
	recordSize = recordRegisters + 8*native.NumRegisters
)

// decode adds the threads in the program's records to the map to. The key is the TID.
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
