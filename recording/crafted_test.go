package recording

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// craft makes the contents of a block by hand, to test malicious files. The block's header is valid, whatever the
// tables contain.
type craft struct{ b []byte }

// uints appends numbers.
func (c *craft) uints(values ...uint64) *craft {
	for _, v := range values {
		c.b = binary.AppendUvarint(c.b, v)
	}
	return c
}

// texts appends strings.
func (c *craft) texts(values ...string) *craft {
	for _, v := range values {
		c.b = append(binary.AppendUvarint(c.b, uint64(len(v))), v...)
	}
	return c
}

// times appends the same bytes n times.
func (c *craft) times(n int, values ...byte) *craft {
	c.b = append(c.b, bytes.Repeat(values, n)...)
	return c
}

// oneOfEach begins a block with the tables of strings, frames, nodes, stacks, peers, threads, requests and texts. The
// tables have one string, one frame and one stack.
func (c *craft) oneOfEach() *craft {
	c.uints(1).texts("x")
	c.uints(1, 0, 1, 1, 1, 0, 0, 0) // a frame; each of its strings is the first one
	return c.uints(1, 0, 0, 1, 1, 0, 0, 0, 0, 0)
}

// frames appends a table of n frames. Each frame is at a different line.
func (c *craft) frames(n int) *craft {
	c.uints(uint64(n), 0, 1, 1, 1, 0, 0, 0)
	for i := range n - 1 {
		c.uints(1, 1, 1, 1, 2*uint64(i)+2, 0, 0)
	}
	return c
}

// samples ends a block with its streams of numbers. The first stream is the structure. The other streams consist of
// zeros. There are enough zeros for all numbers that the structure needs.
func (c *craft) samples(structure []byte, zeros int) *craft {
	c.uints(uint64(len(structure)), uint64(zeros))
	c.b = append(c.b, structure...)
	return c.times(2*zeros, 0)
}

// craftFile makes a recording of compressed blocks. Each block's header claims to have the given number of samples.
func craftFile(t testing.TB, samples uint32, blocks ...*craft) []byte {
	t.Helper()
	comp, err := compressor()
	if err != nil {
		t.Fatal(err)
	}
	b := appendBlock(appendFileHeader(nil), header{kind: kindProcess, raw: 2}, []byte("{}"))
	for _, c := range blocks {
		data := comp.EncodeAll(c.b, nil)
		b = appendBlock(b, header{kind: kindSamples, flags: flagCompressed, raw: uint32(len(c.b)), samples: samples}, data)
	}
	return b
}

// most returns the limit for the memory that is allocated to read a recording, in bytes. The limit includes memory that
// is freed meanwhile. For each block, most adds the uncompressed size, and a multiple of this size for the data made
// from the block. The limits of the block's tables bound this data.
func most(file []byte) uint64 {
	sum := uint64(32<<20) + uint64(len(file))
	for at := fileHeader; at+blockHeader <= len(file); {
		h, ok := parseHeader(file[at:])
		if !ok {
			at++
			continue
		}
		raw := uint64(h.raw)
		if h.flags&flagCompressed == 0 {
			raw = uint64(h.stored)
		}
		sum += 2*raw + min(200*raw, 64<<20)
		at += blockHeader
	}
	return sum
}

// allocated returns how many bytes f allocates on the heap in total.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestLyingCounts: a crafted file of some KB can have tables that claim to have millions of elements, or really have
// them. Reading it must not allocate more memory than the function most returns. If a reader refuses a file, the error
// names the place in the file.
func TestLyingCounts(t *testing.T) {
	rubytest.Long(t)
	const many = 60_000_000
	const full = maxBlockData - 64
	threads := func(n int) *craft { // a sample with a list of n new threads
		c := new(craft).uints(sampleThreadList, 0, 0, uint64(n))
		return c.times(n, 2)
	}
	for name, b := range map[string]*craft{
		"60 million empty strings":          new(craft).uints(many).times(many, 0),
		"strings that are not there":        new(craft).uints(many),
		"6 million frames":                  new(craft).uints(1).texts("x").frames(6_000_000),
		"frames that are not there":         new(craft).uints(1).texts("x").uints(full/7, 0, 1),
		"30 million nodes, one in another":  new(craft).uints(1).texts("x").uints(1, 0, 1, 1, 1, 0, 0, 0, full/2, 0, 0).times(full/2-1, 1, 0),
		"60 million stacks":                 new(craft).uints(1).texts("x").uints(1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, many).times(many, 1),
		"13 million peers":                  new(craft).uints(1).texts("x").uints(0, 0, 0, full/5).times(full/5, 0, 0, 0, 0, 0),
		"9 million threads":                 new(craft).uints(1).texts("x").uints(0, 0, 0, 0, full/7).times(full/7, 1, 0, 0, 0, 0, 0, 0),
		"11 million requests":               new(craft).uints(1).texts("x").uints(0, 0, 0, 0, 0, full/6).times(full/6, 2, 2, 0, 0, 0, 0),
		"60 million statements":             new(craft).uints(1).texts("x").uints(0, 0, 0, 0, 0, 0, many).times(many, 0),
		"a list of a million threads":       new(craft).oneOfEach().samples(threads(1_000_000).b, 1000),
		"more samples than the header says": new(craft).oneOfEach().samples(new(craft).times(1000, 0, 0).b, 1_000_000),
	} {
		file := craftFile(t, 3, b)
		var err error
		got := allocated(func() {
			r, e := NewReader(bytes.NewReader(file), int64(len(file)), "lies.ddtop")
			if e != nil {
				t.Fatalf("%s: %v", name, e)
			}
			defer r.Close()
			err = r.Run(context.Background(), func(*sampler.Sample) {})
		})
		if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "recording lies.ddtop: the block at offset 66: ") {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: a file of %d bytes, %d MB: %v", name, len(file), got>>20, err)
		if most := most(file); got > most {
			t.Errorf("%s: %d MB for a file of %d bytes, whose block holds %d MB; %d MB are the most", name, got>>20, len(file), len(b.b)>>20, most>>20)
		}
	}
}

// TestLyingHeaders: ddtop does not trust the size in a block's header, and refuses a block of JSON that is too large.
func TestLyingHeaders(t *testing.T) {
	process := appendBlock(appendFileHeader(nil), header{kind: kindProcess, raw: 2}, []byte("{}"))
	comp, err := compressor()
	if err != nil {
		t.Fatal(err)
	}
	small := comp.EncodeAll([]byte("x"), nil)
	for name, h := range map[string]header{
		"more than zstd can hold":       {kind: kindSamples, flags: flagCompressed, raw: maxBlockData, samples: 1},
		"another length than there are": {kind: kindSamples, flags: flagCompressed, raw: 2, samples: 1},
	} {
		file := appendBlock(bytes.Clone(process), h, small)
		got := allocated(func() {
			r, e := NewReader(bytes.NewReader(file), int64(len(file)), "lies.ddtop")
			if e != nil {
				t.Fatalf("%s: %v", name, e)
			}
			defer r.Close()
			err = r.Run(context.Background(), func(*sampler.Sample) {})
		})
		if !errors.Is(err, errDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if got > 4<<20 {
			t.Errorf("%s: %d MB for a block that holds nothing", name, got>>20)
		}
	}
	// A description of a process is JSON. A reader refuses a description of more than maxDescription bytes.
	list := append(append([]byte(`{"CommandLine":[""`), bytes.Repeat([]byte(`,""`), maxDescription/3)...), "]}"...)
	file := appendBlock(appendFileHeader(nil), header{kind: kindProcess, raw: uint32(len(list))}, list)
	if _, err := NewReader(bytes.NewReader(file), int64(len(file)), "lies.ddtop"); !errors.Is(err, errDamaged) ||
		!strings.Contains(err.Error(), "the block at offset 16") {
		t.Errorf("a description of %d bytes: %v", len(list), err)
	}
}

// TestLyingWork: a crafted block of some KB has 131,072 samples, and each sample lists 131,072 threads. Reading it must
// stop after a limited number of threads.
func TestLyingWork(t *testing.T) {
	b := new(craft).uints(sampleThreadList, 0, 0, maxThreads).times(maxThreads, 2)
	structure := binary.AppendUvarint(b.b, maxThreads) // no thread has changed
	for range maxSamples - 1 {
		structure = binary.AppendUvarint(append(structure, 0), maxThreads)
	}
	file := craftFile(t, maxSamples, new(craft).oneOfEach().samples(structure, 3*maxSamples))
	r, err := NewReader(bytes.NewReader(file), int64(len(file)), "lies.ddtop")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	listed := 0
	err = r.Run(context.Background(), func(s *sampler.Sample) { listed += len(s.Threads) })
	if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "too many threads") || listed > maxListed || listed < maxListed/2 {
		t.Errorf("%d threads in a file of %d bytes: %v", listed, len(file), err)
	}
}
