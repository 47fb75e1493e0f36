package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// Default and largest rates, in Hz.
const (
	DefaultStackRate = 100
	DefaultLockRate  = 1000
	MaxLockRate      = 10000
)

// maxFailedTicks is how many ticks in a row may fail before Run gives up on a process that still lives.
const maxFailedTicks = 2000

// checkNS is how often it is asked whether the process has replaced itself by exec.
const checkNS = 1_000_000_000

// resolveEvery is how often it is looked whether sockets wait to be named.
const resolveEvery = time.Second

// failCheckNS is how often it is asked while reads fail.
const failCheckNS = 20_000_000

// bootWait is how long Open waits for a Ruby that is still booting.
const bootWait = 5 * time.Second

// bootPoll is how often it is looked then.
const bootPoll = 20 * time.Millisecond

// Options of Open. The zero value of a field takes the default.
type Options struct {
	// StackRate is how often all stacks are read, in Hz; LockRate how often the scheduler is, in Hz, up to 10,000.
	StackRate, LockRate float64
	// MaxDepth is the number of frames kept of a stack.
	MaxDepth int
	// BootWait is how long a Ruby that is still booting is waited for.
	BootWait time.Duration
	// Pause stops all threads with ptrace while stacks are read, for at most PauseLimit. It does not cure releases that
	// publish a frame before it is filled (2.5 to 2.7, YJIT of 3.1). When the process is our own child it may be waited for
	// only once it has ended (see attach.NewPauser).
	Pause bool
	// RealTime runs the sampling thread with SCHED_FIFO, which needs CAP_SYS_NICE: else Open fails with ErrRealTime. A
	// watchdog takes the priority back when the thread takes too much of a CPU (sampler.Self.Priority tells).
	RealTime bool
	// Dictionary takes what is interned; nil makes a new one.
	Dictionary *sampler.Dictionary
	// procs is shared by the Sources of a Group; nil makes a new one.
	procs *processors
	// Progress is told how far the reading of a file's debug information is, in units, for a Ruby whose layout has to be
	// derived from it; nil: nobody.
	Progress func(path string, done, total int)
}

func (o *Options) defaults() error {
	if o.StackRate == 0 {
		o.StackRate = DefaultStackRate
	}
	if o.LockRate == 0 {
		o.LockRate = max(DefaultLockRate, o.StackRate)
	}
	if o.BootWait == 0 {
		o.BootWait = bootWait
	}
	if o.StackRate < 0.1 || o.StackRate > MaxLockRate {
		return fmt.Errorf("a stack rate of %g Hz is out of range: 0.1 to %d", o.StackRate, MaxLockRate)
	}
	if o.LockRate < o.StackRate || o.LockRate > MaxLockRate {
		return fmt.Errorf("a lock rate of %g Hz is out of range: the stack rate (%g) to %d", o.LockRate, o.StackRate, MaxLockRate)
	}
	if o.Dictionary == nil {
		o.Dictionary = sampler.NewDictionary()
	}
	if o.procs == nil {
		o.procs = new(processors)
	}
	return nil
}

// Source samples a live process. Run and Once are not to be called at the same time.
type Source struct {
	proc   *attach.Process
	info   sampler.Process
	dict   *sampler.Dictionary
	reader *ruby.Reader
	view   *kernelView
	tasks  *kernel.Tasks
	spaces *kernel.Namespace
	counts *kernel.ProcReader
	// pauses stops the target for stack ticks; nil: it is not stopped.
	pauses *pauses
	guard  guard
	rates  rates
	procs  *processors

	lastProc, lastSelf, lastCheck int64
	procNow                       sampler.Proc
	selfNow                       sampler.Self
	lastClasses                   int64
	classesNow                    *sampler.AllocClasses

	mu    sync.Mutex
	end   sampler.End
	ended bool
}

// Open finds the Ruby VM in a process and prepares for sampling it. Errors are attach's (ErrNoProcess, ErrPermission,
// ErrNotRuby …), layout.ErrUnknownRelease, and ruby's for a VM that could not be found or whose layout does not fit.
func Open(ctx context.Context, pid int, opts Options) (*Source, error) {
	if err := opts.defaults(); err != nil {
		return nil, err
	}
	if opts.RealTime {
		if err := checkRealTime(); err != nil {
			return nil, err
		}
	}
	proc, err := openProcess(ctx, pid, opts.BootWait)
	if err != nil {
		return nil, err
	}
	s := &Source{proc: proc, dict: opts.Dictionary, procs: opts.procs}
	s.guard.realTime = opts.RealTime
	s.rates.set(opts.StackRate, opts.LockRate)
	if err := s.open(ctx, pid, opts); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Source) open(ctx context.Context, pid int, opts Options) error {
	module, err := waitForRuby(ctx, s.proc, opts.BootWait)
	if err != nil {
		return err
	}
	version, description, err := module.RubyVersion(s.proc)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	found, err := ruby.Find(ctx, s.proc, module, version, ruby.FindOptions{PID: pid, Cache: ruby.CacheFolder(), Progress: opts.Progress})
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	vm := found.VM
	if vm.Description != "" {
		description = vm.Description // as this process was started: with its JIT
	}
	dec, err := ruby.NewDecoder(vm, s.dict)
	if err != nil {
		return err
	}
	if s.spaces, err = kernel.OpenNamespace(pid); err != nil {
		return err
	}
	if s.tasks, err = kernel.OpenTasks(pid, s.dict); err != nil {
		return err
	}
	if s.counts, err = kernel.OpenProc(pid); err != nil {
		return err
	}
	s.reader, err = ruby.NewReader(vm, module, pid, dec, s.dict, ruby.Options{
		MaxDepth: opts.MaxDepth, Now: Monotonic, Whole: opts.Pause,
		TIDs:     s.hostTID,
		InnerPID: int32(s.proc.NamespacePID()),
	})
	if err != nil {
		return err
	}
	maps, err := s.proc.Maps()
	if err != nil {
		return err
	}
	if ruby.ForeignGC(maps) != "" {
		s.reader.DisableGC()
	}
	s.view = newKernelView(s.tasks, s.proc, Monotonic, s.reader.RecheckOwner)
	if opts.Pause {
		s.learnCalls() // before the first stop
		if s.pauses, err = newPauses(s.proc, s); err != nil {
			return err
		}
	}
	s.info = s.describe(pid, version, description, found, opts)
	s.info.PriorityNote = PriorityNote()
	return nil
}

// openProcess opens a process, waiting for one that is between fork and exec.
func openProcess(ctx context.Context, pid int, wait time.Duration) (*attach.Process, error) {
	deadline := time.Now().Add(wait)
	for {
		p, err := attach.Open(pid)
		if !errors.Is(err, attach.ErrNotLoaded) || time.Now().After(deadline) {
			return p, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(bootPoll):
		}
	}
}

// waitForRuby finds the Ruby of a process, waiting for one that is just starting.
func waitForRuby(ctx context.Context, p *attach.Process, wait time.Duration) (*attach.Module, error) {
	deadline := time.Now().Add(wait)
	for {
		m, err := attach.FindRuby(p)
		if err == nil {
			return m, nil
		}
		if !errors.Is(err, attach.ErrNotLoaded) || time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.Exited():
			return nil, err
		case <-time.After(bootPoll):
		}
	}
}

func (s *Source) describe(pid int, version, description string, found ruby.Found, opts Options) sampler.Process {
	host, _ := os.Hostname() // shown only
	info := sampler.Process{
		PID: pid, StartTicks: s.proc.StartTicks(), Title: s.proc.Title(), User: s.proc.User(), Host: host,
		RubyVersion: version, RubyDescription: description, JIT: jitOf(description), Era: s.reader.Era(),
		Machine: found.VM.Table.Machine, Layout: found.VM.Table.Name, LayoutNote: found.Note, CPUs: runtime.NumCPU(),
		StackRate: opts.StackRate, LockRate: opts.LockRate,
		AttachedAt: time.Now(), AttachedNS: Monotonic(), Pauses: opts.Pause,
	}
	if args, err := s.proc.CommandLine(); err == nil {
		info.CommandLine = args
	}
	if t, err := s.proc.StartedAt(); err == nil {
		info.StartedAt = t
	}
	return info
}

// hostTID translates a stored tid into ours, and refuses one that is no task of the process.
func (s *Source) hostTID(stored int32) (int32, bool) {
	host, ok := s.spaces.Host(stored)
	if !ok {
		return 0, false
	}
	_, err := os.Stat(s.proc.Path("task", strconv.Itoa(int(host))))
	return host, err == nil
}

// jitOf finds the JIT in Ruby's description of itself ("ruby 3.4.1 … +YJIT +PRISM").
func jitOf(description string) string {
	for _, word := range strings.Fields(description) {
		switch word {
		case "+YJIT":
			return "yjit"
		case "+ZJIT":
			return "zjit"
		case "+RJIT":
			return "rjit"
		case "+MJIT", "+JIT":
			return "mjit"
		}
	}
	return ""
}

// Process describes the target.
func (s *Source) Process() sampler.Process { return s.info }

// Dictionary is what the IDs of the samples point into.
func (s *Source) Dictionary() *sampler.Dictionary { return s.dict }

// End says how the target ended.
func (s *Source) End() (sampler.End, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end, s.ended
}

// Exited is closed when the process has ended.
func (s *Source) Exited() <-chan struct{} { return s.proc.Exited() }

// Close lets go of the target.
func (s *Source) Close() error {
	var errs []error
	if s.pauses != nil {
		s.pauses.pauser.Close()
	}
	if s.tasks != nil {
		errs = append(errs, s.tasks.Close())
	}
	if s.spaces != nil {
		errs = append(errs, s.spaces.Close())
	}
	if s.counts != nil {
		errs = append(errs, s.counts.Close())
	}
	return errors.Join(append(errs, s.proc.Close())...)
}

// Once takes one complete sample: all stacks, and the kernel's word on every thread. It tries again, for a moment, when
// threads come and go or a stack could not be read whole.
func (s *Source) Once(ctx context.Context) (*sampler.Sample, error) {
	const tries = 20
	s.warmUp()
	var best *sampler.Sample
	var last error
	for try := 0; try < tries && ctx.Err() == nil; try++ {
		var sample sampler.Sample
		if last = s.readTick(sampler.StackTick, &sample); last != nil {
			if err := s.gone(last); err != nil {
				return nil, err
			}
			continue
		}
		s.view.fill(&sample, true)
		// Sockets that don't know their other end yet (connecting) or may not be asked stand in the kernel's tables: the
		// next try will have them. A failure leaves them without a name.
		_, _ = s.tasks.ResolveSockets(Monotonic())
		s.slowCounters(&sample, true)
		if best == nil || flaws(&sample) <= flaws(best) {
			best = sample.Clone()
		}
		if flaws(best) == 0 && try > 0 {
			break
		}
	}
	if best == nil {
		if last == nil {
			last = ctx.Err()
		}
		return nil, last
	}
	best.Reads = *s.reader.Reads()
	return best, nil
}

// flaws counts what another try could make better.
func flaws(s *sampler.Sample) int {
	n := 0
	for i := range s.Threads {
		if s.Threads[i].Quality&(sampler.StackFailed|sampler.StackPartial) != 0 && s.Threads[i].Bits&sampler.BitStarting == 0 {
			n++
		}
	}
	for i := range s.Ractors {
		if s.Ractors[i].Torn || s.Ractors[i].OwnerStart != s.Ractors[i].OwnerEnd {
			n++
		}
	}
	return n
}

// Run samples until ctx ends or the target does.
func (s *Source) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer s.guard.begin()()
	defer s.procs.enter()()
	defer s.resolveSockets()()
	s.warmUp()
	c := newClock(s.info.StackRate, s.info.LockRate, Monotonic())
	exited := s.proc.Exited()
	var sample sampler.Sample
	failed := 0
	for {
		s.guard.rest()
		sleepUntil(c.next)
		s.guard.wake()
		select {
		case <-ctx.Done():
			return nil
		case <-exited:
			return s.finish("exited")
		default:
		}
		now := Monotonic()
		c.stackNS, c.lockNS = s.rates.intervals()
		depth, late := c.tick(now)
		s.reader.Reads().Late += late
		if now-s.lastCheck > checkNS {
			s.lastCheck = now
			if err := s.gone(attach.ErrGone); err != nil {
				return err
			}
		}
		if err := s.readTick(depth, &sample); err != nil {
			if now-s.lastCheck > failCheckNS {
				// It may have called exec: what was known of its memory is void then.
				s.lastCheck = now
				err = errors.Join(err, attach.ErrGone)
			}
			if err := s.gone(err); err != nil {
				return err
			}
			if failed++; failed >= maxFailedTicks {
				return fmt.Errorf("gave up after %d failed reads in a row: %w", failed, err)
			}
			continue
		}
		failed = 0
		sample.Slow = c.slow
		s.view.fill(&sample, false)
		s.slowCounters(&sample, false)
		s.countClasses(&sample)
		c.note(now, busy(&sample))
		emit(&sample)
	}
}

// resolveSockets names, beside the sampling, the sockets that could not be asked for their ends. The returned function
// ends it.
func (s *Source) resolveSockets() func() {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(resolveEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				// A failure leaves sockets without a name, which shows.
				_, _ = s.tasks.ResolveSockets(Monotonic())
			}
		}
	}()
	return func() { close(stop); <-done }
}

// busy tells whether anything ran, waited or collected garbage in a sample.
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
func (s *Source) slowCounters(sample *sampler.Sample, all bool) {
	now := sample.TimeNS
	if all || now-s.lastProc > procNS {
		s.lastProc = now
		if p, err := s.counts.Read(now); err == nil {
			s.procNow = p
		}
	}
	if all || now-s.lastSelf > selfNS {
		s.lastSelf = now
		if self, err := kernel.ReadSelf(); err == nil {
			s.selfNow = self
		}
	}
	sample.Proc, sample.Self = s.procNow, s.selfNow
	sample.Self.Priority = s.guard.priority()
}

// gone turns a failed read into the end of the target, if that is why: nil means that the target lives.
func (s *Source) gone(err error) error {
	if !errors.Is(err, attach.ErrGone) {
		return nil // Run asks once a second in any case
	}
	switch check := s.proc.Check(); {
	case check == nil:
		return nil
	case errors.Is(check, attach.ErrReplaced):
		return s.finish("replaced itself by another program (exec)")
	default:
		return s.finish("exited")
	}
}

func (s *Source) finish(reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.end, s.ended = sampler.End{AtNS: Monotonic(), Reason: reason}, true
	}
	return sampler.ErrEnded
}

// SetExitCode adds what only the parent of the process knows: its exit code, 128+n for signal n.
func (s *Source) SetExitCode(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.end, s.ended = sampler.End{AtNS: Monotonic(), Reason: "exited"}, true
	}
	s.end.ExitKnown, s.end.ExitCode = true, code
}
