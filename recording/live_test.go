package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// heldWriter is a disk that hangs: it accepts nothing until held is closed.
type heldWriter struct {
	bytes.Buffer
	begun chan struct{}
	held  chan struct{}
}

func (h *heldWriter) Write(b []byte) (int, error) {
	select {
	case h.begun <- struct{}{}:
	default:
	}
	<-h.held
	return h.Buffer.Write(b)
}

// TestLiveWriterDoesNotWait: with Live on, a disk that hangs does not delay the Writer. The Writer keeps each sample,
// or counts it as lost. The samples after a gap have the number of lost samples.
func TestLiveWriterDoesNotWait(t *testing.T) {
	disk := &heldWriter{begun: make(chan struct{}, 1), held: make(chan struct{})}
	w, err := NewWriter(disk, testProcess, sampler.NewDictionary())
	if err != nil {
		t.Fatal(err)
	}
	w.Live(true)
	<-disk.begun // the disk is writing the first block, so the queue is empty
	const stepNS, blocks = 1e7, 40
	produced := uint64(0)
	write := func(n int) {
		for range n {
			produced++
			s := sampler.Sample{TimeNS: int64(produced) * stepNS, Reads: sampler.Reads{Ticks: produced, Lost: 5}}
			if err := w.Write(&s); err != nil {
				t.Fatal(err)
			}
			if s.Reads.Lost != 5 {
				t.Fatalf("the producer's sample was changed: %d lost", s.Reads.Lost)
			}
		}
	}
	const each = blockNS / stepNS // samples per block
	write(blocks * each)          // write all of these samples while the disk hangs
	if got, want := w.Lost(), uint64(blocks-queuedBlocks-1)*each; got != want {
		t.Errorf("%d samples were given up, want %d", got, want)
	}
	want := fmt.Sprintf("%v: the last %d samples were not written, nor were %d before them", ErrSlow, uint64((queuedBlocks+1)*each), w.Lost())
	if err := w.Unwritten(); err.Error() != want || !errors.Is(err, ErrSlow) {
		t.Errorf("it says %v, want %s", err, want)
	}
	close(disk.held)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	write(each)
	if err := w.Close(&sampler.End{Reason: "exited"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Unwritten(); !strings.Contains(err.Error(), "all was written, but the disk has not confirmed the file") || !w.Complete() {
		t.Errorf("behind the end it says %v", err)
	}
	path := filepath.Join(t.TempDir(), "x.ddtop")
	if err := os.WriteFile(path, disk.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	kept, last := uint64(0), sampler.Reads{}
	err = r.Run(context.Background(), func(s *sampler.Sample) {
		kept++
		if holes, lost := s.Reads.Ticks-kept, s.Reads.Lost-5; holes != lost {
			t.Errorf("before tick %d %d samples are missing, and %d are said to be lost", s.Reads.Ticks, holes, lost)
		}
		last = s.Reads
	})
	if err != nil && !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	if last.Ticks != produced || kept+w.Lost() != produced {
		t.Errorf("%d kept and %d lost of %d", kept, w.Lost(), produced)
	}
}
