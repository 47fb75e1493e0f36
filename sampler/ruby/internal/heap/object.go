package heap

import (
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These are types of objects, in RBasic.flags & TypeMask (ruby_value_type, docs/internals/objects.md#flags).
const (
	TypeMask   = 0x1f
	TypeNone   = 0
	TypeObject = 1
	typeClass  = 2
	typeModule = 3
	typeFloat  = 4
	TypeString = 5
	TypeArray  = 7
	TypeHash   = 8
	typeBignum = 10
	TypeData   = 12
	TypeSymbol = 20
	TypeImemo  = 26
	typeIClass = 28
	TypeMoved  = 30
)

const (
	// flagNoEmbed is set on a String whose bytes are outside its slot. flagEmbed is set on an Array whose elements are
	// in its slot. Both are the same bit (FL_USER1).
	flagNoEmbed, flagEmbed = 0x2000, 0x2000
	// maxArray limits the length of an Array, in elements. The longest Array that ddtop reads is in the symbol table.
	maxArray = 1 << 24
	// maxCString bounds the length of a C string, such as the name of a data type, in bytes.
	maxCString = 256
)

// These constants describe a static Symbol, which is not an object: its word has symbolTag in the lowest byte, and its
// ID in the bits above.
const symbolShift, symbolMask, symbolTag uint64 = 8, 0xff, 0x0c

// wrongTypeError means that an address does not hold the expected object. This object was freed or moved after its
// address was read.
type wrongTypeError struct {
	addr  attach.Address
	want  string
	flags uint64
}

// NotHeap takes the place of an object's flags for a value that is no heap object: a number, nil or a static symbol.
const NotHeap = ^uint64(0)

// WrongType returns the error for an address that does not hold the wanted object. flags are the flags found there.
func WrongType(addr attach.Address, want string, flags uint64) error {
	return &wrongTypeError{addr, want, flags}
}

func (e *wrongTypeError) Error() string {
	if e.flags == NotHeap {
		return fmt.Sprintf("%s is no %s", e.addr, e.want)
	}
	switch e.flags & TypeMask {
	case TypeMoved:
		return fmt.Sprintf("the %s at %s was moved", e.want, e.addr)
	case TypeNone:
		return fmt.Sprintf("the %s at %s was freed", e.want, e.addr)
	}
	return fmt.Sprintf("%s holds no %s (flags %#x)", e.addr, e.want, e.flags)
}

// Displaced reports whether an error means that an object has just moved or been freed, for example by a compaction.
// Results that were read at this moment must not be cached.
func Displaced(err error) bool {
	var wrong *wrongTypeError
	if !errors.As(err, &wrong) {
		return false
	}
	t := wrong.flags & TypeMask
	return wrong.flags != NotHeap && (t == TypeMoved || t == TypeNone)
}

// IsObject reports whether a word can be a reference to a heap object. nil, true, false, numbers and static symbols
// are not heap objects.
func (o *values) IsObject(v uint64) bool { return v&7 == 0 && v > o.places.Nil }

// Flags reads an object's flags.
func (o *values) Flags(v uint64) (uint64, error) {
	if !o.IsObject(v) {
		return 0, WrongType(attach.Address(v), "object", NotHeap)
	}
	return o.View.Word(attach.Address(v))
}

// Want adds the beginning of an object to the memory that the view fetches next, because the object is likely to be
// needed.
func (o *values) Want(v uint64) {
	if o.IsObject(v) {
		o.View.Want(attach.Address(v), 40)
	}
}

// Is reports whether a value is a heap object of a type, such as TypeHash. It returns false if the value cannot be
// read. The error is view.ErrMissing or nil.
func (o *values) Is(v, typ uint64) (bool, error) {
	if !o.IsObject(v) {
		return false, nil
	}
	flags, err := o.View.Word(attach.Address(v))
	if err != nil && err != view.ErrMissing {
		return false, nil
	}
	return err == nil && flags&TypeMask == typ, err
}

// rubyString is the beginning of a String. cut is true if the String is longer.
type rubyString struct {
	bytes    []byte
	encoding int
	cut      bool
}

func (o *values) stringLength(v, flags uint64) (uint64, error) {
	if flags&flagNoEmbed == 0 && o.places.stringLenInFlags {
		return flags >> 14 & 0x1f, nil
	}
	return o.View.Word(attach.Address(v) + 16)
}

// rawString reads the first sampler.MaxNameBytes bytes of a String.
func (o *values) rawString(v uint64) (rubyString, error) {
	return o.stringPrefix(v, sampler.MaxNameBytes)
}

// stringPrefix reads the first limit bytes of a String.
func (o *values) stringPrefix(v uint64, limit int) (rubyString, error) {
	if !o.IsObject(v) {
		return rubyString{}, WrongType(attach.Address(v), "String", NotHeap)
	}
	addr := attach.Address(v)
	head, err := o.View.Bytes(addr, 32)
	if err != nil {
		return rubyString{}, err
	}
	flags := view.U64(head)
	if flags&TypeMask != TypeString {
		return rubyString{}, WrongType(addr, "String", flags)
	}
	data := addr + attach.Address(o.places.stringEmbedded)
	n := view.U64(head[16:])
	switch {
	case flags&flagNoEmbed != 0:
		data = attach.Address(view.U64(head[24:]))
	case o.places.stringLenInFlags:
		n = flags >> 14 & 0x1f
	}
	if n > 1<<40 {
		return rubyString{}, WrongType(addr, "String", flags)
	}
	b, err := o.View.Bytes(data, int(min(n, uint64(limit))))
	if err == nil {
		o.Note(addr, head, TypeMask|flagNoEmbed|0x1f<<14|encodingMask<<encodingShift)
		o.Note(data, b, 0)
	}
	return rubyString{b, int(flags >> encodingShift & encodingMask), n > uint64(limit)}, err
}

// NoteString records a String's bytes as a witness, so that Unchanged notices a later change of the bytes.
func (o *values) NoteString(v uint64) error {
	_, err := o.rawString(v)
	return err
}

// Bytes returns the first limit bytes of a String. cut is true if the String is longer. Callers must not change the
// bytes.
func (o *values) Bytes(v uint64, limit int) (b []byte, cut bool, err error) {
	s, err := o.stringPrefix(v, limit)
	return s.bytes, s.cut, err
}

// Prefix returns the first limit bytes of a String as valid UTF-8. cut is true if the String is longer. If limit falls
// within a character, the character's bytes before limit are returned as \xNN.
func (o *values) Prefix(v uint64, limit int) (text string, cut bool, err error) {
	s, err := o.stringPrefix(v, limit)
	if err != nil {
		return "", false, err
	}
	return decodeText(s.bytes, s.encoding), s.cut, nil
}

// Name returns the text of a String or a Symbol, shortened like sampler.CutName.
func (o *symbols) Name(v uint64) (string, error) {
	if v&symbolMask == symbolTag {
		return o.IDName(v >> symbolShift)
	}
	flags, err := o.Flags(v)
	if err != nil {
		return "", err
	}
	if flags&TypeMask == TypeSymbol {
		return o.SymbolName(v)
	}
	return o.Text(v)
}

// Text returns a String as valid UTF-8, shortened like sampler.CutName.
func (o *values) Text(v uint64) (string, error) {
	s, err := o.rawString(v)
	if err != nil {
		return "", err
	}
	if !s.cut {
		return sampler.CutName(decodeText(s.bytes, s.encoding)), nil
	}
	// With CutMark, the text is longer than CutName allows. So CutName cuts it, and also removes an incomplete
	// character at the end of the bytes.
	return sampler.CutName(decodeText(s.bytes, s.encoding) + sampler.CutMark), nil
}

// Array returns the address of an Array's elements, and their number.
func (o *values) Array(v uint64) (attach.Address, uint64, error) {
	if !o.IsObject(v) {
		return 0, 0, WrongType(attach.Address(v), "Array", NotHeap)
	}
	addr := attach.Address(v)
	b, err := o.View.Bytes(addr, 40)
	if err != nil {
		return 0, 0, err
	}
	flags := view.U64(b)
	if flags&TypeMask != TypeArray {
		return 0, 0, WrongType(addr, "Array", flags)
	}
	o.Note(addr, b, TypeMask|flagEmbed|o.places.arrayLenMask<<15)
	if flags&flagEmbed != 0 {
		return addr + 16, flags >> 15 & o.places.arrayLenMask, nil
	}
	n := view.U64(b[16:])
	if n > maxArray {
		return 0, 0, fmt.Errorf("the Array at %s has %d elements", addr, n)
	}
	return attach.Address(view.U64(b[32:])), n, nil
}

// ArrayHead is the number of bytes of an Array that ArrayLength needs.
const ArrayHead = 24

// ArrayLength returns the number of elements of an Array from its first ArrayHead bytes. ok is false if head is not
// the beginning of an Array.
func (o *values) ArrayLength(head []byte) (n uint64, ok bool) {
	flags := view.U64(head)
	if flags&TypeMask != TypeArray {
		return 0, false
	}
	if flags&flagEmbed != 0 {
		return flags >> 15 & o.places.arrayLenMask, true
	}
	return view.U64(head[16:]), true
}

func (o *values) element(v uint64, i uint64) (uint64, error) {
	at, n, err := o.Array(v)
	if err != nil {
		return 0, err
	}
	if i >= n {
		return 0, fmt.Errorf("the Array at %#x has %d elements, not %d", v, n, i+1)
	}
	return o.View.Word(at + attach.Address(8*i))
}

// cString returns the C string at addr. It stops after limit bytes.
func (o *values) cString(addr attach.Address, limit int) (string, error) {
	var s []byte
	for len(s) < limit {
		// Read only up to the end of a block at a time, because the memory after the string may not be readable.
		n := view.Block - int(addr&(view.Block-1))
		b, err := o.View.Bytes(addr, n)
		if err != nil {
			return "", err
		}
		for i, c := range b {
			if c == 0 {
				return decodeText(append(s, b[:i]...), encUTF8), nil
			}
		}
		s = append(s, b...)
		addr += attach.Address(n)
	}
	return decodeText(s[:limit], encUTF8), nil
}

// String returns a String's content as valid UTF-8, shortened like sampler.CutName. ok is false if value is not a
// String or cannot be read.
func (o *values) String(value uint64) (s string, ok bool) {
	err := o.Read(func() (err error) {
		s, err = o.Text(value)
		return err
	})
	return s, err == nil
}
