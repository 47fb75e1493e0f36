// Package run has what several commands need while they measure: their streams and files, and how to measure one
// process or a group. It also has writers that do not block if a disk or a reader hangs.
package run

import (
	"context"
	"sync"
	"time"
)

// DiskPatience is how long ddtop waits for a disk or a pipe's reader after an interrupt or the end of a measurement.
const DiskPatience = 1500 * time.Millisecond

// Patience returns a channel that is closed DiskPatience after ctx has ended. Code that waits for a disk or for the
// reader of a pipe then gives up. released frees the timer.
func Patience(ctx context.Context) (giveUp <-chan struct{}, released func()) {
	return PatienceFor(ctx, DiskPatience)
}

// PatienceFor is like Patience, but waits for the given time instead of DiskPatience.
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

// Unless calls f in another goroutine and returns its error. If giveUp is closed before f returns, Unless does not wait
// for f, and returns the error of the function late.
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

// maxWaiting limits how many values wait to be printed. If so many wait, the reader of the output hangs.
const maxWaiting = 1000

// Print starts a Printer, which prints each value with the function print. It calls failed when nothing more can be
// written.
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

// Add passes a value to the printer. The value is lost if too many values already wait.
func (p *Printer[T]) Add(v T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.values <- v:
	default:
		p.lost++
	}
}

// Close waits until all values are printed. A value that is added after the call of Close is lost, for example if a
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
