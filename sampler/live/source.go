package live

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/debuginfod"
	"github.com/ddtop/ddtop/attach/processcontext"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
	"github.com/ddtop/ddtop/sampler/live/internal/cstacks"
	"github.com/ddtop/ddtop/sampler/live/internal/kernelview"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// checkNS is the interval, in ns, at which ddtop asks the kernel whether the process has called exec.
const checkNS = 1_000_000_000

// reuseNS is the shortest time after which a PID can belong to another process, in ns. It is short because a PID
// namespace may have only 300 PIDs.
const reuseNS = 20_000_000

// slowProcNS is the longest interval between reads of the process's counters, in ns. If ddtop samples more than
// procSharers processes, the interval grows with their number, up to slowProcNS.
const (
	slowProcNS  = 1_000_000_000
	procSharers = 4
)

// failCheckNS replaces checkNS while reads fail. It is the interval between checks for an exec, in ns.
const failCheckNS = 20_000_000

// Source samples a live process. Do not call Run and Once at the same time.
type Source struct {
	sampling
	exact exactMode
	// switches begins and ends the following of thread switches.
	switches switchMode
	// Running starts and stops taking C stacks of threads that are on a CPU.
	Running Running
	// beginning are the threads that have begun a request or a job, which a tick must read. The field looks limits the
	// CPU time of these reads. The field routes limits the CPU time of reading copied requests. Only the clock uses the
	// three fields.
	beginning     []ruby.Entered
	looks, routes pace.Credit
	// sleeper is the Sleeper with which the clock sleeps between ticks. Other goroutines can wake the clock through it.
	// It is nil while no clock runs.
	sleeper atomic.Pointer[pace.Sleeper]

	// left is closed when Run must end because another process gets the place of this process (Group.makeWay).
	left     chan struct{}
	leftOnce sync.Once

	mu    sync.Mutex
	end   sampler.End
	ended bool
}

// subject is the process that a Source samples, with its Ruby VM and the names of its threads and code.
type subject struct {
	proc *attach.Process
	// still reads the VM's memory, or the copy of it that PauseHeap made. It is nil without Options.Pause. heapPause is
	// the stop in which the copy was made, or nil.
	still     *attach.Still
	heapPause *sampler.HeapPause
	// vmPath and vmBias are the path and the load bias of the mapped file that contains the VM.
	vmPath string
	vmBias attach.Address
	info   sampler.Process
	dict   *sampler.Dictionary
	shown  *sampler.Dictionary // dict with the changes that the Redactor and Options.OwnCode make for callers
	names  *redact.Redactor
	values bool // Options.Values, but false with a Redactor
	debug  *debuginfod.Client
	reader *ruby.Reader
	spaces *kernel.Namespace
	// unmoved reports whether no thread of the process has been on a CPU since sinceNS. Any goroutine may call it.
	unmoved func(sinceNS int64) bool
	// lastFamily is the last result of Family, and familyNS the time of this result. familyMu guards both.
	lastFamily sampler.Family
	familyNS   int64
	familyMu   sync.Mutex
	// published is where threads publish their spans. While the goroutine of the method beside runs, only this
	// goroutine uses it.
	published published
}

// sampling has what the clock needs for ticks. These are readers of the process and the machine, the readers' last
// results, and the CPU budget.
type sampling struct {
	subject
	view   *kernelview.View
	native cstacks.Reader
	tasks  *kernel.Tasks
	counts *kernel.ProcReader
	// pauses stops the target during stack ticks. It is nil if ddtop does not stop the target.
	pauses *pauses
	// priority is the scheduling priority of the sampling thread.
	priority sampler.Priority
	rates    pace.Rates
	procs    *pace.Processors
	budget   *pace.Budget
	press    pace.Press // used by Run

	// locksNow are the locks of C code for which threads wait, or nil. rubyTIDs has the IDs of Ruby's threads by TID.
	// The goroutine of the method beside uses both.
	locksNow atomic.Pointer[sampler.NativeLocks]
	rubyTIDs atomic.Pointer[map[int32]sampler.ThreadID]

	// watch has the native stacks of threads that stay in one place. wanted are the threads whose native stacks are
	// needed, and places has where these threads are. The goroutine of the method beside uses watch and places. Only
	// the clock uses wanted.
	watch  *sampler.NativeWatch
	places atomic.Pointer[map[sampler.ThreadID]cstacks.Place]
	wanted []sampler.ThreadID
	stays  nativeStays

	slow *kernel.Slow
	// slowNow has the last values of the slow counters. It is nil before they are first read.
	slowNow atomic.Pointer[kernel.SlowCounts]

	lastProc, lastCheck  int64
	lastTIDs, lastPlaces int64
	procNow              sampler.Proc
	lastClasses          int64
	classesNow           *sampler.AllocClasses
	fibersNow            *sampler.Fibers
	queuesNow            *sampler.Queues

	// reading runs all reads on its own thread. tickBegan is when the current tick began (CLOCK_MONOTONIC, ns), or 0.
	reading   apart.Lane
	tickBegan atomic.Int64
	// ticking is held while the reader is in use. running is true while the clock of Run runs.
	ticking sync.Mutex
	running atomic.Bool
	// Only the clock uses listing.
	listing listing
	// sharers is how many processes ddtop samples now, including this one.
	sharers atomic.Int32

	failing pace.Failing // used by Run
}

// Process describes the target.
func (s *subject) Process() sampler.Process { return s.info }

// Dictionary returns the dictionary with which the IDs in samples can be looked up.
func (s *subject) Dictionary() *sampler.Dictionary { return s.shown }

// End returns how the target ended. The second result is false if it has not ended.
func (s *Source) End() (sampler.End, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end, s.ended
}

// Leave makes Run end with ErrGaveWay.
func (s *Source) Leave() { s.leftOnce.Do(func() { close(s.left) }) }

// ReadFile reads at most limit bytes of a file. The path is as the process sees it. ReadFile reads only what the
// process itself may read. It can take seconds.
func (s *subject) ReadFile(path string, limit int64) (content []byte, modified time.Time, err error) {
	return s.proc.ReadFile(path, limit)
}

// Published returns what the process publishes about itself now (processcontext.Read). Any goroutine may call it.
func (s *subject) Published() (processcontext.Context, error) { return processcontext.Read(s.proc) }

// Environment returns those environment variables of the process that wanted accepts. Any goroutine may call it.
func (s *subject) Environment(wanted func(name string) bool) (map[string]string, error) {
	return s.proc.Environment(wanted)
}

// Cgroups returns the text in which the kernel lists the process's control groups. Any goroutine may call it.
func (s *subject) Cgroups() (string, error) { return s.proc.Cgroups() }

// Alive reports whether the process lives. It makes one short system call. Any goroutine may call it.
func (s *subject) Alive() bool { return s.proc.Alive() }

// Share divides the limits on ddtop's CPU time and memory among Sources that were opened with these Options. Each
// Source then reads stacks and the GVL's state at the given rates, in Hz.
func (o *Options) Share(list []*Source, stackRate, lockRate float64) {
	o.budget.Ask(stackRate, lockRate)
	for _, s := range list {
		s.sharers.Store(int32(len(list)))
		s.reader.Share(len(list))
		s.rates.Set(stackRate, lockRate)
	}
}

// Close ends exact mode, stops following thread switches and stops taking stacks of running threads. Then it closes
// the target. If a read hangs, the files that it uses are closed later.
func (s *Source) Close() error {
	return s.exact.close(func() error {
		return s.switches.close(func() error {
			return s.Running.close(func() error { return s.reading.Close(s.release) })
		})
	})
}

func (s *sampling) release() error {
	var errs []error
	if s.pauses != nil {
		s.pauses.pauser.Close()
	}
	s.native.Close()
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

// gone checks whether the error err has occurred because the target ended. If so, it ends the Source and returns
// ErrEnded.
func (s *Source) gone(err error) error {
	if !errors.Is(err, attach.ErrGone) {
		return nil // Run checks once a second in any case
	}
	switch check := s.proc.Check(); {
	case errors.Is(check, attach.ErrReplaced):
		return s.finish("replaced itself by another program (exec)")
	case errors.Is(check, attach.ErrGone):
		return s.finish("exited")
	}
	return nil // the process lives, or could not be checked
}

func (s *Source) finish(reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.end, s.ended = sampler.End{AtNS: pace.Monotonic(), Reason: reason}, true
		s.exact.over("the process " + reason)
		s.switches.over("the process " + reason)
		s.Running.over("the process " + reason)
	}
	return sampler.ErrEnded
}
