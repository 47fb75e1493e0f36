package trace

import (
	"bytes"
	"errors"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// publishedTries limits how often ddtop reads what a thread publishes in one tick. Up to four readings are needed: of
// the place of the thread-local variable, the variable, the record, and the record's attributes. The limit is higher,
// because each reading can show that the next one must read other memory.
const publishedTries = 6

// Published says where threads publish their spans, so that other processes can read them
// (docs/internals/context.md#a-threads-span).
type Published struct {
	variable attach.ThreadLocal
	root     int
}

// NewPublished returns a Published. variable is the thread-local variable that points to a thread's record. keys are
// the names of the record's attributes: the attribute with the number i has the name keys[i].
func NewPublished(variable attach.ThreadLocal, keys []string) *Published {
	return &Published{variable, slices.Index(keys, rootAttribute)}
}

// Native identifies a native thread by its thread pointer. If At is zero, Pointer is the thread pointer. Otherwise the
// word at the address At is the thread pointer. The zero value means that there is no native thread.
type Native struct{ At, Pointer attach.Address }

// publishedState is what ddtop knows about the span that a thread publishes.
type publishedState struct {
	of     *Published
	native Native
	// via are the words through which the variable was found. slot is the address of the variable, or zero if the
	// thread has no such variable yet.
	via  []attach.Word
	slot attach.Address
	// record is the address to which the variable pointed, or zero. size is how many bytes of attributes are read.
	// sized is true if this size comes from the record itself. bare is true if reading the attributes has failed, so
	// that ddtop does not read them now. unreadable is true if the record cannot be read.
	record                  attach.Address
	size                    int
	sized, bare, unreadable bool

	buf    []byte
	ranges []attach.Range
	// planned is true if this tick's system call also reads the memory in ranges.
	planned bool
	span    Span
}

// outcome is the result of a reading.
type outcome uint8

const (
	settled outcome = iota
	again           // other memory must be read now
	moved           // the variable has another address now
)

// LookPublished stores in s the span that a thread publishes. native is the native thread on which the Ruby thread
// runs. If s.Plan was called, the tick's system call has already read memory for LookPublished. calls is the number of
// further system calls. If memory cannot be read, or changes during the reading, the span is the zero Span. An error
// means that the target cannot be read.
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
			came = p.decode()
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
		ranges := p.planRanges(nil)
		n, err := f.mem.ReadBatch(ranges)
		if calls += n; err != nil {
			*p = publishedState{}
			return calls, targetError(err)
		}
		if came = p.decode(); came != moved && slices.ContainsFunc(ranges[len(p.via):], func(r attach.Range) bool { return r.Failed }) {
			came = p.readLess()
		}
	}
	p.span = Span{}
	return calls, nil
}

// errNoThread means that there is no thread at a thread pointer. On x86-64, the word there must be the thread pointer
// itself.
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
	// On x86-64, the thread pointer points to a word with its own value (psABI).
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

// planRanges adds the ranges to read, in this order: the words that lead to the variable, the variable itself, and
// twice the record followed by the variable. If both copies of the record are equal, the record did not change between
// them.
func (p *publishedState) planRanges(ranges []attach.Range) []attach.Range {
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
	// The caller may add more ranges, which can move the list. So decode uses this copy of the list.
	p.ranges = append(p.ranges[:0], ranges[from:]...)
	// If the record cannot be read, its two copies keep the earlier content of their buffers. They must then not look
	// equal. So first fill the buffers with different bytes.
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

// decode decodes the memory that was read into the ranges of planRanges.
func (p *publishedState) decode() outcome {
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
		return settled // the variable points to no record
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

// readLess is called if a range could not be read. Later readings then leave out the record's attributes. If they
// already leave out the attributes, they leave out the whole record from then on. When the variable points to another
// record, decode reads everything again.
func (p *publishedState) readLess() outcome {
	p.span = Span{}
	switch {
	case p.record == 0:
		return settled // there is no record, so there is nothing to drop
	case p.size > 0:
		p.size, p.bare = 0, p.sized
		return again
	}
	p.unreadable = true
	return settled
}
