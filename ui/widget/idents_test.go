package widget

import (
	"testing"

	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestASignIsOfTheName: in the GVL lane (the row that shows who held the GVL), each thread has a sign. It is the number
// at the end of the thread's name, or the first letter of the name. If another thread already has this sign, the thread
// gets no sign of its own.
func TestASignIsOfTheName(t *testing.T) {
	names := []string{"worker-3", "http-3", "http-1", "reports", "refresher", "rake", "http-12", "Émile"}
	want := []string{"3", "", "1", "r", "R", "", "", ""}
	var threads scene.Threads
	l := lane{}
	for i, name := range names {
		id := sampler.ThreadID(i + 1)
		threads = append(threads, scene.Thread{ID: id, Name: name})
		held := int64(100 - i) // earlier threads held the GVL longer
		l.cells = append(l.cells, timeline.OwnerCell{Owner: id, HeldByOwnerNS: held})
	}
	var d idents
	d.assign([]lane{l}, threads)
	for i, name := range names {
		got := ""
		if n := d.Numbers[sampler.ThreadID(i+1)]; n > 0 {
			got = string(identRune(n))
		}
		if got != want[i] {
			t.Errorf("%s has the sign %q, want %q", name, got, want[i])
		}
	}
}
