package recording

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// queuedBlocks is how many blocks of samples may wait to be written. Each block covers two seconds. If this many
	// blocks wait, Write waits for the disk. If Live is on, Write drops the next block instead.
	queuedBlocks = 8
	// queuedOthers is how many blocks without samples may wait to be written. These are the first block, notes and the
	// end.
	queuedOthers = 8
)

// Writer writes a recording. Only one goroutine may call Write, Note, Flush and Close. Another goroutine compresses and
// writes to the file.
type Writer struct {
	enc    *encoder
	before map[sampler.ThreadID]struct{} // the threads of the last block; some may have ended since
	jobs   chan job
	free   chan streams
	closed bool
	live   bool
	// given is the number of samples that were passed to Write. lost is how many of them were dropped.
	given, lost uint64

	mu      sync.Mutex
	err     error
	bytes   int64
	written uint64 // the number of written samples
	// complete is true if Close has written everything to the io.Writer.
	complete bool
}

// job is a block to write. If ack is not nil, there is no block: the goroutine closes ack after it has done all jobs
// before this job.
type job struct {
	block   header
	samples streams
	ids     blockIDs
	data    []byte // the data of a block that does not hold samples
	ack     chan struct{}
}

// NewWriter returns a Writer, and writes the header and the process block. The samples' IDs must belong to d. The
// caller must call Close. NewWriter returns an error if p cannot be encoded. Later calls return errors of the disk.
func NewWriter(w io.Writer, p sampler.Process, d *sampler.Dictionary) (*Writer, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("recording: the process: %w", err)
	}
	comp, err := compressor()
	if err != nil {
		return nil, err
	}
	rec := &Writer{
		enc:    newEncoder(true),
		before: make(map[sampler.ThreadID]struct{}),
		jobs:   make(chan job, queuedBlocks+queuedOthers),
		free:   make(chan streams, queuedBlocks),
	}
	rec.enc.begin(streams{})
	rec.jobs <- job{data: data, block: header{kind: kindProcess, raw: uint32(len(data)), firstNS: p.AttachedNS, lastNS: p.AttachedNS}}
	go rec.run(w, newTableBuilder(d), comp)
	return rec, nil
}

// Write appends a sample. It only encodes the sample, which takes a few microseconds. Every two seconds it passes a
// block to the other goroutine, which writes it. After an error of the disk, the Writer writes nothing more, and a
// later call returns the error.
func (w *Writer) Write(s *sampler.Sample) error {
	if w.closed {
		return errClosed
	}
	if w.enc.full(s) {
		if err := w.seal(); err != nil {
			return err
		}
	}
	lost := s.Reads.Lost
	defer func() { s.Reads.Lost = lost }()
	s.Reads.Lost += w.lost
	if err := w.enc.add(s); err != nil {
		return err
	}
	w.given++
	return nil
}

// Live sets whether the Writer drops samples instead of waiting for the disk. If on is true, it drops each block that
// it cannot write in time, and counts the block's samples as lost. Later samples have this count, so a replay shows
// that data is missing. Close still waits for the disk.
func (w *Writer) Live(on bool) { w.live = on }

// Lost returns the number of samples that were dropped while Live was on.
func (w *Writer) Lost() uint64 { return w.lost }

// Unwritten returns ErrSlow with the number of samples that are missing in the file. A caller that stops waiting for
// Close can report this error.
func (w *Writer) Unwritten() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.given - w.lost - w.written
	switch {
	case last > 0 && w.lost > 0:
		return fmt.Errorf("%w: the last %d samples were not written, nor were %d before them", ErrSlow, last, w.lost)
	case last > 0:
		return fmt.Errorf("%w: the last %d samples were not written", ErrSlow, last)
	}
	what := "the end of the recording was not written"
	if w.complete {
		what = "all was written, but the disk has not confirmed the file"
	}
	if w.lost > 0 {
		what += fmt.Sprintf("; %d samples in its midst are missing", w.lost)
	}
	return fmt.Errorf("%w: %s", ErrSlow, what)
}

// Complete reports whether Close has written everything that was left. Any goroutine may call it.
func (w *Writer) Complete() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.complete
}

// Flush ends the current block and waits until all samples that were passed to Write are written.
func (w *Writer) Flush() error {
	if w.closed {
		return errClosed
	}
	if err := w.seal(); err != nil {
		return err
	}
	ack := make(chan struct{})
	w.jobs <- job{ack: ack}
	<-ack
	return w.failed()
}

// Close writes the remaining samples. If end is not nil, it also writes how the target ended. It does not close the
// io.Writer. If the disk hangs, Close can block forever. A caller that cannot wait must call it in a goroutine of its
// own and abandon this goroutine.
func (w *Writer) Close(end *sampler.End) error {
	if w.closed {
		return errClosed
	}
	w.closed, w.live = true, false
	defer close(w.jobs)
	if err := w.seal(); err != nil {
		return err
	}
	if end != nil {
		data, err := json.Marshal(end)
		if err != nil {
			return fmt.Errorf("recording: the end: %w", err)
		}
		w.jobs <- job{data: data, block: header{kind: kindEnd, raw: uint32(len(data)), firstNS: end.AtNS, lastNS: end.AtNS}}
	}
	ack := make(chan struct{})
	w.jobs <- job{ack: ack}
	<-ack
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complete = w.err == nil
	return w.err
}

// Bytes returns the number of written bytes.
func (w *Writer) Bytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

// Written returns the number of written samples.
func (w *Writer) Written() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

func (w *Writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// seal passes the current block to the other goroutine and begins the next block. If Live is on, seal does not wait for
// room in the queue, but drops the block.
func (w *Writer) seal() error {
	if err := w.failed(); err != nil {
		return err
	}
	e := w.enc
	if e.samples == 0 {
		return nil
	}
	// Only this goroutine adds blocks of samples. So if there is room now, there is still room when the block is added.
	if w.live && len(w.jobs) >= queuedBlocks {
		w.lost += uint64(e.samples)
		e.begin(e.out)
		return nil
	}
	ids := e.ids()
	ids.threads = maps.Clone(ids.threads)
	maps.Copy(ids.threads, w.before)
	w.before = maps.Clone(e.named)
	w.jobs <- job{
		block:   header{kind: kindSamples, firstNS: e.firstNS, lastNS: e.sample.TimeNS, samples: e.samples},
		samples: e.out,
		ids:     ids,
	}
	var bufs streams
	select {
	case bufs = <-w.free:
	default:
	}
	e.begin(bufs)
	return nil
}

func (w *Writer) run(out io.Writer, tables *tableBuilder, comp *zstd.Encoder) {
	var data, block []byte
	raw := 0
	for j := range w.jobs {
		if j.ack != nil {
			close(j.ack)
			continue
		}
		if w.failed() == nil {
			h := j.block
			if h.kind == kindSamples {
				parts := tables.build(&j.ids)
				if err := tables.check(&j.ids); err != nil {
					w.fail(err)
					continue
				}
				data, raw = j.samples.pack(comp, data[:0], parts...)
				h.raw, h.flags = uint32(raw), flagCompressed
			} else {
				data, raw = append(data[:0], j.data...), len(j.data)
			}
			block = block[:0]
			if h.kind == kindProcess {
				block = appendFileHeader(block)
			}
			block = appendBlock(block, h, data)
			w.write(out, block, raw, h.samples)
		}
		if j.block.kind == kindSamples {
			select {
			case w.free <- j.samples:
			default:
			}
		}
	}
}

func (w *Writer) write(out io.Writer, block []byte, raw int, samples uint32) {
	var err error
	n := 0
	if raw > maxBlockData || len(block)-blockHeader > maxBlockData {
		err = fmt.Errorf("%w: a block of %d bytes", errLimit, raw)
	} else if n, err = out.Write(block); err != nil {
		err = fmt.Errorf("writing the recording: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes += int64(n)
	if w.err = err; err == nil {
		w.written += uint64(samples)
	}
}

// compressor returns the encoder for whole blocks. All histories and recordings share it, because its tables take more
// than a megabyte, and each of many processes can have a history. It encodes one block at a time. A block's bytes do
// not depend on earlier blocks. The encoder's window is large enough for the largest usual block.
var compressor = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(maxRawBlock),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
})

func newDecompressor() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxBlockData), zstd.WithDecodeAllCapLimit(true))
}
