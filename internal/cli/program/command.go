// Package program is a program that ddtop started (`ddtop -- ruby app.rb`): its signals, output and end, and the Ruby
// in it or below.
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
	// Output is the file that the program writes to. It is empty if the program writes to ddtop's own streams. file
	// is that open file. Its path can lead to another file later, if the folder for temporary files belongs to
	// another user.
	Output string
	file   *commandOutput
	// ownGroup: the program is in a process group of its own, so that signals typed at the terminal don't reach it.
	ownGroup bool
	// pausable is true if ddtop may trace the program, because no caller waits for it before it has ended.
	Pausable bool
	// inBackground is true if the program ended while ddtop watched it, and left processes running. shown is true if
	// it has had a screen.
	InBackground atomic.Bool
	Shown        bool
	// Done is closed when the program has ended and was waited for; err is then what Wait said.
	Done chan struct{}
	err  error
}

// Start starts a program. With a screen its output goes to a file, since the screen needs the terminal; without one the
// program keeps ddtop's own streams. Its standard input is ddtop's, unless that is a terminal that the screen reads.
func Start(args []string, std run.Streams, screen bool) (*Command, error) {
	c := &Command{cmd: exec.Command(args[0], args[1:]...), Done: make(chan struct{})}
	in, inIsFile := std.In.(*os.File)
	inIsTerminal := inIsFile && term.IsTerminal(int(in.Fd()))
	if inIsFile && !screen {
		c.cmd.Stdin = in
	}
	// In a group of its own a program that reads the terminal would be stopped (SIGTTIN).
	c.ownGroup = screen || !inIsTerminal
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: c.ownGroup}
	c.cmd.Stdout, c.cmd.Stderr = std.Out, std.Err
	if screen {
		file, err := os.CreateTemp("", "ddtop-"+std.Redact.Program(args[0])+"-*.log") // mode 0600
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

// PID is the program's process.
func (c *Command) PID() int { return c.cmd.Process.Pid }

// ForwardSignals passes the signals that ddtop gets on to the program until stop is called. If the program is in
// ddtop's group, it leaves out signals that a terminal sends to the whole group, because the program gets them
// anyway.
func (c *Command) ForwardSignals() (stop func()) {
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}
	if c.ownGroup {
		signals = append(signals, syscall.SIGINT, syscall.SIGQUIT)
	}
	arrived := make(chan os.Signal, 16)
	signal.Notify(arrived, signals...)
	if !c.ownGroup {
		// Received and dropped, or they would end ddtop before the program has.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT)
	}
	quit := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-arrived:
				if err := c.cmd.Process.Signal(s); err != nil {
					continue // the program has ended, which done reports
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

// Exit waits for the program's end and returns its exit code as an error for Main: nil for 0, 128+n for signal n.
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

// NameOutput prints the place of the program's output after the screen has closed.
func (c *Command) NameOutput(std run.Streams) {
	if c.Output != "" {
		std.Say("the output of %s is in %s%s", std.Redact.Program(c.cmd.Path), c.Output, c.file.about())
	}
}

// CopyOutput writes what the program wrote.
func (c *Command) CopyOutput(w io.Writer) error {
	if err := c.file.copyTo(w); err != nil {
		return fmt.Errorf("showing the output in %s: %w", c.Output, err)
	}
	return nil
}

// Exit passes a started command's exit code on as ddtop's own. It is not printed.
type Exit struct{ Code int }

func (e *Exit) Error() string { return fmt.Sprintf("the command ended with code %d", e.Code) }

// pausable reports whether waitForEnd works for a child (from Linux 5.4 on).
func pausable(p *os.Process) bool { return p.WithHandle(func(uintptr) {}) == nil }

// waitForEnd waits until a child has ended, without collecting its exit code. If ddtop also traces the child, os/exec
// would mistake its stops for exits. If the kernel cannot wait so, it returns at once.
func waitForEnd(p *os.Process) { _ = p.WithHandle(waitReadable) }

// waitReadable waits until a descriptor is readable: a pidfd is when its process has ended.
func waitReadable(fd uintptr) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
