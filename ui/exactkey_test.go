package ui

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// fakeExact imitates exact mode for the tests. There is no process behind it.
type fakeExact struct {
	refusal error
	status  sampler.ExactStatus
	begun   int
}

func (f *fakeExact) Exact(context.Context) error {
	f.begun++
	if f.refusal != nil {
		return f.refusal
	}
	f.status = sampler.ExactStatus{On: true, SinceNS: 1e9, CostShare: 0.004, Hits: 12345, Changes: 4321}
	return nil
}

func (f *fakeExact) EndExact() error { f.status = sampler.ExactStatus{}; return nil }

func (f *fakeExact) ExactStatus() sampler.ExactStatus { return f.status }

// withExact returns a screen that shows the made-up order service, with exact mode available.
func withExact(t *testing.T, w, h int, o scene.Options) (*screen, *fakeExact) {
	t.Helper()
	f := new(fakeExact)
	o.Exact = f
	s := newScreen(t, w, h, demosource.Options{Length: 10 * time.Second}, o)
	return s, f
}

// ran runs commands as Bubble Tea does: the messages that they return go to the screen.
func (s *screen) ran(cmds []tea.Cmd) {
	for _, cmd := range cmds {
		s.model.Update(cmd())
	}
}

// TestExactAsksFirst: ddtop puts no breakpoint into the process before the user says yes. After the first yes ddtop
// does not ask again.
func TestExactAsksFirst(t *testing.T) {
	for _, size := range append([][2]int{{60, 15}}, screenSizes...) {
		s, f := withExact(t, size[0], size[1], scene.Options{})
		s.misses("● exact")
		if cmds := s.press("E"); len(cmds) != 0 {
			t.Errorf("%d commands before the answer", len(cmds))
		}
		s.sees("breakpoints", "y yes", "n no")
		checkRows(t, s, "the question")
		for _, no := range []string{"n", "esc", "enter", "x"} {
			if cmds := s.press(no, "esc", "E"); len(cmds) != 0 || f.begun != 0 {
				t.Fatalf("%s: %d commands, begun %d times", no, len(cmds), f.begun)
			}
		}
		s.model.Update(tea.PasteMsg{Content: "yyy"})
		cmds := s.press("y")
		s.sees("switching exact mode on")
		if again := s.press("E"); len(again) != 0 || f.begun != 0 {
			t.Errorf("a second press while it is being switched on: %d commands", len(again))
		}
		s.ran(cmds)
		s.sees("exact mode is on")
		if size[0] >= 80 {
			s.sees("● exact 0.4 %")
		}
		checkRows(t, s, "exact mode on")
		s.ran(s.press("E"))
		s.sees("exact mode is off")
		s.misses("● exact")
		s.ran(s.press("E"))
		if f.begun != 2 {
			t.Errorf("begun %d times after the third press", f.begun)
		}
		s.press("?", "end")
		s.sees("12,345 hits")
	}
}

// TestExactSaysWhyNot: if ddtop cannot switch exact mode on, the screen shows the whole reason, even at the smallest
// size.
func TestExactSaysWhyNot(t *testing.T) {
	for _, size := range append([][2]int{{60, 15}}, screenSizes...) {
		s, f := withExact(t, size[0], size[1], scene.Options{})
		f.refusal = errors.New("loading the BPF program for PID 4242: operation not permitted: ddtop needs CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE; sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep ddtop gives them")
		s.press("E")
		s.ran(s.press("y"))
		if got := strings.Join(strings.Fields(s.text()), " "); !strings.Contains(got, "no exact mode: loading") || !strings.Contains(got, "+ep ddtop gives them") {
			t.Errorf("%v: the sentence is cut:\n%s", size, s.text())
		}
		checkRows(t, s, "a refusal")
		f.refusal = nil
		s.press("E")
		s.sees("y yes")
	}
}

// TestExactEndsItself: exact mode may end although the user did not switch it off. The screen then shows the reason.
// From then on the first row says that exact mode ended, and the help says why. The next press of the key asks the user
// again.
func TestExactEndsItself(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		s, f := withExact(t, 120, 40, scene.Options{})
		s.press("E")
		s.ran(s.press("y"))
		f.status.Lost = 12
		tickOn(s.model)
		s.sees("● exact 0.4 %, 12 lost")
		f.status = sampler.ExactStatus{Ended: "its probes cost 4.1 % of the process's CPU time", Wrong: wrong}
		tickOn(s.model)
		s.sees("its probes cost 4.1 %", "exact ended")
		if got := strings.Contains(s.text(), "trusted"); got != wrong {
			t.Errorf("wrong %v, said so %v", wrong, got)
		}
		s.press("down")
		s.misses("its probes cost")
		s.sees("exact ended")
		s.press("?", "end")
		s.sees("its probes cost")
		s.press("esc", "E")
		s.sees("its probes cost 4.1 %", "gain?", "y yes")
		s.press("n")
		if f.begun != 1 {
			t.Errorf("begun %d times", f.begun)
		}
	}
}

// TestExactWhereItIsNot: if exact mode is impossible, as for a recording, a press of its key shows the reason.
func TestExactWhereItIsNot(t *testing.T) {
	for want, o := range map[string]scene.Options{"this is a recording": {Replay: true}, "not possible here": {}} {
		s := newScreen(t, 120, 40, demosource.Options{Length: 3 * time.Second}, o)
		s.press("E")
		s.sees(want)
	}
	f := new(fakeExact)
	s := newScreen(t, 120, 40, demosource.Options{Length: 3 * time.Second}, scene.Options{Exact: f})
	setDone(s.store, true)
	s.model.Refresh()
	s.press("E")
	s.sees("no samples come any more")
	f.status.On = true // the user has switched exact mode on by the command line, so the key does not ask
	s.model.Refresh()
	s.ran(s.press("E"))
	s.sees("exact mode is off")
}
