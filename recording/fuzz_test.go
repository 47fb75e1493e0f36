package recording

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// fuzzSeed returns a small recording.
func fuzzSeed(f *testing.F, seed uint64, n int) []byte {
	g := newGenerator(seed)
	file, _ := record(f, n, g.wild, g.d, &sampler.End{Reason: "exited"})
	return file
}

// readEverything reads everything that can be read of a file, as ddtop's commands do. It checks how much memory this
// takes.
func readEverything(t *testing.T, b []byte) {
	got := allocated(func() { readAsCommandsDo(t, b) })
	if most := 2 * most(b); got > most { // the file is read twice, by Run and by At
		t.Errorf("%d KB for a file of %d bytes; %d KB are the most", got>>10, len(b), most>>10)
	}
}

func readAsCommandsDo(t *testing.T, b []byte) {
	r, err := NewReader(bytes.NewReader(b), int64(len(b)), "fuzz")
	if err != nil {
		return
	}
	defer r.Close()
	last, n := int64(0), 0
	for i, b := range r.Blocks() {
		if b.Offset < last {
			t.Errorf("block %d overlaps the one before", i)
		}
		last = b.Offset + b.Bytes
	}
	if last > int64(len(b)) {
		t.Errorf("blocks end at %d of %d bytes", last, len(b))
	}
	err = r.Run(context.Background(), func(s *sampler.Sample) {
		n++
		for i := range s.Threads {
			r.Dictionary().Depth(s.Threads[i].Stack)
			r.Dictionary().NativeStack(&s.Threads[i])
		}
	})
	if !errors.Is(err, sampler.ErrEnded) && !errors.Is(err, errDamaged) {
		t.Errorf("Run: %v", err)
	}
	first, end := r.Span()
	if _, err := r.At(first + (end-first)/2); err != nil && !errors.Is(err, errDamaged) {
		t.Errorf("At: %v", err)
	}
}

// FuzzFile reads any bytes as a recording.
func FuzzFile(f *testing.F) {
	file := fuzzSeed(f, 21, 12)
	f.Add(file)
	f.Add(file[:len(file)*2/3])
	f.Add(append(bytes.Clone(file), file[fileHeader:]...))
	f.Add([]byte(fileMagic))
	f.Fuzz(readEverything)
}

// FuzzSamples reads random bytes as the contents of a block. The block's checksum is correct, so the checksum does not
// show the damage. Reading the block must still do no harm.
func FuzzSamples(f *testing.F) {
	file := fuzzSeed(f, 22, 3)
	r, err := NewReader(bytes.NewReader(file), int64(len(file)), "seed")
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range r.Blocks() {
		raw, err := unpack(r.comp, b.header, file[b.Offset+blockHeader:b.Offset+b.Bytes])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	r.Close()
	f.Fuzz(func(t *testing.T, raw []byte) { readEverything(t, aroundSamples(raw)) })
}

// aroundSamples makes a recording of one block with the given contents.
func aroundSamples(raw []byte) []byte {
	b := appendBlock(appendFileHeader(nil), header{kind: kindProcess, raw: 2}, []byte("{}"))
	return appendBlock(b, header{kind: kindSamples, raw: uint32(len(raw)), samples: 3}, raw)
}

// TestFuzzSeeds: the fuzz tests begin with files that a reader can read in full. With other files, the fuzzing would
// not get past the first checks of a file.
func TestFuzzSeeds(t *testing.T) {
	g := newGenerator(22)
	file, want := record(t, 3, g.wild, g.d, nil)
	r := openBytes(t, file)
	b := r.Blocks()[0]
	raw, err := unpack(r.comp, b.header, file[b.Offset+blockHeader:b.Offset+b.Bytes])
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "seed", readAll(t, openBytes(t, aroundSamples(raw))), want)
}
