package recording

import (
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/ddtop/ddtop/sampler"
)

// History keeps the latest samples in memory. It uses the same blocks as a file, but with the Dictionary's IDs. One
// goroutine appends, and any number of others may read. A reader waits at most while one sample is encoded. The
// appending goroutine never waits for a reader.
type History struct {
	limitNS, limitBytes int64
	comp                *zstd.Encoder
	decomp              *zstd.Decoder

	mu     sync.Mutex
	enc    *encoder
	blocks []*memoryBlock // oldest first
	bytes  int64          // the total size of the blocks
	// pending is the number of closed blocks that are not compressed yet.
	pending int
}

// memoryBlock is a closed block. At first its samples are in the field fresh. Once they are compressed, they are in the
// field data instead, and fresh is empty.
type memoryBlock struct {
	header  header
	fresh   streams
	data    []byte
	dropped bool
}

func (b *memoryBlock) size() int64 { return int64(len(b.data) + b.fresh.size()) }

// NewHistory returns an empty History. It keeps the last limitNS of time in at most limitBytes of memory. It drops the
// oldest blocks, but never the block that is being filled. The samples' IDs must belong to one Dictionary.
func NewHistory(limitNS, limitBytes int64) (*History, error) {
	comp, err := compressor()
	if err != nil {
		return nil, err
	}
	decomp, err := newDecompressor()
	if err != nil {
		return nil, err
	}
	h := &History{limitNS: limitNS, limitBytes: limitBytes, comp: comp, decomp: decomp, enc: newEncoder(false)}
	h.enc.begin(streams{})
	return h, nil
}

// Append adds a sample. It only encodes the sample, which takes a few microseconds. Another goroutine compresses
// samples later. If a sample exceeds the format's limits, Append leaves it out and returns errLimit.
func (h *History) Append(s *sampler.Sample) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.enc.full(s) {
		h.seal()
	}
	return h.enc.add(s)
}

// seal closes the current block and begins the next one. The bytes of the closed block must not change, because a
// reader may use them.
func (h *History) seal() {
	e := h.enc
	b := &memoryBlock{
		header: header{kind: kindSamples, flags: flagGlobalIDs, firstNS: e.firstNS, lastNS: e.sample.TimeNS, samples: e.samples},
		fresh:  e.out,
	}
	h.blocks = append(h.blocks, b)
	h.bytes += b.size()
	var bufs streams
	for i, s := range e.out {
		bufs[i] = make([]byte, 0, len(s)+len(s)/8)
	}
	e.begin(bufs)
	h.evict(b.header.lastNS)
	if h.pending >= maxPending {
		// Samples from a file can come faster than other goroutines compress them. Then this goroutine compresses, too.
		h.replace(b, h.packed(b.fresh))
		return
	}
	h.pending++
	go func(fresh streams) {
		data := h.packed(fresh)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.pending--
		h.replace(b, data)
	}(b.fresh)
}

// maxPending limits the number of closed blocks that wait to be compressed. If there are more, the appending goroutine
// itself compresses.
const maxPending = 4

// evict drops the oldest blocks until the History is within its limits.
func (h *History) evict(now int64) {
	n := 0
	for n < len(h.blocks) && (h.blocks[n].header.lastNS < now-h.limitNS || h.bytes > h.limitBytes) {
		h.bytes -= h.blocks[n].size()
		h.blocks[n].dropped = true
		n++
	}
	if n > 0 {
		h.blocks = append([]*memoryBlock(nil), h.blocks[n:]...)
	}
}

// packed is a block's compressed data, in a slice without spare capacity.
type packed struct {
	data []byte
	raw  int
}

func (h *History) packed(fresh streams) packed {
	data, raw := fresh.pack(h.comp, make([]byte, 0, fresh.size()/2))
	return packed{append(make([]byte, 0, len(data)), data...), raw}
}

func (h *History) replace(b *memoryBlock, p packed) {
	before := b.size()
	b.data, b.fresh = p.data, streams{}
	b.header.raw = uint32(p.raw)
	b.header.flags |= flagCompressed
	if !b.dropped {
		h.bytes += b.size() - before
	}
}

// blockCopy is a copy of a block for a reader. The block itself may change while the reader uses the copy.
type blockCopy struct {
	header header
	fresh  streams
	data   []byte
}

// copies returns the blocks that overlap [t0, t1], including the block being filled.
func (h *History) copies(t0, t1 int64) []blockCopy {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []blockCopy
	add := func(v blockCopy) {
		if v.header.samples > 0 && v.header.lastNS >= t0 && v.header.firstNS <= t1 {
			out = append(out, v)
		}
	}
	for _, b := range h.blocks {
		add(blockCopy{b.header, b.fresh, b.data})
	}
	// Later samples are appended behind these bytes, so the copy does not change.
	e := h.enc
	add(blockCopy{header: header{firstNS: e.firstNS, lastNS: e.sample.TimeNS, samples: e.samples}, fresh: e.out})
	return out
}

// Range calls fn with the samples whose TimeNS is in [t0, t1), in order. It does not include samples that are appended
// after the call. fn must not keep the Sample. The changes of the GVL in the first sample are Fresh: they have the
// states of all threads. An error means that the history's memory was damaged.
func (h *History) Range(t0, t1 int64, fn func(*sampler.Sample)) error {
	return h.inRange(t0, t1, joint{}, fn)
}

// After is like Range, for a caller that already has all samples up to lastNS. It begins with the first sample after
// lastNS. The changes of the GVL in this sample continue the caller's changes, unless a sample is missing in between.
func (h *History) After(lastNS, t1 int64, fn func(*sampler.Sample)) error {
	return h.inRange(lastNS+1, t1, joint{toNS: lastNS, begun: true}, fn)
}

func (h *History) inRange(t0, t1 int64, j joint, fn func(*sampler.Sample)) error {
	d := newDecoder()
	for _, v := range h.copies(t0, t1) {
		err := h.decode(d, v)
		if err == nil {
			err = d.inRange(t0, t1, &j, fn)
		}
		if err != nil {
			return fmt.Errorf("the history's block at %d ns: %w", v.header.firstNS, err)
		}
	}
	return nil
}

func (h *History) decode(d *decoder, v blockCopy) error {
	if v.header.flags&flagCompressed == 0 {
		d.openStreams(v.fresh, v.header.samples)
		return nil
	}
	raw, err := unpack(h.decomp, v.header, v.data)
	if err != nil {
		return err
	}
	return d.open(cursor{b: raw}, v.header.samples)
}

// At returns a copy of the last sample at or before t. It returns nil if there is none.
func (h *History) At(t int64) (*sampler.Sample, error) {
	copies := h.copies(math.MinInt64, t)
	i := lastBlock(len(copies), t, func(i int) int64 { return copies[i].header.firstNS })
	if i < 0 {
		return nil, nil
	}
	d := newDecoder()
	err := h.decode(d, copies[i])
	if err == nil && d.skipTo(t) {
		return d.sample.Clone(), nil
	}
	if err == nil {
		err = d.err()
	}
	if err != nil {
		err = fmt.Errorf("the history's block at %d ns: %w", copies[i].header.firstNS, err)
	}
	return nil, err
}

// Span returns the TimeNS of the oldest and the newest sample. It returns 0, 0 if there is no sample.
func (h *History) Span() (firstNS, lastNS int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.enc
	if e.samples > 0 {
		firstNS, lastNS = e.firstNS, e.sample.TimeNS
	} else if n := len(h.blocks); n > 0 {
		lastNS = h.blocks[n-1].header.lastNS
	}
	if len(h.blocks) > 0 {
		firstNS = h.blocks[0].header.firstNS
	}
	return firstNS, lastNS
}

// Bytes returns how much memory the samples take, without the Dictionary.
func (h *History) Bytes() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes + int64(h.enc.out.size())
}

// SaveAs writes the samples of [t0, t1), and the notes, to w as a recording of process p. end describes how the target
// ended. It is nil if this is not known. d is the samples' Dictionary or a view of it, such as a redacted one.
func (h *History) SaveAs(w io.Writer, p sampler.Process, d *sampler.Dictionary, t0, t1 int64, end *sampler.End, notes []sampler.Note) error {
	rec, err := NewWriter(w, p, d)
	if err != nil {
		return err
	}
	var failed error
	for _, n := range notes {
		if failed == nil && n.AtNS >= t0 && n.AtNS < t1 {
			failed = rec.Note(n)
		}
	}
	err = h.Range(t0, t1, func(s *sampler.Sample) {
		if failed == nil {
			failed = rec.Write(s)
		}
	})
	if failed == nil {
		failed = err
	}
	if err := rec.Close(end); failed == nil {
		failed = err
	}
	return failed
}
