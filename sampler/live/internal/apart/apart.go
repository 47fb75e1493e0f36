// Package apart runs functions that may hang. Each function runs on a thread of its own, and its caller stops waiting
// after a time limit.
package apart

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// LetGoAfter is how long a Lane still waits for a read of the target after its caller has given up. Usually a read
// takes milliseconds. But a read of memory lasts until the target's page is present, which may never happen
// (userfaultfd(2), FUSE, swap on a disk that hangs). Only a signal that ends ddtop ends such a read.
const LetGoAfter = 500 * time.Millisecond

// NoAnswer returns an attach.ErrNoAnswer, which says that a read of the target has not returned. err says why ddtop
// stops waiting, or is nil.
func NoAnswer(pid int, err error) error {
	return &attach.TargetError{PID: pid, Kind: attach.ErrNoAnswer, Err: err,
		Cause: "reading its memory has not come back: a page does not come (userfaultfd, FUSE, swap on a disk that hangs), " +
			"or its mappings are locked",
		Help: fmt.Sprintf("Try again once `cat /proc/%d/smaps` answers.", pid)}
}

// outcome is how a function ended: it returned err, it panicked, or it called runtime.Goexit.
type outcome struct {
	err    error
	panics any
	exits  bool
}

// A Lane runs functions that read a process. Such a function is called work. Each runs on an OS thread of its own, and
// only one runs at a time.
type Lane struct {
	pid int
	// working holds a token while work runs, so that no other work starts. The field left is true if the Lane has given
	// up waiting for its work, which did not return.
	working chan struct{}
	left    atomic.Bool
}

// NewLane returns a Lane for a process.
func NewLane(pid int) Lane { return Lane{pid: pid, working: make(chan struct{}, 1)} }

// Close prevents further work, and calls the function end when the current work has ended. If the Lane has abandoned
// its work, Close does not wait for it.
func (l *Lane) Close(end func() error) error {
	if l.left.Load() {
		go func() {
			l.working <- struct{}{}
			_ = end() // no caller is left who could receive an error
		}()
		return nil
	}
	l.working <- struct{}{} // never removed, so no work can start
	return end()
}

// Do runs work on an OS thread of its own and returns its error. After the end of ctx, Do waits for at most LetGoAfter.
// Then it abandons the work, calls leave (unless it is nil), and returns NoAnswer. Only one work runs at a time. If an
// earlier work has not returned yet, Do returns NoAnswer at once.
func (l *Lane) Do(ctx context.Context, work func() error, leave func()) error {
	select {
	case l.working <- struct{}{}:
	default:
		return NoAnswer(l.pid, nil)
	}
	done := make(chan outcome, 1)
	attach.OnOwnThread(func() {
		end := outcome{exits: true}
		defer func() {
			if end.exits {
				if r := recover(); r != nil {
					end = outcome{panics: fmt.Sprintf("%v\n%s", r, debug.Stack())}
				}
			}
			<-l.working
			done <- end
		}()
		err := work()
		end = outcome{err: err}
	})
	var end outcome
	select {
	case end = <-done:
	case <-ctx.Done():
		select {
		case end = <-done:
		case <-time.After(LetGoAfter):
			l.left.Store(true)
			if leave != nil {
				leave()
			}
			return NoAnswer(l.pid, nil)
		}
	}
	switch {
	case end.panics != nil:
		panic(end.panics) // as if work had been called here
	case end.exits:
		runtime.Goexit()
	}
	return end.err
}

// Result is like Do, but for work that returns a value. If Result has already abandoned the work when the value
// arrives, it passes the value to drop. drop may be nil.
func Result[T any](ctx context.Context, l *Lane, work func() (T, error), drop func(T)) (T, error) {
	type returned struct {
		v   T
		err error
	}
	var mu sync.Mutex
	abandoned, out := false, make(chan returned, 1)
	away := func(r returned) {
		if drop != nil && r.err == nil {
			drop(r.v)
		}
	}
	err := l.Do(ctx, func() error {
		v, err := work()
		mu.Lock()
		defer mu.Unlock()
		if abandoned {
			away(returned{v, err})
		} else {
			out <- returned{v, err}
		}
		return nil
	}, nil)
	if err == nil {
		r := <-out
		return r.v, r.err
	}
	mu.Lock()
	abandoned = true
	mu.Unlock()
	select {
	case r := <-out: // the result has come just now
		away(r)
	default:
	}
	var none T
	return none, err
}

// A Door passes samples on until it is closed. Abandoned work of a Lane may still run and emit samples. The closed Door
// stops them.
type Door struct {
	mu   sync.Mutex
	shut bool
}

// Emit passes a sample to a function, unless the Door is closed.
func (d *Door) Emit(to func(*sampler.Sample), x *sampler.Sample) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.shut {
		to(x)
	}
}

// Close waits for the current sample, and lets no further one through.
func (d *Door) Close() {
	d.mu.Lock()
	d.shut = true
	d.mu.Unlock()
}
