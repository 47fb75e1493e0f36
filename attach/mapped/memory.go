package mapped

import (
	"fmt"
)

// PageSize is the smallest page, in bytes, of the machines that can be read.
const PageSize = 4096

// Address is an address in the target's memory.
type Address uint64

// String prints the address in hexadecimal.
func (a Address) String() string { return fmt.Sprintf("0x%x", uint64(a)) }

// Range is one range of a batched read.
type Range struct {
	Addr Address
	// Buf receives the bytes; its length is how many are wanted.
	Buf []byte
	// Failed is set by ReadBatch when the range could not be read in whole. Buf is undefined then.
	Failed bool
}

// Memory reads the memory of a target: a live process, a core file, or a test.
type Memory interface {
	// Read fills buf from addr, all of it or an error (*ReadError).
	Read(addr Address, buf []byte) error
	// ReadBatch fills the ranges in order, with 1,024 ranges per system call. A range that cannot be read is marked
	// as Failed. The ranges after it are still read. It returns an error if further reading is pointless, because the
	// target is gone (ErrGone) or has become unreadable. calls is the number of system calls.
	ReadBatch(ranges []Range) (calls int, err error)
}

// ReadError names the range that could not be read.
type ReadError struct {
	PID  int
	Addr Address
	Want int
	Err  error
}

// Error names the PID, the range and the kernel's answer.
func (e *ReadError) Error() string {
	return fmt.Sprintf("reading %d bytes at %s of process %d: %v", e.Want, e.Addr, e.PID, e.Err)
}

// Unwrap returns the kernel's answer.
func (e *ReadError) Unwrap() error { return e.Err }
