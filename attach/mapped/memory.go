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

// Range is one piece of a batched read.
type Range struct {
	Addr Address
	// Buf receives the bytes; its length is how many are wanted.
	Buf []byte
	// Failed is set by ReadBatch when the range could not be read in whole. Buf is undefined then.
	Failed bool
}

// Memory reads a target's memory: of a live process, of a core file, or what a test has set.
type Memory interface {
	// Read fills buf from addr, all of it or an error (*ReadError).
	Read(addr Address, buf []byte) error
	// ReadBatch fills the ranges in order, with as few system calls as their number allows (1,024 ranges a call). A
	// range that can't be read is marked Failed and does not stop the ones after it. The error is for what makes all
	// further reading pointless: the target is gone (ErrGone) or has become unreadable. It returns the number of
	// system calls made.
	ReadBatch(ranges []Range) (calls int, err error)
}

// ReadError says what could not be read.
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

// Unwrap gives the kernel's answer.
func (e *ReadError) Unwrap() error { return e.Err }
