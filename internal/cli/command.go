package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"github.com/ddtop/ddtop/internal/cli/run"
)

// command is a program that ddtop started, as in `ddtop -- ruby app.rb`.
type command struct {
	cmd *exec.Cmd
	// output is the file that the program writes to, "" when it writes to ddtop's own streams. file is that file: by its
	// path it could be another by the time it is read, where the folder for temporary files is another user's.
	output string
	file   *commandOutput
	// ownGroup: the program is in a process group of its own, so that signals typed at the terminal don't reach it.
	ownGroup bool
	// pausable: we may trace the program, because nobody waits for it before it has ended.
	pausable bool
	// inBackground: the program ended while it was looked at, and left processes running. shown: it has had a screen.
	inBackground atomic.Bool
	shown        bool
	// done is closed when the program has ended and was waited for; err is then what Wait said.
	done chan struct{}
	err  error
}

// startCommand starts a program. With a screen its output goes to a file, since the screen needs the terminal; without
// one the program keeps ddtop's own streams. Its standard input is ddtop's, unless that is a terminal that the screen reads.
func startCommand(args []string, std run.Streams, screen bool) (*command, error) {
	c := &command{cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{})}
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
		c.output = file.Name()
		if c.file, err = newCommandOutput(file); err != nil {
			return nil, errors.Join(err, file.Close(), os.Remove(c.output))
		}
		c.cmd.Stdout, c.cmd.Stderr = file, file
	}
	adopt()
	if err := c.cmd.Start(); err != nil {
		if c.file != nil {
			err = errors.Join(err, c.file.Close(), os.Remove(c.output))
		}
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	c.pausable = pausable(c.cmd.Process)
	go func() {
		waitForEnd(c.cmd.Process)
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	if c.file != nil {
		go c.file.keepShort(c.done)
	}
	return c, nil
}

// pid is the program's process.
func (c *command) pid() int { return c.cmd.Process.Pid }

// forwardSignals hands the signals that ddtop gets on to the program until stop is called. Those that a terminal sends
// to the whole group are left out when the program is in ddtop's own, because it gets them anyway.
func (c *command) forwardSignals() (stop func()) {
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
					continue // it has ended: done tells
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

// exit waits for the program's end and returns its exit code as an error for Main: nil for 0, 128+n for signal n.
func (c *command) exit() error {
	<-c.done
	var failed *exec.ExitError
	switch {
	case c.err == nil:
		return nil
	case !errors.As(c.err, &failed):
		return fmt.Errorf("waiting for %s: %w", c.cmd.Path, c.err)
	}
	if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &commandExit{128 + int(status.Signal())}
	}
	return &commandExit{failed.ExitCode()}
}

// running reports whether the program has not ended yet.
func (c *command) running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// nameOutput says where the program's output is, once the screen is gone.
func (c *command) nameOutput(std run.Streams) {
	if c.output != "" {
		std.Say("the output of %s is in %s%s", std.Redact.Program(c.cmd.Path), c.output, c.file.about())
	}
}

// copyOutput writes what the program wrote.
func (c *command) copyOutput(w io.Writer) error {
	if err := c.file.copyTo(w); err != nil {
		return fmt.Errorf("showing the output in %s: %w", c.output, err)
	}
	return nil
}
