package live

import (
	"cmp"
	"context"
	"fmt"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/running"
	"github.com/ddtop/ddtop/sampler/native/clock"
	"github.com/ddtop/ddtop/sampler/native/iterator"
)

// runningRun takes C stacks of a process's running threads.
type runningRun struct{ *running.Run }

func (x *runningRun) on() bool    { return x.On() }
func (x *runningRun) end(string)  { x.End() }
func (x *runningRun) stop() error { return x.Stop() }

// MayRun returns nil, or why C stacks of running threads cannot be taken on this machine. It does not try to take any.
func MayRun() error { return clock.Check() }

// CheckNative tries whether native stacks can be read here. running is the reason if C stacks of running threads cannot
// be taken. registers is the reason if some registers of blocked threads cannot be read.
func CheckNative() (running, registers error) { return clock.Try(), iterator.Try() }

// openRunning makes the kernel take C stacks of the process's running threads.
func openRunning(ctx context.Context, s *Source) (*runningRun, error) {
	return openRun(ctx, s, running.Options{Hz: cmp.Or(s.Running.rate, clock.Hz), Counts: s.watch})
}

// Asks follows the calls by which a process asks the kernel for memory.
type Asks struct{ *runningRun }

// FollowAsks follows the calls by which a process asks the kernel for memory, until Stop is called. Do not call it
// during Run. Until Stop, the Source cannot be used for anything else. The errors are the same as Running.Start's.
func FollowAsks(ctx context.Context, s *Source) (Asks, error) {
	x, err := openRun(ctx, s, running.Options{Hz: clock.Hz, Counts: new(sampler.NativeWatch), Asks: true, Clockless: true})
	return Asks{x}, notBegun(ctx, s.info.PID, err)
}

// openRun starts taking stacks or following calls for memory. o says which, and has other options of the caller.
func openRun(ctx context.Context, s *Source, o running.Options) (*runningRun, error) {
	if err := MayRun(); err != nil {
		return nil, err
	}
	if _, ok := s.reader.Contexts(); !ok {
		return nil, fmt.Errorf("process %d: %w: parts of its Ruby stacks are elsewhere (ZJIT)", s.proc.PID(), ErrNoRunning)
	}
	scheduler, err := unprobedScheduler(ctx, s, ErrNoRunning)
	if err != nil {
		return nil, err
	}
	shift, bits := statusBits(scheduler.Collects)
	o.Target = clock.Target{
		PID: s.proc.PID(), ExecutionContext: scheduler.ExecutionContext, ThreadOfEC: scheduler.ThreadOfEC,
		ContextOfThread: scheduler.Context, Owner: uint64(scheduler.Owner), Collector: uint64(scheduler.Collector),
		CollectsShift: shift, CollectsBits: bits,
	}
	o.Subject, o.Alive, o.Reader, o.Dictionary = s.nativeSubject(), s.proc.Alive, s.reader, s.dict
	x, err := running.Open(o)
	if err != nil {
		return nil, err
	}
	return &runningRun{x}, nil
}
