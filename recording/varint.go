package recording

import (
	"encoding/binary"
	"fmt"
)

// appendInt appends a signed number in zigzag form, in which numbers near zero take few bytes.
func appendInt(b []byte, v int64) []byte {
	return binary.AppendUvarint(b, zigzag(v))
}

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// cursor reads numbers from bytes that may be malicious. After the first error all reads return 0.
type cursor struct {
	b   []byte
	pos int
	err error
}

func (c *cursor) fail(what string) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s at byte %d of a block", errDamaged, what, c.pos)
	}
}

func (c *cursor) uint() uint64 {
	if c.err != nil {
		return 0
	}
	// Most numbers are one byte.
	if c.pos < len(c.b) && c.b[c.pos] < 0x80 {
		c.pos++
		return uint64(c.b[c.pos-1])
	}
	v, n := binary.Uvarint(c.b[c.pos:])
	if n <= 0 {
		c.fail("a number")
		return 0
	}
	c.pos += n
	return v
}

func (c *cursor) int() int64 { return unzigzag(c.uint()) }

// uint32 reads a number. It is an error if the number does not fit in 32 bits.
func (c *cursor) uint32() uint32 {
	v := c.uint()
	if v > 1<<32-1 {
		c.fail("a number too large")
		return 0
	}
	return uint32(v)
}

// count reads the length of a list. It refuses more than limit elements. It also refuses a length for which too few
// bytes remain. least is the smallest size of an element, in bytes. So a list takes at most a few times as much memory
// as the bytes from which it is read.
func (c *cursor) count(limit, least int) int {
	v := c.uint()
	if v > uint64(limit) || v > uint64((len(c.b)-c.pos)/least) {
		c.fail("a list too long")
		return 0
	}
	return int(v)
}

func (c *cursor) below(n int) int {
	v := c.uint()
	if c.err == nil && v >= uint64(n) {
		c.fail("an index out of range")
	}
	if c.err != nil {
		return 0
	}
	return int(v)
}

// text reads a string. Its length comes before it.
func (c *cursor) text() string {
	n := c.count(len(c.b), 1)
	if c.err != nil {
		return ""
	}
	s := string(c.b[c.pos : c.pos+n])
	c.pos += n
	return s
}

func (c *cursor) more() bool { return c.err == nil && c.pos < len(c.b) }
