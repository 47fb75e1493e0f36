package recording

import (
	"runtime"
	"testing"
)

// TestManyHistoriesShareTheCompressor: apart from its samples, a History takes little memory. Each process has a
// History, and there can be 64 processes. With an encoder of its own, each History would take more than a megabyte.
func TestManyHistoriesShareTheCompressor(t *testing.T) {
	const histories, most = 32, 512 << 10
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // the second collection frees objects whose finalizers ran in the first one
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	_, samples := samplesOf(300, 3)
	fill := func() *History {
		h, err := NewHistory(1<<62, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			if err := h.Append(s); err != nil {
				t.Fatal(err)
			}
		}
		h.mu.Lock()
		h.seal()
		h.mu.Unlock()
		// Compress here, because the other goroutine may not have run yet. So the shared encoder was used in any case.
		h.packed(h.enc.out)
		return h
	}
	kept := []*History{fill()} // the first call of fill creates what all histories share
	before := heap()
	for range histories {
		kept = append(kept, fill())
	}
	if each := (heap() - before) / histories; each > most {
		t.Errorf("%d bytes a history of %d samples, more than %d", each, len(samples), most)
	} else {
		t.Logf("%d bytes a history of %d samples", each, len(samples))
	}
	runtime.KeepAlive(kept)
}
