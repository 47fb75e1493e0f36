package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/live/internal/stacknames"
	"github.com/ddtop/ddtop/sampler/ruby"
)

const (
	// delaysAtOnce is the largest number of threads whose time without a CPU is read in one go. Sampling has to wait
	// meanwhile.
	delaysAtOnce = 256
	// fewSharers is the largest number of sampled processes that get ring buffers of full size. If ddtop samples more
	// processes, each gets a smaller ring buffer.
	fewSharers = 4
)

// openExact puts probes into the process. The returned run follows the process's GVL until it is closed, or until a
// limit ends it (ExactReport.Ended).
func (s *Source) openExact(ctx context.Context, o ExactOptions) (*exactRun, error) {
	if o.MaxCost == 0 {
		o.MaxCost = DefaultExactCost
	}
	if !(o.MaxCost > 0 && o.MaxCost <= 1) {
		return nil, fmt.Errorf("a cost of %g is out of range: more than 0, up to 1", o.MaxCost)
	}
	if err := probe.Check(o.Untried); err != nil {
		return nil, err
	}
	if err := checkClock(s.proc.PID()); err != nil {
		return nil, err
	}
	return apart.Result(ctx, &s.exact.opening, func() (*exactRun, error) { return s.follow(ctx, o) }, func(x *exactRun) { _ = x.stop() })
}

// checkClock refuses a process in another time namespace, because its CLOCK_MONOTONIC differs from the probes' clock
// (time_namespaces(7)).
func checkClock(pid int) error {
	const help = "run ddtop in the same time namespace as the process, where that is the machine's own"
	if bpf.ClockMoved() {
		return fmt.Errorf("process %d: %w: ddtop runs in a time namespace whose clock is not the machine's, so that times of probes would be wrong: %s",
			pid, ErrExact, help)
	}
	own, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		return nil // a kernel before 5.6, without time namespaces
	}
	if its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/time", pid)); err == nil && its != own {
		return fmt.Errorf("process %d: %w: it runs in another time namespace (%s) than ddtop (%s), so that times would be wrong: %s",
			pid, ErrExact, its, own, help)
	}
	return nil
}

// exactPlaces finds the memory that probes read, and the places in code for probes (in the C library if libc is true).
func (s *Source) exactPlaces(ctx context.Context, libc bool) (scheduler ruby.Scheduler, code probe.Code, err error) {
	defer attach.Recovered(s.proc.PID(), &err)
	if err = s.ownThreads(ctx, ErrExact); err != nil {
		return scheduler, code, err
	}
	err = s.readThreads(ctx, func() (err error) {
		scheduler, err = s.reader.Scheduler()
		return err
	})
	if err != nil {
		return scheduler, code, err
	}
	code, err = s.probeCode(probe.CodeOptions{Before33: scheduler.Before33, LibC: libc})
	return scheduler, code, err
}

// ownThreads returns an error that wraps kind if Ruby threads of the process share native threads (RUBY_MN_THREADS=1).
func (s *subject) ownThreads(ctx context.Context, kind error) error {
	// on a full machine the answer may come too late; there are only a few tries, because each try that hangs occupies
	// a thread
	const tries = 3
	var env map[string]string
	var err error
	for range tries {
		env, err = s.Environment(func(name string) bool { return name == "RUBY_MN_THREADS" })
		if !errors.Is(err, attach.ErrNoAnswer) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	if env["RUBY_MN_THREADS"] == "1" {
		return fmt.Errorf("process %d: %w: its threads share native threads (RUBY_MN_THREADS=1)", s.proc.PID(), kind)
	}
	return nil
}

// follow inserts the probes. If it panics, it removes them and returns the panic as an error.
func (s *Source) follow(ctx context.Context, o ExactOptions) (_ *exactRun, err error) {
	pid := s.proc.PID()
	defer attach.Recovered(pid, &err)
	scheduler, code, err := s.exactPlaces(ctx, o.LibC)
	if err != nil {
		return nil, err
	}
	defer code.Close() // probes that are in place need no descriptor
	x := &exactRun{source: s, max: o.MaxCost, quit: make(chan struct{}), done: make(chan struct{}), clock: cpuClock(pid)}
	x.to = exact.NewMachine(func(c *exact.Change) {
		x.changed++
		x.changes.Changed(c)
	})
	x.stacks = stacknames.New()
	if x.beganNS, err = x.cpu(); err != nil {
		return nil, err
	}
	target := probe.Target{
		PID: pid, Lock: uint64(scheduler.Lock), Owner: uint64(scheduler.Owner), QueueTail: uint64(scheduler.QueueTail),
		ReadyNode: scheduler.ReadyNode, RunningNode: scheduler.RunningNode, Before33: scheduler.Before33,
		ExecutionContext: scheduler.ExecutionContext, ThreadOfEC: scheduler.ThreadOfEC,
		SmallRing: s.sharers.Load() > fewSharers,
		Untried:   o.Untried,
	}
	target.ContextOfThread, target.Stacks = s.reader.Contexts()
	if x.probes, err = probe.Attach(s.proc, code, target); err != nil {
		return nil, err
	}
	following := false
	defer func() {
		if !following {
			err = errors.Join(err, x.probes.Close())
		}
	}()
	// If the caller has cancelled ctx in the meantime, remove the probes again.
	if err := errors.Join(x.begin(ctx, &scheduler), ctx.Err()); err != nil {
		return nil, err
	}
	x.changes = exact.NewCollector(x.fromNS)
	following = true
	go x.run()
	return x, nil
}

// readThreads reads the list of threads. Then it calls the function in the parameter then, which may use the reader. If
// the list changes during the reading, readThreads reads it again.
func (s *Source) readThreads(ctx context.Context, then func() error) error {
	const tries = 50
	var err error
	for range tries {
		if err = readThreadsOnce(s, then); !errors.Is(err, ruby.ErrListTorn) || ctx.Err() != nil {
			break
		}
	}
	return err
}

func readThreadsOnce(s *Source, then func() error) error {
	s.ticking.Lock()
	defer s.ticking.Unlock()
	if !s.running.Load() {
		s.reader.Resume() // the end of an earlier Run or Once has stopped the reader
	}
	var sample sampler.Sample
	if err := s.readTick(sampler.LockTick, &sample); err != nil {
		return errors.Join(err, s.gone(err))
	}
	s.reader.Reads().Ticks-- // no caller gets this sample
	return then()
}

// probeCode finds the places of the probes. It returns an error if the first thread of the process has ended, because
// the kernel then sets no probes (Linux 6.18).
func (s *subject) probeCode(o probe.CodeOptions) (probe.Code, error) {
	if s.proc.FirstEnded() {
		return probe.Code{}, fmt.Errorf("process %d: %w: its first thread has ended, by whose memory the kernel places them", s.info.PID, probe.ErrNotPlaced)
	}
	rubies, err := attach.FindRubies(s.proc)
	if err != nil {
		return probe.Code{}, err
	}
	module := rubies[0]
	for _, m := range rubies {
		defer m.Close()
		if m.Path == s.vmPath && m.Bias == s.vmBias {
			module = m
		}
	}
	maps, err := s.proc.Maps()
	if err != nil {
		return probe.Code{}, err
	}
	return probe.FindCode(s.proc, module, maps, o)
}

// begin makes a first record of each thread's state. Without it, a thread whose state does not change would have no
// record.
func (x *exactRun) begin(ctx context.Context, scheduler *ruby.Scheduler) error {
	read, err := x.source.eachState(ctx, scheduler, func(now int64, t *ruby.SchedulerThread, owner uint64, delayNS int64) {
		x.pending = append(x.pending, pendingRecord{Record: exact.Record{
			NS: now, TID: t.TID, Kind: exact.Began, Thread: uint64(t.Addr), Owner: owner, Queued: t.Queued, Linked: t.Linked,
			Before33: scheduler.Before33, DelayNS: delayNS,
		}})
	})
	x.report.FromNS, x.fromNS = read, read
	return err
}

// eachState calls fn with each thread's present state, the GVL's owner, and the thread's time without a CPU so far. The
// parameter now is the time before the states are read. The result is the time after the reading. A change between
// these times may be missing in the states. But its record is later than the time now, so the change is not lost. On a
// full machine the two times can be 20 ms apart.
func (s *Source) eachState(ctx context.Context, scheduler *ruby.Scheduler, fn func(now int64, t *ruby.SchedulerThread, owner uint64, delayNS int64)) (int64, error) {
	var threads []ruby.SchedulerThread
	var now int64
	err := s.readThreads(ctx, func() (err error) {
		now = rounded(pace.Monotonic())
		threads, err = s.reader.SchedulerThreads(scheduler)
		return err
	})
	if err != nil {
		return 0, err
	}
	read := rounded(pace.Monotonic())
	var owner uint64
	for _, t := range threads {
		if t.Owner {
			owner = uint64(t.Addr)
		}
	}
	for some := range slices.Chunk(threads, delaysAtOnce) {
		s.ticking.Lock()
		for i := range some {
			cpu, err := s.tasks.CPU(some[i].TID)
			if err != nil {
				continue // the thread has ended, or its own first record will show its state
			}
			fn(now, &some[i], owner, cpu.DelayNS)
		}
		s.ticking.Unlock()
	}
	return read, nil
}
