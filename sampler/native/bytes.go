package native

import (
	"encoding/binary"
	"errors"
)

// errTable means that an unwind table is cut or broken, or has content that no compiler writes for this machine.
var errTable = errors.New("its unwind table cannot be read")

// reader reads numbers from the front of a table. After a first failure, failed is true and all further numbers are
// zero.
type reader struct {
	b      []byte
	at     int
	failed bool
}

func (r *reader) left() int { return len(r.b) - r.at }

// take returns the next n bytes. It returns nil if there are fewer.
func (r *reader) take(n uint64) []byte {
	if r.failed || n > uint64(r.left()) {
		r.failed = true
		return nil
	}
	b := r.b[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *reader) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// number reads a little-endian number of 2, 4 or 8 bytes.
func (r *reader) number(size uint64, signed bool) uint64 {
	b := r.take(size)
	switch {
	case b == nil:
		return 0
	case size == 2 && signed:
		return uint64(int16(binary.LittleEndian.Uint16(b)))
	case size == 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case size == 4 && signed:
		return uint64(int32(binary.LittleEndian.Uint32(b)))
	case size == 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func (r *reader) uleb() uint64 {
	var v uint64
	for shift := 0; ; shift += 7 {
		c := r.u8()
		if shift > 63 || shift == 63 && c > 1 {
			r.failed = true
		}
		if r.failed {
			return 0
		}
		if v |= uint64(c&0x7f) << shift; c < 0x80 {
			return v
		}
	}
}

func (r *reader) sleb() int64 {
	var v int64
	for shift := 0; ; shift += 7 {
		c := r.u8()
		if shift > 63 {
			r.failed = true
		}
		if r.failed {
			return 0
		}
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			if shift < 57 && c&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

// These are encodings of pointers in unwind tables (LSB, "DWARF Exception Header Encoding").
const (
	encodeAbsolute, encodeULEB, encodeU2, encodeU4, encodeU8 = 0x0, 0x1, 0x2, 0x3, 0x4
	encodeSLEB, encodeS2, encodeS4, encodeS8                 = 0x9, 0xa, 0xb, 0xc
	encodeRelative                                           = 0x10
	encodeOmitted                                            = 0xff
)

// pointer reads an encoded pointer. base is the address of the first byte of r, because some pointers are relative to
// their own address.
func (r *reader) pointer(encoding uint8, base uint64) uint64 {
	at := base + uint64(r.at)
	var v uint64
	switch encoding & 0xf {
	case encodeAbsolute, encodeU8, encodeS8:
		v = r.number(8, false)
	case encodeULEB:
		v = r.uleb()
	case encodeSLEB:
		v = uint64(r.sleb())
	case encodeU2, encodeS2:
		v = r.number(2, encoding&0xf == encodeS2)
	case encodeU4, encodeS4:
		v = r.number(4, encoding&0xf == encodeS4)
	default:
		r.failed = true
	}
	switch encoding & 0xf0 {
	case 0:
	case encodeRelative:
		v += at
	default:
		r.failed = true
	}
	return v
}
