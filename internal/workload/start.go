package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// bootTime limits how long the program may take from its start until it logs EventReady.
const bootTime = 30 * time.Second

// stopTime is how long the program may take to end after SIGTERM. After this time it is killed. The program's slowest
// steps are a call that keeps the GVL for 120 ms, and a slow query. They take less than 1 s.
const stopTime = 5 * time.Second

// maxComplaint limits how much of the program's standard error is kept for an error message, in bytes.
const maxComplaint = 4096

// Options are the options of Start. With the zero value, the program plays all phases in turn, 20 s each, until it is
// stopped.
type Options struct {
	// Phase is the only phase to play. If it is "", the program plays all phases in turn.
	Phase string
	// PhaseLength is how long a phase lasts. Zero means 20 s, with one exception: if Phase is set and Rounds is zero,
	// the phase lasts until the program is stopped.
	PhaseLength time.Duration
	// Rounds is how often the program goes through the phases before it exits. Zero means until it is stopped.
	Rounds int
	// Threads is the number of threads named http, which serve requests. Zero means 8. There are half as many workers,
	// and at least one.
	Threads int
	// Seed is the seed of the program's random numbers. Zero is a valid seed, too.
	Seed int64
	// Root is the root folder of another distribution's files. If it is set, the path of ruby is below Root, and the
	// program is started by chroot, which needs root. "" means the machine's own root.
	Root string
	// RubyArgs are arguments for ruby itself, such as "--yjit".
	RubyArgs []string
}

// Running is a started workload.
type Running struct {
	// PID is the PID of the order service, which is the Ruby program. The PID of its database is in Ready.
	PID int
	// Ready is the event that the program logged when it was ready.
	Ready Event
	// Log has the events that the program has logged.
	Log *Log

	cmd       *exec.Cmd
	dir       string
	complaint *tail
	done      chan struct{}
	err       error // the error with which the program exited; valid after done is closed
	stop      sync.Once
}

// Start unpacks the program, starts it with the given Ruby, and returns when all its threads run. The program ends
// after Stop, when ctx ends, or after the last round (Options.Rounds). If the calling process ends, the program also
// ends within half a second.
func Start(ctx context.Context, ruby string, opts Options) (*Running, error) {
	if err := CheckPhase(opts.Phase); err != nil {
		return nil, err
	}
	dir, script, err := unpackPrivately(opts.Root)
	if err != nil {
		return nil, err
	}
	r := &Running{dir: dir, Log: newLog(), complaint: &tail{max: maxComplaint}, done: make(chan struct{})}
	r.cmd = exec.CommandContext(ctx, ruby, slices.Concat(opts.RubyArgs, []string{script}, arguments(opts))...)
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(syscall.SIGTERM) }
	r.cmd.WaitDelay = stopTime
	r.cmd.Stderr = r.complaint
	// The program gets its own process group, so that a ctrl-c for ddtop does not reach it.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Chroot: opts.Root}
	if opts.Root != "" {
		r.cmd.Dir = "/"
	}
	if err := r.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	boot, cancel := context.WithTimeoutCause(ctx, bootTime, fmt.Errorf("it was not ready after %v", bootTime))
	defer cancel()
	r.Ready, err = r.Log.WaitFor(boot, func(e Event) bool { return e.Event == EventReady })
	if err != nil {
		if errors.Is(err, errLogEnded) {
			err = nil // the error of the call of Stop below says more
		}
		return nil, fmt.Errorf("starting the workload with %s: %w", ruby, errors.Join(err, r.Stop()))
	}
	r.PID = r.cmd.Process.Pid
	return r, nil
}

func unpackPrivately(root string) (dir, script string, err error) {
	parent := os.TempDir()
	if root != "" {
		parent = filepath.Join(root, "tmp")
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return "", "", fmt.Errorf("unpacking the workload: %w", err)
		}
	}
	dir, err = os.MkdirTemp(parent, "ddtop-workload-")
	if err != nil {
		return "", "", fmt.Errorf("unpacking the workload: %w", err)
	}
	script, err = unpack(dir)
	if err != nil {
		return "", "", errors.Join(err, os.RemoveAll(dir))
	}
	if root != "" {
		inside, err := filepath.Rel(root, script)
		if err != nil {
			return "", "", errors.Join(fmt.Errorf("unpacking the workload: %w", err), os.RemoveAll(dir))
		}
		script = "/" + inside
	}
	return dir, script, nil
}

func arguments(opts Options) []string {
	args := []string{"--stop-with-parent", "--seed", strconv.FormatInt(opts.Seed, 10), "--rounds", strconv.Itoa(opts.Rounds)}
	if opts.Phase != "" {
		args = append(args, "--phase", opts.Phase)
	}
	if opts.PhaseLength > 0 {
		args = append(args, "--phase-seconds", strconv.FormatFloat(opts.PhaseLength.Seconds(), 'f', -1, 64))
	}
	if opts.Threads > 0 {
		args = append(args, "--threads", strconv.Itoa(opts.Threads))
	}
	return args
}

func (r *Running) start() error {
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting the workload: %w", err)
	}
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("starting the workload: %w", err)
	}
	go func() {
		r.Log.read(out)
		r.err = r.cmd.Wait()
		if err := os.RemoveAll(r.dir); err != nil && r.err == nil {
			r.err = fmt.Errorf("removing the workload's files: %w", err)
		}
		close(r.done)
	}()
	return nil
}

// Wait returns when the program and its database have ended. It returns nil if the exit code is 0.
func (r *Running) Wait() error {
	<-r.done
	if r.err != nil {
		return fmt.Errorf("the workload ended with: %w", errors.Join(r.err, r.complaint.err()))
	}
	return nil
}

// Stop asks the program to end, kills it if it has not ended after stopTime, and returns when it has ended. It may be
// called again.
func (r *Running) Stop() error {
	var err error
	r.stop.Do(func() {
		err = r.cmd.Process.Signal(syscall.SIGTERM)
		if errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
	})
	if err != nil {
		return fmt.Errorf("stopping the workload, process %d: %w", r.cmd.Process.Pid, err)
	}
	select {
	case <-r.done:
	case <-time.After(stopTime):
		if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("killing the workload, process %d: %w", r.cmd.Process.Pid, err)
		}
	}
	return r.Wait()
}

// tail is a writer that keeps only the last bytes that were written to it.
type tail struct {
	mu  sync.Mutex
	max int
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// err returns the kept bytes as an error, or nil if there are none.
func (t *tail) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf) == 0 {
		return nil
	}
	return fmt.Errorf("it said: %s", t.buf)
}
