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

// queuedBlocks is how many blocks may wait to be written. When the disk is slower for longer than that many seconds,
// Write waits for it: nothing is dropped, and ticks that come late are counted as such by the clock.
const queuedBlocks = 8

// Writer writes a recording. Write, Note, Flush and Close are for one goroutine; compression and writing are done by another.
type Writer struct {
	enc    *encoder
	local  *localIDs
	before map[sampler.ThreadID]struct{} // the threads of the last block: they may have ended since
	jobs   chan job
	free   chan streams
	done   chan struct{}
	closed bool

	mu    sync.Mutex
	err   error
	bytes int64
}

// job is a block to be written, or a request to say when all before it are.
type job struct {
	block   header
	samples streams
	stacks  []sampler.StackID
	peers   []sampler.PeerID
	threads map[sampler.ThreadID]struct{}
	data    []byte // of a block other than samples
	ack     chan struct{}
}

// NewWriter writes the header and the process block to w and returns a Writer for the samples. IDs of the samples are
// those of d. Closing w is left to the caller.
func NewWriter(w io.Writer, p sampler.Process, d *sampler.Dictionary) (*Writer, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("recording: the process: %w", err)
	}
	comp, err := compressor()
	if err != nil {
		return nil, err
	}
	first := appendBlock(appendFileHeader(nil), header{kind: kindProcess, raw: uint32(len(data)), firstNS: p.AttachedNS, lastNS: p.AttachedNS}, data)
	if _, err := w.Write(first); err != nil {
		return nil, fmt.Errorf("writing the recording's first block: %w", err)
	}
	local := newLocalIDs()
	rec := &Writer{
		enc:    newEncoder(local),
		local:  local,
		before: make(map[sampler.ThreadID]struct{}),
		jobs:   make(chan job, queuedBlocks),
		free:   make(chan streams, queuedBlocks),
		done:   make(chan struct{}),
		bytes:  int64(len(first)),
	}
	rec.enc.begin(streams{})
	go rec.run(w, newTableBuilder(d), comp)
	return rec, nil
}

// Write appends a sample. It encodes only (some microseconds); every second it hands a block to the other goroutine.
// An error of the disk is returned by the next call; after it nothing more is written.
func (w *Writer) Write(s *sampler.Sample) error {
	if w.closed {
		return ErrClosed
	}
	if w.enc.full(s) {
		if err := w.seal(); err != nil {
			return err
		}
	}
	return w.enc.add(s)
}

// Flush ends the block that has been begun and waits until all that was given to Write has been written.
func (w *Writer) Flush() error {
	if w.closed {
		return ErrClosed
	}
	if err := w.seal(); err != nil {
		return err
	}
	ack := make(chan struct{})
	w.jobs <- job{ack: ack}
	<-ack
	return w.failed()
}

// Close writes what is left and, when end is not nil, how the target ended. It does not close the io.Writer.
func (w *Writer) Close(end *sampler.End) error {
	if w.closed {
		return ErrClosed
	}
	err := w.seal()
	if end != nil && err == nil {
		var data []byte
		if data, err = json.Marshal(end); err == nil {
			w.jobs <- job{data: data, block: header{kind: kindEnd, raw: uint32(len(data)), firstNS: end.AtNS, lastNS: end.AtNS}}
		}
	}
	w.closed = true
	close(w.jobs)
	<-w.done
	if err == nil {
		err = w.failed()
	}
	return err
}

// Bytes is how much has been written.
func (w *Writer) Bytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

func (w *Writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// seal hands the block that has been begun to the other goroutine and begins the next.
func (w *Writer) seal() error {
	if err := w.failed(); err != nil {
		return err
	}
	e := w.enc
	if e.samples == 0 {
		return nil
	}
	threads := maps.Clone(w.local.threads)
	maps.Copy(threads, w.before)
	w.before = maps.Clone(w.local.threads)
	w.jobs <- job{
		block:   header{kind: kindSamples, firstNS: e.firstNS, lastNS: e.sample.TimeNS, samples: e.samples},
		samples: e.out,
		stacks:  w.local.stacks,
		peers:   w.local.peers,
		threads: threads,
	}
	var bufs streams
	select {
	case bufs = <-w.free:
	default:
	}
	e.begin(bufs)
	return nil
}

// run writes blocks until the channel is closed.
func (w *Writer) run(out io.Writer, tables *tableBuilder, comp *zstd.Encoder) {
	defer close(w.done)
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
				data, raw = j.samples.pack(comp, data[:0], tables.build(j.stacks, j.peers, j.threads)...)
				h.raw, h.flags = uint32(raw), flagCompressed
			} else {
				data, raw = append(data[:0], j.data...), len(j.data)
			}
			block = appendBlock(block[:0], h, data)
			w.write(out, block, raw)
		}
		if j.block.kind == kindSamples {
			select {
			case w.free <- j.samples:
			default:
			}
		}
	}
}

func (w *Writer) write(out io.Writer, block []byte, raw int) {
	var err error
	n := 0
	if raw > maxBlockData || len(block)-blockHeader > maxBlockData {
		err = fmt.Errorf("%w: a block of %d bytes", ErrLimit, raw)
	} else if n, err = out.Write(block); err != nil {
		err = fmt.Errorf("writing the recording: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes += int64(n)
	w.err = err
}

// compressor returns the encoder for whole blocks, one for all histories and recordings: its tables take more than a
// megabyte, and with many processes each has a history. Two blocks can be encoded at a time; a block's bytes do not depend
// on those before. The window holds the largest usual block.
var compressor = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(maxRawBlock),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
})

// newDecompressor makes a decoder for whole blocks.
func newDecompressor() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxBlockData))
}

// Redact returns a Process without what can name a person, a machine or a secret: command line, user and host.
func Redact(p sampler.Process) sampler.Process {
	p.CommandLine, p.User, p.Host = nil, "", ""
	return p
}
