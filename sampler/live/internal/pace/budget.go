package pace

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// Times and shares of the budget. Times are in ns. Shares are of the budget unless the comment says otherwise.
const (
	// burstNS limits how much unused budget is saved for later, as the budget of this many ns. The savings pay for an
	// expensive tick, so that no gap in the ticks follows it.
	burstNS = 500_000_000
	// tuneNS is the interval at which the rates are decided, in ns. Between two decisions the rates are constant. So
	// the time of the next tick does not depend on what the last tick found (docs/reference/states.md#rates-that-fall).
	tuneNS = 100_000_000
	// holdNS limits how long all ticks must wait, in ns. They wait if the budget is overdrawn by more than burstNS.
	holdNS = 100_000_000
	// besideTauNS is the time constant, in ns, of a mean: the CPU time that ddtop uses for everything but the ticks.
	// This time reduces the budget of the ticks, but by at most besideShare of the usual budget. Otherwise drawing a
	// large screen could end the sampling.
	besideTauNS = 2e9
	besideShare = 0.5
	// startNS is how long after its first tick ddtop may still do work that happens only once, in ns: load programs,
	// and read tables of symbols. Until then Budget.beside counts as at most besideShare of the usual budget.
	startNS = 10_000_000_000
	// leastGive is the least part of its income that ddtop spends on ticks while the budget is overdrawn. The other
	// part pays the debt.
	leastGive = 0.25
	// rise is the largest factor by which a rate rises in tuneNS: 5 % every 0.1 s doubles a rate in 1.4 s. If more than
	// tuneNS passes between two decisions, the factor is larger, up to mostRise. A change of a rate by a factor below
	// steady is ignored.
	rise, mostRise = 1.05, 2
	steady         = 1.07
	// mostStretch is the largest factor by which intervals get longer. It is large enough to lower the highest rate of
	// stacks below leastStackHz. The factor must have a limit, because an infinite factor could never shrink again.
	mostStretch = 1000
	// jump and jumpTicks decide when a new cost of ticks replaces the usual one at once. This needs at least jumpTicks
	// ticks in one tuneNS, with a mean cost of more than jump times the usual one.
	jump, jumpTicks = 2, 8
	// costTauNS is the time constant, in ns, of the mean cost of a tick. The mean is over at least leastTicks and at
	// most mostTicks ticks.
	costTauNS             = 2e9
	leastTicks, mostTicks = 8, 256
	// leastLockHz and leastStackHz are the lowest rates of a Source, in Hz, whatever a tick costs. A Source samples one
	// process. At leastLockHz two lock ticks are never more than 0.6 s apart, jitter included. If they were 1 s apart,
	// the states in between would count as unknown (stream.Reach).
	leastLockHz, leastStackHz = 2.5, 0.2
	// leastExactHz is the lowest rate of lock ticks, in Hz, of a Source that knows all changes of the GVL without
	// ticks. Its ticks only read counters, and pass the changes on. Two of them are never more than 0.9 s apart, with a
	// jitter of a quarter. leastFleetHz is the rate if more than fewExact such Sources run. In this case two ticks are
	// never more than 2.5 s apart. The states in between are known in any case (stream.Stream).
	leastExactHz, leastFleetHz, fewExact = 1.4, 0.5, 8
	// enoughShare decides when a budget above the usual limit ends. It ends when figures of the least quality need less
	// than this part of the usual limit.
	enoughShare = 0.8
	// recordsPart limits what records of thread switches may cost, as a part of all that ddtop may use. leastBeside is
	// the part that other readings always keep.
	recordsPart, leastBeside = 0.5, 0.25
)

// Budget keeps ddtop's CPU time below a share of one CPU by lowering the rates of ticks. The Sources of a Group share
// one Budget, because the limit applies to all of ddtop. Its decisions depend only on its inputs.
//
// The CPU time is halved twice. The first division is between awake and idle Sources. The second is between lock ticks
// and the additional work of stack ticks. If one half is not used up, the other side may use what is left. Idle Sources
// have a slow clock.
type Budget struct {
	// Share is the share of one CPU that ddtop may use. Zero means no limit.
	Share float64
	// tuneAtNS is when the rates are decided next. It is never moved to an earlier time.
	tuneAtNS atomic.Int64

	mu sync.Mutex
	// stackHz and lockHz are the requested rates of each Source. awake is the number of Sources with these rates, and
	// idle the number of Sources with a slow clock. exact is the number of Sources in exact mode, whose ticks all come
	// at the stack rate. serving is the number of Sources, awake or idle, that were seen to serve requests or jobs.
	stackHz, lockHz             float64
	awake, idle, exact, serving int
	stretch                     stretch
	// held is true if the budget was overdrawn, and less than half a burst has been saved since.
	held bool
	// levelNS is the saved CPU time, or negative if the budget is overdrawn. levelAtNS is when it was last updated.
	levelNS   float64
	levelAtNS int64
	lock      tickCost
	stack     tickCost
	// ticksNS is the CPU time of all ticks so far. tunedNS is when the rates were last decided. tunedTicksNS and ownNS
	// are the CPU times, at that moment, of all ticks and of all of ddtop.
	ticksNS, tunedTicksNS, ownNS, tunedNS int64
	// startedNS is the time of the end of the first tick.
	startedNS int64
	// beside is the CPU time of everything but the ticks, as a share of a CPU. tunes counts its measurements.
	beside, tunes float64
	full          fullness
	// Records is the cost of records of thread switches.
	Records RecordLoad

	// mostShare is the share of one CPU that ddtop may use at most, so that figures have their least quality. They are
	// the figures of the period window. If mostShare is zero, ddtop must not use more than the usual share.
	mostShare float64
	window    time.Duration
	// kinds is the number of kinds of figures that can have their least quality. It counts them in the order of
	// sampler.Figure.
	kinds sampler.Figure
	// needs is the share of one CPU that is necessary for the least quality of figures. If it is above the usual limit,
	// it replaces this limit, and extended is true.
	needs    float64
	extended bool
	// moreShare replaces a lower limit until moreNS.
	moreShare float64
	moreNS    int64
}

// The fields are factors of at least 1: how much longer intervals are than requested. The factor idle applies to the
// intervals of slow clocks, which it makes even longer.
type stretch struct{ stack, lock, idle float64 }

type tickCost struct {
	// mean is the mean cost of a tick, in ns, over the last ticks. The field over says how many ticks these are. While
	// there were fewer ticks, n is their number.
	mean    float64
	n, over int
	// sum is the total cost of the ticks since the rates were decided. The field of is their number.
	sum float64
	of  int
}

func (c *tickCost) add(ns float64) {
	c.n = min(c.n+1, max(c.over, leastTicks))
	c.mean += (ns - c.mean) / float64(c.n)
	c.sum, c.of = c.sum+ns, c.of+1
}

// settle ends the period between two decisions of the rates. If the cost of ticks has risen abruptly in this period,
// the period's mean becomes the new mean.
func (c *tickCost) settle() {
	if c.of >= jumpTicks {
		if lately := c.sum / float64(c.of); lately > jump*c.mean {
			c.mean = lately
		}
	}
	c.over = min(max(int(float64(c.of)*costTauNS/tuneNS), leastTicks), mostTicks)
	c.sum, c.of = 0, 0
}

// NewBudget returns a budget of a share of one CPU.
func NewBudget(share float64) *Budget {
	return &Budget{Share: share, stretch: stretch{1, 1, 1}, kinds: sampler.NumFigures}
}

// Ask sets the requested rates of each Source, in Hz.
func (b *Budget) Ask(stackHz, lockHz float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stackHz, b.lockHz = stackHz, lockHz
}

// Count adds to the number of awake Sources and of idle Sources. Negative numbers subtract.
func (b *Budget) Count(awake, idle int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.awake += awake
	b.idle += idle
}

// CountExact counts a Source in exact mode, whose ticks all come at the stack rate. If begins is false, the Source
// ends or leaves this mode.
func (b *Budget) CountExact(begins bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if begins {
		b.exact++
	} else {
		b.exact--
	}
}

// CountServing counts a Source that was seen to serve requests or jobs. If begins is false, the Source has ended.
func (b *Budget) CountServing(begins bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if begins {
		b.serving++
	} else {
		b.serving--
	}
}

// LockAnew forgets the cost of lock ticks. Call it when lock ticks begin to read different data, which has another
// cost.
func (b *Budget) LockAnew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lock = tickCost{}
	b.stretch.lock = 1
}

// Extend sets the share of one CPU that ddtop may use at most, so that the figures of the period window have their
// least quality. ddtop uses more than the usual share only if necessary.
func (b *Budget) Extend(most float64, window time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mostShare, b.window = most, window
}

// leastRates returns the rates of lock ticks and of stack ticks that are necessary for figures of the least quality. It
// counts only the first kinds of figures, as many as kinds says. The rates are the mean of the awake Sources. They are
// zero if the usual limit must not be exceeded. A Source that serves no requests needs nothing for figures of requests.
func (b *Budget) leastRates(kinds sampler.Figure) (lockHz, stackHz float64) {
	if b.mostShare == 0 {
		return 0, 0
	}
	e, serving := b.part(b.exact), b.part(b.serving)
	others := min(kinds, sampler.FigureRequests)
	rates := func(exact bool) (lockHz, stackHz float64) {
		lock, stack := sampler.LeastRates(b.window, exact, kinds)
		otherLock, otherStack := sampler.LeastRates(b.window, exact, others)
		return serving*lock + (1-serving)*otherLock, serving*stack + (1-serving)*otherStack
	}
	lock, stack := rates(false)
	exactLock, _ := rates(true)
	if b.fleet() {
		exactLock = min(exactLock, stack)
	}
	return min((1-e)*lock+e*exactLock, b.lockRate()), min(stack, b.stackHz)
}

// part returns n as a part of the number of awake Sources, at most 1.
func (b *Budget) part(n int) float64 { return min(float64(n)/float64(max(b.awake, 1)), 1) }

// fleet reports whether more than fewExact Sources know all changes of the GVL without ticks. In this case all their
// ticks read stacks, because a tick that reads only counters costs nearly as much.
func (b *Budget) fleet() bool { return b.exact > fewExact }

// lockRate returns the requested rate of lock ticks, in Hz, as a mean of the awake Sources.
func (b *Budget) lockRate() float64 {
	e := b.part(b.exact)
	return (1-e)*b.lockHz + e*min(b.lockHz, b.stackHz)
}

// usual returns the share of a CPU that ddtop may use without special permission (TakeMore, Extend). It is half of the
// requested share if no CPU is free.
func (b *Budget) usual() float64 {
	if b.full.is {
		return b.Share / 2
	}
	return b.Share
}

func (b *Budget) limit() float64 {
	limit := max(b.usual(), b.moreShare)
	if b.extended {
		return max(limit, min(b.needs, b.mostShare))
	}
	return limit
}

// TakeMore lets ddtop take the given share of one CPU until the given time, if its limit is lower. If there is no
// limit, TakeMore has no effect.
func (b *Budget) TakeMore(share float64, until int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moreShare, b.moreNS = share, until
}

// InForce returns the share of a CPU that ddtop may use now. It is the requested share, or more if more is allowed.
// Zero means no limit.
func (b *Budget) InForce() float64 {
	if b.Share == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.Share, b.limit())
}

// ForRecords returns the share of a CPU that records of thread switches may cost. It is the part recordsPart of the
// largest share that ddtop may use. Zero means no limit.
func (b *Budget) ForRecords() float64 {
	if b.Share == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return recordsPart * max(b.Share, b.limit(), b.mostShare)
}

// BesideRecords returns the share of a CPU for readings between ticks. It is InForce, unless records leave less of the
// largest allowed share. It is at least the part leastBeside of InForce. Zero means no limit.
func (b *Budget) BesideRecords() float64 {
	share, most := b.InForce(), b.ForRecords()/recordsPart
	_, rate := b.Records.Now()
	return max(min(share, most-rate*recordNS/1e9), leastBeside*share)
}

// Says reports two facts for the user: whether half of the budget is in force, and whether rates are lower than
// requested.
func (b *Budget) Says() (halved, lowered bool) {
	if b.Share == 0 {
		return false, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.full.is, b.held || b.stretch.lock > 1 || b.stretch.stack > 1 || b.stretch.idle > 1
}

// TakesMore reports whether ddtop takes more than the usual share, so that figures have their least quality.
func (b *Budget) TakesMore() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.extended
}

// Pace sets a clock's intervals from the requested ones, within the budget.
func (b *Budget) Pace(c *Clock, stackNS, lockNS float64) {
	now, fleet := stretch{1, 1, 1}, false
	if b.Share != 0 {
		b.mu.Lock()
		now, fleet = b.stretch, c.Exact && b.fleet()
		b.mu.Unlock()
	}
	longer := func(ns, by, least float64) float64 { return max(ns, min(ns*by, 1e9/least)) }
	leastLock := leastLockHz
	switch {
	case fleet:
		leastLock = leastFleetHz
	case c.Exact:
		leastLock = leastExactHz
	}
	c.lockNS = longer(lockNS, now.lock, leastLock)
	c.stackNS = max(longer(stackNS, now.stack, leastStackHz), c.lockNS)
	if c.allStacks = fleet; fleet {
		c.lockNS = longer(c.lockNS, c.stackNS/c.lockNS, leastLock)
	}
	c.slowLockNS = longer(max(lockNS, slowIntervalNS), now.idle, leastLock)
	c.slowStackNS = longer(max(stackNS, 2*slowIntervalNS), now.idle, leastStackHz)
}

// Spent adds the CPU time of an ended tick. It returns the time until which all ticks must wait, and the time until
// which ticks that read stacks must wait. The parameter last is the cost of the Source's last reading of stacks, which
// may be this tick. The Source's next reading does not wait for this cost, but the reading after that does. Otherwise a
// longer interval would follow an expensive reading, and its states would be counted for too long
// (docs/reference/states.md#rates-that-fall). The function own returns the CPU time of all of ddtop. Spent calls it
// when the rates are decided.
func (b *Budget) Spent(depth sampler.Depth, ns, last, now int64, own func() int64) (all, stacks int64) {
	if b.Share == 0 {
		return 0, 0
	}
	var ownNS int64
	if now >= b.tuneAtNS.Load() {
		ownNS = own() // own asks the kernel, so call it without the lock
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ticksNS += ns
	if b.tunedNS == 0 {
		// The CPU time before the first tick was for attaching to the process, so the budget does not pay for it.
		b.startedNS, b.tunedNS, b.levelAtNS, b.ownNS, b.tunedTicksNS = now, now, now, ownNS, b.ticksNS
		b.tuneAtNS.Store(now + tuneNS)
		b.levelNS = b.most()
		return 0, 0
	}
	if depth == sampler.StackTick {
		b.stack.add(float64(ns))
	} else {
		b.lock.add(float64(ns))
	}
	if b.moreShare > 0 && now >= b.moreNS {
		b.moreShare = 0
	}
	income := b.income()
	if d := now - b.levelAtNS; d > 0 {
		b.levelNS, b.levelAtNS = min(b.levelNS+income*float64(d), b.most()), now
	}
	// Limit the debt to what the longest interval between stacks earns. Ticks at the lowest rates can cost more than
	// the income. Without the limit, this debt would grow and delay later ticks, when they are cheap again.
	b.levelNS = max(b.levelNS-float64(ns), -income*1e9/leastStackHz)
	if now >= b.tuneAtNS.Load() { // then own was called above
		b.tune(now, ownNS)
	}
	if debt := -b.levelNS - float64(last); debt > 0 {
		stacks = now + int64(min(debt/income, 1e9/leastStackHz))
	}
	if debt := -b.levelNS - b.most(); debt > 0 {
		all = now + int64(min(debt/income, holdNS))
	}
	return all, stacks
}

// most returns the largest CPU time that is saved, in ns.
func (b *Budget) most() float64 { return b.limit() * burstNS }

// income returns the share of a CPU that ticks may use.
func (b *Budget) income() float64 { return b.forTicks(b.limit()) }

// forTicks returns the part of a limit that ticks may use: what ddtop's other work leaves. If the limit is above the
// usual one, it must also pay for everything that more ticks cause, such as handing on their samples. Otherwise ddtop
// would take more than the limit.
func (b *Budget) forTicks(limit float64) float64 {
	return max(limit-b.beside, (1-besideShare)*min(b.usual(), limit))
}

// least returns the shares of a CPU that lock ticks, and the stacks of stack ticks, need for figures of the least
// quality. Some kinds of figures would be below this quality even with the largest allowed share. least leaves these
// out, so that ddtop does not spend CPU time on figures that it cannot show. lock and stack are the CPU times of a tick
// and of its stacks, in seconds.
func (b *Budget) least(lock, stack float64) (leastLock, leastStack float64) {
	most := sampler.QualityMargin * b.forTicks(b.mostShare)
	before := b.kinds
	for b.kinds = sampler.NumFigures; ; b.kinds-- {
		lockHz, stackHz := b.leastRates(b.kinds)
		leastLock, leastStack = float64(b.awake)*lockHz*lock, float64(b.awake)*stackHz*stack
		enough := most
		if b.kinds > before {
			enough *= enoughShare
		}
		if leastLock+leastStack <= enough || b.kinds == 0 {
			return leastLock, leastStack
		}
	}
}

func (b *Budget) tune(now, own int64) {
	d := float64(now - b.tunedNS)
	beside := max(float64(own-b.ownNS-(b.ticksNS-b.tunedTicksNS)), 0) / d
	if now-b.startedNS < startNS {
		beside = min(beside, besideShare*b.usual())
	}
	b.tunes++
	b.beside += (beside - b.beside) * max(-math.Expm1(-d/besideTauNS), 1/b.tunes)
	b.tunedNS, b.ownNS, b.tunedTicksNS = now, own, b.ticksNS
	b.tuneAtNS.Store(now + tuneNS)
	b.lock.settle()
	b.stack.settle()
	lock, stack := b.lock.mean/1e9, max(b.stack.mean-b.lock.mean, 0)/1e9
	leastLock, leastStack := b.least(lock, stack)
	least := leastLock + leastStack
	b.needs = least + min(b.beside, besideShare/(1-besideShare)*least)
	switch usual := b.usual(); {
	case b.mostShare == 0:
	case b.needs > usual && b.mostShare > usual:
		b.extended = true
	case b.needs < enoughShare*usual:
		b.extended = false
	}
	// The aim is to have half a burst saved. If less is saved, spend less than the income. If more is saved, spend just
	// the income.
	give := b.income() * min(max(0.5+b.levelNS/b.most(), leastGive), 1)
	switch {
	case b.levelNS < 0:
		b.held = true
	case b.levelNS >= b.most()/2:
		b.held = false
	}
	lockWant, stackWant := b.lockRate()*lock, b.stackHz*stack // the cost for one Source
	idleWant := float64(b.idle) * (min(b.lockHz, 1e9/slowIntervalNS)*lock + min(b.stackHz, 1e9/(2*slowIntervalNS))*stack)
	awakeGets, idleGets := divideFrom(give, float64(b.awake)*(lockWant+stackWant), idleWant, least, 0)
	awake := float64(b.awake)
	if b.awake == 0 {
		// All Sources are idle. Set the rates for the first one that will wake up.
		awake, awakeGets = 1, max(give-idleWant, give/2)
	}
	lockWant, stackWant = awake*lockWant, awake*stackWant
	lockGets, stackGets := divideFrom(awakeGets, lockWant, stackWant, leastLock, leastStack)
	rise := min(math.Pow(rise, max(d/tuneNS, 1)), mostRise)
	b.stretch.lock = step(b.stretch.lock, lockWant, lockGets, rise)
	b.stretch.stack = step(b.stretch.stack, stackWant, stackGets, rise)
	b.stretch.idle = step(b.stretch.idle, idleWant, idleGets, rise)
}

// divide divides the amount have between two parties. Each gets what it wants, a and b, if there is enough. Otherwise
// each gets half, and also what the other does not need of its half.
func divide(have, a, b float64) (forA, forB float64) {
	switch {
	case a+b <= have:
		return a, b
	case a <= have/2:
		return a, have - a
	case b <= have/2:
		return have - b, b
	}
	return have / 2, have / 2
}

// divideFrom first gives both parties their least amounts, leastA and leastB. It divides the amount that is left like
// divide. If there is too little for both least amounts, it divides all in proportion to them.
func divideFrom(have, a, b, leastA, leastB float64) (forA, forB float64) {
	leastA, leastB = min(leastA, a), min(leastB, b)
	if least := leastA + leastB; least > have {
		return have * leastA / least, have * leastB / least
	}
	forA, forB = divide(have-leastA-leastB, a-leastA, b-leastB)
	return leastA + forA, leastB + forB
}

// step returns the new value of a factor by which intervals are longer. It compares the wanted cost with the available
// cost. It raises the factor at once, but lowers it by at most the factor rise. It ignores a small change.
func step(now, want, have, rise float64) float64 {
	to := 1.0
	if want > have {
		to = min(want/have, mostStretch)
	}
	switch {
	case to == 1 && now < steady*rise:
		return max(1, now/rise)
	case to < now/steady:
		return max(now/rise, to)
	case to > now*steady:
		return to
	}
	return now
}
