package clock

import (
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/sampler/bpf"
)

// TestFollow: the kernel's verifier accepts the program. All Feeds share the program, and the same process cannot be
// followed twice at once.
func TestFollow(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	t.Run("running", func(t *testing.T) {
		following(t, func(target Target) (*Feed, error) { return Follow(target, Hz) })
	})
	t.Run("asks", func(t *testing.T) { following(t, FollowAsks) })
}

func following(t *testing.T, follow func(Target) (*Feed, error)) {
	t.Helper()
	const none = 1 << 22 // no process has this PID or a larger one (PID_MAX_LIMIT)
	a, err := follow(Target{PID: none})
	if err != nil {
		t.Fatal(err)
	}
	b, err := follow(Target{PID: none + 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := follow(Target{PID: none + 1}); err == nil {
		t.Error("a process is followed twice")
	}
	if a.t != b.t {
		t.Error("two processes have programs of their own")
	}
	first := a.t
	for _, f := range []*Feed{a, b} {
		if err := f.Drain(func(s *Sample) { t.Errorf("a stack of no process: %+v", s) }); err != nil {
			t.Error(err)
		}
		if c, err := f.Counts(); err != nil || c.Ticks != 0 {
			t.Errorf("%+v, %v", c, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Errorf("a second time: %v", err)
		}
	}
	again, err := follow(Target{PID: none})
	if err != nil {
		t.Fatal(err)
	}
	if again.t == first {
		t.Error("the program stayed after the last Close")
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestDroppedStacksAreCounted: only a limited number of a process's stacks may wait for Drain. Each further stack is
// dropped and counted.
func TestDroppedStacksAreCounted(t *testing.T) {
	f := &Feed{pending: make([]Sample, maxPending/2-1)}
	if !f.hasRoom(maxPending/2) || f.dropped != 0 {
		t.Errorf("no room, %d dropped", f.dropped)
	}
	f.pending = append(f.pending, Sample{})
	for n := uint64(1); n <= 2; n++ {
		if f.hasRoom(maxPending/2) || f.dropped != n {
			t.Errorf("%d of %d dropped", f.dropped, n)
		}
	}
}

// FuzzSample: for any content of the ring, decoding returns an error or a Sample that has no more bytes than were
// copied.
func FuzzSample(f *testing.F) {
	entry := make([]byte, entrySize)
	binary.LittleEndian.PutUint64(entry[bpf.StackSize+morePieces:], 1<<40)
	f.Add(entry[:64], uint64(1<<40))
	f.Add([]byte{}, uint64(3))
	f.Fuzz(func(t *testing.T, head []byte, pieces uint64) {
		b := make([]byte, entrySize)
		copy(b, head)
		binary.LittleEndian.PutUint64(b[bpf.StackSize+morePieces:], pieces)
		var s Sample
		target := Target{CollectsBits: 1}
		if err := target.decode(b, &s); err != nil {
			return
		}
		if len(s.Native) > maxPieces*pieceBytes || len(s.Frames)+len(s.Values) > bpf.StackSize {
			t.Errorf("%d, %d and %d bytes", len(s.Native), len(s.Frames), len(s.Values))
		}
		if target.decode(b[:entrySize-1], &s) == nil {
			t.Error("a short entry")
		}
	})
}
