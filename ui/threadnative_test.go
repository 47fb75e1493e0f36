package ui

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/thread"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestThreadNativeFrames: if a thread has not run for a while, its page asks for the thread's C functions. It shows
// them above the Ruby frames. As soon as the thread has run again, the page shows no C functions.
func TestThreadNativeFrames(t *testing.T) {
	for _, size := range screenSizes {
		s := newScreen(t, size[0], size[1], demosource.Options{Length: 30 * time.Second}, scene.Options{Folder: t.TempDir()})
		s.press("2", "end", "enter")
		p := s.model.pages[scene.PageThread].(*thread.Page)
		if s.model.Page != scene.PageThread || p.Depth == 0 {
			t.Fatalf("no thread with a stack is shown:\n%s", s.text())
		}
		before := *p.Frame()
		x := s.model.Scene.Moment.Clone()
		x.Native = new(sampler.NativeWatch)
		var of *sampler.Thread
		for i := range x.Threads {
			if x.Threads[i].ID == s.model.Selected.Thread {
				of = &x.Threads[i]
			}
		}
		x.TimeNS, x.Depth, of.Kernel.Turns = x.TimeNS+10e6, sampler.StackTick, 41
		s.store.Feed(x)
		s.model.Refresh()
		if wanted := x.Native.AppendWanted(nil, x.TimeNS); !slices.Contains(wanted, of.ID) {
			t.Errorf("%v are wanted, not %d", wanted, of.ID)
		}
		s.misses("in C")
		x.Native.Keep(of.ID, &sampler.NativeStay{Stack: of.Stack, Turns: 41, NativeStack: sampler.NativeStack{Kernel: "waits for the disk to flush", Frames: []sampler.NativeFrame{
			{Name: "poll", Library: "libc"}, {Library: "libpq"}, {Library: "libpq"}, {Name: "PQgetResult", Library: "libpq"}}}})
		s.model.Refresh()
		if p.Native != 4 || *p.Frame() != before {
			t.Errorf("%d functions, at %v, not %v", p.Native, p.Frame(), before)
		}
		s.sees("+ 4 in C", "kernel: waits for the disk", "poll [libc]", "libpq (2 functions)", "PQgetResult [libpq]")
		s.press("home")
		s.sees("a C function, called by the frames below")
		x.TimeNS, of.Kernel.Turns = x.TimeNS+10e6, 42
		s.store.Feed(x)
		s.model.Refresh()
		s.misses("PQgetResult")
	}
}

// TestFindingNative: an active finding names the C functions in which its first thread has been for a while. The list
// of all findings shows them. If there is room, the top of the screen shows them, too. In a recording the thread's page
// also shows them.
func TestFindingNative(t *testing.T) {
	for _, size := range screenSizes {
		s := deadlockScreen(t, size[0], size[1], scene.Options{})
		m := s.model
		if len(m.Findings.Current()) == 0 || len(m.Findings.List[0].Threads) == 0 {
			t.Fatalf("no finding with a thread: %+v", m.Findings.List)
		}
		of := m.Findings.List[0].Threads[0]
		x := m.Scene.Moment.Clone()
		for i := range x.Threads {
			if th := &x.Threads[i]; th.ID == of {
				th.Native = m.store.Src.Dictionary().InternNative(th.Stack, &sampler.NativeStack{Frames: []sampler.NativeFrame{
					{Name: "poll", Library: "libc", Offset: 9}, {Library: "libpq", Offset: 7}, {Name: "PQgetResult", Library: "libpq", Offset: 8}}})
			}
		}
		s.misses("in C")
		x.TimeNS += 10e6
		s.store.Feed(x)
		m.Refresh()
		s.press("!")
		s.sees("in C: PQgetResult → poll")
		s.press("esc", "y")
		if text := summary(m); !strings.Contains(text, "in C: PQgetResult → poll") {
			t.Errorf("what is copied lacks the C functions:\n%s", text)
		}
		m.Selected, m.Page = scene.RowKey{Thread: of}, scene.PageThread
		m.Refresh()
		s.sees("+ 3 in C", "PQgetResult [libpq]")
	}
}
