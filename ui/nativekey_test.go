package ui

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// fakeNative imitates the switch for C stacks in the tests. There is no process behind it.
type fakeNative struct {
	on      bool
	refusal error
	failed  string
}

func (f *fakeNative) Start(context.Context) error {
	if f.refusal != nil {
		f.failed = f.refusal.Error()
		return f.refusal
	}
	f.on, f.failed = true, ""
	return nil
}

func (f *fakeNative) End() error     { f.on = false; return nil }
func (f *fakeNative) On() bool       { return f.on }
func (f *fakeNative) Failed() string { return f.failed }

// TestNativeKey: the key C switches the reading of running threads' C functions on and off. This is done in the
// background. If the kernel refuses, the screen shows the reason once.
func TestNativeKey(t *testing.T) {
	for _, size := range screenSizes {
		f := &fakeNative{refusal: errors.New("ddtop lacks CAP_BPF")}
		s := newScreen(t, size[0], size[1], demosource.Options{Length: 10 * time.Second}, scene.Options{Native: f})
		cmds := s.press("C")
		if s.sees("taking C functions"); len(s.press("C")) != 0 || f.failed != "" {
			t.Error("it is switched twice, or on the screen's own goroutine")
		}
		s.ran(cmds)
		s.sees("no C functions of running threads: ddtop lacks CAP_BPF")
		f.refusal = nil
		s.ran(s.press("C"))
		if s.sees("C ends it"); !f.on {
			t.Error("it is off")
		}
		s.ran(s.press("C"))
		if s.sees("no more C functions"); f.on {
			t.Error("it is on")
		}
		// with --native, the reading of C stacks can fail although the user has pressed no key
		f.failed = "the kernel refuses"
		s.model.Update(tickMsg(time.Now()))
		s.sees("no C functions of running threads: the kernel refuses")
		s.press("esc")
		s.model.Update(tickMsg(time.Now()))
		s.misses("the kernel refuses")
	}
}

// TestNativeKeyOfRecordings: for a recording the key C does nothing, and the help does not name it.
func TestNativeKeyOfRecordings(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 10 * time.Second}, scene.Options{Replay: true})
	if cmds := s.press("C"); len(cmds) != 0 {
		t.Errorf("%d commands", len(cmds))
	}
	s.press("?")
	s.misses("running threads spend their time")
}
