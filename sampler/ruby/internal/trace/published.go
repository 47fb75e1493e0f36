package trace

import (
	"bytes"
	"errors"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// publishedTries bounds the readings of what a thread publishes. The place of its thread-local variable, the
// variable, the record and its attributes need up to four readings. Each can change what the next one reads.
const publishedTries = 6

// Published is the place where threads publish their spans for readers outside
// (docs/internals/context.md#a-threads-span).
type Published struct {
	variable attach.ThreadLocal
	root     int
}

// NewPublished returns a Published: variable is the threads' pointer to their record, keys are the names of attributes
// by their numbers.
func NewPublished(variable attach.ThreadLocal, keys []string) *Published {
	return &Published{variable, slices.Index(keys, rootAttribute)}
}

// Native identifies a thread's native thread by its thread pointer, which is the word at At, or Pointer if At is 0.
// The zero value means that it has none.
type Native struct{ At, Pointer attach.Address }

// publishedState is what ddtop knows about the span that a thread publishes.
type publishedState struct {
	of     *Published
	native Native
	// via are the words that led to the variable. slot is its address. It is zero if the thread has none yet.
	via  []attach.Word
	slot attach.Address
	// record is the address that the variable pointed to, or zero. size is the number of bytes of attributes to read.
	// sized is true if the record itself gave that number. bare is true if that many bytes cannot be read, so that
	// none are. unreadable is true if the record cannot be read.
	record                  attach.Address
	size                    int
	sized, bare, unreadable bool

	buf    []byte
	ranges []attach.Range
	// planned is true if this tick's call reads ranges.
	planned bool
	span    Span
}

// outcome is the result of a reading.
type outcome uint8

const (
	settled outcome = iota
	again           // other memory must be read now
	moved           // the variable is elsewhere
)

// LookPublished puts into s the span that a thread on a native thread publishes. It uses the memory that s.Plan has
// added to the call of the stack, if Plan was called. It returns the number of system calls made. If memory cannot be
// read or changes meanwhile, the span is the zero Span. An error is the target's.
func (f *Finder) LookPublished(s *State, of *Published, native Native) (calls int, err error) {
	p := &s.published
	planned := p.planned
	p.planned = false
	if of == nil || native == (Native{}) {
		*p = publishedState{}
		return 0, nil
	}
	came := moved
	if p.of == of && p.native == native {
		if came = again; planned {
			came = p.take()
		}
	}
	for range publishedTries {
		if came == settled {
			return calls, nil
		}
		if came == moved {
			n, err := p.locate(f.mem, of, native)
			if calls += n; err != nil {
				*p = publishedState{}
				return calls, targetError(err)
			}
		}
		ranges := p.lay(nil)
		n, err := f.mem.ReadBatch(ranges)
		if calls += n; err != nil {
			*p = publishedState{}
			return calls, targetError(err)
		}
		if came = p.take(); came != moved && slices.ContainsFunc(ranges[len(p.via):], func(r attach.Range) bool { return r.Failed }) {
			came = p.giveWay()
		}
	}
	p.span = Span{}
	return calls, nil
}

// errNoThread means that the thread's control block does not begin with its own address.
var errNoThread = errors.New("no thread pointer")

func (p *publishedState) locate(mem attach.Memory, of *Published, native Native) (calls int, err error) {
	*p = publishedState{of: of, native: native, via: p.via[:0], buf: p.buf}
	pointer := native.Pointer
	var b [8]byte
	if native.At != 0 {
		calls++
		if err := mem.Read(native.At, b[:]); err != nil {
			return calls, err
		}
		pointer = attach.Address(view.U64(b[:]))
		p.via = append(p.via, attach.Word{Addr: native.At, Value: uint64(pointer)})
	}
	// A thread pointer points to itself (x86-64 psABI).
	calls++
	if err := mem.Read(pointer, b[:]); err != nil {
		return calls, err
	}
	if attach.Address(view.U64(b[:])) != pointer {
		return calls, errNoThread
	}
	at, via, n, err := of.variable.Locate(mem, pointer, p.via)
	p.slot, p.via = at, via
	return calls + n, err
}

// lay adds some ranges: the words that lead to the variable, the variable, and the record twice, each time with the
// variable behind it. A value that is the same in all of them held in between.
func (p *publishedState) lay(ranges []attach.Range) []attach.Range {
	n, record := 8*len(p.via)+24, recordHead+p.size
	if cap(p.buf) < n+2*record {
		p.buf = make([]byte, n+2*record)
	}
	from, buf := len(ranges), p.buf[:cap(p.buf)]
	add := func(at attach.Address, size int) {
		ranges = append(ranges, attach.Range{Addr: at, Buf: buf[:size:size]})
		buf = buf[size:]
	}
	for _, w := range p.via {
		add(w.Addr, 8)
	}
	if p.slot != 0 {
		add(p.slot, 8)
		if p.record != 0 && !p.unreadable {
			for range 2 {
				add(p.record, record)
				add(p.slot, 8)
			}
		}
	}
	// A caller that adds more ranges may move them. take reads these.
	p.ranges = append(p.ranges[:0], ranges[from:]...)
	// Memory that cannot be read must agree with nothing, so the two copies of the record differ in each byte before
	// they are read.
	for i := range p.ranges {
		clear(p.ranges[i].Buf)
	}
	if second := len(p.via) + 3; len(p.ranges) > second {
		for i := range p.ranges[second].Buf {
			p.ranges[second].Buf[i] = 0xff
		}
	}
	return ranges
}

// take decodes the ranges of lay.
func (p *publishedState) take() outcome {
	p.span = Span{}
	ranges := p.ranges
	for _, w := range p.via {
		if view.U64(ranges[0].Buf) != w.Value {
			return moved
		}
		ranges = ranges[1:]
	}
	if len(ranges) == 0 {
		return settled // the thread has no such variable
	}
	record := attach.Address(view.U64(ranges[len(ranges)-1].Buf))
	if record != p.record {
		p.record, p.sized, p.bare, p.unreadable = record, false, false, record%2 != 0
		if record == 0 || p.unreadable {
			return settled
		}
		return again
	}
	if len(ranges) == 1 {
		return settled // it points to nothing
	}
	const before, first, between, second = 0, 1, 2, 3
	for _, i := range []int{before, between} {
		if attach.Address(view.U64(ranges[i].Buf)) != record {
			return again
		}
	}
	head := ranges[first].Buf
	if !bytes.Equal(head, ranges[second].Buf) {
		return again
	}
	if n := attributesSize(head); n != p.size && !p.bare {
		p.size, p.sized = n, true
		return again
	}
	p.span = recordSpanOf(head, p.of.root)
	return settled
}

// giveWay has less memory read if some cannot be read. This holds until the variable changes.
func (p *publishedState) giveWay() outcome {
	p.span = Span{}
	switch {
	case p.record == 0:
		return settled // without a record there is nothing else to read less of
	case p.size > 0:
		p.size, p.bare = 0, p.sized
		return again
	}
	p.unreadable = true
	return settled
}
