package cli_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// terminal is a program that runs in a pseudo-terminal of 100 columns and 30 rows.
type terminal struct {
	cmd *exec.Cmd
	// tty is the program's end of the pseudo-terminal. The test keeps it open to read the terminal's settings. The
	// field before has the settings at the start.
	master, tty *os.File
	before      unix.Termios

	mu      sync.Mutex
	written bytes.Buffer
	// cleaned is the beginning of written without escape sequences. cleanedOf is how many bytes of written it covers.
	cleaned   string
	cleanedOf int
	// drained is closed when the test has read everything that the program wrote.
	drained chan struct{}
}

func inTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	return programInTerminal(t, ddtop, args...)
}

// programInTerminal starts any program, as the leader of the terminal's session.
func programInTerminal(t *testing.T, program string, args ...string) *terminal {
	t.Helper()
	return changedInTerminal(t, func(*exec.Cmd) {}, program, args...)
}

// changedInTerminal is like programInTerminal, but calls the function change, which may modify the command, before the
// start.
func changedInTerminal(t *testing.T, change func(*exec.Cmd), program string, args ...string) *terminal {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: 30, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	x := &terminal{master: master, tty: tty, before: settings(t, tty), cmd: exec.CommandContext(ctx, program, args...), drained: make(chan struct{})}
	x.cmd.Dir = t.TempDir()
	x.cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = tty, tty, tty
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	change(x.cmd)
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(x.drained)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			x.mu.Lock()
			x.written.Write(buf[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		// tty is already closed if the test went well. In this case Close returns an error, which is ignored.
		_, _ = tty.Close(), master.Close()
	})
	return x
}

func settings(t *testing.T, tty *os.File) unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

var escapes = regexp.MustCompile(`\x1b(\[[0-9;?<>=]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-B0])`)

// text returns what the program has written so far, without escape sequences. A screen writes megabytes in minutes. So
// text removes the sequences only when there is new output, and keeps the result.
func (x *terminal) text() string {
	if raw := x.raw(); len(raw) != x.cleanedOf {
		x.cleaned, x.cleanedOf = escapes.ReplaceAllString(raw, ""), len(raw)
	}
	return x.cleaned
}

func (x *terminal) raw() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.written.String()
}

func (x *terminal) see(t *testing.T, text string) {
	t.Helper()
	// ddtop writes only cells that have changed. For example, it writes "2" over the "3" of "process 3 of 3". So the
	// output may never contain the wanted text in one piece. After each second without success, the test changes the
	// terminal's width, which makes ddtop write the whole screen.
	again, cols := time.Now().Add(time.Second), uint16(100)
	until(t, func() bool {
		if strings.Contains(x.text(), text) {
			return true
		}
		if time.Now().After(again) {
			again, cols = time.Now().Add(time.Second), 201-cols
			if err := pty.Setsize(x.master, &pty.Winsize{Rows: 30, Cols: cols}); err != nil {
				t.Fatal(err)
			}
		}
		return false
	}, "%q on the screen, there is %q", text, tail(x))
}

// tailOf prints the last part of a program's output. Its String method reads this text only if an error is really
// printed.
type tailOf struct{ x *terminal }

func tail(x *terminal) tailOf { return tailOf{x} }

func (o tailOf) String() string {
	s := o.x.text()
	return s[max(0, len(s)-2000):]
}

func (x *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := io.WriteString(x.master, keys); err != nil {
		t.Fatal(err)
	}
}

// leaves waits until the program ends. It checks the exit code, and that the terminal has the same settings as before
// the start.
func (x *terminal) leaves(t *testing.T, code int) {
	t.Helper()
	err := x.cmd.Wait()
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d (%v), want %d; it wrote %s", got, err, code, tail(x))
	}
	if after := settings(t, x.tty); after != x.before {
		t.Errorf("the terminal's settings were %+v, are %+v", x.before, after)
	}
	// The output of the program can be read from master until the last descriptor of the tty is closed. After this, a
	// read of master returns the remaining output, and then an error.
	if err := x.tty.Close(); err != nil {
		t.Error(err)
	}
	<-x.drained
	raw := x.raw()
	for _, mode := range []struct{ on, off string }{
		{"\x1b[?1049h", "\x1b[?1049l"},                                                                 // alternate screen
		{"\x1b[?25l", "\x1b[?25h"},                                                                     // hidden cursor
		{"\x1b[?1000h", "\x1b[?1000l"}, {"\x1b[?1002h", "\x1b[?1002l"}, {"\x1b[?1003h", "\x1b[?1003l"}, // mouse
		{"\x1b[?2004h", "\x1b[?2004l"}, // bracketed paste
	} {
		if on, off := strings.LastIndex(raw, mode.on), strings.LastIndex(raw, mode.off); on > off {
			t.Errorf("%q was switched on last", mode.on)
		}
	}
	if strings.Contains(raw, "goroutine ") {
		t.Errorf("it panicked: %s", tail(x))
	}
}

func TestScreenQuitsAndRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	for _, c := range []struct {
		name  string
		leave func(x *terminal)
		code  int
	}{
		{"q", func(x *terminal) { x.press(t, "q") }, 0},
		{"ctrl-c", func(x *terminal) { x.press(t, "\x03") }, 0},
		{"SIGTERM", signalled(t, syscall.SIGTERM), 0},
		{"SIGINT", signalled(t, syscall.SIGINT), 0},
		{"SIGHUP", signalled(t, syscall.SIGHUP), 0},
		{"SIGQUIT", signalled(t, syscall.SIGQUIT), 0},
		{"SIGABRT", signalled(t, syscall.SIGABRT), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := inTerminal(t, "-p", strconv.Itoa(p.PID))
			x.see(t, "spinner")
			x.see(t, "Integer#times")
			c.leave(x)
			x.leaves(t, c.code)
		})
	}
}

// signalled returns a function that ends ddtop by the signal s.
func signalled(t *testing.T, s syscall.Signal) func(*terminal) {
	return func(x *terminal) {
		t.Helper()
		if err := x.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestScreenStaysWhenTheTargetEnds(t *testing.T) {
	t.Parallel()
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	x := inTerminal(t, "-p", strconv.Itoa(p.PID))
	x.see(t, "spinner")
	p.CloseStdin(t)
	x.see(t, "exited")
	x.press(t, "q")
	x.leaves(t, 0)
}

func TestScreenErrorsBeforeItOpens(t *testing.T) {
	t.Parallel()
	x := inTerminal(t, "-p", strconv.Itoa(os.Getpid()))
	x.leaves(t, 4)
	// If opening takes long, ddtop shows its progress on the terminal's alternate screen, which disappears when ddtop
	// ends. The error must be on the normal screen, where it stays.
	raw := x.raw()
	if after := raw[strings.LastIndex(raw, "\x1b[?1049l")+1:]; !strings.Contains(after, "not a CRuby process") {
		t.Errorf("it wrote %q", raw)
	}
}

func TestCommandUnderTheScreen(t *testing.T) {
	t.Parallel()
	r := rubytest.One(t)
	folder, err := os.MkdirTemp(filepath.Join(r.Root, "/tmp"), "ddtop-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	// the test creates this file to end the program, after it has seen the program's thread
	seen := filepath.Join(folder, "seen")
	command := rubyCommand(t, r, `
		puts "to standard output"
		warn "to standard error"
		Thread.new { sleep }.name = "sleeper"
		finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 120
		x = 0
		x += 1 until File.exist?(`+strconv.Quote(strings.TrimPrefix(seen, r.Root))+`) || Process.clock_gettime(Process::CLOCK_MONOTONIC) > finish
		exit 7`)
	x := inTerminal(t, append([]string{"--show-output", "--"}, command...)...)
	x.see(t, "sleeper")
	x.see(t, "the program writes to ")
	if err := os.WriteFile(seen, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	x.see(t, "exited")
	if strings.Contains(x.text(), "to standard") {
		t.Errorf("the program's output is on the screen: %s", tail(x))
	}
	x.press(t, "q")
	x.see(t, "the output of "+filepath.Base(command[0])+" is in ")
	x.leaves(t, 7)
	if _, after, _ := strings.Cut(x.text(), ".log"); !strings.Contains(after, "to standard error\r\nto standard output") {
		t.Errorf("the program's output is not shown on request: %s", tail(x))
	}
	path := regexp.MustCompile(`is in (\S+\.log)`).FindStringSubmatch(x.text())
	if path == nil {
		t.Fatal("no path of the output")
	}
	t.Cleanup(func() {
		if err := os.Remove(path[1]); err != nil {
			t.Error(err)
		}
	})
	if text, err := os.ReadFile(path[1]); err != nil || string(text) != "to standard error\nto standard output\n" {
		t.Errorf("the output's file holds %q, %v", text, err)
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	path, _ := record(t)
	x := inTerminal(t, "replay", path)
	x.see(t, "spinner")
	x.see(t, "Integer#times")
	x.press(t, "q")
	x.leaves(t, 0)
	left, err := filepath.Glob(filepath.Join(x.cmd.Dir, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
