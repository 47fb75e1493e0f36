package ui

import (
	"fmt"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/threads"
	"github.com/ddtop/ddtop/ui/scene"
)

// withFibers returns a screen with a sample in which 8 fibers of the first thread wait. Of these, 6 serve requests.
func withFibers(t *testing.T, w, h int) *screen {
	t.Helper()
	s := newScreen(t, w, h, demosource.Options{Length: 30 * time.Second, Serving: true}, scene.Options{Folder: t.TempDir()})
	s.press("2")
	x, d := s.model.Scene.Moment.Clone(), s.model.Scene.Dict
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

// TestThreadFibers: when the user opens a thread's row, the waiting fibers of the thread are listed below it.
func TestThreadFibers(t *testing.T) {
	for _, size := range screenSizes {
		s := withFibers(t, size[0], size[1])
		p := s.model.pages[scene.PageThreads].(*threads.Page)
		rows := len(p.Table.Rows)
		folded := "main +8"
		if size[0] >= 120 {
			folded = "main + 8 fibers"
		}
		s.sees(folded)
		s.misses("GET feed7#show")
		s.press("end", "right")
		if len(p.Table.Rows) != rows+8 || s.model.Selected.Thread == 0 {
			t.Fatalf("%d rows, not %d: %v\n%s", len(p.Table.Rows), rows+8, p.Cursor, s.text())
		}
		s.sees("GET feed7", "old", "GET api.example")
		thread := s.model.Selected
		s.press("down", "down")
		if p.Cursor.Fiber == 0 || p.Cursor.Thread != thread.Thread || s.model.Selected != thread {
			t.Errorf("the cursor is at %v, and %v is selected", p.Cursor, s.model.Selected)
		}
		checkRows(t, s, "fibers")
		s.press("left")
		if len(p.Table.Rows) != rows || p.Cursor != thread {
			t.Errorf("%d rows, the cursor is at %v", len(p.Table.Rows), p.Cursor)
		}
		s.press("right", "down", "enter")
		if s.model.Page != scene.PageThread || s.model.Selected != thread {
			t.Errorf("page %s of %v", s.model.Page, s.model.Selected)
		}
		s.press("9")
		// on narrower screens, the names of the views take the room of this text
		if s.sees("GET feed7", "its fiber waits"); size[0] >= 140 {
			s.sees("8 fibers wait (as of 4.0")
		}
	}
}
