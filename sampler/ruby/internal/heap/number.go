package heap

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These constants are tags of words that are numbers and not addresses of objects, and the layout of Bignums and Floats
// (docs/internals/objects.md#numbers).
const (
	fixnumTag              = 1
	flonumMask, flonumTag  = 3, 2
	flonumZero             = 0x8000000000000002
	bignumPositive         = 0x2000 // FL_USER1
	bignumEmbedded         = 0x4000 // FL_USER2
	bignumLengthShift      = 15
	bignumAt, bignumDigits = 16, 24 // offsets of the length and address of digits outside the slot
	digitSize              = 4
	maxDigits              = 4 // 128 bits
	floatAt                = 16
)

// Int returns the value of an Integer. It returns an error for other objects, and for values beyond 64 bits.
func (o *values) Int(v uint64) (int64, error) {
	high, magnitude, negative, err := o.integer(v)
	switch {
	case err != nil:
		return 0, err
	case high == 0 && negative && magnitude <= 1<<63:
		return -int64(magnitude), nil
	case high != 0 || negative || magnitude > math.MaxInt64:
		return 0, fmt.Errorf("the Integer at %#x is beyond 64 bits", v)
	}
	return int64(magnitude), nil
}

// Uint returns the value of an Integer. It returns an error if v is no Integer, is negative, or needs more than 64
// bits.
func (o *values) Uint(v uint64) (uint64, error) {
	high, low, err := o.Uint128(v)
	if err == nil && high != 0 {
		err = fmt.Errorf("the Integer at %#x is beyond 64 bits", v)
	}
	return low, err
}

// Uint128 returns the upper and the lower 64 bits of an Integer that is not negative. It returns an error for any
// other value, and for an Integer of more than 128 bits.
func (o *values) Uint128(v uint64) (high, low uint64, err error) {
	high, low, negative, err := o.integer(v)
	if err == nil && negative {
		err = fmt.Errorf("the Integer at %#x is negative", v)
	}
	return high, low, err
}

func (o *values) integer(v uint64) (high, magnitude uint64, negative bool, err error) {
	if v&fixnumTag != 0 {
		n := int64(v) >> 1
		if n < 0 {
			return 0, uint64(-n), true, nil
		}
		return 0, uint64(n), false, nil
	}
	addr := attach.Address(v)
	flags, err := o.Flags(v)
	if err != nil {
		return 0, 0, false, err
	}
	if flags&TypeMask != typeBignum {
		return 0, 0, false, WrongType(addr, "Integer", flags)
	}
	digits, n := addr+bignumAt, flags>>bignumLengthShift&o.places.digitsMask
	if flags&bignumEmbedded == 0 {
		head, err := o.View.Bytes(addr+bignumAt, bignumDigits-bignumAt+8)
		if err != nil {
			return 0, 0, false, err
		}
		o.Note(addr+bignumAt, head, 0)
		n, digits = view.U64(head), attach.Address(view.U64(head[bignumDigits-bignumAt:]))
	}
	if n == 0 || n > maxDigits {
		return 0, 0, false, fmt.Errorf("the Integer at %s has %d digits of %d bytes", addr, n, digitSize)
	}
	b, err := o.View.Bytes(digits, int(n)*digitSize)
	if err != nil {
		return 0, 0, false, err
	}
	o.noteWord(addr, flags, TypeMask|bignumPositive|bignumEmbedded|o.places.digitsMask<<bignumLengthShift)
	o.Note(digits, b, 0)
	var words [maxDigits * digitSize]byte
	copy(words[:], b) // the lowest digit first
	return view.U64(words[8:]), view.U64(words[:]), flags&bignumPositive == 0, nil
}

// Float returns the value of a Float.
func (o *values) Float(v uint64) (float64, error) {
	if v&flonumMask == flonumTag {
		if v == flonumZero {
			return 0, nil
		}
		b := v&^flonumMask | (2 - v>>63)
		return math.Float64frombits(bits.RotateLeft64(b, -3)), nil
	}
	flags, err := o.Flags(v)
	if err != nil {
		return 0, err
	}
	addr := attach.Address(v)
	if flags&TypeMask != typeFloat {
		return 0, WrongType(addr, "Float", flags)
	}
	o.noteWord(addr, flags, TypeMask)
	w, err := o.notedWord(addr + floatAt)
	return math.Float64frombits(w), err
}
