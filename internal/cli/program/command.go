// Package program runs a program that the user gives to ddtop (`ddtop -- ruby app.rb`). It handles the program's
// signals, output and end. It also finds the Ruby that runs in the program or in one of its descendants.
package program

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/ddtop/ddtop/internal/cli/run"
)

// Command is a program that ddtop started, as in `ddtop -- ruby app.rb`.
type Command struct {
	cmd *exec.Cmd
	// Output is the path of the file that receives the program's output. It is empty if the program writes to ddtop's
	// own streams. file is this file, open. ddtop never opens it again by its path, because another user may own the
	// folder for temporary files, and could put another file there.
	Output string
	file   *commandOutput
	// ownGroup is true if the program has its own process group. Keys at the terminal, such as ctrl-c, do not send
	// their signals to such a program.
	ownGroup bool
	// Pausable is true if ddtop may trace the program to stop it (--pause). For this, ddtop must be able to wait for
	// the program's end without collecting its exit code.
	Pausable bool
	// InBackground is true if the program ended while ddtop watched it, and left processes running. Shown is true if
	// ddtop has shown its screen for the program.
	InBackground atomic.Bool
	Shown        bool
	// Done is closed when the program has ended and ddtop has collected its exit code. After this, err is the result of
	// Wait.
	Done chan struct{}
	err  error
}

// Start starts a program. If ddtop shows a screen, the screen needs the terminal. So the program's output goes to a
// file. Otherwise the program writes to ddtop's own streams. The program reads ddtop's standard input, unless this is a
// terminal from which the screen reads.
func Start(args []string, std run.Streams, screen bool) (*Command, error) {
	c := &Command{cmd: exec.Command(args[0], args[1:]...), Done: make(chan struct{})}
	in, inIsFile := std.In.(*os.File)
	inIsTerminal := inIsFile && term.IsTerminal(int(in.Fd()))
	if inIsFile && !screen {
		c.cmd.Stdin = in
	}
	// Without a screen, a program that reads the terminal stays in ddtop's process group. If it had its own group, the
	// kernel would stop it at its first read (SIGTTIN).
	c.ownGroup = screen || !inIsTerminal
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: c.ownGroup}
	c.cmd.Stdout, c.cmd.Stderr = std.Out, std.Err
	if screen {
		file, err := os.CreateTemp("", "ddtop-"+std.Redact.Program(args[0])+"-*.log") // with mode 0600
		if err != nil {
			return nil, fmt.Errorf("a file for the output of %s: %w", args[0], err)
		}
		c.Output = file.Name()
		if c.file, err = newCommandOutput(file); err != nil {
			return nil, errors.Join(err, file.Close(), os.Remove(c.Output))
		}
		c.cmd.Stdout, c.cmd.Stderr = file, file
	}
	adopt()
	if err := c.cmd.Start(); err != nil {
		if c.file != nil {
			err = errors.Join(err, c.file.Close(), os.Remove(c.Output))
		}
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	c.Pausable = pausable(c.cmd.Process)
	go func() {
		waitForEnd(c.cmd.Process)
		c.err = c.cmd.Wait()
		close(c.Done)
	}()
	if c.file != nil {
		go c.file.keepShort(c.Done)
	}
	return c, nil
}

// PID returns the process id of the program.
func (c *Command) PID() int { return c.cmd.Process.Pid }

// ForwardSignals passes the signals that ddtop receives on to the program, until stop is called. There is one
// exception: if a key such as ctrl-c is pressed, the terminal sends a signal to all processes of a group. If the
// program is in ddtop's group, it already gets this signal.
func (c *Command) ForwardSignals() (stop func()) {
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}
	if c.ownGroup {
		signals = append(signals, syscall.SIGINT, syscall.SIGQUIT)
	}
	arrived := make(chan os.Signal, 16)
	signal.Notify(arrived, signals...)
	if !c.ownGroup {
		// The program is in ddtop's group and gets these signals itself. ddtop must not end before the program, so it
		// ignores them.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT)
	}
	quit := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-arrived:
				if err := c.cmd.Process.Signal(s); err != nil {
					continue // the program has ended, so Done is closed soon
				}
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(arrived)
		close(quit)
	}
}

// Exit waits until the program ends, and returns its exit code as an error for Main. It returns nil for the code 0. If
// signal n killed the program, the code is 128+n.
func (c *Command) Exit() error {
	<-c.Done
	var failed *exec.ExitError
	switch {
	case c.err == nil:
		return nil
	case !errors.As(c.err, &failed):
		return fmt.Errorf("waiting for %s: %w", c.cmd.Path, c.err)
	}
	if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &Exit{128 + int(status.Signal())}
	}
	return &Exit{failed.ExitCode()}
}

// Running reports whether the program has not ended yet.
func (c *Command) Running() bool {
	select {
	case <-c.Done:
		return false
	default:
		return true
	}
}

// NameOutput prints the path of the file with the program's output. It is called after the screen has closed.
func (c *Command) NameOutput(std run.Streams) {
	if c.Output != "" {
		std.Say("the output of %s is in %s%s", std.Redact.Program(c.cmd.Path), c.Output, c.file.about())
	}
}

// CopyOutput copies the program's output to w.
func (c *Command) CopyOutput(w io.Writer) error {
	if err := c.file.copyTo(w); err != nil {
		return fmt.Errorf("showing the output in %s: %w", c.Output, err)
	}
	return nil
}

// Exit is an error with which ddtop ends with the exit code of the started program. ddtop does not print it.
type Exit struct{ Code int }

func (e *Exit) Error() string { return fmt.Sprintf("the command ended with code %d", e.Code) }

// pausable reports whether waitForEnd can wait for a child's end. It needs Linux 5.4.
func pausable(p *os.Process) bool { return p.WithHandle(func(uintptr) {}) == nil }

// waitForEnd waits until a child has ended, without collecting its exit code. If ddtop traces the child, os/exec cannot
// do this, because it would mistake a stop of the child for its end. If the kernel does not support this kind of wait,
// waitForEnd returns at once.
func waitForEnd(p *os.Process) { _ = p.WithHandle(waitReadable) }

// waitReadable waits until a descriptor is readable. A descriptor of a process (pidfd) becomes readable when the
// process ends.
func waitReadable(fd uintptr) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
