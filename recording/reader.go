package recording

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/own"
	"github.com/ddtop/ddtop/sampler/redact"
)

// Block describes a block of samples of a recording.
type Block struct {
	// FirstNS and LastNS are the TimeNS of the block's first and last sample.
	FirstNS, LastNS int64
	// Samples is the number of the block's samples.
	Samples int
	// Offset and Bytes are the block's place in the file and its length, including the header.
	Offset, Bytes int64

	header header
}

// Reader reads a recording. It is a sampler.Source: Run passes on the complete recording without pauses. Range and At
// read parts of it. Several goroutines may call its methods.
type Reader struct {
	path    string
	version uint32 // the version of the file's format
	file    io.ReaderAt
	closer  io.Closer
	process sampler.Process
	end     *sampler.End
	notes   []sampler.Note
	dict    *sampler.Dictionary
	shown   *sampler.Dictionary // dict with the changes of Redact and Own, as callers see it
	names   *redact.Redactor
	blocks  []Block
	damage  *Damage
	comp    *zstd.Decoder

	mu sync.Mutex
	// threads maps each thread in the Dictionary to the index of the block from which its ThreadInfo comes. The
	// ThreadInfo of a later block replaces it. The ThreadInfo of an earlier block does not.
	threads map[sampler.ThreadID]int
}

// Open opens a recording and checks all of it. The error is errNotRecording, errVersion or an error of the file system.
// It is errDamaged if the description of the process cannot be read. If other parts are damaged, Open succeeds, and the
// method Damage describes the damage.
func Open(path string) (*Reader, error) { return OpenContext(context.Background(), path, nil) }

// OpenContext is like Open, for a file that may be large. If progress is not nil, it is called from time to time with
// the number of bytes read so far. OpenContext stops when ctx ends.
func OpenContext(ctx context.Context, path string, progress func(done, size int64)) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	r, err := newReader(ctx, f, st.Size(), path, progress)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.closer = f
	return r, nil
}

// NewReader reads a recording of the given size from f. name is the name of the recording in messages.
func NewReader(f io.ReaderAt, size int64, name string) (*Reader, error) {
	return newReader(context.Background(), f, size, name, nil)
}

func newReader(ctx context.Context, f io.ReaderAt, size int64, name string, progress func(done, size int64)) (*Reader, error) {
	comp, err := newDecompressor()
	if err != nil {
		return nil, err
	}
	r := &Reader{
		path: name, file: f, dict: sampler.NewDictionary(), comp: comp,
		threads: make(map[sampler.ThreadID]int),
	}
	r.shown = r.dict
	if err := r.index(ctx, size, progress); err != nil {
		comp.Close()
		return nil, err
	}
	return r, nil
}

// Close closes the file. The Dictionary stays.
func (r *Reader) Close() error {
	r.comp.Close()
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// Redact makes the Reader hide everything that can identify a person, in all that it returns from then on. Call it
// once, before any other use of the Reader.
func (r *Reader) Redact(names *redact.Redactor) {
	r.names, r.shown = names, names.View(r.shown)
	r.process, r.notes = names.Process(r.process), names.Notes(r.notes)
}

// Own sets the patterns by which ddtop recognizes the program's own code. They apply to everything that the Reader
// returns from now on.
func (r *Reader) Own(code *own.Code) { r.shown = code.View(r.shown) }

// Process returns the description of the target at the time when it was recorded.
func (r *Reader) Process() sampler.Process { return r.process }

// Dictionary returns the Dictionary for the IDs in the samples. It gets new entries while blocks are read.
func (r *Reader) Dictionary() *sampler.Dictionary { return r.shown }

// End returns how the target ended. ok is false if the recording ended before the target.
func (r *Reader) End() (end sampler.End, ok bool) {
	if r.end == nil {
		return sampler.End{}, false
	}
	return r.names.End(*r.end), true
}

// Damage describes the parts of the file that cannot be read (*Damage, errDamaged). It returns nil if the whole file
// can be read.
func (r *Reader) Damage() error {
	if r.damage == nil {
		return nil
	}
	return r.damage
}

// Blocks lists the blocks of samples in the order of the file.
func (r *Reader) Blocks() []Block { return slices.Clone(r.blocks) }

// Span returns the TimeNS of the first and the last sample. It returns 0, 0 if there is no sample.
func (r *Reader) Span() (firstNS, lastNS int64) {
	if len(r.blocks) == 0 {
		return 0, 0
	}
	return r.blocks[0].FirstNS, r.blocks[len(r.blocks)-1].LastNS
}

// Duration returns the time between the first and the last sample.
func (r *Reader) Duration() time.Duration {
	first, last := r.Span()
	return time.Duration(last - first)
}

// Run passes all samples to emit, as fast as emit accepts them, and returns sampler.ErrEnded. If ctx ends, it returns
// nil. If a block cannot be decoded, it returns errDamaged.
func (r *Reader) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	j := joint{begun: true}
	for i := range r.blocks {
		d, err := r.decoder(i)
		for first := true; err == nil && ctx.Err() == nil && d.next(); first = false {
			if first {
				d.join(j)
			}
			j.toNS = d.changed.toNS
			emit(&d.sample)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err = r.blockError(i, d, err); err != nil {
			return err
		}
	}
	return sampler.ErrEnded
}

// Range calls fn with the samples whose TimeNS is in [t0, t1), in order. fn must not keep the Sample. The changes of
// the GVL in the first sample continue changes of earlier samples, which fn does not get. So Range replaces them by the
// threads' states at the sample's end (Fresh). If these are not known, it leaves the changes out. The error is
// errDamaged or an error of the file system.
func (r *Reader) Range(t0, t1 int64, fn func(*sampler.Sample)) error {
	var j joint
	for i := range r.blocks {
		if r.blocks[i].LastNS < t0 || r.blocks[i].FirstNS >= t1 {
			continue
		}
		d, err := r.decoder(i)
		if err == nil {
			err = d.inRange(t0, t1, &j, fn)
		}
		if err = r.blockError(i, d, err); err != nil {
			return err
		}
	}
	return nil
}

// At returns a copy of the last sample at or before t. It returns nil if there is none.
func (r *Reader) At(t int64) (*sampler.Sample, error) {
	i := lastBlock(len(r.blocks), t, func(i int) int64 { return r.blocks[i].FirstNS })
	if i < 0 {
		return nil, nil
	}
	d, err := r.decoder(i)
	if err != nil {
		return nil, r.blockError(i, d, err)
	}
	if !d.skipTo(t) {
		return nil, r.blockError(i, d, nil)
	}
	return d.sample.Clone(), nil
}

// lastBlock returns the index of the last block that begins at t or earlier. n is the number of blocks, and first
// returns the beginning of a block. lastBlock returns -1 if there is no such block.
func lastBlock(n int, t int64, first func(int) int64) int {
	for i := n - 1; i >= 0; i-- {
		if first(i) <= t {
			return i
		}
	}
	return -1
}

// decoder reads block i and returns a decoder for its samples.
func (r *Reader) decoder(i int) (*decoder, error) {
	b := &r.blocks[i]
	data := make([]byte, b.Bytes)
	if n, err := r.file.ReadAt(data, b.Offset); n < len(data) {
		return nil, err
	}
	if checksum(data, data[blockHeader:]) != b.header.crc {
		return nil, fmt.Errorf("%w: it has changed since the file was opened", errDamaged)
	}
	raw, err := unpack(r.comp, b.header, data[blockHeader:])
	if err != nil {
		return nil, err
	}
	d, err := readTables(raw, r.dict, r.version)
	if err == nil {
		err = d.open(d.c, b.header.samples)
	}
	if err != nil {
		return nil, err
	}
	d.names = r.names
	r.setThreads(i, d.threads)
	return d, nil
}

// blockError returns an error that names the file and the block that cannot be decoded. It wraps err, or the decoder's
// error if err is nil.
func (r *Reader) blockError(i int, d *decoder, err error) error {
	if err == nil && d != nil {
		err = d.err()
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("recording %s: the block at offset %d: %w", r.path, r.blocks[i].Offset, err)
}

// setThreads stores in the Dictionary what a block says about threads. It leaves out a thread if the Dictionary already
// has the ThreadInfo of a later block.
func (r *Reader) setThreads(block int, infos []sampler.ThreadInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range infos {
		if known, ok := r.threads[t.ID]; (!ok || known < block) && r.dict.SetThread(t) {
			r.threads[t.ID] = block
		}
	}
}

// zstdRatio is the largest factor by which zstd data can grow when it is decompressed. A zstd block has at most 128 KiB
// of decompressed data, and takes at least four bytes (RFC 8878, section 3.1.1.2). unpack refuses data that claims to
// grow more.
const zstdRatio = 128 << 10 / 4

// unpack returns a block's data, decompressed if necessary. It refuses data whose length differs from the length in the
// header.
func unpack(comp *zstd.Decoder, h header, data []byte) ([]byte, error) {
	if h.flags&flagCompressed == 0 {
		return data, nil
	}
	if int64(h.raw) > int64(len(data))*zstdRatio {
		return nil, fmt.Errorf("%w: %d bytes can't hold %d compressed ones", errDamaged, len(data), h.raw)
	}
	raw, err := comp.DecodeAll(data, make([]byte, 0, h.raw))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if len(raw) != int(h.raw) {
		return nil, fmt.Errorf("%w: %d bytes where %d were written", errDamaged, len(raw), h.raw)
	}
	return raw, nil
}

// decodeJSON decodes the data of a process block, an end block or a note.
func decodeJSON[T any](data []byte) (v T, err error) {
	if err = json.Unmarshal(data, &v); err != nil {
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return v, err
}
