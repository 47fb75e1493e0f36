package ruby

import (
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// Types of heap objects, RBasic.flags & typeMask (ruby_value_type, docs/internals/objects.md#flags).
const (
	typeMask   = 0x1f
	typeNone   = 0
	typeObject = 1
	typeClass  = 2
	typeModule = 3
	typeString = 5
	typeArray  = 7
	typeData   = 12
	typeSymbol = 20
	typeImemo  = 26
	typeIClass = 28
	typeMoved  = 30
)

// Kinds of internal objects, flags>>12 & 15 of a T_IMEMO (imemo_type; those below 8 are the same from 2.5 to head).
const (
	imemoShift = 12
	imemoCref  = 1
	imemoSvar  = 2
	imemoIFunc = 4
	imemoMent  = 6
	imemoISeq  = 7
)

const (
	// flagNoEmbed on a String, and flagEmbed on an Array, are the same bit (FL_USER1).
	flagNoEmbed, flagEmbed = 0x2000, 0x2000
	// maxArray bounds an Array's length: the symbol table's is the longest that is followed.
	maxArray = 1 << 24
	// maxCString bounds a C string, such as the name of a data type.
	maxCString = 256
)

// Where a Symbol that is not an object carries its ID.
const symbolShift, symbolMask, symbolTag uint64 = 8, 0xff, 0x0c

// wrongTypeError says that an address holds something else than expected: the object was freed or moved meanwhile.
type wrongTypeError struct {
	addr  attach.Address
	want  string
	flags uint64
}

// notHeap stands in for the flags of what is not a heap object: a number, nil, a static symbol.
const notHeap = ^uint64(0)

// Error names the address and what was found there.
func (e *wrongTypeError) Error() string {
	if e.flags == notHeap {
		return fmt.Sprintf("%s is no %s", e.addr, e.want)
	}
	switch e.flags & typeMask {
	case typeMoved:
		return fmt.Sprintf("the %s at %s was moved", e.want, e.addr)
	case typeNone:
		return fmt.Sprintf("the %s at %s was freed", e.want, e.addr)
	}
	return fmt.Sprintf("%s holds no %s (flags %#x)", e.addr, e.want, e.flags)
}

// displaced reports whether an error means that an object is not where it was a moment ago: a compaction is moving objects,
// or it was freed. Then nothing read in this moment is worth keeping.
func displaced(err error) bool {
	var wrong *wrongTypeError
	if !errors.As(err, &wrong) {
		return false
	}
	t := wrong.flags & typeMask
	return wrong.flags != notHeap && (t == typeMoved || t == typeNone)
}

// isHeap reports whether a word can be a reference to a heap object: not nil, true, false, a number or a static symbol.
func (d *Decoder) isHeap(v uint64) bool { return v&7 == 0 && v > d.vm.Nil }

// flags reads an object's flags.
func (d *Decoder) flags(v uint64) (uint64, error) {
	if !d.isHeap(v) {
		return 0, &wrongTypeError{attach.Address(v), "object", notHeap}
	}
	return d.view.Word(attach.Address(v))
}

// rubyString is what was read of a String: at most sampler.MaxNameBytes, and whether it has more.
type rubyString struct {
	bytes    []byte
	encoding int
	cut      bool
}

// rawString reads a String.
func (d *Decoder) rawString(v uint64) (rubyString, error) {
	if !d.isHeap(v) {
		return rubyString{}, &wrongTypeError{attach.Address(v), "String", notHeap}
	}
	addr := attach.Address(v)
	head, err := d.view.Bytes(addr, 32)
	if err != nil {
		return rubyString{}, err
	}
	flags := le64(head)
	if flags&typeMask != typeString {
		return rubyString{}, &wrongTypeError{addr, "String", flags}
	}
	data := addr + attach.Address(d.o.stringEmbedded)
	n := le64(head[16:])
	switch {
	case flags&flagNoEmbed != 0:
		data = attach.Address(le64(head[24:]))
	case d.o.stringLenInFlags:
		n = flags >> 14 & 0x1f
	}
	if n > 1<<40 {
		return rubyString{}, &wrongTypeError{addr, "String", flags}
	}
	b, err := d.view.Bytes(data, int(min(n, sampler.MaxNameBytes)))
	if err == nil {
		d.note(addr, head, typeMask|flagNoEmbed|0x1f<<14|encodingMask<<encodingShift)
		d.note(data, b, 0)
	}
	return rubyString{b, int(flags >> encodingShift & encodingMask), n > sampler.MaxNameBytes}, err
}

// text returns a String as valid UTF-8, cut as sampler.CutName does.
func (d *Decoder) text(v uint64) (string, error) {
	s, err := d.rawString(v)
	if err != nil {
		return "", err
	}
	if !s.cut {
		return sampler.CutName(decodeText(s.bytes, s.encoding)), nil
	}
	// The mark makes it too long, so that CutName takes what may be a part of a character from its end.
	return sampler.CutName(decodeText(s.bytes, s.encoding) + sampler.CutMark), nil
}

// array returns the place of an Array's elements and their number.
func (d *Decoder) array(v uint64) (attach.Address, uint64, error) {
	if !d.isHeap(v) {
		return 0, 0, &wrongTypeError{attach.Address(v), "Array", notHeap}
	}
	addr := attach.Address(v)
	b, err := d.view.Bytes(addr, 40)
	if err != nil {
		return 0, 0, err
	}
	flags := le64(b)
	if flags&typeMask != typeArray {
		return 0, 0, &wrongTypeError{addr, "Array", flags}
	}
	d.note(addr, b, typeMask|flagEmbed|d.o.arrayLenMask<<15)
	if flags&flagEmbed != 0 {
		return addr + 16, flags >> 15 & d.o.arrayLenMask, nil
	}
	n := le64(b[16:])
	if n > maxArray {
		return 0, 0, fmt.Errorf("the Array at %s has %d elements", addr, n)
	}
	return attach.Address(le64(b[32:])), n, nil
}

// element returns element i of an Array.
func (d *Decoder) element(v uint64, i uint64) (uint64, error) {
	at, n, err := d.array(v)
	if err != nil {
		return 0, err
	}
	if i >= n {
		return 0, fmt.Errorf("the Array at %#x has %d elements, not %d", v, n, i+1)
	}
	return d.view.Word(at + attach.Address(8*i))
}

// cString returns the C string at addr, at most maxCString bytes of it.
func (d *Decoder) cString(addr attach.Address) (string, error) {
	var s []byte
	for len(s) < maxCString {
		// Never across a block: what follows the string may not be readable.
		n := view.Block - int(addr&(view.Block-1))
		b, err := d.view.Bytes(addr, n)
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
	return decodeText(s[:maxCString], encUTF8), nil
}

// String returns a Ruby String's content as valid UTF-8, at most sampler.MaxNameBytes of it; ok is false when value is no
// String or can't be read.
func (d *Decoder) String(value uint64) (s string, ok bool) {
	d.view.Reset()
	err := d.view.Settle(func() (err error) {
		s, err = d.text(value)
		return err
	})
	return s, err == nil
}

// DataTypeName returns the name that C code gave the type of a T_DATA object: "mutex", "VM/thread", "queue"; "" when value
// is none or can't be read. Kept by the type's address, for types are static.
func (d *Decoder) DataTypeName(value uint64) string {
	var name string
	d.view.Reset()
	err := d.view.Settle(func() (err error) {
		name, err = d.dataTypeName(value)
		return err
	})
	if err != nil {
		return ""
	}
	return name
}

func (d *Decoder) dataTypeName(v uint64) (string, error) {
	if !d.isHeap(v) {
		return "", &wrongTypeError{attach.Address(v), "typed data", notHeap}
	}
	addr := attach.Address(v)
	b, err := d.view.Bytes(addr, 40)
	if err != nil {
		return "", err
	}
	flags := le64(b)
	if flags&typeMask != typeData {
		return "", &wrongTypeError{addr, "typed data", flags}
	}
	// Untyped RData has functions where the type and its flag are.
	if d.o.typedFlag >= 0 {
		if f := le64(b[d.o.typedFlag:]); f == 0 || f > 3 {
			return "", &wrongTypeError{addr, "typed data", flags}
		}
	}
	// The lowest bit says that the data follows the header (4.0 and later).
	typ := attach.Address(le64(b[d.o.typedType:]) &^ 1)
	if name, ok := d.typeNames[typ]; ok {
		return name, nil
	}
	at, err := d.view.Word(typ)
	if err != nil {
		return "", err
	}
	name, err := d.cString(attach.Address(at))
	if err != nil {
		return "", err
	}
	if len(d.typeNames) < maxTypeNames {
		d.typeNames[typ] = name
	}
	return name, nil
}
