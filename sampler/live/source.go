package live

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/processcontext"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live/internal/kernelview"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// checkNS is the interval at which ddtop asks whether the process has replaced itself by exec, in ns.
const checkNS = 1_000_000_000

// reuseNS is the shortest time, in ns, in which a PID can be reused: a PID namespace may have 300 PIDs only.
const reuseNS = 20_000_000

// slowProcNS is the longest interval between reads of the process's counters. Beyond procSharers processes they are
// read less often.
const (
	slowProcNS  = 1_000_000_000
	procSharers = 4
)

// besideEvery is how often ddtop reads the slow counters, and looks for sockets that wait to be named.
const besideEvery = time.Second

// queuesNS is the interval between reads of the queues in front of the process. The kernel's queues are read every
// besideEvery.
const queuesNS = 1_000_000_000

// failCheckNS is how often it is asked while reads fail.
const failCheckNS = 20_000_000

// Source samples a live process. Run and Once are not to be called at the same time.
type Source struct {
	sampling
	exact exactMode
	// switches is whether it is followed by thread switches.
	switches switchMode
	// beginning are threads that have begun something, and must be read. It belongs to the clock, as looks does.
	beginning []ruby.Entered
	looks     lookCredit

	// left is closed when the Source is to leave its place to another process.
	left     chan struct{}
	leftOnce sync.Once

	mu    sync.Mutex
	end   sampler.End
	ended bool
}

// subject is the process that a Source samples, with its VM and its names.
type subject struct {
	proc *attach.Process
	// vmPath and vmBias say which of the mapped files has the VM.
	vmPath string
	vmBias attach.Address
	info   sampler.Process
	dict   *sampler.Dictionary
	shown  *sampler.Dictionary // dict, as names and Options.OwnCode leave it
	names  *redact.Redactor
	reader *ruby.Reader
	spaces *kernel.Namespace
	// published belongs to the goroutine of beside while that runs.
	published published
}

// sampling is what ticks read of the process and of the machine, and what they may cost.
type sampling struct {
	subject
	view   *kernelview.View
	native nativeReader
	tasks  *kernel.Tasks
	counts *kernel.ProcReader
	// pauses stops the target for stack ticks. It is nil if the target is not stopped.
	pauses *pauses
	// priority is the sampling thread's priority by the kernel.
	priority sampler.Priority
	rates    pace.Rates
	procs    *pace.Processors
	budget   *pace.Budget
	press    pace.Press // of Run

	// locksNow are the locks of C code that threads wait for. It is nil if none do. rubyTIDs are Ruby's threads by TID.
	// The goroutine of beside reads both.
	locksNow atomic.Pointer[sampler.NativeLocks]
	rubyTIDs atomic.Pointer[map[int32]sampler.ThreadID]

	slow *kernel.Slow
	// slowNow is the last reading of slow. It is nil if there was none yet.
	slowNow atomic.Pointer[kernel.SlowCounts]

	lastProc, lastSelf, lastCheck int64
	lastTIDs                      int64
	lastSelfCPU                   int64
	procNow                       sampler.Proc
	selfNow                       sampler.Self
	lastClasses                   int64
	classesNow                    *sampler.AllocClasses
	fibersNow                     *sampler.Fibers
	queuesNow                     *sampler.Queues

	// reading is the lane of all reads. tickBegan is when the current tick began, CLOCK_MONOTONIC in ns, or zero.
	reading   lane
	tickBegan atomic.Int64
	// ticking is held while the reader is in use. running is true after Run has begun. The end of Run ends reads.
	ticking sync.Mutex
	running atomic.Bool
	// listing is the clock's.
	listing listing
	// sharers is how many processes are sampled at once.
	sharers atomic.Int32

	failing failing // of Run
}

// Process describes the target.
func (s *subject) Process() sampler.Process { return s.info }

// Dictionary returns the dictionary of the samples' IDs.
func (s *subject) Dictionary() *sampler.Dictionary { return s.shown }

// End says how the target ended.
func (s *Source) End() (sampler.End, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end, s.ended
}

// leave has Run end with ErrGaveWay.
func (s *Source) leave() { s.leftOnce.Do(func() { close(s.left) }) }

// ReadFile reads a file at a path as the process sees it, with the process's rights, up to limit bytes. It can take
// seconds.
func (s *subject) ReadFile(path string, limit int64) (content []byte, modified time.Time, err error) {
	return s.proc.ReadFile(path, limit)
}

// Published returns what the process publishes about itself now. See processcontext.Read. Any goroutine may call it.
func (s *subject) Published() (processcontext.Context, error) { return processcontext.Read(s.proc) }

// Environment returns the process's variables with wanted names (attach.Process.Environment). It is for any goroutine.
func (s *subject) Environment(wanted func(name string) bool) (map[string]string, error) {
	return s.proc.Environment(wanted)
}

// Cgroups returns which control groups the process is in, as the kernel writes them. It is for any goroutine.
func (s *subject) Cgroups() (string, error) { return s.proc.Cgroups() }

// share says that n processes are sampled at once, which divide the limits on memory.
func (s *Source) share(n int) {
	s.sharers.Store(int32(n))
	s.reader.Share(n)
}

// Close ends exact mode and following by thread switches, and closes the target. A hanging read closes what it uses
// later.
func (s *Source) Close() error {
	return s.exact.close(func() error {
		return s.switches.close(func() error { return s.reading.close(s.release) })
	})
}

func (s *sampling) release() error {
	var errs []error
	if s.pauses != nil {
		s.pauses.pauser.Close()
	}
	s.native.close()
	if s.tasks != nil {
		errs = append(errs, s.tasks.Close())
	}
	if s.spaces != nil {
		errs = append(errs, s.spaces.Close())
	}
	if s.counts != nil {
		errs = append(errs, s.counts.Close())
	}
	if s.slow != nil {
		errs = append(errs, s.slow.Close())
	}
	return errors.Join(append(errs, s.proc.Close())...)
}

// clocked samples until ctx or the target ends. emit runs on another goroutine. clocked does not wait for a hanging
// read.
func (s *Source) clocked(ctx context.Context, emit func(*sampler.Sample)) error {
	var out door
	wanted, cancel := context.WithCancel(ctx)
	defer cancel()
	exited := s.proc.Exited()
	go func() {
		select {
		case <-exited:
			cancel()
		case <-wanted.Done():
		}
	}()
	err := s.reading.apart(wanted, func() error {
		return s.run(ctx, func(x *sampler.Sample) { out.emit(emit, x) })
	}, out.close)
	switch {
	case !errors.Is(err, attach.ErrNoAnswer):
		return err
	case ctx.Err() != nil:
		return nil // Silent tells
	case wanted.Err() != nil:
		return s.finish("exited")
	}
	return err
}

// run is clocked, on a thread that ends with it.
func (s *Source) run(ctx context.Context, emit func(*sampler.Sample)) error {
	pace.RaisePriority()
	s.priority = pace.KernelPriority()
	defer s.procs.Enter()()
	defer s.beside()()
	defer s.tickBegan.Store(0)
	s.tickBegan.Store(pace.Monotonic())
	undo := s.stopWith(ctx)
	defer undo()
	s.running.Store(true)
	defer s.running.Store(false)
	s.warmUp()
	sleep := pace.NewSleeper(s.pauses != nil) // a timer ends a pause that takes too long
	defer sleep.Close()
	c := pace.NewClock(s.info.StackRate, s.info.LockRate, pace.Monotonic())
	s.budget.Count(+1, 0)
	defer func() {
		s.budget.Leave(&s.press)
		if c.Slow {
			s.budget.Count(0, -1)
		} else {
			s.budget.Count(-1, 0)
		}
		if c.Exact {
			s.budget.CountExact(false)
		}
	}()
	var tracer func() int
	if s.pauses != nil {
		tracer = s.pauses.pauser.Thread
	}
	cost := pace.NewMeter(tracer)
	exited := s.proc.Exited()
	over := func() bool {
		select {
		case <-ctx.Done():
		case <-exited:
		default:
			return false
		}
		return true
	}
	var sample sampler.Sample
	s.failing.succeeded()
	seen := pace.Monotonic()
	var stackNS int64  // CPU time of the last reading of stacks
	var sampleNS int64 // the same of the last sample beside looks that read none
	var glances *switchRun
	var after int64 // CPU time of what came after the last reading: it is none of a look's
	for {
		s.tickBegan.Store(0)
		due := c.Next
		if s.switches.is() && s.glances() == nil {
			every := int64(workEveryNS)
			if c.Slow {
				every = slowWorkEveryNS
			}
			due = min(due, pace.Monotonic()+every)
		}
		sleep.Unless(due, over)
		// Questions of one channel each: each reads a word, while a question of both would take their locks.
		select {
		case <-ctx.Done():
			undo()
			s.last(emit, &sample)
			return nil
		default:
		}
		select {
		case <-exited:
			return s.finish("exited")
		default:
		}
		now := pace.Monotonic()
		s.tickBegan.Store(now)
		stackEvery, lockEvery := s.rates.Intervals()
		if exact := s.exact.is() || s.switches.is(); exact != c.Exact {
			c.Exact = exact
			s.budget.CountExact(exact)
		}
		if had := glances != nil; had != (s.glances() != nil) {
			s.budget.LockAnew()
		}
		glances = s.glances()
		switch {
		case glances != nil:
			lockEvery = min(stackEvery, pace.GlanceNS)
		case c.Exact:
			lockEvery = min(stackEvery, max(lockEvery, float64(s.view.OldestNS))) // changes come by themselves, counters do not
		}
		s.budget.Pace(c, stackEvery, lockEvery)
		between := now < c.Next
		if n := s.learnMoves(); between && (n == 0 || !s.looks.may(now, s.budget.InForce())) {
			continue
		}
		depth, late := sampler.LockTick, uint64(0)
		if !between {
			depth, late = c.Tick(now)
		}
		s.reader.LookAt(s.beginning)
		s.beginning = s.beginning[:0]
		paid := depth // what the budget takes the tick for
		if now-s.lastCheck > checkNS {
			s.lastCheck = now
			if err := s.gone(attach.ErrGone); err != nil {
				return err
			}
		}
		s.ticking.Lock()
		s.reader.Reads().Late += late
		if glances != nil {
			glances.catchUp()
			_ = cost.Since() // it is not for how often is looked
			moving := glances.glance()
			switch {
			case depth == sampler.StackTick:
			case now-seen >= pace.GlanceGap(sampleNS, s.budget.InForce(), c.Slow):
				paid = sampler.StackTick // it costs no look
			default:
				s.ticking.Unlock()
				all, stacks := s.budget.Spent(depth, cost.Since(), stackNS, pace.Monotonic(), pace.OwnCPU)
				c.Wait(all)
				c.Rest(max(s.rests(), stacks))
				s.note(c, now, moving)
				continue
			}
		}
		err := s.readTick(depth, &sample)
		if err == nil {
			sample.Slow = c.Slow
			if depth == sampler.StackTick {
				s.view.Frozen = s.counts.Frozen()
			}
			s.view.Fill(&sample, false)
			s.followFibers(&sample)
			s.listThreads(c.Exact)
			if x := s.exact.now.Load(); x != nil && c.Exact {
				x.nameStacks()
			}
			if x := s.switches.now.Load(); x != nil && c.Exact {
				x.nameStacks()
				x.sampled(&sample)
			}
		}
		s.ticking.Unlock()
		spent := cost.Since() + after
		after = 0
		if paid == sampler.StackTick {
			stackNS = spent
		}
		if paid != depth {
			sampleNS = spent
		}
		if between {
			s.looks.spend(spent) // the budget finds that beside the ticks
		} else {
			all, stacks := s.budget.Spent(paid, spent, stackNS, pace.Monotonic(), pace.OwnCPU)
			c.Wait(all)
			c.Rest(max(s.rests(), stacks))
		}
		if cause := err; err != nil {
			if now-s.lastCheck > failCheckNS {
				// It may have called exec: what was known of its memory is void then.
				s.lastCheck = now
				err = errors.Join(err, attach.ErrGone)
			}
			if err := s.gone(err); err != nil {
				return err
			}
			if err := s.retry(c, now, cause); err != nil {
				return err
			}
			continue
		}
		s.failing.succeeded()
		if at := sample.TimeNS + sample.ReadNS; at-seen > reuseNS && !s.proc.Alive() {
			// Memory is read by the PID. That it was this process's is certain when the process lives after that.
			if err := s.gone(attach.ErrGone); err != nil {
				return err
			}
		}
		seen = sample.TimeNS
		s.slowCounters(&sample, false)
		s.countClasses(&sample)
		s.note(c, now, busy(&sample))
		s.tickBegan.Store(0)
		emit(&sample)
		if glances != nil {
			after = cost.Since()
		}
	}
}

// note tells the clock whether anything runs, waits or collects garbage, and the budget the resulting speed of the
// clock.
func (s *sampling) note(c *pace.Clock, now int64, busy bool) {
	slow := c.Slow
	c.Note(now, busy)
	switch {
	case slow && !c.Slow:
		s.budget.Count(+1, -1)
	case !slow && c.Slow:
		s.budget.Count(-1, +1)
	}
}

// glances returns who has the clock look at threads between two samples. It is nil if nobody does.
func (s *Source) glances() *switchRun {
	if x := s.switches.now.Load(); x != nil && x.on() && x.glances() {
		return x
	}
	return nil
}

// last takes one more sample with all counters at the end, without a stop. A failed read leaves it out.
func (s *sampling) last(emit func(*sampler.Sample), sample *sampler.Sample) {
	if sample.TimeNS == 0 {
		return // there is no sample to end with
	}
	s.reader.Resume()
	s.ticking.Lock()
	err := s.reader.Read(sampler.LockTick, sample)
	if err == nil {
		sample.PauseNS = 0
		s.view.Fill(sample, false)
		s.view.LastCounters(sample)
	}
	s.ticking.Unlock()
	if err != nil || !s.proc.Alive() {
		return
	}
	s.lastProc = 0
	s.slowCounters(sample, false)
	emit(sample)
}

// learnMoves tells the next tick which threads have not moved, and returns how many have begun something.
func (s *Source) learnMoves() (entered int) {
	var moves ruby.Moves
	if x := s.switches.now.Load(); x != nil && s.pauses == nil {
		var list []ruby.Entered
		moves, list = x.whoMoved()
		s.beginning = append(s.beginning, list...)
		s.beginning = s.beginning[max(len(s.beginning)-maxBeginning, 0):] // the last ones are those still to be seen
	}
	s.reader.SetMoves(moves)
	return len(s.beginning)
}

// beside names sockets and reads slow counters beside the sampling. The returned function ends it and waits.
func (s *sampling) beside() func() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(besideEvery)
		defer tick.Stop()
		var locks lockWatch
		defer locks.close()
		s.readSlow()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// A failure leaves sockets without a name, which shows.
				_, _ = s.tasks.ResolveSockets(ctx, pace.Monotonic())
				s.readSlow()
				s.findPublishedAgain()
				s.readLocks(ctx, &locks, pace.Monotonic())
			}
		}
	}()
	return func() { stop(); <-done }
}

func (s *sampling) readSlow() {
	now := s.slow.Read(pace.Monotonic())
	s.slowNow.Store(&now)
}

// busy reports whether anything ran, waited or collected garbage in a sample.
func busy(s *sampler.Sample) bool {
	if s.GC.During {
		return true
	}
	for i := range s.Ractors {
		r := &s.Ractors[i]
		if r.OwnerStart != 0 || r.OwnerEnd != 0 || r.Waiting > 0 {
			return true
		}
	}
	for i := range s.Threads {
		if s.Threads[i].Kernel.Syscall == sampler.SyscallRunning {
			return true
		}
	}
	return false
}

// slowCounters adds the counters that are read at a low rate.
func (s *sampling) slowCounters(sample *sampler.Sample, all bool) {
	now := sample.TimeNS
	every := min(kernelview.ProcNS*max(int64(s.sharers.Load())/procSharers, 1), slowProcNS)
	if sample.Slow {
		every = slowProcNS
	}
	every = min(every, s.view.OldestNS)
	if all || now-s.lastProc >= every {
		s.lastProc = now
		if p, err := s.counts.Read(now); err == nil {
			s.procNow = p
			s.view.Frozen = p.Frozen
			if !all { // of a single sample nothing follows
				s.budget.Look(now, kernel.IdleNS, p.Pressure, &s.press)
			}
		}
	}
	if all || now-s.lastSelf > kernelview.SelfNS {
		s.lastSelf = now
		if self, err := kernel.ReadSelf(); err == nil {
			s.selfNow, s.lastSelfCPU = self, now
		}
	} else if now-s.lastSelfCPU > kernelview.SelfCPUNS {
		s.lastSelfCPU = now
		if cpu, err := kernel.SelfCPU(); err == nil {
			s.selfNow.CPUNS = cpu
		}
	}
	sample.Proc, sample.Self = s.procNow, s.selfNow
	sample.Proc.Frozen = s.view.Frozen
	if slow := s.slowNow.Load(); slow != nil {
		sample.Proc.PSSBytes, sample.Proc.Switches = slow.PSSBytes, slow.Switches
		s.readQueues(now, slow, all)
	}
	sample.Queues = s.queuesNow
	s.tellTIDs(sample)
	sample.NativeLocks = s.locksNow.Load()
	sample.Self.Priority = s.priority
	sample.Self.Halved, sample.Self.Lowered = s.budget.Says()
	sample.Self.Extended = s.budget.TakesMore()
}

// readQueues reads what waits in front of the process, if it was not read lately.
func (s *sampling) readQueues(now int64, slow *kernel.SlowCounts, all bool) {
	if !all && s.queuesNow != nil && now-s.queuesNow.AtNS < queuesNS {
		return
	}
	s.ticking.Lock()
	pools := s.reader.Pools()
	s.ticking.Unlock()
	s.queuesNow = s.names.Queues(&sampler.Queues{AtNS: now, Accept: slow.Accept, Pools: pools})
}

// gone turns a failed read into the end of the target, if that is why: nil means that the target lives.
func (s *Source) gone(err error) error {
	if !errors.Is(err, attach.ErrGone) {
		return nil // Run asks once a second in any case
	}
	switch check := s.proc.Check(); {
	case errors.Is(check, attach.ErrReplaced):
		return s.finish("replaced itself by another program (exec)")
	case errors.Is(check, attach.ErrGone):
		return s.finish("exited")
	}
	return nil // it lives, or could not be asked
}

func (s *Source) finish(reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.end, s.ended = sampler.End{AtNS: pace.Monotonic(), Reason: reason}, true
		s.exact.over("the process " + reason)
		s.switches.over("the process " + reason)
	}
	return sampler.ErrEnded
}
