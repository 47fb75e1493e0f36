// Package stackmem allocates memory for copies of stacks. It also remembers how far inward, towards deeper calls, a
// stack has reached lately.
package stackmem

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/mapped"
)

// reachReads is the number of readings of a stack in one period of a Reach. A Reach remembers at least this many
// readings, and at most twice as many.
const reachReads = 64

// Reach remembers how far inward, towards deeper calls, a stack has reached lately. It covers two periods: the current
// period of at most reachReads readings, and the period before it.
type Reach struct {
	innermost, sp [2]attach.Address // zero if nothing was read
	reads         int
}

// Note adds a reading of the stack. cfp is the address of the innermost frame, and sp its stack pointer.
func (e *Reach) Note(cfp, sp attach.Address) {
	if e.reads++; e.reads > reachReads {
		e.reads = 1
		e.innermost, e.sp = [2]attach.Address{0, e.innermost[0]}, [2]attach.Address{0, e.sp[0]}
	}
	if e.innermost[0] == 0 || cfp < e.innermost[0] {
		e.innermost[0] = cfp
	}
	e.sp[0] = max(e.sp[0], sp)
}

// Farthest returns the innermost frame and the highest stack pointer of both periods. They are zero if nothing was
// read.
func (e *Reach) Farthest() (innermost, sp attach.Address) {
	innermost = e.innermost[0]
	if e.innermost[1] != 0 {
		innermost = min(innermost, e.innermost[1])
	}
	return innermost, max(e.sp[0], e.sp[1])
}

// Grow returns memory for n bytes. It returns a part of b if b is large enough. All pages of the memory are present, so
// copying into it causes no page fault. During a page fault, the target could make hundreds of calls, and the copy of
// its stack would be torn. If two copies had a page fault at the same frame, they would be torn in the same way, and
// ddtop would accept them. (With new memory for each copy, this happened in 3 of 100,000 stacks.)
func Grow(b []byte, n int) []byte {
	if cap(b) >= n {
		return b[:n]
	}
	b = make([]byte, n+n/2)
	for i := 0; i < len(b); i += mapped.PageSize {
		b[i] = 0
	}
	if len(b) > 0 {
		b[len(b)-1] = 0
	}
	return b[:n]
}
