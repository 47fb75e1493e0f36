// Package stackmem has memory for copies of stacks. It also remembers the innermost place that a stack has reached
// lately.
package stackmem

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/mapped"
)

// A Reach remembers the last readings of a stack: at least reachReads of them, and at most twice as many.
const reachReads = 64

// Reach is the innermost place that a stack has reached recently: in the current period of at most reachReads
// readings, and in the period before.
type Reach struct {
	innermost, sp [2]attach.Address // zero if nothing was read
	reads         int
}

// Note adds a reading: the places of the innermost frame and of its stack pointer.
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

// Grow returns memory for n bytes: b's own if that is large enough. All its pages are present, so copying into it
// causes no page fault. During a page fault, the target makes hundreds of calls, so the copied stack is torn. Two
// copies with a fault at the same frame are torn alike, and ddtop would accept them. (Measured with new memory each
// time: 3 of 100,000 stacks.)
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
