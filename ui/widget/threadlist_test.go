package widget

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestEndedThreadsDoNotCrowdOut: a program has many threads that lived only for a short time. They are at the top of
// the list only if together they worked for a considerable time. Their group does not open by itself.
func TestEndedThreadsDoNotCrowdOut(t *testing.T) {
	const span = int64(30e9)
	for _, c := range []struct {
		name   string
		busyNS int64
		first  string
	}{{"a few ms each", 3e6, "web-1"}, {"a second each", 1e9, "thread ×14"}} {
		var l scene.Threads
		for i := range 14 {
			l = append(l, scene.Thread{ID: sampler.ThreadID(i + 1), Name: "thread", BusyNS: c.busyNS})
		}
		l = append(l, scene.Thread{ID: 20, Name: "web-1", Seen: true, BusyNS: span, Active: true}, scene.Thread{ID: 21, Name: "main", Seen: true})
		var sel scene.Selection
		v := newTimelineView(&sel)
		v.ToNS = span
		v.BuildRows(l, 100)
		if len(v.Rows) != 3 || v.Rows[0].Name != c.first {
			t.Errorf("%s: %+v", c.name, v.Rows)
		}
	}
}
