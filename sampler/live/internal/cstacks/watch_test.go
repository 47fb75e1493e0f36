package cstacks

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestErrorPasses: after an error, the Watch reads no stacks for some time. Then it tries again.
func TestErrorPasses(t *testing.T) {
	var w Watch
	defer w.Close()
	const sec = 1_000_000_000
	at := map[sampler.ThreadID]Place{1: {TID: 1, Stack: 1, Turns: 1}}
	tried := func(nowNS int64) bool {
		var to sampler.NativeWatch
		w.Round(t.Context(), Subject{Machine: "unknown"}, at, nowNS, &to)
		_, failed := to.Counts()
		return failed != ""
	}
	for _, c := range []struct {
		second int64
		tries  bool
	}{{1, false}, {2, true}, {3, false}, {31, false}, {32, true}, {33, false}} {
		if got := tried(c.second * sec); got != c.tries {
			t.Errorf("in second %d: %v", c.second, got)
		}
	}
}
