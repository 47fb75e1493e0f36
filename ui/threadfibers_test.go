package ui

import (
	"fmt"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
)

// withFibers feeds a sample in which 8 fibers of the first thread wait, 6 of them for requests.
func withFibers(t *testing.T, w, h int) *screen {
	t.Helper()
	s := newScreen(t, w, h, demosource.Options{Length: 30 * time.Second, Serving: true}, Options{Folder: t.TempDir()})
	s.press("2")
	x, d := s.model.scene.moment.Clone(), s.model.scene.dict
	x.TimeNS, x.Depth = x.TimeNS+10e6, sampler.StackTick
	x.Fibers = &sampler.Fibers{AtNS: x.TimeNS - 4e9}
	for i := range 8 {
		f := sampler.Fiber{Number: sampler.FiberNumber(1 + i), Thread: x.Threads[0].ID, AtNS: x.Fibers.AtNS, Stack: x.Threads[0].Stack}
		if i >= 2 {
			f.Serving.Work = d.InternWork(sampler.Work{Number: sampler.WorkNumber(1_000_000 + i), Kind: sampler.WorkRequest, Endpoint: fmt.Sprintf("GET feed%d#show", i),
				SinceNS: x.TimeNS - 5e9 - int64(i)*1e9, BeforeNS: x.TimeNS - 5e9 - int64(i)*1e9})
			f.Serving.Statement = d.InternText("GET api.example.com")
		}
		x.Fibers.List = append(x.Fibers.List, f)
	}
	s.store.Feed(x)
	s.model.Refresh()
	return s
}

// TestThreadFibers: the fibers that wait are a second level under their thread, folded until it is opened.
func TestThreadFibers(t *testing.T) {
	for _, size := range screenSizes {
		s := withFibers(t, size[0], size[1])
		p := s.model.pages[pageThreads].(*threadsPage)
		rows := len(p.table.rows)
		folded := "main +8"
		if size[0] >= 120 {
			folded = "main + 8 fibers"
		}
		s.sees(folded)
		s.misses("GET feed7#show")
		s.press("end", "right")
		if len(p.table.rows) != rows+8 || s.model.selected.thread == 0 {
			t.Fatalf("%d rows, not %d: %v\n%s", len(p.table.rows), rows+8, p.cursor, s.text())
		}
		s.sees("GET feed7", "old", "GET api.example")
		thread := s.model.selected
		s.press("down", "down")
		if p.cursor.fiber == 0 || p.cursor.thread != thread.thread || s.model.selected != thread {
			t.Errorf("the cursor is at %v, and %v is selected", p.cursor, s.model.selected)
		}
		checkRows(t, s, "fibers")
		s.press("left")
		if len(p.table.rows) != rows || p.cursor != thread {
			t.Errorf("%d rows, the cursor is at %v", len(p.table.rows), p.cursor)
		}
		s.press("right", "down", "enter")
		if s.model.page != pageThread || s.model.selected != thread {
			t.Errorf("page %s of %v", s.model.page, s.model.selected)
		}
		s.press("9")
		if s.sees("GET feed7", "its fiber waits"); size[0] >= 120 {
			s.sees("8 fibers wait (as of 4.0")
		}
	}
}
