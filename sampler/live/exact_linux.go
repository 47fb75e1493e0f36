package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/ruby"
)

const (
	// exactEvery is how often records are fetched; the ring holds a second of the busiest load that was seen.
	exactEvery = 10 * time.Millisecond
	// exactBehindNS is how long records wait for earlier ones, in ns: a thread can lose its CPU between the time that a record says
	// and the ring. Those made under the scheduler's mutex come in order anyway.
	exactBehindNS = 5_000_000
	// costSpans and costSpanNS: the cost is looked at over so many spans of so many ns.
	costSpans, costSpanNS = 4, 250_000_000
	// freeCost is the share of a CPU that the probes may cost in any case: of a process that mostly sleeps each wake-up is dear
	// beside the little that it takes itself.
	freeCost = 0.001
	// maxSeen bounds what sampling saw and is still to be compared; what is beyond is not.
	maxSeen = 1 << 14
	// checkFrom is how many turns say enough; wrongFrom the share of those that sampling saw which may not fit, unclosedFrom of those
	// that may have no end. On a full machine sampling sees above all the turns of threads that have lost their CPU, once in a while just
	// before their record is made; records that miss turns fit hardly ever.
	checkFrom, wrongFrom, unclosedFrom = 100, 0.5, 0.1
)

// Exact follows the GVL of a process by probes, beside the sampling.
type Exact struct {
	source *Source
	probes *probe.Probes
	to     *exact.Machine
	out    from
	max    float64
	report ExactReport

	stop    chan struct{}
	stopped sync.Once
	done    chan struct{}
	err     error // of done

	// pending are records that wait for earlier ones.
	pending []exact.Record
	counts  probe.Counts
	clock   int32 // of the process's CPU time
	beganNS int64 // CPU time of the process at the start
	spans   []costSpan

	// fedNS is until when all records were handed on.
	fedNS int64

	mu      sync.Mutex
	seen    []seen // by sampling, in order of time
	ractors bool
	closed  bool
}

// from is a Consumer of what is not over by a time: before, not all probes were there.
type from struct {
	exact.Consumer
	ns int64
}

func (f *from) Interval(i *exact.Interval) {
	if i.ToNS <= f.ns {
		return
	}
	if i.FromNS < f.ns {
		i.FromNS = f.ns
		i.NoCPUNS = min(i.NoCPUNS, i.NS())
	}
	f.Consumer.Interval(i)
}

func (f *from) Waited(w *exact.Wait) {
	if w.ToNS > f.ns {
		f.Consumer.Waited(w)
	}
}

// seen is what sampling saw: who held the GVL at a time.
type seen struct {
	tid  int32
	atNS int64
}

// costSpan is what was counted at an instant.
type costSpan struct{ atNS, costNS, cpuNS int64 }

// OpenExact puts probes into the process and follows its GVL from then on until Close, or until one of the limits is reached
// (ExactReport.Ended). It is not to be called while Run or Once run. The error is ErrExact, ruby.ErrNoScheduler, one of package probe,
// or that of reading.
func (s *Source) OpenExact(ctx context.Context, o ExactOptions) (*Exact, error) {
	if o.MaxCost == 0 {
		o.MaxCost = DefaultExactCost
	}
	if !(o.MaxCost > 0 && o.MaxCost <= 1) {
		return nil, fmt.Errorf("a cost of %g is out of range: more than 0, up to 1", o.MaxCost)
	}
	if err := probe.Check(); err != nil {
		return nil, err
	}
	return result(ctx, s, func() (*Exact, error) { return s.openExact(ctx, o) })
}

func (s *Source) openExact(ctx context.Context, o ExactOptions) (*Exact, error) {
	defer s.stopWith(ctx)()
	pid := s.proc.PID()
	env, err := s.Environment(func(name string) bool { return name == "RUBY_MN_THREADS" })
	if err != nil {
		return nil, err
	}
	if env["RUBY_MN_THREADS"] == "1" {
		return nil, fmt.Errorf("process %d: %w: its threads share native threads (RUBY_MN_THREADS=1)", pid, ErrExact)
	}
	if err := s.readThreads(ctx); err != nil {
		return nil, err
	}
	scheduler, err := s.reader.Scheduler()
	if err != nil {
		return nil, err
	}
	code, err := s.probeCode()
	if err != nil {
		return nil, err
	}
	x := &Exact{source: s, out: from{Consumer: o.To}, max: o.MaxCost, stop: make(chan struct{}), done: make(chan struct{}), clock: cpuClock(pid)}
	x.to = exact.NewMachine(&x.out)
	if x.beganNS, err = x.cpu(); err != nil {
		return nil, err
	}
	x.probes, err = probe.Attach(s.proc, code, probe.Target{
		PID: pid, Lock: uint64(scheduler.Lock), Owner: uint64(scheduler.Owner), QueueTail: uint64(scheduler.QueueTail),
		ReadyNode: scheduler.ReadyNode, RunningNode: scheduler.RunningNode,
		ExecutionContext: scheduler.ExecutionContext, ThreadOfEC: scheduler.ThreadOfEC,
	})
	if err != nil {
		return nil, err
	}
	// Who no longer waits for it would never take the probes out.
	if err := errors.Join(x.begin(ctx, &scheduler), ctx.Err()); err != nil {
		return nil, errors.Join(err, x.probes.Close())
	}
	go x.run()
	return x, nil
}

// readThreads lists the threads, again when they come and go meanwhile.
func (s *Source) readThreads(ctx context.Context) error {
	const tries = 50
	var sample sampler.Sample
	var err error
	for range tries {
		if err = s.readTick(sampler.LockTick, &sample); err == nil || !errors.Is(err, ruby.ErrListTorn) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return errors.Join(err, s.gone(err))
	}
	return nil
}

// probeCode finds where to put the probes.
func (s *Source) probeCode() (probe.Code, error) {
	module, err := attach.FindRuby(s.proc)
	if err != nil {
		return probe.Code{}, err
	}
	defer module.Close()
	maps, err := s.proc.Maps()
	if err != nil {
		return probe.Code{}, err
	}
	return probe.FindCode(s.proc, module, maps)
}

// begin reads what state the threads are in that have not moved yet.
func (x *Exact) begin(ctx context.Context, scheduler *ruby.Scheduler) error {
	if err := x.source.readThreads(ctx); err != nil {
		return err
	}
	threads, err := x.source.reader.SchedulerThreads(scheduler)
	if err != nil {
		return err
	}
	now := monotonic()
	var owner uint64
	for _, t := range threads {
		if t.Owner {
			owner = uint64(t.Addr)
		}
	}
	for _, t := range threads {
		cpu, err := x.source.tasks.CPU(t.TID)
		if err != nil {
			continue // it has ended, or will be known by its first record
		}
		x.pending = append(x.pending, exact.Record{
			NS: now, TID: t.TID, Kind: exact.Began, Thread: uint64(t.Addr), Owner: owner, Queued: t.Queued, Linked: t.Linked,
			DelayNS: cpu.DelayNS,
		})
	}
	x.report.FromNS, x.out.ns = now, now
	return nil
}

// cpuClock is the clock of a process's CPU time (clock_getcpuclockid(3)).
func cpuClock(pid int) int32 { return int32(^pid<<3 | 2) }

// cpu is the CPU time that the process has taken, in ns.
func (x *Exact) cpu() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(x.clock, &ts); err != nil {
		return 0, fmt.Errorf("reading the CPU time of process %d: %w", x.source.proc.PID(), err)
	}
	return ts.Nano(), nil
}

// Saw takes a sample, for comparison, some time after it was taken: it may be called from any goroutine, in order of time.
func (x *Exact) Saw(s *sampler.Sample) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(s.Ractors) > 1 {
		x.ractors = true
	}
	if len(s.Ractors) != 1 || x.closed {
		return
	}
	owner := s.Ractors[0].OwnerStart
	if owner == 0 || owner != s.Ractors[0].OwnerEnd || len(x.seen) >= maxSeen || s.ReadNS > exact.SlackNS {
		return
	}
	for i := range s.Threads {
		if t := &s.Threads[i]; t.ID == owner && t.Bits&sampler.BitLinked != 0 && t.TID != 0 {
			x.seen = append(x.seen, seen{t.TID, s.TimeNS})
			return
		}
	}
}

// run fetches records until it is stopped, the process ends, or a limit is reached.
func (x *Exact) run() {
	defer close(x.done)
	tick := time.NewTicker(exactEvery)
	defer tick.Stop()
	exited := x.source.proc.Exited()
	for ended := false; !ended; {
		select {
		case <-x.stop:
			ended = true
		case <-exited:
			ended = true
		case <-tick.C:
			if x.err = x.fetch(); x.err != nil {
				x.report.Ended, x.report.Wrong, ended = x.err.Error(), true, true
				break
			}
			ended = x.limited()
		}
	}
	x.finish()
}

// fetch takes what the ring has, and hands on what no earlier record can come before any more.
func (x *Exact) fetch() error {
	now := monotonic()
	if err := x.drain(now); err != nil {
		return err
	}
	x.feed(now - exactBehindNS)
	return nil
}

func (x *Exact) drain(now int64) error {
	if err := x.probes.Drain(func(r *exact.Record) { x.pending = append(x.pending, *r) }); err != nil {
		return err
	}
	counts, err := x.probes.Counts()
	if err != nil {
		return err
	}
	if counts.Lost > x.counts.Lost {
		x.to.Lost(now)
	}
	x.counts = counts
	return nil
}

// feed hands on the records of until a time.
func (x *Exact) feed(untilNS int64) {
	byTime := func(a, b exact.Record) int { return cmp.Compare(a.NS, b.NS) }
	if !slices.IsSortedFunc(x.pending, byTime) {
		slices.SortStableFunc(x.pending, byTime)
	}
	n := 0
	for ; n < len(x.pending) && x.pending[n].NS <= untilNS; n++ {
		x.to.Feed(&x.pending[n])
	}
	x.pending = slices.Delete(x.pending, 0, n)
	x.fedNS = max(x.fedNS, untilNS)
	x.compare()
}

// compare compares what sampling saw with the records, as far as they have been handed on.
func (x *Exact) compare() {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for ; n < len(x.seen) && x.seen[n].atNS+exact.SlackNS <= x.fedNS; n++ {
		if x.seen[n].atNS >= x.report.FromNS+exact.SlackNS {
			x.to.Compare(x.seen[n].tid, x.seen[n].atNS)
		}
	}
	x.seen = slices.Delete(x.seen, 0, n)
}

// limited reports whether it is to end, and notes why.
func (x *Exact) limited() bool {
	x.mu.Lock()
	ractors := x.ractors
	x.mu.Unlock()
	if ractors {
		x.report.Ended = "the process has made ractors, and the threads of one alone can be followed"
		return true
	}
	if c := x.to.Checks(); c.Agreed+c.Disagreed >= checkFrom && float64(c.Disagreed) > wrongFrom*float64(c.Agreed+c.Disagreed) ||
		c.Runs >= checkFrom && float64(c.Unclosed) > unclosedFrom*float64(c.Runs) {
		x.report.Ended, x.report.Wrong = fmt.Sprintf("what the probes record does not agree with what sampling sees (%d of %d times, %d of %d turns without an end)",
			c.Disagreed, c.Agreed+c.Disagreed, c.Unclosed, c.Runs), true
		return true
	}
	return x.tooDear(monotonic())
}

// tooDear reports whether the probes cost the process more than they may, over the last second.
func (x *Exact) tooDear(now int64) bool {
	if n := len(x.spans); n > 0 && now-x.spans[n-1].atNS < costSpanNS {
		return false
	}
	cpu, err := x.cpu()
	if err != nil {
		return false // it has ended
	}
	x.spans = append(x.spans, costSpan{now, x.probes.CostNS(x.counts), cpu})
	if len(x.spans) <= costSpans {
		return false
	}
	x.spans = x.spans[len(x.spans)-costSpans-1:]
	cost, took := x.spans[costSpans].costNS-x.spans[0].costNS, cpu-x.spans[0].cpuNS
	// What the process would have taken without the probes.
	span := x.spans[costSpans].atNS - x.spans[0].atNS
	if own := max(took-cost, 0); x.max < 1 && float64(cost) > max(x.max*float64(own), freeCost*float64(span)) {
		x.report.Ended = fmt.Sprintf("it cost the process %.1f %% of its CPU time, and may cost %g %%", 100*float64(cost)/float64(max(own, 1)), 100*x.max)
		return true
	}
	return false
}

// finish takes the probes out and hands on the rest. What happens while they are taken out is half seen, and not believed.
func (x *Exact) finish() {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.report.ToNS = monotonic() // before: what follows can take its time
	errs := []error{x.err, x.probes.Stop()}
	errs = append(errs, x.probes.Detach(), x.drain(x.report.ToNS))
	x.feed(x.report.ToNS)
	x.to.Finish(x.report.ToNS)
	if cpu, err := x.cpu(); err == nil {
		x.report.CPUNS = cpu - x.beganNS
	}
	x.report.Hits, x.report.Lost = x.counts.Hits, x.counts.Lost
	x.report.CostNS, x.report.HitNS = x.probes.CostNS(x.counts), x.probes.HitNS
	x.report.Checks = x.to.Checks()
	x.err = errors.Join(append(errs, x.probes.Close())...)
}

// Done is closed when it has ended, by Close or before.
func (x *Exact) Done() <-chan struct{} { return x.done }

// Close takes the probes out, if they still are in, and says how it went.
func (x *Exact) Close() (ExactReport, error) {
	x.stopped.Do(func() { close(x.stop) })
	<-x.done
	return x.report, x.err
}
