// Package run has what several commands need while they measure. It has their streams and files, and writers that
// survive a disk or a reader that hangs. It also measures one process or a group.
package run

import (
	"context"
	"sync"
	"time"
)

// DiskPatience is how long ddtop waits for a disk or a pipe's reader after an interrupt or the end of a measurement.
const DiskPatience = 1500 * time.Millisecond

// Patience returns a channel that is closed DiskPatience after ctx has ended. Its users then stop waiting for a disk or
// for the reader of a pipe. released frees the timer.
func Patience(ctx context.Context) (giveUp <-chan struct{}, released func()) {
	return PatienceFor(ctx, DiskPatience)
}

// PatienceFor is Patience for another length of time.
func PatienceFor(ctx context.Context, wait time.Duration) (giveUp <-chan struct{}, released func()) {
	over, giveUpNow := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(wait, giveUpNow) })
	return over.Done(), func() { stop(); giveUpNow() }
}

// Every calls the function do at an interval, until ctx ends.
func Every(ctx context.Context, interval time.Duration, do func(now time.Time)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			do(now)
		}
	}
}

// Unless calls f in another goroutine and returns its error. If giveUp is closed before f returns, Unless returns the
// error of the function late instead.
func Unless(giveUp <-chan struct{}, late, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-giveUp:
		return late()
	}
}

// A Printer prints values in its own goroutine, so that the sampling code that adds them never waits.
type Printer[T any] struct {
	values chan T
	done   chan error
	mu     sync.Mutex
	lost   int
}

// maxWaiting limits the values that wait to be printed. If a thousand lines wait, nothing reads the output.
const maxWaiting = 1000

// Print begins to print. It calls the function failed when nothing more can be written.
func Print[T any](print func(T) error, failed func()) *Printer[T] {
	values := make(chan T, maxWaiting)
	p := &Printer[T]{values: values, done: make(chan error, 1)}
	go func() {
		var err error
		for v := range values {
			if err == nil {
				if err = print(v); err != nil {
					failed()
				}
			}
		}
		p.done <- err
	}()
	return p
}

// Add adds a value. The value is lost if too many wait.
func (p *Printer[T]) Add(v T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.values <- v:
	default:
		p.lost++
	}
}

// Close waits until all values are printed. Values that are added after Close was called are lost, for example if a
// disk did not answer in time. Close calls say with the number of values that Add lost before.
func (p *Printer[T]) Close(say func(format string, args ...any)) error {
	p.mu.Lock()
	values, lost := p.values, p.lost
	p.values = nil
	p.mu.Unlock()
	close(values)
	err := <-p.done
	if lost > 0 {
		say("%d lines are left out: they were not read in time", lost)
	}
	return err
}
