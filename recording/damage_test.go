package recording

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestTruncated cuts off a file at about 150 different lengths. All blocks before the cut can still be read.
func TestTruncated(t *testing.T) {
	g := newGenerator(8)
	file, want := record(t, 150, g.wild, g.d, nil)
	whole := openBytes(t, file)
	blocks := whole.Blocks()
	start := blocks[0].Offset // without this block, the recording has no process
	step := max(1, (len(file)-int(start))/rounds(150))
	for n := start; n < int64(len(file)); n += int64(step) {
		r := openBytes(t, file[:n])
		wholeBytes, samples := start, 0
		for _, b := range blocks {
			if b.Offset+b.Bytes <= n {
				wholeBytes = b.Offset + b.Bytes
				samples += b.Samples
			}
		}
		got := readAll(t, r)
		compare(t, "cut file", got, want[:samples])
		err := r.Damage()
		var d *Damage
		switch {
		case n == wholeBytes:
			if err != nil {
				t.Errorf("cut at a block's end: %v", err)
			}
		case !errors.As(err, &d) || !errors.Is(err, errDamaged):
			t.Fatalf("cut at %d: %v", n, err)
		case d.Offset != wholeBytes || d.Bytes != n-wholeBytes || !d.Truncated || d.Places != 1:
			t.Errorf("cut at %d: %+v, whole up to %d", n, d, wholeBytes)
		}
	}
	for n := int64(0); n < start; n += raceDivisor {
		if _, err := NewReader(bytes.NewReader(file[:n]), n, "x"); !errors.Is(err, errNotRecording) && !errors.Is(err, errDamaged) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

// TestFlippedBits changes one bit of a file. Only the block with this bit is lost.
func TestFlippedBits(t *testing.T) {
	g := newGenerator(9)
	file, want := record(t, 150, g.wild, g.d, nil)
	blocks := openBytes(t, file).Blocks()
	for n := blocks[0].Offset; n < int64(len(file)); n += max(1, int64(len(file)/rounds(150))) {
		bad := bytes.Clone(file)
		bad[n] ^= 1 << (n % 8)
		r := openBytes(t, bad)
		var expect []resolved
		at, toNS := 0, int64(0)
		for _, b := range blocks {
			if n < b.Offset || n >= b.Offset+b.Bytes {
				expect = append(append(expect, joined(want, at, toNS, true)), want[at+1:at+b.Samples]...)
				toNS = want[at+b.Samples-1].sample.Changes.ToNS
			}
			at += b.Samples
		}
		compare(t, "damaged file", readAll(t, r), expect)
		var d *Damage
		if !errors.As(r.Damage(), &d) || d.Places != 1 {
			t.Errorf("byte %d flipped: %v", n, r.Damage())
		}
	}
}

// failingWriter accepts a number of bytes (left), and then fails.
type failingWriter struct{ left int }

var errFull = errors.New("no space left")

func (f *failingWriter) Write(b []byte) (int, error) {
	if len(b) > f.left {
		return f.left, errFull
	}
	f.left -= len(b)
	return len(b), nil
}

func TestWriterErrors(t *testing.T) {
	g := newGenerator(2)
	none, err := NewWriter(&failingWriter{}, testProcess, g.d)
	if err != nil {
		t.Fatal(err)
	}
	if err := none.Flush(); !errors.Is(err, errFull) {
		t.Errorf("Flush of the first block: %v", err)
	}
	if err := none.Close(nil); !errors.Is(err, errFull) {
		t.Errorf("Close after the first block: %v", err)
	}
	w, err := NewWriter(&failingWriter{left: 3000}, testProcess, g.d)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := w.Write(g.wild()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); !errors.Is(err, errFull) {
		t.Errorf("Flush: %v", err)
	}
	g.s.TimeNS += 2 * blockNS
	var writeErr error
	for range 400 {
		if writeErr = w.Write(g.wild()); writeErr != nil {
			break
		}
	}
	if !errors.Is(writeErr, errFull) {
		t.Errorf("Write after the disk was full: %v", writeErr)
	}
	if err := w.Close(nil); !errors.Is(err, errFull) {
		t.Errorf("Close: %v", err)
	}
	if err := w.Write(g.wild()); !errors.Is(err, errClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	if err := w.Flush(); !errors.Is(err, errClosed) {
		t.Errorf("Flush after Close: %v", err)
	}
	if err := w.Close(nil); !errors.Is(err, errClosed) {
		t.Errorf("second Close: %v", err)
	}
	ok, err := NewWriter(io.Discard, testProcess, g.d)
	if err != nil {
		t.Fatal(err)
	}
	if err := ok.Write(&sampler.Sample{Threads: make([]sampler.Thread, maxThreads+1)}); !errors.Is(err, errLimit) {
		t.Errorf("too many threads: %v", err)
	}
	if err := ok.Close(nil); err != nil {
		t.Error(err)
	}
}

// readCounter counts the bytes that are read.
type readCounter struct {
	io.ReaderAt
	n int64
}

func (r *readCounter) ReadAt(b []byte, at int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(b, at)
	r.n += int64(n)
	return n, err
}

// TestResyncReadsOnce: after damage, a reader searches for the next block. It must read each skipped byte at most
// twice, and find the block behind the damage. The test uses three kinds of damage: zeros, many beginnings of a block
// without the rest of its header, and many headers with a wrong checksum.
func TestResyncReadsOnce(t *testing.T) {
	g := newGenerator(10)
	file, want := record(t, 150, g.wild, g.d, nil)
	blocks := openBytes(t, file).Blocks()
	last := blocks[len(blocks)-1]
	const length = 3 << 20
	promise := appendBlock(nil, header{kind: kindSamples}, make([]byte, 1<<10))
	promise[44]++ // make the checksum wrong
	for name, filler := range map[string][]byte{
		"zeros": make([]byte, length), "magics": bytes.Repeat([]byte(blockMagic), length/4), "promises": bytes.Repeat(promise, length/len(promise)),
	} {
		// The reader searches in chunks. With 47 more bytes, the last block lies at another place of its chunk.
		for _, odd := range []int{0, 47} {
			bad := bytes.Join([][]byte{file[:last.Offset], filler, make([]byte, odd), file[last.Offset:]}, nil)
			in := &readCounter{ReaderAt: bytes.NewReader(bad)}
			r, err := NewReader(in, int64(len(bad)), name)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if most := 3 * int64(len(bad)); in.n > most {
				t.Errorf("%s: %d bytes read of a file of %d", name, in.n, len(bad))
			}
			compare(t, name, readAll(t, r), want)
			var d *Damage
			if !errors.As(r.Damage(), &d) || d.Bytes != int64(len(filler)+odd) || d.Places != 1 {
				t.Errorf("%s: %v", name, r.Damage())
			}
		}
	}
}
