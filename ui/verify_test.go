//go:build verify

package ui

import (
	"runtime"
	"testing"
	"time"

	"github.com/ddtop/ddtop/ui/internal/demosource"
)

// TestHistoryMemory logs how much memory a history of ten minutes takes, for 100 threads with stacks at 100 Hz and the
// GVL at 1 kHz. It fails above 150 MB. It also logs how long a key press takes.
func TestHistoryMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s := newScreen(t, 200, 50, demosource.Options{Length: 10 * time.Minute, HTTP: 93}, Options{})
	used := heap() - before
	t.Logf("10 minutes of 100 threads take %d MB, of which the history's samples %d MB", used>>20, s.store.History.Bytes()>>20)
	const aim = 150 << 20
	if used > aim {
		t.Errorf("more than the aim of %d MB", aim>>20)
	}
	for _, keys := range [][]string{{"down"}, {"[", "[", "["}, {"{", "{", "{", "{", "{"}, {"w"}, {"tab", "down", "enter"}, {"space"}} {
		for _, k := range keys {
			start := time.Now()
			s.press(k)
			t.Logf("%-6s %v", k, time.Since(start).Round(100*time.Microsecond))
		}
	}
}
