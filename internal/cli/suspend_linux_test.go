package cli_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/exact/probe"
)

// TestSuspend: ctrl-z, or SIGTSTP from another process, stops ddtop. The user is back in the shell, and the terminal
// has its old settings. After fg the screen is back and accepts keys again.
func TestSuspend(t *testing.T) {
	t.Parallel()
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	x := programInTerminal(t, "/bin/sh", "-i")
	x.press(t, fmt.Sprintf("%s -p %d\n", ddtop, p.PID))
	x.see(t, "Integer#times")
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", x.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		t.Fatalf("the shell's children are %q: %v", children, err)
	}
	for _, c := range []struct {
		name    string
		suspend func()
	}{
		{"ctrl-z", func() { x.press(t, "\x1a") }},
		{"SIGTSTP", func() {
			if err := syscall.Kill(pid, syscall.SIGTSTP); err != nil {
				t.Fatal(err)
			}
		}},
		{"ctrl-z again", func() { x.press(t, "\x1a") }},
	} {
		c.suspend()
		until(t, func() bool { return stateOf(t, pid) == "T" }, "%s: ddtop in state T", c.name)
		// From here on, ddtop is stopped and writes nothing. But its last output may still be on the way, so the test
		// waits for it.
		until(t, func() bool {
			raw := x.raw()
			return strings.LastIndex(raw, "\x1b[?1049h") < strings.LastIndex(raw, "\x1b[?1049l")
		}, "%s: the alternate screen left", c.name)
		x.forget()
		x.press(t, "echo in the $((40+2))nd shell\n")
		x.see(t, "in the 42nd shell") // the shell has its own terminal settings again
		x.forget()
		x.press(t, "fg\n")
		x.see(t, "Integer#times")
		x.press(t, "2\x0c")
		x.seeWords(t, "current frame")
		x.forget()
		x.press(t, "1\x0c")
		x.seeWords(t, "GVL held by")
	}
	x.press(t, "q")
	until(t, func() bool { return stateOf(t, pid) == "" }, "ddtop's end")
	x.press(t, "exit 0\n")
	x.leaves(t, 0)
}

// TestNoShellToSuspendTo: if there is no shell that could continue a stopped ddtop, ctrl-z does not stop ddtop, and the
// screen says so.
func TestNoShellToSuspendTo(t *testing.T) {
	t.Parallel()
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	for _, args := range [][]string{{}, {"--pause"}} {
		x := inTerminal(t, append(args, "-p", strconv.Itoa(p.PID))...)
		x.see(t, "Integer#times")
		x.press(t, "\x1a")
		x.seeWords(t, "ctrl-z does nothing here")
		x.press(t, "q")
		x.leaves(t, 0)
	}
}

// stateOf returns the state of a process from /proc/PID/stat. It returns "" if the process is gone.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // the process has just ended
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return after[:1]
}

// forget drops all output of the program so far, so that the next call of see finds only later output.
func (x *terminal) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.written.Reset()
}

// TestSuspendTakesProbesOut: while ctrl-z has stopped ddtop, the target must have no probes of exact mode. After fg it
// has them again.
func TestSuspendTakesProbesOut(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	if err := probe.Try(false); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := rubytest.One(t).Start(t, handsOn, rubytest.Options{})
	p.Expect(t, "ready")
	x := programInTerminal(t, "/bin/sh", "-i")
	x.press(t, fmt.Sprintf("%s -p %d --exact-cost off\n", ddtop, p.PID))
	x.see(t, "busy 0")
	x.press(t, "E")
	x.seeWords(t, "y yes")
	x.press(t, "y")
	rubytest.Probed(t, p.PID, true)
	x.press(t, "\x1a")
	rubytest.Probed(t, p.PID, false)
	x.see(t, "Stopped") // the shell prints this; before it does, ddtop would get the keys
	x.forget()
	x.press(t, "echo in the $((40+2))nd shell\n")
	x.see(t, "in the 42nd shell")
	x.press(t, "fg\n")
	rubytest.Probed(t, p.PID, true)
	x.press(t, "q")
	rubytest.Probed(t, p.PID, false)
	until(t, func() bool {
		raw := x.raw()
		return strings.LastIndex(raw, "\x1b[?1049h") < strings.LastIndex(raw, "\x1b[?1049l")
	}, "the alternate screen left")
	x.press(t, "exit 0\n")
	x.leaves(t, 0)
}
