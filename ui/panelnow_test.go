package ui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/ui/internal/demosource"
)

// TestWhereTheThreadsAre: under the lanes and the table stands the stack of the selected thread, as it is in the sample that is
// shown; with none selected, or a group, each thread of it is counted once.
func TestWhereTheThreadsAre(t *testing.T) {
	s := hogged(t, 200, 70)
	m := s.model
	for _, view := range []string{"2", "3"} {
		m.selected = rowKey{}
		s.press(view)
		s.sees("all threads · now")
		counted := func(places []spot) (names []string) {
			for _, p := range places {
				names = append(names, p.names...)
				s.sees(fmt.Sprintf("%d × %s", len(p.names), p.state))
			}
			return names
		}
		if names := counted(m.whereNow.places); len(names) != len(m.threads) {
			t.Errorf("view %s: %d threads are somewhere, of %d", view, len(names), len(m.threads))
		}
		for i := range m.timeline.rows {
			w := &m.timeline.rows[i]
			m.selected = w.key
			m.Refresh()
			if w = &m.timeline.rows[i]; w.isGroup {
				s.sees(w.name + " · now")
				if names := counted(m.whereNow.places); len(names) != len(w.members) {
					t.Errorf("view %s: %d threads of %s are somewhere, of %d", view, len(names), w.name, len(w.members))
				}
				continue
			}
			th := &m.threads[w.members[0]]
			at := strings.Index(s.text(), w.name+" · now: ")
			if at < 0 {
				t.Errorf("view %s: nothing of %s:\n%s", view, w.name, s.text())
				continue
			}
			below := s.text()[at:]
			for _, label := range stackLabels(m.dict, th.state.Stack) {
				next := strings.Index(below, label)
				if next < 0 {
					t.Errorf("view %s: %s of %s is not there, or not in its order:\n%s", view, label, w.name, s.text())
					break
				}
				below = below[next:]
			}
		}
	}
}

// TestIdleSaysWhereTheThreadsAre: where the flamegraph has nothing to show, the live view says where all threads are parked.
func TestIdleSaysWhereTheThreadsAre(t *testing.T) {
	s := newScreen(t, 200, 50, demosource.Options{Length: 2 * time.Second, HogAfter: -1}, Options{})
	s.press("tab", "/", "z", "z", "enter", "esc", "esc")
	s.misses("all of it was parked")
	m := s.model
	main := -1
	for i := range m.timeline.rows {
		if m.timeline.rows[i].name == "main" {
			main = i
		}
	}
	if main < 0 {
		t.Fatal("no main thread")
	}
	m.filter, m.selected = m.timeline.rows[main].key, m.timeline.rows[main].key
	m.Refresh()
	s.sees("all of it waited for work, was parked or asleep", "main · now: parked", "Thread#join")
}
