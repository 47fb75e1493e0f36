package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// awaitWrite waits until a thread of ddtop hangs in write(2). A thread hangs if it is found in write(2) 20 times in a
// row.
func awaitWrite(t *testing.T, pid int) {
	t.Helper()
	writing, looks := fmt.Sprintf("%d ", unix.SYS_WRITE), make(map[string]int)
	until(t, func() bool {
		for _, task := range tasksOf(t, pid) {
			// The file begins with the number of the thread's system call. For a running thread, the file has only the
			// word "running".
			if text, err := os.ReadFile(filepath.Join(task, "syscall")); err != nil || !strings.HasPrefix(string(text), writing) {
				delete(looks, task)
			} else if looks[task]++; looks[task] == 20 {
				return true
			}
		}
		return false
	}, "a write that waits")
}

// TestPipeThatNobodyReads: standard output is a pipe from which no program reads, so writing blocks. A signal must
// still end ddtop. ddtop reports as an error that it could not write everything.
func TestPipeThatNobodyReads(t *testing.T) {
	t.Parallel()
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	pid := strconv.Itoa(p.PID)
	for _, c := range []struct{ args, says string }{
		{"record -d 10m -o - --format ddtop -p " + pid, "the disk was too slow: the last "},
		{"record -d 1s -o - --format chrome -p " + pid, "nobody reads it"},
		{"record -d 1s -o /dev/stdout -p " + pid, "nobody reads it"},
		{"stat -d 1s -p " + pid, "nobody reads it"},
		{"dump -p " + pid, "nobody reads it"},
		{"ps --json", "nobody reads it"},
	} {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(c.args+" "+s.String(), func(t *testing.T) {
				if s != syscall.SIGTERM {
					rubytest.Long(t)
				}
				t.Parallel() // the test mostly waits
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				defer w.Close()
				room, err := unix.FcntlInt(w.Fd(), unix.F_GETPIPE_SZ, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write(make([]byte, room)); err != nil { // now the pipe is full
					t.Fatal(err)
				}
				cmd, out, errs := prepare(t.Context(), strings.Fields(c.args)...)
				cmd.Stdout = w
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				awaitWrite(t, cmd.Process.Pid)
				endsSoon(t, cmd, s)
				finish(t, cmd, out, errs).want(t, 1, c.says)
			})
		}
	}
}

// endsSoon sends a signal that must end a command. If the command does not end in time, endsSoon kills it.
func endsSoon(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(quitWithin, func() { _ = cmd.Process.Kill() }) // this fails if the command has already ended
	t.Cleanup(func() { late.Stop() })
}

// TestTerminalThatNobodyReads: if a terminal accepts no output, as on a connection that hangs, a signal still ends the
// screen. Afterwards the terminal has its old settings.
func TestTerminalThatNobodyReads(t *testing.T) {
	t.Parallel()
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			if s != syscall.SIGHUP {
				rubytest.Long(t)
			}
			master, tty, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer master.Close()
			defer tty.Close()
			if err := pty.Setsize(master, &pty.Winsize{Rows: 100, Cols: 300}); err != nil {
				t.Fatal(err)
			}
			before := settings(t, tty)
			cmd := exec.CommandContext(t.Context(), ddtop, "-p", strconv.Itoa(p.PID), "--overhead", "off")
			cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "TERM=xterm-256color")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			awaitWrite(t, cmd.Process.Pid)
			awaitTicks(t, cmd.Process.Pid) // sampling continues although the screen cannot write
			endsSoon(t, cmd, s)
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if after := settings(t, tty); after != before {
				t.Errorf("the terminal's settings were %+v, are %+v", before, after)
			}
		})
	}
}
