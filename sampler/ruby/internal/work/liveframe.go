package work

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// liveFrame is a control frame whose variables are read.
type liveFrame struct {
	at    attach.Address
	words [frameWords]byte
	// ec is the execution context, which has the address of the innermost frame at innermostAt.
	ec, innermostAt attach.Address
	// again and innermost are what was read behind the variables.
	again     [frameWords]byte
	innermost [8]byte
}

// lives reports whether the frame runs or waits for those it has called.
func (f *liveFrame) lives() bool {
	return f.again == f.words && attach.Address(view.U64(f.innermost[:])) <= f.at
}

// confirm reports whether a frame's words, and all that w watches, still say the same. A frame that has returned leaves its variables
// behind, which nothing keeps the objects of. What was found holds also where a Hash has got pairs: a server and its middleware fill a
// request's environment for its first milliseconds. That nothing was found does not: it may be there by now.
func (f *liveFrame) confirm(w *heap.Watch, found bool, o *heap.Objects, mem attach.Memory) (same bool, calls int, err error) {
	confirm := w.Confirm
	if found {
		confirm = w.ConfirmKept
	}
	same, calls, err = confirm(o, mem, attach.Range{Addr: f.at + code.FrameISeq, Buf: f.again[:]},
		attach.Range{Addr: f.innermostAt, Buf: f.innermost[:]})
	return same && f.lives(), calls, err
}
