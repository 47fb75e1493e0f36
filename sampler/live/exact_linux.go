package live

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/exact/probe"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/live/internal/stacknames"
)

const (
	// watchEvery is how often records are fetched while no samples are taken. narrowEvery is how often ddtop searches
	// for probes that never make a record.
	watchEvery, narrowEvery = time.Second, 100 * time.Millisecond
	// exactBehindNS is how old a record must be before it is used, in ns. Until then an earlier record may still come,
	// because a thread can lose its CPU before it writes its record.
	exactBehindNS = 5_000_000
	// costEveryNS is the shortest interval between two checks of the cost, in ns. A check covers at least the last
	// costSpanNS, but at most the time of the last maxSpans checks.
	costEveryNS, costSpanNS, maxSpans = 200_000_000, 1_000_000_000, 8
	// freeCost is the share of a CPU that the probes may cost in any case. In a mostly idle process each hit is
	// expensive, because the thread must first be woken.
	freeCost = 0.001
	// checkFrom is the number of holds of the GVL that a check needs. wrongFrom is the largest allowed share of sampled
	// holds that disagree with the records. unclosedFrom is the largest allowed share of holds without an end. Beyond
	// these limits the records are not reliable. On a full machine some holds always disagree, because a thread lost
	// its CPU just before it made its record.
	checkFrom, wrongFrom, unclosedFrom = 100, 0.5, 0.1
	// movesProve is how many changes of the GVL's holder must be seen in samples without any record, to prove that
	// records are missing. A single change is no proof, because a sample may show it before its record is made.
	movesProve = 3
	// doubtFrom is the number of holds from which a check can raise doubts. If wrongFrom or unclosedFrom is exceeded,
	// samples get no changes of the GVL. From checkFrom holds on, exact mode ends.
	doubtFrom = 10
)

// exactRun is one run of exact mode: it follows the GVL of a process by probes, while the process is sampled.
type exactRun struct {
	source *Source
	clock  int32 // the kernel's clock ID for the process's CPU time
	max    float64
	// fromNS and toNS are when exact mode began and ended, CLOCK_MONOTONIC in ns. Until it ends, toNS is zero.
	fromNS int64
	toNS   atomic.Int64
	// fedNS is the time up to which records were turned into changes. lookedNS is when records were last fetched. Both
	// are CLOCK_MONOTONIC in ns.
	fedNS, lookedNS atomic.Int64

	quit chan struct{} // closed when toNS is set
	done chan struct{} // closed when the probes are removed

	mu     sync.Mutex // guards the following fields
	probes *probe.Probes
	to     *exact.Machine
	// changes collects the changes of the GVL until they are added to samples. changed counts them.
	changes *exact.Collector
	changed uint64
	report  ExactReport
	// withTarget is true if this run of exact mode ended because the target ended.
	withTarget bool
	err        error
	closed     bool
	// pending are records that are not used yet, because an earlier record may still come, or because their stack has
	// no name yet.
	pending []pendingRecord
	stacks  *stacknames.Stacks
	counts  probe.Counts
	lostNS  int64 // the last time when records were lost; zero if forgetGone has run since
	// lossNS is the start of the last period in which records were lost, or zero. drainedNS is when records were last
	// taken. Both are CLOCK_MONOTONIC in ns.
	lossNS, drainedNS int64
	beganNS           int64 // CPU time of the process at the start
	spans             []costSpan
	exact.Witness
}

// pendingRecord is a record that is not used yet. If it ends a wait for the GVL, stack is the wait's unnamed stack.
type pendingRecord struct {
	exact.Record
	stack *stacknames.Unnamed
}

// costSpan has two counters at the time atNS, in ns: what the probes have cost, and how much CPU time the process has
// used.
type costSpan struct{ atNS, costNS, cpuNS int64 }

// cpuClock returns the ID of the clock for a process's CPU time (clock_getcpuclockid(3)).
func cpuClock(pid int) int32 { return int32(^pid<<3 | 2) }

// cpu returns the CPU time that the process has used, in ns.
func (x *exactRun) cpu() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(x.clock, &ts); err != nil {
		return 0, fmt.Errorf("reading the CPU time of process %d: %w", x.source.proc.PID(), err)
	}
	return ts.Nano(), nil
}

// on reports whether the run has not ended.
func (x *exactRun) on() bool { return x.toNS.Load() == 0 }

// behind returns how long it takes, in ns, until all records up to the time ns are used. It is 0 if they are already
// used, or if they never will be.
func (x *exactRun) behind(ns int64) int64 {
	if to := x.toNS.Load(); to != 0 && ns > to || ns <= x.fedNS.Load() {
		return 0
	}
	return max(ns+exactBehindNS-pace.Monotonic(), 1)
}

// fill adds the changes of the GVL to s. If s shows which thread holds the GVL, fill remembers this, to compare it with
// the records. Call it only after behind has returned 0 for s.TimeNS.
func (x *exactRun) fill(s *sampler.Sample, list *exact.List) {
	if to := x.toNS.Load(); s.TimeNS <= x.fromNS || to != 0 && s.TimeNS > to {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.report.Wrong {
		return
	}
	if x.fits(doubtFrom) && !x.movedUnseen(1) && !x.doubtfulEnd(s.TimeNS) {
		x.changes.Fill(s, list)
	} else {
		x.changes.Fill(s, nil)
	}
	x.Saw(s, x.on(), x.fromNS)
}

// lossEndNS is the length of the last part of a run, in ns. If records are lost in this part, all changes after the
// loss are doubtful.
const lossEndNS = 1_000_000_000

// doubtfulEnd reports whether changes at the time ns may be wrong, because records were lost shortly before the run
// ended. After an earlier loss, the next change of each thread is marked as doubtful. At the end of a run, some threads
// have no next change.
func (x *exactRun) doubtfulEnd(ns int64) bool {
	return x.closed && x.lossNS != 0 && x.lossNS > x.report.ToNS-lossEndNS && ns > x.lossNS
}

// run fetches records, even while no samples are taken, until it is stopped or the process ends. Then it removes the
// probes.
func (x *exactRun) run() {
	tick := time.NewTicker(narrowEvery)
	defer tick.Stop()
	exited := x.source.proc.Exited()
	for ended := false; !ended; {
		select {
		case <-x.quit:
			ended = true
		case <-exited:
			x.end("the process exited")
		case <-tick.C:
			if x.narrow(); pace.Monotonic()-x.lookedNS.Load() >= int64(watchEvery) {
				x.look()
			}
		}
	}
	x.finish()
}

// narrow removes the probes of calls that never make a record. If a record is missing, it inserts all probes again. On
// a full machine this can take seconds. So it does not hold mu, and other goroutines can fetch records meanwhile.
func (x *exactRun) narrow() {
	x.mu.Lock()
	missing := x.to.Checks().Unclosed > 0 && x.counts.Lost == 0
	x.mu.Unlock()
	x.probes.Narrow(missing)
}

// look fetches records, uses those older than exactBehindNS, and checks the limits. Any goroutine may call it.
func (x *exactRun) look() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	now := pace.Monotonic()
	x.lookedNS.Store(now)
	if err := x.drain(now); err != nil {
		x.err = err
		x.endAt(now, err.Error(), true)
		return
	}
	until := now - exactBehindNS
	if to := x.toNS.Load(); to != 0 {
		until = min(until, to)
	}
	x.feed(until)
	if x.on() {
		x.limit(now)
	}
}

func (x *exactRun) drain(now int64) error {
	// Read the stacks before the records. A BPF program writes a record before its stack. So every stack that was read
	// has its record among those that are read next.
	if err := x.probes.DrainStacks(func(s *probe.Stack) { x.stacks.Take(x.source.reader, s, false, now) }); err != nil {
		return err
	}
	if err := x.probes.Drain(func(r *exact.Record) { x.pending = append(x.pending, pendingRecord{Record: *r}) }); err != nil {
		return err
	}
	x.stacks.Each(x.stacked)
	counts, err := x.probes.Counts()
	if err != nil {
		return err
	}
	if counts.Lost > x.counts.Lost {
		x.to.Lost(now)
		x.lossNS, x.lostNS = max(x.drainedNS, x.fromNS), now
	}
	x.counts, x.drainedNS = counts, now
	return nil
}

// stacked adds a stack to its record, which is one of the newest in pending. If the record was lost, it drops the
// stack.
func (x *exactRun) stacked(s *stacknames.Taken) {
	for i := len(x.pending) - 1; i >= 0 && x.pending[i].NS >= s.NS-exactBehindNS; i-- {
		if r := &x.pending[i]; r.NS == s.NS && r.TID == s.TID && r.Kind == exact.Unlocked {
			r.Stack, r.Resumes, r.stack = s.Name.ID, s.Name.Resumes, s.Unnamed
			return
		}
	}
}

// feed turns records up to a time into changes. It stops before the first record whose stack has no name yet.
func (x *exactRun) feed(untilNS int64) {
	untilNS = rounded(untilNS)
	byTime := func(a, b pendingRecord) int { return cmp.Compare(a.NS, b.NS) }
	if !slices.IsSortedFunc(x.pending, byTime) {
		slices.SortStableFunc(x.pending, byTime)
	}
	n, now := 0, pace.Monotonic()
	for ; n < len(x.pending) && x.pending[n].NS <= untilNS; n++ {
		r := &x.pending[n]
		if r.stack == nil {
			continue
		}
		if len(x.pending)-n < maxHeld && !x.stacks.Ready(r.stack, now) {
			untilNS = rounded(r.NS) - changeUnit
			break
		}
		name := x.stacks.NameOf(r.stack)
		r.Stack, r.Resumes, r.stack = name.ID, name.Resumes, nil
	}
	if untilNS <= x.fedNS.Load() {
		return
	}
	for n = 0; n < len(x.pending) && x.pending[n].NS <= untilNS; n++ {
		r := &x.pending[n].Record
		r.NS, r.DelayNS = rounded(r.NS), rounded(r.DelayNS)
		x.to.Feed(r)
	}
	x.pending = slices.Delete(x.pending, 0, n)
	// if an older record still arrives, it gets the time of the next unit
	x.to.Passed(rounded(untilNS) + changeUnit - 1)
	x.fedNS.Store(untilNS)
	x.Compare(x.to, x.fromNS, untilNS)
	if x.lostNS != 0 && x.lostNS <= untilNS {
		x.forgetGone(untilNS + changeUnit)
	}
}

// forgetGone ends threads whose last record was lost. Otherwise they would keep their last state for ever.
func (x *exactRun) forgetGone(atNS int64) {
	x.lostNS = 0
	tids, err := x.source.proc.TIDs(nil)
	if err != nil {
		return // the process has ended
	}
	x.to.Gone(atNS, func(tid int32) bool {
		_, there := slices.BinarySearch(tids, tid)
		return there
	})
}

// changeUnit is the unit of the times of changes, in ns (sampler.Change).
const changeUnit = 100

// rounded rounds a time down to changeUnit. Two records of a thread are further apart than changeUnit, so they stay in
// order.
func rounded(ns int64) int64 { return ns - ns%changeUnit }

// fits reports whether the records agree with each other and with samples. The parameter turns is the number of holds
// that a check needs. With fewer holds, fits returns true.
func (x *exactRun) fits(turns uint64) bool {
	c := x.to.Checks()
	seen := c.Agreed + c.Disagreed
	return (seen < turns || float64(c.Disagreed) <= wrongFrom*float64(seen)) && (c.Runs < turns || float64(c.Unclosed) <= unclosedFrom*float64(c.Runs))
}

// movedUnseen reports whether samples saw the GVL's holder change at least the given number of times, although there is
// no record.
func (x *exactRun) movedUnseen(times int) bool {
	return x.Moved >= times && x.to.Checks().Records == 0 && x.counts.Lost == 0
}

// limit ends exact mode if records are wrong, the probes cost too much, or the process has several ractors.
func (x *exactRun) limit(now int64) {
	if x.Ractors {
		x.endAt(now, "the process has made ractors, and the threads of one alone can be followed", false)
		return
	}
	if x.movedUnseen(movesProve) {
		x.endAt(now, fmt.Sprintf("no thread came past a probe while sampling saw the GVL change hands %d times", x.Moved), true)
		return
	}
	if !x.fits(checkFrom) {
		c := x.to.Checks()
		x.endAt(now, fmt.Sprintf("what the probes record does not agree with what sampling sees (%d of %d times, %d of %d turns without an end)",
			c.Disagreed, c.Agreed+c.Disagreed, c.Unclosed, c.Runs), true)
		return
	}
	if n := len(x.spans); n > 0 && now-x.spans[n-1].atNS < costEveryNS {
		return
	}
	cpu, err := x.cpu()
	if err != nil {
		return // the process has ended
	}
	x.spans = append(x.spans, costSpan{now, x.probes.CostNS(x.counts), cpu})
	for len(x.spans) > maxSpans || len(x.spans) > 1 && x.spans[1].atNS <= now-costSpanNS {
		x.spans = slices.Delete(x.spans, 0, 1)
	}
	span, cost, own := x.cost()
	most := x.max
	if now < x.source.exact.moreNS.Load() {
		most = max(most, sampler.MoreExactCost)
	}
	if most < 1 && span >= costSpanNS && float64(cost) > max(most*float64(own), freeCost*float64(span)) {
		x.endAt(now, fmt.Sprintf("it cost the process %s of its CPU time, and may cost %g %% (--exact-cost)", exact.CostText(cost, own), 100*most), false)
	}
}

// cost returns the length of the last spans, what the probes cost in them, and the process's other CPU time, in ns.
func (x *exactRun) cost() (span, cost, own int64) {
	if len(x.spans) == 0 {
		return 0, 0, 0
	}
	a, b := x.spans[0], x.spans[len(x.spans)-1]
	cost = b.costNS - a.costNS
	return b.atNS - a.atNS, cost, max(b.cpuNS-a.cpuNS-cost, 0)
}

// end ends exact mode because the process has ended. It does nothing if exact mode has already ended.
func (x *exactRun) end(why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.withTarget = x.withTarget || x.on()
	x.endAt(pace.Monotonic(), why, false)
}

// endAt ends the run, unless it has already ended. Records that are made later are not used, because they are
// incomplete. run then removes the probes.
func (x *exactRun) endAt(now int64, why string, wrong bool) {
	if !x.on() {
		return
	}
	x.report.ToNS, x.report.Ended, x.report.Wrong = now, why, wrong
	x.toNS.Store(now)
	x.err = errors.Join(x.err, x.probes.Stop())
	close(x.quit)
}

// finish removes the probes, which takes some tenths of a second. It then uses the remaining records.
func (x *exactRun) finish() {
	defer close(x.done)
	detached := x.probes.Detach()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stacks.End()
	r := &x.report
	errs := []error{x.err, detached, x.drain(r.ToNS)}
	x.feed(r.ToNS)
	if x.lostNS != 0 {
		x.forgetGone(rounded(r.ToNS))
	}
	if cpu, err := x.cpu(); err == nil {
		r.CPUNS = cpu - x.beganNS
	} else if n := len(x.spans); n > 0 { // the process has ended
		r.CPUNS = x.spans[n-1].cpuNS - x.beganNS
	}
	r.Hits, r.Lost = x.counts.Hits, x.counts.Lost
	r.CostNS, r.HitNS = x.probes.CostNS(x.counts), x.probes.HitNS
	r.Checks = x.to.Checks()
	x.err = errors.Join(append(errs, x.probes.Close())...)
	x.fedNS.Store(math.MaxInt64)
	x.closed = true
}

func (x *exactRun) status() sampler.ExactStatus {
	x.mu.Lock()
	defer x.mu.Unlock()
	st := sampler.ExactStatus{
		On: x.on(), SinceNS: x.fromNS, Ended: x.report.Ended, Wrong: x.report.Wrong, WithTarget: x.withTarget,
		Hits: x.counts.Hits, Changes: x.changed, Lost: x.counts.Lost,
	}
	if _, cost, own := x.cost(); st.On && own > 0 {
		st.CostShare = float64(cost) / float64(own)
	}
	return st
}

// close removes the probes if the process still has them, and returns the report of this run of exact mode.
func (x *exactRun) close() (ExactReport, error) {
	x.mu.Lock()
	x.endAt(pace.Monotonic(), "", false)
	x.mu.Unlock()
	<-x.done
	return x.report, x.err
}

// stop does the same as close, without the report.
func (x *exactRun) stop() error {
	_, err := x.close()
	return err
}

// nameStacks names the stacks of waits for the GVL. Only the clock may call it, because it uses the clock's reader.
func (x *exactRun) nameStacks() { x.stacks.Give(x.source.reader, x.source.dict, pace.Monotonic()) }

// withoutClock allows the use of records whose stacks have no name. It is for the time after the clock has ended,
// because only the clock names stacks. The permission ends when the clock names stacks again.
func (x *exactRun) withoutClock() { x.stacks.WithoutClock() }

// maxHeld limits how many records wait until a stack has its name. A sample has no room for the changes of more
// records.
const maxHeld = 1 << 13
