package recording

import (
	"encoding/binary"

	"github.com/klauspost/compress/zstd"
)

// These are the streams of a block. Numbers that follow a pattern are in other streams than numbers that look random,
// because each kind of number compresses better on its own.
const (
	streamStructure = iota // flags, masks, IDs and other data that rarely changes
	streamTimes            // clock readings
	streamCounters         // CPU times, objects, addresses
	numStreams
)

// streams are the uncompressed samples of a block, in several streams. In the block the streams follow each other.
// Before them come the lengths of the first two streams.
type streams [numStreams][]byte

func (s streams) size() int {
	n := 0
	for _, b := range s {
		n += len(b)
	}
	return n
}

// empty returns the streams with length zero. It keeps their memory for reuse.
func (s streams) empty() streams {
	for i := range s {
		s[i] = s[i][:0]
	}
	return s
}

// appendLengths appends the lengths of the streams, except the last one. With these lengths a reader finds where each
// stream begins.
func (s streams) appendLengths(b []byte) []byte {
	for _, stream := range s[:numStreams-1] {
		b = binary.AppendUvarint(b, uint64(len(stream)))
	}
	return b
}

// pack compresses a block's data and appends it to dst. First come the parts that the parameter before has, then the
// lengths and the streams. Each part becomes a separate zstd frame. A reader need not know where a frame ends, because
// zstd decompresses consecutive frames as one. raw is the uncompressed length.
func (s streams) pack(comp *zstd.Encoder, dst []byte, before ...[]byte) (data []byte, raw int) {
	for _, part := range append(before, s.appendLengths(nil), s[0], s[1], s[2]) {
		dst = comp.EncodeAll(part, dst)
		raw += len(part)
	}
	return dst, raw
}

// open makes the decoder read the streams at the position of c. samples is the number of samples in the block.
func (d *decoder) open(c cursor, samples uint32) error {
	var n [numStreams - 1]int
	for i := range n {
		n[i] = c.count(len(c.b), 1)
	}
	if c.err == nil && n[0]+n[1] > len(c.b)-c.pos {
		c.fail("a stream too long")
	}
	if c.err != nil {
		return c.err
	}
	rest := c.b[c.pos:]
	d.openStreams(streams{rest[:n[0]], rest[n[0] : n[0]+n[1]], rest[n[0]+n[1]:]}, samples)
	return nil
}

// openStreams makes the decoder read the streams s. samples is the number of samples in the block.
func (d *decoder) openStreams(s streams, samples uint32) {
	d.reset()
	d.strings = d.strings[:0]
	d.changed.forget()
	d.changed.toNS = 0
	d.left, d.resumers, d.queued, d.listed = samples, 0, 0, 0
	d.c, d.times, d.counts = cursor{b: s[streamStructure]}, cursor{b: s[streamTimes]}, cursor{b: s[streamCounters]}
}
