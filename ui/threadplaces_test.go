package ui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// TestWhereTheThreadsAre: if a thread is selected, its stack in the shown sample is drawn below the timeline and below
// the table of threads. If a group or nothing is selected, a list says at which places in the code the threads are.
// Each thread is at exactly one of these places.
func TestWhereTheThreadsAre(t *testing.T) {
	s := hogged(t, 200, 70)
	m := s.model
	for _, view := range []string{"2", "3"} {
		m.Selected = scene.RowKey{}
		s.press(view)
		s.sees("all threads · now")
		counted := func(places []widget.Spot) (names []string) {
			for _, p := range places {
				names = append(names, p.Names...)
				s.sees(fmt.Sprintf("%d × %s", len(p.Names), p.State))
			}
			return names
		}
		if names := counted(m.Parts.Now.Places); len(names) != len(m.Threads) {
			t.Errorf("view %s: %d threads are somewhere, of %d", view, len(names), len(m.Threads))
		}
		for i := range m.Timeline.Rows {
			w := &m.Timeline.Rows[i]
			m.Selected = w.Key
			m.Refresh()
			if w = &m.Timeline.Rows[i]; w.IsGroup {
				s.sees(w.Name + " · now")
				if names := counted(m.Parts.Now.Places); len(names) != len(w.Members) {
					t.Errorf("view %s: %d threads of %s are somewhere, of %d", view, len(names), w.Name, len(w.Members))
				}
				continue
			}
			th := &m.Threads[w.Members[0]]
			at := strings.Index(s.text(), w.Name+" · now: ")
			if at < 0 {
				t.Errorf("view %s: nothing of %s:\n%s", view, w.Name, s.text())
				continue
			}
			below := s.text()[at:]
			for _, label := range stackLabels(m.Dict, th.State.Stack) {
				next := strings.Index(below, label)
				if next < 0 {
					t.Errorf("view %s: %s of %s is not there, or not in its order:\n%s", view, label, w.Name, s.text())
					break
				}
				below = below[next:]
			}
		}
	}
}

// TestIdleSaysWhereTheThreadsAre: if all threads rest, the flamegraph is empty. The live view then shows a list
// instead. It says at which places in the code the threads rest.
func TestIdleSaysWhereTheThreadsAre(t *testing.T) {
	s := newScreen(t, 200, 50, demosource.Options{Length: 2 * time.Second, HogAfter: -1}, scene.Options{})
	s.press("tab", "/", "z", "z", "enter", "esc", "esc")
	s.misses("all of it was parked")
	m := s.model
	main := -1
	for i := range m.Timeline.Rows {
		if m.Timeline.Rows[i].Name == "main" {
			main = i
		}
	}
	if main < 0 {
		t.Fatal("no main thread")
	}
	m.Filter, m.Selected = m.Timeline.Rows[main].Key, m.Timeline.Rows[main].Key
	m.Refresh()
	s.sees("all of it waited for work, was parked or asleep", "main · now: parked", "Thread#join")
}
