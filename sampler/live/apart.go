package live

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// letGoAfter is how long a read of the target is waited for after whoever wanted it has given up. A tick takes milliseconds.
// But a read of memory lasts until the target's page is there, which may be never (userfaultfd(2), FUSE, swap on a disk
// that hangs), and no signal ends it but the one that ends ddtop.
const letGoAfter = 500 * time.Millisecond

// NoAnswer returns the error, an attach.ErrNoAnswer, for a question to a process's memory or to the kernel that was not
// answered. err says why it is not waited for any longer; nil when that goes without saying.
func NoAnswer(pid int, err error) error {
	return &attach.TargetError{PID: pid, Kind: attach.ErrNoAnswer, Err: err,
		Cause: "reading its memory has not come back: a page does not come (userfaultfd, FUSE, swap on a disk that hangs), " +
			"or its mappings are locked",
		Help: fmt.Sprintf("Try again once `cat /proc/%d/smaps` answers.", pid)}
}

// outcome is how work ended: it returned err, or a panic or runtime.Goexit ended it.
type outcome struct {
	err    error
	panics any
	exits  bool
}

// apart calls work on an OS thread of its own and returns what it returns. When ctx has ended and work has not within
// letGoAfter, apart returns NoAnswer without it: leave, which may be nil, is called before that. Only one
// work runs at a time: while an earlier one has not returned, apart returns NoAnswer at once.
func (s *Source) apart(ctx context.Context, work func() error, leave func()) error {
	select {
	case s.working <- struct{}{}:
	default:
		return NoAnswer(s.info.PID, nil)
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
			<-s.working
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
		case <-time.After(letGoAfter):
			s.left.Store(true)
			if leave != nil {
				leave()
			}
			return NoAnswer(s.info.PID, nil)
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

// result is apart for work that returns something.
func result[T any](ctx context.Context, s *Source, work func() (T, error)) (T, error) {
	var none T
	out := make(chan T, 1)
	err := s.apart(ctx, func() error {
		v, err := work()
		out <- v
		return err
	}, nil)
	if errors.Is(err, attach.ErrNoAnswer) {
		return none, err
	}
	return <-out, err
}

// Silent is how long the tick under way has lasted: much longer than a few milliseconds when the target's memory or the
// kernel does not answer. It may be called from any goroutine.
func (s *Source) Silent() time.Duration {
	if began := s.tickBegan.Load(); began != 0 {
		return time.Duration(monotonic() - began)
	}
	return 0
}

// door passes samples on until it is closed.
type door struct {
	mu   sync.Mutex
	shut bool
}

func (d *door) emit(to func(*sampler.Sample), x *sampler.Sample) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.shut {
		to(x)
	}
}

// close waits for the sample on its way, and lets no other through.
func (d *door) close() {
	d.mu.Lock()
	d.shut = true
	d.mu.Unlock()
}
