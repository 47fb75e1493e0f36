package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/debuginfod"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
	"github.com/ddtop/ddtop/sampler/live/internal/kernelview"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/own"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// These are the default rates and the highest rate of ticks, in Hz.
const (
	DefaultStackRate = 100
	DefaultLockRate  = 1000
	maxLockRate      = 10000
)

// bootWait is how long Open waits for a Ruby that is still booting.
const bootWait = 5 * time.Second

// bootPoll is the interval between two tries to find a Ruby that is still booting.
const bootPoll = 20 * time.Millisecond

// maxExecs limits how often a process may call exec while Open opens it. For example, "chroot / env ruby" makes three
// calls.
const maxExecs = 8

// Options are the options of Open. The zero value of a field selects the default.
type Options struct {
	// StackRate is how often all stacks are read, in Hz. LockRate is how often the scheduler is read, in Hz, up to
	// 10,000.
	StackRate, LockRate float64
	// Overhead is how much of one CPU ddtop may take, as a share of at most 1. Zero means no limit. All Sources of a
	// Group share one limit.
	Overhead float64
	// OverheadMost replaces Overhead if figures would otherwise be too inexact to be shown (sampler.LeastQualities). It
	// is a share of one CPU, too. If it is zero, Overhead is always the limit.
	OverheadMost float64
	// Window is the length of the time that figures cover. The longer it is, the fewer samples per second the figures
	// need. Zero means sampler.QualityWindow.
	Window time.Duration
	// MaxDepth is how many frames of a stack are kept.
	MaxDepth int
	// BootWait is how long Open waits for a Ruby that is still booting.
	BootWait time.Duration
	// Pause stops all threads with ptrace while stacks are read, for at most PauseLimit. It does not help with Ruby
	// releases that publish a frame before they have filled it (2.5 to 2.7, YJIT of 3.1). If ddtop has started the
	// process, it must not call Wait before the process has ended (see attach.NewPauser).
	Pause bool
	// Dictionary stores the names and stacks to which the IDs in samples refer. If it is nil, Open makes a new one.
	Dictionary *sampler.Dictionary
	// From selects the source from which ddtop learns what threads do.
	From From
	// Running selects C stacks of running threads, if the machine allows it (Source.Running). RunningRate is how many
	// stacks are taken per second on each CPU. Zero means clock.Hz.
	Running     bool
	RunningRate int
	// Debug downloads debug files for the names of C functions. If it is nil, ddtop opens no connection.
	Debug *debuginfod.Client
	// Redactor removes identifying names from everything that the Source returns. If it is nil, nothing is removed.
	Redactor *redact.Redactor
	// Values lets ddtop also read query strings, arguments, literals and messages. A Redactor switches this off.
	Values bool
	// NoRequests leaves out the requests and jobs of threads. Benchmarks use it to measure the cost of reading them.
	NoRequests bool
	// OwnCode has patterns that say which code is the program's own, in addition to the default rules. It may be nil.
	OwnCode *own.Code
	// procs is shared by the Sources of a Group. If it is nil, Open makes a new one.
	procs *pace.Processors
	// budget is shared by the Sources of a Group. If it is nil, Open makes a new one.
	budget *pace.Budget
	// Progress is called while ddtop reads a file's debug information. It reports that done of total units are read.
	// Progress may be nil.
	Progress func(path string, done, total int)
}

// Defaults sets each option that is zero to its default. It returns an error if an option is out of range.
func (o *Options) Defaults() error {
	if o.StackRate == 0 {
		o.StackRate = DefaultStackRate
	}
	if o.LockRate == 0 {
		o.LockRate = max(DefaultLockRate, o.StackRate)
	}
	if o.BootWait == 0 {
		o.BootWait = bootWait
	}
	if o.StackRate < 0.1 || o.StackRate > maxLockRate {
		return fmt.Errorf("a stack rate of %g Hz is out of range: 0.1 to %d", o.StackRate, maxLockRate)
	}
	if o.LockRate < o.StackRate || o.LockRate > maxLockRate {
		return fmt.Errorf("a lock rate of %g Hz is out of range: the stack rate (%g) to %d", o.LockRate, o.StackRate, maxLockRate)
	}
	if !(o.Overhead >= 0 && o.Overhead <= 1) {
		return fmt.Errorf("an overhead of %g is out of range: 0 to 1", o.Overhead)
	}
	if !(o.OverheadMost >= 0 && o.OverheadMost <= 1) {
		return fmt.Errorf("an overhead of %g at most is out of range: 0 to 1", o.OverheadMost)
	}
	if err := o.From.check(); err != nil {
		return err
	}
	if o.Dictionary == nil {
		o.Dictionary = sampler.NewDictionary()
	}
	if o.procs == nil {
		o.procs = new(pace.Processors)
	}
	if o.budget == nil {
		o.budget = pace.NewBudget(o.Overhead)
		o.budget.Ask(o.StackRate, o.LockRate)
		o.budget.Extend(o.OverheadMost, cmp.Or(o.Window, sampler.QualityWindow))
	}
	return nil
}

// Open finds the Ruby VM in a process and prepares to sample it. It returns errors of packages attach and ruby, and
// layout.ErrUnknownRelease. If a read hangs, Open returns NoAnswer's error half a second after the end of ctx.
func Open(ctx context.Context, pid int, opts Options) (*Source, error) {
	type opened struct {
		source *Source
		err    error
	}
	done := make(chan opened, 1)
	// A read that hangs blocks its OS thread. If this were ddtop's first thread, no thread of ddtop would get signals.
	attach.OnOwnThread(func() {
		s, err := openSource(ctx, pid, opts)
		done <- opened{s, err}
	})
	select {
	case o := <-done:
		return o.source, o.err
	case <-ctx.Done():
	}
	select {
	case o := <-done:
		return o.source, o.err
	case <-time.After(apart.LetGoAfter):
	}
	go func() {
		if o := <-done; o.err == nil {
			_ = o.source.Close() // the caller has given up
		}
	}()
	return nil, apart.NoAnswer(pid, context.Cause(ctx))
}

// openSource does the work of Open. It may hang. It turns a panic into an error, so that ddtop can continue with other
// processes.
func openSource(ctx context.Context, pid int, opts Options) (_ *Source, err error) {
	defer attach.Recovered(pid, &err)
	if err := opts.Defaults(); err != nil {
		return nil, err
	}
	for range maxExecs {
		proc, err := openProcess(ctx, pid, opts.BootWait)
		if err != nil {
			return nil, err
		}
		s, err := openProgram(ctx, proc, opts)
		if !errors.Is(err, attach.ErrReplaced) {
			return s, err
		}
	}
	return nil, fmt.Errorf("process %d called exec each time that it was opened (%d times): %w", pid, maxExecs, attach.ErrReplaced)
}

// openProgram opens the Ruby of a process. If it fails, it closes proc. If the process called exec, err is ErrReplaced.
func openProgram(ctx context.Context, proc *attach.Process, opts Options) (*Source, error) {
	pid := proc.PID()
	s := &Source{left: make(chan struct{}), looks: pace.Credit{Part: pace.LooksPart}, routes: pace.Credit{Part: pace.RoutesPart}}
	s.proc, s.dict, s.names, s.debug = proc, opts.Dictionary, opts.Redactor, opts.Debug
	s.values = opts.Values && opts.Redactor == nil
	s.watch = new(sampler.NativeWatch)
	s.procs, s.budget, s.reading = opts.procs, opts.budget, apart.NewLane(pid)
	s.exact.opening, s.exact.closing = apart.NewLane(pid), make(chan struct{})
	s.switches.from = opts.From
	s.switches.opening, s.switches.closing = apart.NewLane(pid), make(chan struct{})
	s.unmoved = func(ns int64) bool { x := s.switches.now.Load(); return x != nil && x.still(ns) }
	s.Running.source, s.Running.wanted, s.Running.rate = s, opts.Running, opts.RunningRate
	s.Running.opening, s.Running.closing = apart.NewLane(pid), make(chan struct{})
	s.shown = opts.OwnCode.View(s.names.View(s.dict))
	s.rates.Set(opts.StackRate, opts.LockRate)
	opened := false
	defer func() {
		if !opened { // also after a panic
			s.Close()
		}
	}()
	err := s.open(ctx, pid, opts)
	// After an exec, the results and err are about the old program. The error must say that the program was replaced.
	if check := proc.Check(); errors.Is(check, attach.ErrReplaced) {
		err = check
	}
	if err != nil {
		return nil, err
	}
	opened = true
	return s, nil
}

func (s *Source) open(ctx context.Context, pid int, opts Options) error {
	rubies, err := waitForRuby(ctx, s.proc, opts.BootWait)
	if err != nil {
		return err
	}
	module, version, description, found, err := s.findVM(ctx, rubies, opts)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	s.vmPath, s.vmBias = module.Path, module.Bias
	vm := found.VM
	if vm.Description != "" {
		description = vm.Description // this text includes the JIT of this process
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
	if s.slow, err = kernel.OpenSlow(pid); err != nil {
		return err
	}
	s.reader, err = ruby.NewReader(vm, module, pid, s.dict, ruby.Options{
		MaxDepth: opts.MaxDepth, Now: pace.Monotonic, Whole: opts.Pause, Values: opts.Values && opts.Redactor == nil, Frugal: opts.Overhead > 0,
		NoRequests: opts.NoRequests,
		TIDs:       s.hostTID,
		InnerPID:   int32(s.proc.NamespacePID()),
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
	s.findPublished(maps)
	s.view = kernelview.New(s.tasks, s.proc, pace.Monotonic, s.reader.RecheckOwner)
	s.view.First = kernelview.NewFirstStack(s.proc)
	if opts.Window != 0 {
		s.view.OldestNS = min(kernelview.OldestCPUNS, int64(opts.Window)/kernelview.EndParts)
	}
	s.view.Spaces = s.spaces
	if opts.Pause {
		s.learnCalls() // must come before the target is first stopped
		if s.pauses, err = newPauses(s.proc, s); err != nil {
			return err
		}
	}
	s.info = s.names.Process(s.describe(pid, version, description, found, opts))
	s.info.PriorityNote = pace.PriorityNote()
	return nil
}

// findVM finds the first module with a Ruby VM, and closes the others. If none has a VM, err is the error of the first
// module.
func (s *subject) findVM(ctx context.Context, rubies []*attach.Module, opts Options) (module *attach.Module, version, description string, found ruby.Found, err error) {
	var mem attach.Memory = s.proc
	if opts.Pause {
		s.still = attach.NewStill(s.proc)
		mem = s.still
	}
	look := func(m *attach.Module, still bool) (err error) {
		if version, description, err = m.RubyVersion(s.proc); err != nil {
			return err
		}
		found, err = ruby.Find(ctx, mem, m, version, ruby.FindOptions{PID: s.proc.PID(), Cache: ruby.CacheFolder(), Progress: opts.Progress, Still: still})
		return err
	}
	defer func() {
		for _, m := range rubies {
			if m != module {
				m.Close()
			}
		}
	}()
	if len(rubies) > 1 { // try each module once, before waiting for the first one
		for _, m := range rubies {
			if look(m, true) == nil {
				return m, version, description, found, nil
			}
		}
	}
	if err := look(rubies[0], false); err != nil {
		return nil, "", "", ruby.Found{}, err
	}
	return rubies[0], version, description, found, nil
}

// openProcess opens a process. If the process is between fork and exec, it waits for the exec.
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

// waitForRuby finds the modules of a process that contain Ruby. If Ruby is just starting, it waits.
func waitForRuby(ctx context.Context, p *attach.Process, wait time.Duration) ([]*attach.Module, error) {
	deadline := time.Now().Add(wait)
	for {
		rubies, err := attach.FindRubies(p)
		if err == nil {
			return rubies, nil
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

func (s *subject) describe(pid int, version, description string, found ruby.Found, opts Options) sampler.Process {
	host, _ := os.Hostname() // only for display
	info := sampler.Process{
		PID: pid, Parent: s.proc.Parent(), StartTicks: s.proc.StartTicks(), Title: s.proc.Title(), User: s.proc.User(), Host: host,
		RubyVersion: version, RubyDescription: description, JIT: jitOf(description), Era: s.reader.Era(),
		Machine: found.VM.Table.Machine, Layout: found.VM.Table.Name, LayoutNote: found.Note, CPUs: s.proc.CPUs(),
		StackRate: opts.StackRate, LockRate: opts.LockRate, Overhead: opts.Overhead, OverheadMost: opts.OverheadMost,
		AttachedAt: time.Now(), AttachedNS: pace.Monotonic(), Pauses: opts.Pause,
	}
	if args, err := s.proc.CommandLine(); err == nil {
		info.CommandLine = args
	}
	if t, err := s.proc.StartedAt(); err == nil {
		info.StartedAt = t
	}
	if f, err := s.family(info.Title); err == nil {
		info.Part = f.Part
	}
	return info
}

// hostTID translates a TID from Ruby's memory into ddtop's PID namespace. ok is false if there is no such thread.
func (s *subject) hostTID(stored int32) (int32, bool) {
	host, ok := s.spaces.Host(stored)
	if !ok {
		return 0, false
	}
	_, err := os.Stat(s.proc.Path("task", strconv.Itoa(int(host))))
	return host, err == nil
}

// jitOf finds the JIT's name in the text of Ruby's description, such as "ruby 3.4.1 … +YJIT +PRISM".
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
