package pace

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// These constants are times and shares. Times are in ns. Shares are shares of the budget, unless the comment says
// otherwise.
const (
	// burstNS limits how much unused CPU time ddtop saves for later. The limit is the CPU time that the budget allows
	// in burstNS (in ns). The saved time pays for an expensive tick, so that no gap in the ticks follows it.
	burstNS = 500_000_000
	// tuneNS is the interval at which ddtop decides the rates of ticks, in ns. Between two decisions the rates are
	// constant. So the time of the next tick does not depend on what the last tick found. Such a dependence would bias
	// the samples (docs/reference/states.md#rates-that-fall).
	tuneNS = 100_000_000
	// holdNS limits how long all ticks must wait, in ns. They wait if the budget is overdrawn by more than burstNS.
	holdNS = 100_000_000
	// besideTauNS is the time constant, in ns, of the mean CPU time that ddtop uses for everything but the ticks. This
	// time reduces the budget of the ticks, but by at most besideShare of the usual budget. Otherwise drawing a large
	// screen could end the sampling.
	besideTauNS = 2e9
	besideShare = 0.5
	// startNS is how long after its first tick ddtop may still do work that happens only once, in ns: load programs,
	// and read tables of symbols. Until then, this work does not slow down the ticks much: Budget.beside (the CPU time
	// beside ticks) is limited to besideShare of the usual budget.
	startNS = 10_000_000_000
	// leastGive applies while the budget is overdrawn. Ticks then get less than the CPU time that they may use, and the
	// remainder pays the debt. They get at least the part leastGive of this time.
	leastGive = 0.25
	// rise is the largest factor by which a rate of ticks rises in tuneNS. With 5 % every 0.1 s, a rate doubles in 1.4
	// s. If more than tuneNS passes between two decisions, the factor is larger, up to mostRise. A change of a rate by
	// a factor below steady is ignored.
	rise, mostRise = 1.05, 2
	steady         = 1.07
	// mostStretch is the largest factor by which the intervals between ticks get longer than requested. It is large
	// enough to lower the highest rate of stacks below leastStackHz. The factor must have a limit, because an infinite
	// factor could never shrink again.
	mostStretch = 1000
	// jump and jumpTicks decide when ddtop treats a changed cost of ticks as the usual cost at once, instead of
	// averaging it over some time. It does so if there were at least jumpTicks ticks in one tuneNS, and their mean cost
	// was more than jump times the usual cost.
	jump, jumpTicks = 2, 8
	// costTauNS is the time constant, in ns, of the mean cost of a tick. The mean is over at least leastTicks and at
	// most mostTicks ticks.
	costTauNS             = 2e9
	leastTicks, mostTicks = 8, 256
	// leastLockHz and leastStackHz are the lowest rates of lock ticks and of ticks that read stacks, in Hz, however
	// expensive a tick is. They apply to each Source, which samples one process. At leastLockHz, lock ticks are at most
	// 0.6 s apart, jitter included. If they were 1 s apart, the states in between would be unknown (stream.Reach).
	leastLockHz, leastStackHz = 2.5, 0.2
	// leastExactHz is the lowest rate of lock ticks, in Hz, of a Source in exact mode, which knows all changes of the
	// GVL without ticks. Its ticks only read counters, and pass the changes on. With a jitter of a quarter, two ticks
	// are at most 0.9 s apart. If more than fewExact such Sources run, leastFleetHz replaces leastExactHz. Two ticks
	// are then at most 2.5 s apart. The states in between are known in any case (stream.Stream).
	leastExactHz, leastFleetHz, fewExact = 1.4, 0.5, 8
	// enoughShare decides when ddtop returns to its usual limit after it was allowed to use more CPU time for good
	// figures. It returns when figures of the lowest quality that ddtop still shows need less than this part of the
	// usual limit.
	enoughShare = 0.8
	// recordsPart limits what recording thread switches may cost, as a part of all CPU time that ddtop may use.
	// leastBeside is the part that readings between ticks may always use, however much the records cost.
	recordsPart, leastBeside = 0.5, 0.25
)

// Budget keeps ddtop's CPU time below a share of one CPU by lowering the rates of ticks. A lock tick reads the states
// of threads, and a stack tick also reads their stacks. A Source samples one process. All Sources of a Group share one
// Budget, because the limit applies to all of ddtop. The decisions of a Budget depend only on its inputs.
//
// The CPU time is halved twice. First it is halved between the awake Sources and the idle Sources, whose ticks are
// rarer. Then it is halved between lock ticks and the additional work of stack ticks. If one side needs less than its
// half, the other side may use the remainder.
type Budget struct {
	// Share is the share of one CPU that ddtop may use. Zero means no limit.
	Share float64
	// tuneAtNS is when the rates are decided next. It is never moved to an earlier time.
	tuneAtNS atomic.Int64

	mu sync.Mutex
	// stackHz and lockHz are the requested rates of each Source. awake is the number of Sources with these rates, and
	// idle the number of Sources whose ticks are rarer because no thread runs or waits. exact is the number of Sources
	// in exact mode, which make all their ticks at the stack rate. serving is the number of Sources, awake or idle,
	// whose process was seen to serve requests or jobs.
	stackHz, lockHz             float64
	awake, idle, exact, serving int
	stretch                     stretch
	// held becomes true when the budget is overdrawn. It becomes false when half of the largest possible savings are
	// available again.
	held bool
	// levelNS is the saved CPU time, or negative if the budget is overdrawn. levelAtNS is when it was last updated.
	levelNS   float64
	levelAtNS int64
	lock      tickCost
	stack     tickCost
	// ticksNS is the CPU time of all ticks so far. tunedNS is when the rates were last decided. At that moment,
	// tunedTicksNS was the CPU time of all ticks, and ownNS the CPU time of all of ddtop.
	ticksNS, tunedTicksNS, ownNS, tunedNS int64
	// startedNS is when the first tick ended. Before this, ddtop was attaching to the process.
	startedNS int64
	// beside is the CPU time of everything that ddtop does except ticks, as a share of a CPU. tunes is the number of
	// times that it was measured.
	beside, tunes float64
	full          fullness
	// Records is the cost of recording thread switches.
	Records RecordLoad

	// mostShare is the largest share of one CPU that ddtop may use so that figures are good enough to be shown (their
	// least quality). Each figure covers a period of the length window. If mostShare is zero, ddtop must not use more
	// than the usual share.
	mostShare float64
	window    time.Duration
	// kinds is how many kinds of figures can be good enough to be shown (have their least quality) if ddtop uses
	// mostShare. It counts the kinds in the order of sampler.Figure.
	kinds sampler.Figure
	// needs is the share of one CPU that ddtop needs so that figures have their least quality. If needs is above the
	// usual limit, needs becomes the limit, and extended is true.
	needs    float64
	extended bool
	// moreShare replaces the usual limit until moreNS, unless the usual limit is higher.
	moreShare float64
	moreNS    int64
}

// These are factors of at least 1, by which intervals between ticks are longer than requested. stack and lock are for
// stack ticks and lock ticks. idle is for all ticks of slow clocks, and makes their long intervals even longer.
type stretch struct{ stack, lock, idle float64 }

type tickCost struct {
	// The field mean is the mean cost of the last ticks, in ns. The field over is the number of ticks in this mean.
	// While there were fewer ticks, n is their number.
	mean    float64
	n, over int
	// sum is the total cost of the ticks since the rates were last decided, in ns. The field of is the number of these
	// ticks.
	sum float64
	of  int
}

func (c *tickCost) add(ns float64) {
	c.n = min(c.n+1, max(c.over, leastTicks))
	c.mean += (ns - c.mean) / float64(c.n)
	c.sum, c.of = c.sum+ns, c.of+1
}

// settle is called when the rates are decided. If the cost of ticks has risen abruptly since the last decision, the
// mean cost since then becomes the new mean.
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

// CountServing counts a Source whose process was seen to serve requests or jobs. If begins is false, the Source has
// ended.
func (b *Budget) CountServing(begins bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if begins {
		b.serving++
	} else {
		b.serving--
	}
}

// LockAnew forgets what lock ticks have cost. Call it when lock ticks begin to read different data, because their cost
// then changes.
func (b *Budget) LockAnew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lock = tickCost{}
	b.stretch.lock = 1
}

// Extend lets ddtop use more CPU time, so that the figures of the period window have their least quality. The parameter
// most is the largest share of one CPU that ddtop may use for this. ddtop uses more than the usual share only if the
// figures need it.
func (b *Budget) Extend(most float64, window time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mostShare, b.window = most, window
}

// leastRates returns the lowest rates of lock ticks and of stack ticks at which figures have their least quality. It
// counts only the first kinds of figures, as many as the parameter kinds says. The rates are the mean of the awake
// Sources. They are zero if ddtop must not exceed the usual limit. A Source whose process serves no requests needs no
// ticks for figures of requests.
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

// part returns n divided by the number of awake Sources, but at most 1.
func (b *Budget) part(n int) float64 { return min(float64(n)/float64(max(b.awake, 1)), 1) }

// fleet reports whether more than fewExact Sources are in exact mode. In this case all their ticks read stacks. In
// exact mode, a tick without stacks reads only counters, but costs nearly as much as a tick with stacks.
func (b *Budget) fleet() bool { return b.exact > fewExact }

// lockRate returns the requested rate of lock ticks, in Hz, as a mean of the awake Sources. Sources in exact mode have
// a lower rate.
func (b *Budget) lockRate() float64 {
	e := b.part(b.exact)
	return (1-e)*b.lockHz + e*min(b.lockHz, b.stackHz)
}

// usual returns the share of a CPU that ddtop may use if nothing allows it to use more (TakeMore, Extend). If the
// machine has no free CPU, this is half of the requested share.
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

// TakeMore lets ddtop use the given share of one CPU until the given time. If ddtop's other limit is higher than this
// share, the other limit holds. If there is no limit, TakeMore has no effect.
func (b *Budget) TakeMore(share float64, until int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moreShare, b.moreNS = share, until
}

// InForce returns the share of a CPU that ddtop may use now. It is the requested share, or more if ddtop was allowed
// more. Zero means no limit.
func (b *Budget) InForce() float64 {
	if b.Share == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.Share, b.limit())
}

// ForRecords returns the share of a CPU that records of thread switches may cost. This is the part recordsPart of the
// largest share that ddtop may ever use. Zero means no limit.
func (b *Budget) ForRecords() float64 {
	if b.Share == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return recordsPart * max(b.Share, b.limit(), b.mostShare)
}

// BesideRecords returns the share of a CPU for readings between ticks. Usually this is InForce. It is less if records
// of thread switches use so much that less than InForce remains of the largest allowed share. It is at least the part
// leastBeside of InForce. Zero means no limit.
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

// TakesMore reports whether ddtop uses more than its usual share of a CPU. It does so if figures would otherwise be
// below the quality that they need to be shown.
func (b *Budget) TakesMore() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.extended
}

// Pace sets the intervals of a Source's clock. They are the requested ones, or longer ones if the budget is not enough
// for these.
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

// Spent adds ns, the CPU time of a tick that has ended, in ns. It returns the time until which all ticks must wait, and
// the time until which ticks that read stacks must wait.
//
// The parameter last is the cost of the Source's last reading of stacks, which may be this tick. This cost delays the
// reading after the next one, but not the next one. Otherwise a longer interval would follow an expensive reading, and
// the states that it found would be counted for too long (docs/reference/states.md#rates-that-fall). The function own
// returns the CPU time of all of ddtop. Spent calls it when the rates are decided.
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
		// Before its first tick, ddtop used CPU time to attach to the process. The budget does not pay for this time,
		// so begin to count now.
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
	// Limit the debt to the CPU time that ticks may use in the longest interval between stacks. Even at the lowest
	// rates, ticks can cost more than they may use. Without the limit, the debt would then grow. It would delay ticks
	// even after they have become cheap again.
	b.levelNS = max(b.levelNS-float64(ns), -income*1e9/leastStackHz)
	if now >= b.tuneAtNS.Load() { // in this case own was called above
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

// most returns the largest CPU time that can be saved for later, in ns.
func (b *Budget) most() float64 { return b.limit() * burstNS }

// income returns the share of a CPU that ticks may use.
func (b *Budget) income() float64 { return b.forTicks(b.limit()) }

// forTicks returns the part of a limit that ticks may use, which is what ddtop's other work leaves. More ticks also
// cause more other work, such as handing on their samples. If the limit is above the usual one, it must pay for this
// work, too. Otherwise ddtop would exceed the limit.
func (b *Budget) forTicks(limit float64) float64 {
	return max(limit-b.beside, (1-besideShare)*min(b.usual(), limit))
}

// least returns two shares of a CPU that figures of the least quality need: for lock ticks, and for the stacks of stack
// ticks. Some kinds of figures would be below this quality even with the largest allowed share. least leaves these
// kinds out, so that ddtop does not spend CPU time on figures that it cannot show. lock and stack are the CPU times of
// a tick and of its stacks, in seconds.
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
	// The aim is to have half of the largest possible savings. If less is saved, spend less than the income on ticks.
	// Otherwise spend just the income.
	give := b.income() * min(max(0.5+b.levelNS/b.most(), leastGive), 1)
	switch {
	case b.levelNS < 0:
		b.held = true
	case b.levelNS >= b.most()/2:
		b.held = false
	}
	lockWant, stackWant := b.lockRate()*lock, b.stackHz*stack // the share of a CPU that the ticks of one Source want
	idleWant := float64(b.idle) * (min(b.lockHz, 1e9/slowIntervalNS)*lock + min(b.stackHz, 1e9/(2*slowIntervalNS))*stack)
	awakeGets, idleGets := divideFrom(give, float64(b.awake)*(lockWant+stackWant), idleWant, least, 0)
	awake := float64(b.awake)
	if b.awake == 0 {
		// All Sources are idle, so no rate of an awake Source is in use. Set the rates for the first Source that will
		// wake up.
		awake, awakeGets = 1, max(give-idleWant, give/2)
	}
	lockWant, stackWant = awake*lockWant, awake*stackWant
	lockGets, stackGets := divideFrom(awakeGets, lockWant, stackWant, leastLock, leastStack)
	rise := min(math.Pow(rise, max(d/tuneNS, 1)), mostRise)
	b.stretch.lock = step(b.stretch.lock, lockWant, lockGets, rise)
	b.stretch.stack = step(b.stretch.stack, stackWant, stackGets, rise)
	b.stretch.idle = step(b.stretch.idle, idleWant, idleGets, rise)
}

// divide divides an amount, have, between two parties that want the amounts a and b. If there is enough, each gets what
// it wants. Otherwise each gets half, and also the part of the other half that the other party does not need.
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

// divideFrom divides the amount have between two parties. It first gives both their least amounts, leastA and leastB,
// and then divides the remainder like divide. If there is too little for both least amounts, it divides all in
// proportion to them.
func divideFrom(have, a, b, leastA, leastB float64) (forA, forB float64) {
	leastA, leastB = min(leastA, a), min(leastB, b)
	if least := leastA + leastB; least > have {
		return have * leastA / least, have * leastB / least
	}
	forA, forB = divide(have-leastA-leastB, a-leastA, b-leastB)
	return leastA + forA, leastB + forB
}

// The parameter now is a factor by which intervals between ticks are longer than requested. step returns the factor's
// new value. It compares the CPU time that ticks want with the CPU time that they have. It raises the factor at once,
// but lowers it by at most the factor rise. It ignores a small change.
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
