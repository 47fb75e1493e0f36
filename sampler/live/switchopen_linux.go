package live

import (
	"context"
	"errors"

	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/live/internal/stacknames"
	"github.com/ddtop/ddtop/sampler/live/internal/works"
	"github.com/ddtop/ddtop/sampler/ruby"
	"github.com/ddtop/ddtop/sampler/switches"
	"github.com/ddtop/ddtop/sampler/switches/tracer"
)

// MaySwitch returns why thread switches cannot be followed on this machine, or nil if they can. Unlike CheckSwitches,
// it loads no program.
func MaySwitch() error { return tracer.Check() }

// CheckSwitches tests whether ddtop can follow thread switches on this machine. It returns nil, or the reason why not.
// It loads the BPF programs and removes them again. The error is bpf.ErrKernel or bpf.ErrRights.
func CheckSwitches() error { return tracer.Try() }

// openSwitches makes the kernel record the process's thread switches.
func (s *Source) openSwitches(ctx context.Context) (*switchRun, error) {
	moves := s.switches.from == FromMoved
	if !moves {
		if err := tracer.Check(); err != nil {
			return nil, err
		}
	}
	scheduler, err := unprobedScheduler(ctx, s, errSwitches)
	if err != nil {
		return nil, err
	}
	x := &switchRun{source: s, quit: make(chan struct{}), done: make(chan struct{})}
	x.to = exact.NewMachine(func(c *exact.Change) {
		x.changed++
		x.changes.Changed(c)
	})
	x.stacks, x.taken = stacknames.New(), make(map[instant]stacknames.Taken)
	x.rules = switches.NewMachine(x.to)
	x.works = works.New()
	if moves {
		x.moved, err = s.openMoved(ctx, &scheduler)
		x.feed = x.moved
	} else {
		x.programs, err = s.openTracer(&scheduler)
		x.feed = x.programs
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(x.begin(ctx, &scheduler), ctx.Err()); err != nil {
		return nil, errors.Join(err, x.feed.Close())
	}
	x.changes = exact.NewCollector(x.fromNS)
	x.everyNS.Store(leastFetch)
	go x.run()
	if x.programs != nil {
		fetching.join(x)
	}
	return x, nil
}

// unprobedScheduler finds the words in a process's memory that BPF programs must read to follow the GVL without probes.
// If several of the process's Ruby threads may share a native thread, the error wraps the parameter kind.
func unprobedScheduler(ctx context.Context, s *Source, kind error) (scheduler ruby.Scheduler, err error) {
	if err := s.ownThreads(ctx, kind); err != nil {
		return scheduler, err
	}
	err = s.readThreads(ctx, func() (err error) {
		scheduler, err = s.reader.UnprobedScheduler()
		return err
	})
	return scheduler, err
}

// openTracer loads the BPF programs that record thread switches.
func (s *Source) openTracer(scheduler *ruby.Scheduler) (*tracer.Feed, error) {
	_, stacks := s.reader.Contexts()
	shift, bits := statusBits(scheduler.Status)
	collectsShift, collectsBits := statusBits(scheduler.Collects)
	return tracer.Follow(tracer.Target{
		PID: s.proc.PID(), Before33: scheduler.Before33, Owner: uint64(scheduler.Owner), QueueTail: uint64(scheduler.QueueTail),
		ExecutionContext: scheduler.ExecutionContext, ThreadOfEC: scheduler.ThreadOfEC, ReadyNode: scheduler.ReadyNode,
		RunningNode: scheduler.RunningNode, Region: scheduler.Region, Unblock: scheduler.Unblock, Status: scheduler.Status.Offset,
		ContextOfThread: scheduler.Context, StatusShift: shift, StatusBits: bits, Stacks: stacks,
		Mutex: scheduler.Mutex, Collector: uint64(scheduler.Collector), CollectsShift: collectsShift, CollectsBits: collectsBits,
	})
}

// statusBits returns where a bit field lies in its word: its lowest bit, and how many bits it has.
func statusBits(f layout.Field) (shift, bits uint) {
	if f.BitSize == 0 {
		return 0, uint(8 * f.Size)
	}
	return uint(f.BitOffset), uint(f.BitSize)
}

// begin makes a first record of each thread's state. A thread that does not move would otherwise have no record.
func (x *switchRun) begin(ctx context.Context, scheduler *ruby.Scheduler) error {
	read, err := x.source.eachState(ctx, scheduler, func(now int64, t *ruby.SchedulerThread, owner uint64, delayNS int64) {
		x.rules.Feed(&switches.Record{
			Kind: switches.Began, NS: now, TID: t.TID, Thread: uint64(t.Addr), Owner: owner, Queued: t.Queued, Linked: t.Linked,
			Region: true, Before33: scheduler.Before33, Syscall: -1, DelayNS: delayNS,
		})
	})
	x.fromNS, x.moves.fromNS = read, read
	return err
}
