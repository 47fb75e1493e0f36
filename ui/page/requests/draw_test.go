package requests

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/ui/widget"
)

// TestAwayText: a request is suspended, and its thread does something else. If this thread has no fibers, the text must
// not mention a fiber.
func TestAwayText(t *testing.T) {
	for fiberNS, fiber := range map[int64]bool{0: false, 1: true} {
		w := &widget.RequestRow{Request: &account.Request{Suspended: true}, Away: true}
		w.FiberNS = fiberNS
		if got := awayText(w); strings.Contains(got, "fiber") != fiber {
			t.Errorf("%d ns in fibers: %q", fiberNS, got)
		}
	}
}
