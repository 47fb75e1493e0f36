package ui

import (
	"fmt"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/store"
)

// waitInWords is one of the lengths of waits.
func (f *figures) waitInWords(of int) string { return store.WaitInWords(f.waits, f.waitTold[of]) }

// waitsText says how many waits for the GVL there were, of all threads, and how long they were; "" without any.
func (f *figures) waitsText() string {
	if f.waits == 0 {
		return ""
	}
	return fmt.Sprintf("%s waits: p50 %s  p90 %s  p99 %s  max %s", units.Count(f.waits), f.waitInWords(store.WaitP50), f.waitInWords(store.WaitP90),
		f.waitInWords(store.WaitP99), f.waitInWords(store.WaitMax))
}
