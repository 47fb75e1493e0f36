package recording

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// bytesGolden has a line for each recording under testdata. The test reads a recording and writes it again. The line
// has the size and the hash of the written samples before compression.
const bytesGolden = "testdata/bytes.golden"

// TestBytes reads each recording under testdata and writes it again. The written bytes must be the same as the bytes
// that the first build of the present version wrote. The test also writes generated samples, which have every field,
// and many more changes of the GVL than the recordings.
func TestBytes(t *testing.T) {
	written := make(map[string]string)
	files, err := filepath.Glob("testdata/*.ddtop")
	if err != nil || len(files) < Version {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, path := range files {
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		written[filepath.Base(path)] = uncompressed(t, rewritten(t, r))
	}
	for seed := range uint64(8) {
		g := newGenerator(seed)
		// making samples changes the Dictionary, so make all of them before the first one is written
		var samples []*sampler.Sample
		for range 300 {
			samples = append(samples, g.wild().Clone())
		}
		written[fmt.Sprintf("wild %d", seed)] = uncompressed(t, recorded(t, g, samples))
		g, samples = samplesOf(1000, int(10+5*seed))
		written[fmt.Sprintf("program %d", seed)] = uncompressed(t, recorded(t, g, samples))
	}
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(written)) {
		fmt.Fprintf(&lines, "%s: %s\n", name, written[name])
	}
	if *update {
		if err := os.WriteFile(bytesGolden, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(bytesGolden)
	if err != nil {
		t.Fatal(err)
	}
	if lines.String() != string(want) {
		t.Errorf("written\n%s\nwant\n%s\nA change of the bytes is a new version of the format.", &lines, want)
	}
}

func recorded(t *testing.T, g *generator, samples []*sampler.Sample) []byte {
	next := 0
	file, _ := record(t, len(samples), func() *sampler.Sample { next++; return samples[next-1] }, g.d, nil)
	return file
}

// rewritten returns a recording with the samples of another recording.
func rewritten(t *testing.T, r *Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, r.Process(), r.Dictionary())
	if err != nil {
		t.Fatal(err)
	}
	err = r.Run(context.Background(), func(s *sampler.Sample) {
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	})
	if !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// uncompressed returns the size of a recording's blocks of samples before the compression, and their hash.
func uncompressed(t *testing.T, file []byte) string {
	t.Helper()
	r := openBytes(t, file)
	hash, size := sha256.New(), 0
	for _, b := range r.Blocks() {
		raw, err := unpack(r.comp, b.header, file[b.Offset+blockHeader:b.Offset+b.Bytes])
		if err != nil {
			t.Fatal(err)
		}
		size += len(raw)
		hash.Write(raw)
	}
	if size == 0 {
		t.Fatal("a recording without samples")
	}
	return fmt.Sprintf("%d bytes %x", size, hash.Sum(nil))
}
