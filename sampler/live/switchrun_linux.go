package live

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/live/internal/stacknames"
	"github.com/ddtop/ddtop/sampler/live/internal/works"
	"github.com/ddtop/ddtop/sampler/ruby"
	"github.com/ddtop/ddtop/sampler/switches"
	"github.com/ddtop/ddtop/sampler/switches/tracer"
)

// switchBehindNS is how old a change must be before ddtop uses it, in ns. Until then, a record with an earlier change
// may still arrive. The reason is that ddtop learns what a running thread does only later: when the thread loses the
// CPU, or at the next tick of the CPU's clock. On a virtual machine this tick can be late.
const switchBehindNS = tracer.ClockNS + 15_000_000

const (
	// mostBusy is the share of a CPU that the kernel may spend on records, if ddtop's CPU time has a limit. About
	// 70,000 records per second use this share. The share is measured over busySpanNS, in ns.
	mostBusy, busySpanNS = 0.10, 2_000_000_000
)

// countEveryNS is the interval between two reads of the BPF programs' counters, in ns. Each read is a system call. If
// more than manyRuns processes are followed, manyCountEveryNS replaces it, because ddtop notices lost records without
// these reads, too. While the process does nothing, quietCountNS replaces it.
const countEveryNS, manyCountEveryNS, quietCountNS = 100_000_000, 1_000_000_000, 1_000_000_000

// leastFetch is the shortest interval between two fetches of records, in ns.
const leastFetch = 20e6

// switchFeed is where a process's records come from: a *tracer.Feed, or a *movedFeed.
type switchFeed interface {
	Drain(emit func(*switches.Record)) error
	DrainStacks(emit func(*bpf.Stack)) error
	Counts() (tracer.Counts, error)
	Close() error
}

// switchRun is one run in which ddtop follows a process's GVL by thread switches while it samples the process.
type switchRun struct {
	source *Source
	// fromNS and toNS are when following began and ended, CLOCK_MONOTONIC in ns. Until it ends, toNS is zero.
	fromNS int64
	toNS   atomic.Int64
	// fedNS is the time up to which all changes were passed on. lookedNS is when records were last fetched. everyNS is
	// the interval at which they are fetched while no samples come. It is so short that records fill at most a quarter
	// of their buffer.
	fedNS, lookedNS, everyNS atomic.Int64
	// tooMany is true if ddtop has stopped following because there were too many records.
	tooMany    atomic.Bool
	quit, done chan struct{}

	// moves stores when each thread last had a CPU.
	moves lastMoves

	mu   sync.Mutex // guards the following fields
	feed switchFeed
	// moved is the source of the records if this is a *movedFeed. Otherwise it is nil.
	moved *movedFeed
	// programs is the source of the records if BPF programs make them. Otherwise it is nil.
	programs *tracer.Feed
	rules    *switches.Machine
	to       *exact.Machine
	changes  *exact.Collector
	stacks   *stacknames.Stacks
	works    *works.Works
	requests works.Requests
	// taken has the stacks that drain is taking from the ring, by thread and time.
	taken  map[instant]stacknames.Taken
	counts tracer.Counts
	exact.Witness
	// countedNS is when counts was read, and spanNS when spanCounts was read. busy is the share of a CPU that the
	// kernel spent on records in the last busySpanNS. rate is the number of records per second.
	countedNS, spanNS int64
	spanCounts        tracer.Counts
	busy, rate        float64
	load              pace.OwnLoad
	changed           uint64
	// gapFromNS and gapToNS enclose the time in which records were lost. filledNS is the time of the last sample that
	// got changes.
	gapFromNS, gapToNS, filledNS int64
	ended                        string
	err                          error
	closed                       bool
}

// again reports whether ddtop may follow the process again. It is called after following has ended because there were
// too many records.
func (x *switchRun) again(f *followAgain) bool {
	to, budget := x.toNS.Load(), x.source.budget
	if to == 0 || !x.tooMany.Load() {
		return false
	}
	if f.of != x {
		f.of = x
		f.Ended(to, to-x.fromNS)
	}
	var switches int64
	if slow := x.source.slowNow.Load(); slow != nil {
		switches = slow.Switches
	}
	return f.Is(pace.Monotonic(), switches, budget.Records.Room(budget.ForRecords()))
}

// on reports whether following has not ended.
func (x *switchRun) on() bool { return x.toNS.Load() == 0 }

// behind returns how long to wait until all changes up to the time ns are passed on, in ns. It returns zero if they
// have been passed on, or if they will never be.
func (x *switchRun) behind(ns int64) int64 {
	if to := x.toNS.Load(); to != 0 && ns > to || ns <= x.fedNS.Load() {
		return 0
	}
	return max(ns+switchBehindNS-pace.Monotonic(), 1)
}

// fill adds the changes of the GVL to the sample s. If told is false, fill instead drops the changes up to the time of
// s, and only notes s. Call it only if behind returns 0 for s.TimeNS.
func (x *switchRun) fill(s *sampler.Sample, list *exact.List, told bool) {
	if to := x.toNS.Load(); s.TimeNS <= x.fromNS || to != 0 && s.TimeNS > to {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.Saw(s, x.on(), x.fromNS)
	if s.TimeNS > x.gapFromNS && x.filledNS < x.gapToNS {
		told = false // some records were lost, so use only what samples show
	}
	x.filledNS = s.TimeNS
	if told {
		x.changes.Fill(s, list)
		return
	}
	skipped := sampler.Sample{TimeNS: s.TimeNS, Reads: s.Reads}
	x.changes.Fill(&skipped, nil)
}

// run fetches records while no samples come, until it is stopped or the process ends.
func (x *switchRun) run() {
	timer := time.NewTimer(leastFetch)
	defer timer.Stop()
	exited := x.source.proc.Exited()
	for over := false; !over; {
		select {
		case <-x.quit:
			over = true
		case <-exited:
			x.end("the process exited")
		case <-timer.C:
			every := time.Duration(x.everyNS.Load())
			if pace.Monotonic()-x.lookedNS.Load() >= int64(every)/2 {
				x.look()
			}
			if every = time.Duration(x.everyNS.Load()); every == watchEvery { // wake up at the same times as beside
				every = pace.UntilTurn(every, every/2)
			}
			timer.Reset(every)
		}
	}
	x.finish()
}

// look fetches records. It passes on the changes that are so old that no earlier change can still arrive. Any goroutine
// may call it.
func (x *switchRun) look() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	now := pace.Monotonic()
	x.lookedNS.Store(now)
	if err := x.drain(now); err != nil {
		x.err = err
		x.endAt(now, err.Error())
		return
	}
	until := now - switchBehindNS
	if x.moved != nil {
		until = min(until, x.moved.knownNS())
	}
	if to := x.toNS.Load(); to != 0 {
		until = min(until, to)
	}
	x.advance(until)
}

// whoMoved fetches records and returns two results. The first is a function that says when a thread last had a CPU. It
// is nil if the records do not show this. The second result has the threads that a sample must read to find their work:
// the threads in waiting, and those that have begun work. A movedFeed reads no frames, so it shows neither.
//
// Only the clock calls whoMoved. If another goroutine is fetching records, the clock does not wait for it, because that
// goroutine may have no CPU.
func (x *switchRun) whoMoved(waiting []ruby.Entered) (ruby.Moves, []ruby.Entered) {
	if x.moved != nil || !x.on() || !x.mu.TryLock() {
		return nil, waiting
	}
	defer x.mu.Unlock()
	now := pace.Monotonic()
	if x.closed || !x.on() || x.drain(now) != nil || now-x.gapToNS < lostNS {
		return nil, waiting // look handles errors
	}
	x.requests.Give()
	return x.moves.last, x.works.Take(waiting)
}

// findRequests finds requests that threads have begun. The clock calls it between two reads. Its CPU time is charged to
// a part of the budget that is only for this (routes). Fetching the records is charged to the part for reads between
// ticks (looks). So requests do not reduce the number of ticks.
func (x *switchRun) findRequests(cost *pace.Meter) {
	if s := x.source; x.requests.Waiting() {
		s.ticking.Lock()
		defer s.ticking.Unlock()
		s.looks.Spend(cost.Since())
		mayRead := func() bool { return s.routes.Allows(pace.Monotonic(), s.budget.BesideRecords()) }
		x.requests.Find(s.reader, s.dict, cost, mayRead, s.routes.Spend)
	}
}

// sampled notes which threads serve requests or jobs, according to a sample. The clock calls it.
func (x *switchRun) sampled(s *sampler.Sample) {
	if x.moved == nil && x.on() && x.mu.TryLock() {
		x.works.Saw(s)
		if err := x.requests.Place(x.source.reader, x.programs, x.works); err != nil && !x.closed {
			x.err = err // samples still find requests
		}
		x.mu.Unlock()
	}
}

// drain takes all records and stacks from the rings. It also reads the BPF programs' counters, but not in each call.
func (x *switchRun) drain(now int64) error {
	if since := now - x.countedNS; x.programs != nil && x.on() && since < quietCountNS {
		if x.programs.Quiet() {
			return nil
		}
		every := int64(countEveryNS)
		if x.source.sharers.Load() > manyRuns {
			every = manyCountEveryNS
		}
		if since < every {
			if err := x.take(now); err != nil || !x.programs.MayHaveLost() {
				return err
			}
		}
	}
	counts, err := x.feed.Counts() // losses after this reading show in the next one
	if err != nil {
		return err
	}
	if err := x.take(now); err != nil {
		return err
	}
	x.count(now, counts)
	return nil
}

// take takes all records and stacks from the ring.
func (x *switchRun) take(now int64) error {
	// Read stacks before records. A record is written before its stack, so the record of each stack read here is
	// already in the ring. A stack without a record can then be dropped.
	if err := x.feed.DrainStacks(func(s *bpf.Stack) { x.stacks.Take(x.source.reader, s, s.Running, now) }); err != nil {
		return err
	}
	clear(x.taken)
	if err := x.requests.Drain(x.programs); err != nil {
		return err
	}
	x.stacks.Each(func(s *stacknames.Taken) { x.taken[instant{s.TID, s.NS}] = *s })
	return x.feed.Drain(func(r *switches.Record) {
		if s, ok := x.taken[instant{r.TID, r.NS}]; ok {
			r.Stack = &stackOnItsWay{x, s}
		}
		if x.moved == nil {
			x.moves.note(r.TID, r.NS)
			x.works.Note(r)
			x.requests.Note(r, x.works)
			r.Name, r.Descriptor = kernel.CallName(r.Syscall)
		}
		x.rules.Feed(r)
	})
}

// count uses the programs' counters to compute what records cost, and how often they must be fetched.
func (x *switchRun) count(now int64, counts tracer.Counts) {
	if span := now - x.countedNS; span > 0 && x.countedNS != 0 {
		if x.moved == nil && x.on() {
			x.source.budget.Records.Add(&x.load, now, span, counts.Records-x.counts.Records, x.source.budget.ForRecords())
		}
		rate := float64(counts.Records-x.counts.Records) / float64(span)
		x.everyNS.Store(int64(min(max(float64(counts.Room)/4/max(rate, 1e-9), leastFetch), float64(watchEvery))))
	}
	x.countedNS = now
	if span := now - x.spanNS; span >= busySpanNS {
		if x.spanNS != 0 {
			x.busy = float64(counts.BusyNS-x.spanCounts.BusyNS) / float64(span)
			x.rate = float64(counts.Records-x.spanCounts.Records) / float64(span) * 1e9
		}
		x.spanNS, x.spanCounts = now, counts
	}
	if counts.Lost > x.counts.Lost {
		x.to.Lost(now)
		x.rules.Lost(now)
		if x.filledNS >= x.gapToNS {
			x.gapFromNS = x.fedNS.Load()
		}
		x.gapToNS = now
	}
	x.counts = counts
}

// advance passes on all changes of the GVL up to a time.
func (x *switchRun) advance(untilNS int64) {
	if untilNS = rounded(untilNS); untilNS <= x.fedNS.Load() {
		return
	}
	if untilNS = x.rules.Advance(untilNS); untilNS <= x.fedNS.Load() {
		return
	}
	x.fedNS.Store(untilNS)
	x.Compare(x.to, x.fromNS, untilNS)
	if x.on() {
		x.judge()
	}
}

// instant is a thread at a time.
type instant struct {
	tid int32
	ns  int64
}

// stackOnItsWay is the stack of a record. The clock has not found the stack's name yet.
type stackOnItsWay struct {
	run   *switchRun
	taken stacknames.Taken
}

// Ready reports whether the wait for the stack's name is over: the stack has a name, or has waited too long.
func (s *stackOnItsWay) Ready() bool {
	return s.taken.Unnamed == nil || s.run.stacks.Ready(s.taken.Unnamed, pace.Monotonic())
}

// Name returns the stack's name. It is zero if the target's code may have changed since the stack was named.
func (s *stackOnItsWay) Name() (stack, resumes sampler.StackID) {
	name := s.taken.Name
	if s.taken.Unnamed != nil {
		name = s.run.stacks.NameOf(s.taken.Unnamed)
	}
	if s.run.stacks.Void(&name) {
		return 0, 0
	}
	return name.ID, name.Resumes
}

// ring makes the next record wake the clock, so that the clock can sleep without checking for records. If this is not
// possible, ring returns false, and the clock must check.
func (x *switchRun) ring(sleep *pace.Sleeper, limit *pace.Bells) bool {
	if x.programs == nil || !sleep.Wakes() || fetching.is() || !x.mu.TryLock() {
		return false
	}
	defer x.mu.Unlock()
	if x.closed || !x.on() || !limit.Take(pace.Monotonic()) {
		return false
	}
	x.programs.Ring(sleep.Wake)
	return true
}

// still reports whether no thread has been on a CPU since the time sinceNS, according to the records that were fetched.
func (x *switchRun) still(sinceNS int64) bool {
	return x.on() && x.moved == nil && x.fromNS < sinceNS && x.moves.newest.Load() < sinceNS
}

// unnamed reports whether stacks wait for names.
func (x *switchRun) unnamed() bool { return x.stacks.Asked() }

// nameStacks names the stacks of records. Only the clock calls it, because only the clock may use the reader.
func (x *switchRun) nameStacks() {
	x.requests.WithoutClock(false)
	x.stacks.Give(x.source.reader, x.source.dict, pace.Monotonic())
}

// withoutClock lets changes be passed on without names of their stacks, until the clock names stacks again.
func (x *switchRun) withoutClock() {
	x.requests.WithoutClock(true)
	x.stacks.WithoutClock()
}

// judge ends following if the changes contradict samples, if following costs too much, or if there are several ractors.
func (x *switchRun) judge() {
	c := x.to.Checks()
	seen := c.Agreed + c.Disagreed
	switch {
	case x.Ractors:
		x.endAt(pace.Monotonic(), "the process has made ractors, and the threads of one alone can be followed")
	case x.busy > mostBusy && x.source.budget.Share != 0:
		x.tooMany.Store(true)
		x.endAt(pace.Monotonic(), fmt.Sprintf("its threads switch %.0f times a second, and to record that took the kernel %.0f %% of a CPU", x.rate, 100*x.busy))
	case x.source.budget.Records.Over(&x.load, x.source.budget.ForRecords()):
		x.tooMany.Store(true)
		x.endAt(pace.Monotonic(), fmt.Sprintf("its threads switch %.0f times a second, and to follow that takes more than --overhead allows", x.load.Rate()))
	case seen >= checkFrom && float64(c.Disagreed) > wrongFrom*float64(seen):
		x.endAt(pace.Monotonic(), fmt.Sprintf("what thread switches tell does not agree with what sampling sees (%d of %d times)", c.Disagreed, seen))
	}
}

// end ends following, unless it has ended.
func (x *switchRun) end(why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.endAt(pace.Monotonic(), why)
}

func (x *switchRun) endAt(now int64, why string) {
	if !x.on() {
		return
	}
	x.ended = why
	x.source.budget.Records.Leave(&x.load)
	x.toNS.Store(now)
	fetching.leave(x)
	wakeClock(x.source) // without records, the clock must sample more often
	close(x.quit)
}

// finish passes on the changes that are left, and removes the programs from the kernel.
func (x *switchRun) finish() {
	defer close(x.done)
	x.mu.Lock()
	defer x.mu.Unlock()
	to := x.toNS.Load()
	x.stacks.End()
	x.requests.WithoutClock(true)
	x.err = errors.Join(x.err, x.drain(to))
	x.advance(to)
	if err := x.feed.Close(); err != nil {
		x.err = errors.Join(x.err, fmt.Errorf("process %d: leaving its thread switches: %w", x.source.proc.PID(), err))
	}
	x.fedNS.Store(math.MaxInt64)
	x.closed = true
}

// close ends following and waits for finish. It then returns the report.
func (x *switchRun) close() (SwitchReport, error) {
	x.end("")
	<-x.done
	x.mu.Lock()
	defer x.mu.Unlock()
	return SwitchReport{
		FromNS: x.fromNS, ToNS: x.toNS.Load(), Records: x.counts.Records, Lost: x.counts.Lost, Failed: x.counts.Failed,
		BusyNS: x.counts.BusyNS, Checks: x.to.Checks(), Ended: x.ended,
	}, x.err
}

// stop does the same as close, without the report.
func (x *switchRun) stop() error {
	_, err := x.close()
	return err
}

// status says whether and how the process is followed, for SwitchStatus.
func (x *switchRun) status() sampler.SwitchStatus {
	x.mu.Lock()
	defer x.mu.Unlock()
	return sampler.SwitchStatus{
		On: x.on(), SinceNS: x.fromNS, Ended: x.ended,
		Records: x.counts.Records, Lost: x.counts.Lost, Failed: x.counts.Failed, BusyNS: x.counts.BusyNS,
	}
}
