package work

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// liveFrame is a control frame whose variables are read. It has the words of memory that show whether the frame has
// returned.
type liveFrame struct {
	at    attach.Address
	words [frameWords]byte
	// ec is the execution context. innermostAt is the address of its word that points to the innermost frame. leads are
	// the words through which the execution context was found.
	ec, innermostAt attach.Address
	leads           []Lead
	// looks are two copies of the words that show whether the frame has returned. One is read before the frame's
	// variables, and one after them. Two copies are needed because another frame can take this frame's place in
	// between.
	looks [2]frameLook
}

// frameLook is a copy of the words that show whether a frame has not returned yet.
type frameLook struct {
	words     [frameWords]byte
	innermost [8]byte
	leads     []byte
}

// frameOf returns the liveFrame of the frame at an address. frame has its bytes, as they were read together with the
// other frames of fr.
func frameOf(fr *Frames, at attach.Address, frame []byte) liveFrame {
	return liveFrame{at: at, words: wordsOf(frame), ec: fr.EC, innermostAt: fr.InnermostAt, leads: fr.Leads}
}

// set replaces the frame by o. It copies o.leads, because this slice belongs to the caller.
func (f *liveFrame) set(o liveFrame) {
	o.leads = append(f.leads[:0], o.leads...)
	*f = o
}

// plan returns the ranges of memory that must be read to fill l.
func (f *liveFrame) plan(l *frameLook) []attach.Range {
	l.leads = make([]byte, 8*len(f.leads))
	ranges := make([]attach.Range, 0, len(f.leads)+2)
	for i, lead := range f.leads {
		ranges = append(ranges, attach.Range{Addr: lead.At, Buf: l.leads[8*i : 8*i+8]})
	}
	return append(ranges, attach.Range{Addr: f.innermostAt, Buf: l.innermost[:]}, attach.Range{Addr: f.at + code.FrameISeq, Buf: l.words[:]})
}

// lives reports whether the frame had not returned when l was read: it ran, or waited for frames that it had called. A
// thread that has ended has no innermost frame. When a thread ends, Ruby sets the address of the innermost frame to 0,
// but leaves the frames in memory (rb_ec_clear_vm_stack in vm.c, 3.0).
func (f *liveFrame) lives(l *frameLook) bool {
	for i, lead := range f.leads {
		if attach.Address(view.U64(l.leads[8*i:])) != lead.Says {
			return false
		}
	}
	innermost := attach.Address(view.U64(l.innermost[:]))
	return l.words == f.words && innermost != 0 && innermost <= f.at
}

// confirm reports whether the frame has not returned, and all memory that w watches is unchanged. Both must be checked,
// because the variables of a frame that has returned stay in memory, but their objects can be freed.
//
// found is true if the search found what it wanted. In this case Hashes may have got new pairs, because a server and
// its middleware fill a request's environment for the first milliseconds. If found is false, a new pair counts as a
// change, because it may be the wanted pair.
func (f *liveFrame) confirm(w *heap.Watch, found bool, o *heap.Objects, mem attach.Memory) (same bool, calls int, err error) {
	confirm := w.Confirm
	if found {
		confirm = w.ConfirmKept
	}
	same, calls, err = confirm(o, mem, f.plan(&f.looks[0]), f.plan(&f.looks[1]))
	return same && f.lives(&f.looks[0]) && f.lives(&f.looks[1]), calls, err
}
