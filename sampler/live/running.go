package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// Running switches C stacks of running threads on and off. While it is on, samples have these stacks (Runs).
type Running struct {
	mode[runningRun, *runningRun]
	source *Source
	// wanted is true if C stacks are taken as soon as sampling starts. rate is Options.RunningRate.
	wanted bool
	rate   int
}

// ErrNoRunning means that ddtop cannot take C stacks of this process's running threads.
var ErrNoRunning = errors.New("the C stacks of running threads cannot be taken")

// Start begins to take C stacks of running threads, until End is called. Any goroutine may call it. Errors are
// ErrNoRunning, ruby.ErrNoScheduler, bpf.ErrKernel, bpf.ErrRights, errors of sampler/native and errors of reading.
func (m *Running) Start(ctx context.Context) error {
	s := m.source
	err := m.begin(ctx, s.info.PID, "C stacks of running threads", "they are taken",
		func(ctx context.Context) (*runningRun, error) {
			open := func() (*runningRun, error) { return openRunning(ctx, s) }
			x, err := apart.Result(ctx, &m.opening, open, func(x *runningRun) { _ = x.stop() })
			return x, notBegun(ctx, s.info.PID, err)
		})
	if err != nil && !m.is() {
		c, _ := s.watch.Running()
		s.watch.CountRunning(c, s.names.Error(err))
	}
	return err
}

// notBegun returns err, the error of Start. If ddtop stopped before the first stack was taken, the returned error says
// this instead. On a full machine, finding Ruby's functions and loading the program can take seconds.
func notBegun(ctx context.Context, pid int, err error) error {
	if errors.Is(err, attach.ErrNoAnswer) && ctx.Err() != nil {
		return fmt.Errorf("process %d: %w: they had not begun when ddtop stopped. On a full machine this takes seconds",
			pid, ErrNoRunning)
	}
	return err
}

// End stops taking stacks.
func (m *Running) End() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stop()
}

// On reports whether stacks are taken.
func (m *Running) On() bool { return m.is() }

// Failed returns why ddtop cannot take C stacks of running threads. The text is empty if ddtop can take them, or has
// not tried.
func (m *Running) Failed() string {
	_, why := m.source.watch.Running()
	return why
}

// Alone returns C stacks of a running thread that Ruby does not know.
func (m *Running) Alone(tid int32) sampler.AloneRuns { return m.source.watch.Alone(tid) }

// begins starts taking C stacks of running threads, if Options.Running is set. The returned function stops it.
func (m *Running) begins(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range switchTries {
			if !m.wanted || m.is() {
				return
			}
			err := m.Start(ctx)
			if err == nil || errors.Is(err, bpf.ErrKernel) || errors.Is(err, bpf.ErrRights) || errors.Is(err, ErrNoRunning) ||
				errors.Is(err, attach.ErrGone) || errors.Is(err, ruby.ErrNoScheduler) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(switchAgain):
			}
		}
	}()
	return func() {
		stop()
		<-done
		_ = m.End() // an error of removing the BPF program changes nothing
	}
}
