package sampler

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestShare: while many processes are read at once, Share reduces the limit of each process. The sum of their limits
// must be at most twice the full limit. A single process must have the full limit.
func TestShare(t *testing.T) {
	for _, limit := range []int{64, 20_000, 48 << 20, 96 << 20} {
		for n := range 65 {
			part := Share(limit, n)
			if part > limit || n*part > shares*limit || n <= shares && part != limit || n > shares && n*(part+1) <= shares*limit {
				t.Errorf("%d processes have %d each of %d", n, part, limit)
			}
		}
	}
}

// TestRoom: 64 processes make new names without end, and share the memory of a Room. Together they must use at most
// twice the room's size, in whatever order they run. Even the last process must get its reserved part. When nothing
// refers to a Dictionary, its memory must return to the room.
func TestRoom(t *testing.T) {
	const n, limit = 64, 16 << 20
	room := NewRoom(limit, n)
	var all []*Dictionary
	sum := int64(0)
	for i := range n {
		d := room.NewDictionary()
		long := strings.Repeat("y", MaxNameBytes-20)
		for line := range 400 {
			d.InternStack(0, d.InternFrame(Frame{Label: fmt.Sprint(i, long, line), Name: fmt.Sprint(line, long)}))
		}
		all = append(all, d)
		sum += d.Bytes()
	}
	// Each process may exceed its reserved part a little: by one page of a table, and by the entries that replace
	// refused entries.
	const page = 64 << 10
	t.Logf("%d KB of %d KB, the last one %d KB", sum>>10, limit>>10, all[n-1].Bytes()>>10)
	if sum > 2*limit+n*page {
		t.Errorf("they take %d KB", sum>>10)
	}
	if last := all[n-1].Bytes(); last < limit/n-page {
		t.Errorf("the last one has %d KB", last>>10)
	}
	if room.held.Load() == 0 {
		t.Error("nothing is held")
	}
	runtime.KeepAlive(all)
	all = nil
	for deadline := time.Now().Add(time.Minute); room.held.Load() != 0; runtime.Gosched() {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatalf("%d bytes did not come back", room.held.Load())
		}
	}
}

// TestRoomEvicts: when entries are evicted from a Dictionary, their memory returns to the room.
func TestRoomEvicts(t *testing.T) {
	room := NewRoom(8<<20, 64)
	d := room.NewDictionary()
	k := NewKeeper(d, 1e9)
	s := &Sample{TimeNS: 1e9}
	for i := range 1000 {
		d.InternStack(0, d.InternFrame(Frame{Label: strings.Repeat("x", 2000), Line: int32(i)}))
	}
	full := room.held.Load()
	for ; s.TimeNS < 300e9; s.TimeNS += 31e9 {
		k.Feed(s, false)
	}
	if full < 1<<20 || room.held.Load() > full/4 {
		t.Errorf("%d KB were held, %d KB still are", full>>10, room.held.Load()>>10)
	}
}
