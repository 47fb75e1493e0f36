package mapped

import (
	"fmt"
)

// PageSize is the smallest size of a page on the machines that ddtop supports, in bytes.
const PageSize = 4096

// Address is an address in the target's memory.
type Address uint64

// String prints the address in hexadecimal.
func (a Address) String() string { return fmt.Sprintf("0x%x", uint64(a)) }

// Range is one range of a batched read.
type Range struct {
	Addr Address
	// Buf receives the bytes. Its length is the wanted number.
	Buf []byte
	// Failed is set by ReadBatch if not all of the range could be read. Then Buf is undefined.
	Failed bool
}

// Memory reads the memory of a target: a live process, a core file, or a test.
type Memory interface {
	// Read fills all of buf from addr, or returns a *ReadError.
	Read(addr Address, buf []byte) error
	// ReadBatch fills the ranges in order, with up to 1,024 ranges per system call. It marks a range that cannot be
	// read as Failed, and goes on. It returns an error if further reading is pointless, because the target is gone
	// (ErrGone) or has become unreadable. calls is the number of system calls.
	ReadBatch(ranges []Range) (calls int, err error)
}

// ReadError reports a range that could not be read, and why.
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
