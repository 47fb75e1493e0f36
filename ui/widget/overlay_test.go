package widget

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/findings"
)

// TestLongAddressesGiveWay: if there is too little room for a finding, addresses of objects lose their first digits.
// Words are cut only if this is not enough.
func TestLongAddressesGiveWay(t *testing.T) {
	f := findings.Finding{Title: "Threads queue", Text: "6.7 threads wait for Mutex 0x7fb374889558, held by http-1, which is at its end"}
	if got := strings.Join(findingLines(&f, 100, 1), " "); got != f.String() {
		t.Errorf("%q, and there was room", got)
	}
	got := strings.Join(findingLines(&f, 87, 1), " ")
	if !strings.Contains(got, "Mutex …9558") || !strings.HasSuffix(got, "its end") {
		t.Errorf("%q", got)
	}
}
