package pace

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/sampler"
)

// spender simulates a ddtop in virtual time. It has several Sources that share one budget, and other work that takes
// CPU time. Each Source samples a process. All the processes serve requests.
type spender struct {
	b       *Budget
	sources []*Clock
	last    []int64 // the cost of the last stack tick of each Source
	// lock and stack return the CPU time, in ns, that a lock tick and a stack tick of a Source take at the time now.
	lock, stack func(source int, now int64) float64
	// beside is the share of a CPU that ddtop's other work takes. perTick is the cost of the further work that each
	// tick causes, such as handing its sample on. It is a multiple of the tick's own cost.
	beside, perTick float64
	// start is the CPU time of work that ddtop does only once, in the first startTakesNS.
	start float64
	// exact is true if all ticks come at the stack rate, as in exact mode.
	exact bool

	cpu   []spending
	sum   float64
	extra float64 // CPU time of the further work that ticks cause, in ns
	ticks []int64 // times of the first Source's ticks
	stk   int
}

// startTakesNS is how long the start of ddtop takes on a full machine, in ns.
const startTakesNS = 3e9

// spending is the CPU time that the simulated ddtop has used until one moment (at).
type spending struct {
	at int64
	ns float64
}

func newSpender(share float64, n int) *spender {
	s := &spender{b: NewBudget(share)}
	s.b.Ask(100, 1000)
	for i := range n {
		c := NewClock(100, 1000, int64(i))
		s.sources, s.last = append(s.sources, c), append(s.last, 0)
		s.b.Count(+1, 0)
		s.b.CountServing(true)
	}
	s.lock = func(int, int64) float64 { return 50e3 }
	s.stack = func(int, int64) float64 { return 300e3 }
	return s
}

// run lets virtual time pass up to until.
func (s *spender) run(until int64) {
	for {
		at := 0
		for i, c := range s.sources {
			if c.Next < s.sources[at].Next {
				at = i
			}
		}
		c := s.sources[at]
		now := c.Next
		if now >= until {
			return
		}
		lockHz := s.b.lockHz
		if s.exact {
			lockHz = s.b.stackHz
		}
		s.b.Pace(c, 1e9/s.b.stackHz, 1e9/lockHz)
		depth, _ := c.Tick(now)
		cost := s.lock(at, now) // the cost of this tick
		if depth == sampler.StackTick {
			cost = s.stack(at, now)
			if at == 0 {
				s.stk++
			}
		}
		s.sum += cost
		s.extra += cost * s.perTick
		all := s.sum + s.extra + s.beside*float64(now) + s.start*min(float64(now)/startTakesNS, 1)
		s.cpu = append(s.cpu, spending{now, all})
		if at == 0 {
			s.ticks = append(s.ticks, now)
		}
		if depth == sampler.StackTick {
			s.last[at] = int64(cost)
		}
		wait, stacks := s.b.Spent(depth, int64(cost), s.last[at], now+int64(cost), func() int64 { return int64(all) })
		c.Wait(wait)
		c.Rest(0, stacks)
	}
}

// most returns the largest share of a CPU that the simulated ddtop has taken in any interval of the length window.
func (s *spender) most(window int64) float64 {
	var most float64
	from := 0
	for i := range s.cpu {
		for s.cpu[i].at-s.cpu[from].at > window {
			from++
		}
		most = max(most, (s.cpu[i].ns-s.cpu[from].ns)/float64(window))
	}
	return most
}

// rates lets virtual time advance. The parameter from is the length of this time, in ns. rates returns the rates of the
// first Source in this time, in Hz: of all ticks, and of ticks with stacks.
func (s *spender) rates(from int64) (lock, stack float64) {
	ticks, stacks := len(s.ticks), s.stk
	now := s.sources[0].Next
	s.run(now + from)
	d := float64(from) / 1e9
	return float64(len(s.ticks)-ticks) / d, float64(s.stk-stacks) / d
}

// TestBudgetHolds: in any ten seconds, the ticks cost at most the sum of three amounts: the budget of this time, two
// times the largest savings (bursts), and one tick. This holds whatever ticks cost, and however their cost changes.
func TestBudgetHolds(t *testing.T) {
	const ten, share = 10e9, 0.03
	constant := func(ns float64) func(int, int64) float64 { return func(int, int64) float64 { return ns } }
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name            string
		sources         int
		lock, stack     func(int, int64) float64
		beside, perTick float64
	}{
		{name: "within it", sources: 1, lock: constant(10e3), stack: constant(50e3)},
		{name: "as on Rails", sources: 1, lock: constant(80e3), stack: constant(600e3)},
		{name: "eight workers", sources: 8, lock: constant(80e3), stack: constant(600e3)},
		{name: "deep stacks", sources: 1, lock: constant(100e3), stack: constant(30e6)},
		{name: "folding costs as much", sources: 1, lock: constant(80e3), stack: constant(600e3), perTick: 0.9},
		{name: "a screen", sources: 1, lock: constant(80e3), stack: constant(600e3), beside: 0.014},
		{name: "a thousand times as dear of a sudden", sources: 1, lock: func(_ int, now int64) float64 {
			if now > 20e9 && now < 30e9 {
				return 2e6
			}
			return 2e3
		}, stack: constant(20e3)},
		{name: "phases", sources: 1, lock: func(_ int, now int64) float64 { return 20e3 * math.Exp(3*math.Sin(float64(now)/1e9)) }, stack: constant(1e6)},
		{name: "heavy tails", sources: 1, lock: func(int, int64) float64 { return 20e3 / math.Pow(rng.Float64(), 0.9) }, stack: constant(1e6)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSpender(share, c.sources)
			s.lock, s.stack, s.beside, s.perTick = c.lock, c.stack, c.beside, c.perTick
			s.run(60e9)
			// CPU time of one burst can be saved before the ten seconds begin. The budget can be overdrawn by another
			// burst before all ticks wait. Ticks at the lowest rates are never left out, so the cost of one tick is
			// added.
			dearest := 0.0
			for i := 1; i < len(s.cpu); i++ {
				dearest = max(dearest, s.cpu[i].ns-s.cpu[i-1].ns)
			}
			bound := share*(1+2*burstNS/ten) + dearest/ten
			if got := s.most(ten); got > bound {
				t.Errorf("%.3f %% of a CPU in ten seconds, more than %.3f", 100*got, 100*bound)
			}
			lock, stack := s.rates(10e9)
			t.Logf("%.2f %% of a CPU at most, %.0f Hz, stacks %.1f Hz", 100*s.most(ten), lock, stack)
		})
	}
}

// TestBudgetIsUsed: if the requested rates of ticks cost less than the budget, ddtop uses these rates. If they cost
// more, the rates fall, but only so low that nearly all of the budget is used. When ticks become cheaper, the rates
// rise again.
func TestBudgetIsUsed(t *testing.T) {
	s := newSpender(0.03, 1)
	s.lock = func(_ int, now int64) float64 {
		if now > 20e9 && now < 40e9 {
			return 100e3
		}
		return 10e3
	}
	s.stack = func(int, int64) float64 { return 110e3 }
	s.run(10e9)
	if lock, stack := s.rates(5e9); lock < 950 || stack < 90 {
		t.Errorf("%.0f and %.0f Hz where there is room for 1000 and 100", lock, stack)
	}
	s.run(25e9)
	if lock, stack := s.rates(10e9); lock < 0.85*290 || lock > 300 || stack < 85 {
		t.Errorf("%.0f and %.0f Hz of ticks of 0.1 ms, of which 3 %% allow 290; stacks cost little and need not fall", lock, stack)
	}
	s.run(45e9)
	if lock, stack := s.rates(5e9); lock < 950 || stack < 90 {
		t.Errorf("%.0f and %.0f Hz, 5 s after there was room again", lock, stack)
	}
}

// TestBudgetIsSteady: if the budget has lowered the rates, and ticks cost about the same all the time, the rates stay
// nearly constant.
func TestBudgetIsSteady(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s := newSpender(0.03, 1)
	s.lock = func(int, int64) float64 { return 50e3 * (1 + rng.Float64()) }
	s.stack = func(int, int64) float64 { return 300e3 * (1 + rng.Float64()) }
	s.perTick = 0.3
	s.run(20e9)
	least, most := math.Inf(1), 0.0
	for range 40 {
		lock, _ := s.rates(1e9)
		least, most = min(least, lock), max(most, lock)
	}
	// The number of ticks in a second also varies by chance, by about 15 of 250. The reason is that each interval
	// varies at random by up to half of its length.
	if most > 1.4*least {
		t.Errorf("of the same ticks there were %.0f to %.0f a second", least, most)
	}
}

// TestBudgetLeavesNoHole: a single tick is very expensive. The budget pays for it from its savings, and by lower rates
// for a while. No long gap without ticks follows.
func TestBudgetLeavesNoHole(t *testing.T) {
	s := newSpender(0.03, 1)
	s.stack = func(_ int, now int64) float64 {
		if now > 10e9 && now < 10.02e9 {
			return 40e6
		}
		return 100e3
	}
	s.lock = func(int, int64) float64 { return 15e3 }
	s.run(20e9)
	for i := 1; i < len(s.ticks); i++ {
		if d := s.ticks[i] - s.ticks[i-1]; s.ticks[i] > 1e9 && d > 200e6 {
			t.Errorf("%d ms without a tick, %d ms after the start", d/1e6, s.ticks[i]/1e6)
		}
	}
}

// TestBudgetOfMany: several Sources share a budget. If one of them is idle, the others may use its part.
func TestBudgetOfMany(t *testing.T) {
	one := newSpender(0.03, 1)
	one.run(20e9)
	want, _ := one.rates(10e9)
	s := newSpender(0.03, 2)
	s.sources[1].Next = math.MaxInt64 // as if this Source were idle
	s.b.Count(-1, +1)
	s.run(20e9)
	if got, _ := s.rates(10e9); got < 0.8*want {
		t.Errorf("%.0f Hz beside one that is idle, %.0f alone", got, want)
	}
}

// TestBudgetOfAFleet: there are fifty Sources that soon know all changes of the GVL without ticks, so each of their
// ticks reads stacks. Each minute has enough stacks for figures, even if there was no time for stacks at first. The
// ticks are never too long apart.
func TestBudgetOfAFleet(t *testing.T) {
	const second = int64(1e9)
	s := newSpender(0.015, 50)
	s.b.Extend(0.06, time.Minute)
	s.b.Ask(8, 80)
	s.lock, s.stack = func(int, int64) float64 { return 200e3 }, func(int, int64) float64 { return 270e3 }
	s.run(5 * second)
	s.exact = true
	for _, c := range s.sources {
		c.Exact = true
		s.b.CountExact(true)
	}
	s.run(65 * second)
	ticks, stacks := len(s.ticks), s.stk
	s.run(125 * second)
	least := sampler.LeastQualities[sampler.FigureStacks].Stacks
	if stacks = s.stk - stacks; int64(stacks) < least || stacks != len(s.ticks)-ticks {
		t.Errorf("%d ticks and %d stacks of one in a minute, want all with stacks, and %d", len(s.ticks)-ticks, stacks, least)
	}
	for i := ticks; i < len(s.ticks); i++ {
		if apart := s.ticks[i] - s.ticks[i-1]; float64(apart) > 1.25e9/leastFleetHz {
			t.Errorf("two ticks are %d ms apart", apart/1e6)
		}
	}
	if got := s.most(10 * second); got > 0.06 {
		t.Errorf("it takes %.2f %% of a CPU", 100*got)
	}
}

// TestBudgetOfWorkersWithoutRequests: to have figures of requests, ddtop exceeds the usual limit only if enough workers
// serve requests. It never uses more than the highest allowed share, even if handing on a sample costs more than the
// tick.
func TestBudgetOfWorkersWithoutRequests(t *testing.T) {
	const ten, share, most = 10e9, 0.03, 0.06
	for _, c := range []struct {
		serving   int
		stack     float64 // CPU time of a tick with stacks, in ns
		perTick   float64
		more      bool
		leastHz   float64
		atMostOne float64 // share of a CPU
	}{
		{serving: 0, stack: 100e3, perTick: 0.5, leastHz: 1, atMostOne: share},
		{serving: 50, stack: 100e3, perTick: 0.5, more: true, leastHz: 4, atMostOne: most},
		{serving: 5, stack: 100e3, perTick: 0.5, leastHz: 1, atMostOne: share},
		{serving: 50, stack: 100e3, perTick: 1.5, more: true, leastHz: 4, atMostOne: most},
	} {
		s := newSpender(share, 50)
		for range 50 - c.serving {
			s.b.CountServing(false)
		}
		s.b.Extend(most, time.Minute)
		s.b.Ask(8, 80)
		s.exact, s.perTick = true, c.perTick
		for _, clock := range s.sources {
			clock.Exact = true
			s.b.CountExact(true)
		}
		s.lock, s.stack = func(int, int64) float64 { return c.stack / 2 }, func(int, int64) float64 { return c.stack }
		s.run(30e9)
		s.cpu = nil
		if _, hz := s.rates(60e9); hz < c.leastHz || s.b.TakesMore() != c.more {
			t.Errorf("%d of 50 serve requests: %.1f stacks a second, it takes more: %v", c.serving, hz, s.b.TakesMore())
		}
		if got, bound := s.most(ten), c.atMostOne*(1+2*burstNS/ten); got > bound {
			t.Errorf("%d of 50 serve requests: %.2f %% of a CPU, more than %.2f", c.serving, 100*got, 100*bound)
		}
	}
}

// idle makes the Sources idle whose index is at least the parameter from. It makes the Sources before them busy.
func (s *spender) idle(from int, now int64) {
	for i, c := range s.sources {
		switch slow := i >= from; {
		case slow && !c.Slow:
			s.b.Count(-1, +1)
			c.Slow = true
		case !slow && c.Slow:
			s.b.Count(+1, -1)
			c.Note(now, true)
		}
	}
}

// TestBudgetOfIdle: many idle Sources together take no more than the budget, and the budget reports lowered rates. They
// leave no debt that would delay Sources that wake up later. If there are only a few idle Sources, they get their full
// rates.
func TestBudgetOfIdle(t *testing.T) {
	const ten, share = 10e9, 0.015
	s := newSpender(share, 40)
	s.b.Ask(10, 100)
	s.idle(0, 0)
	s.run(600e9)
	if got, bound := s.most(ten), share*(1+2*burstNS/ten)+300e3/ten; got > bound {
		t.Errorf("%.3f %% of a CPU in ten seconds, more than %.3f", 100*got, 100*bound)
	}
	if _, lowered := s.b.Says(); !lowered {
		t.Error("40 that are idle want more than there is, and it doesn't show")
	}
	s.idle(4, 600e9)
	s.run(605e9)
	if _, stack := s.rates(20e9); stack < 1 {
		t.Errorf("stacks of one of four that woke up are read at %.2f Hz", stack)
	}
	few := newSpender(share, 2)
	few.idle(0, 0)
	few.run(20e9)
	if lock, stack := few.rates(10e9); lock < 9 || stack < 4.5 {
		t.Errorf("two that have been idle for ten seconds are read at %.1f and %.1f Hz, and there is room for 10 and 5", lock, stack)
	}
}

// TestBudgetForgives: ticks are so expensive that even the lowest rates overdraw the budget for a long time. When ticks
// become cheap, ddtop does not make up for all of this: the debt is gone within seconds.
func TestBudgetForgives(t *testing.T) {
	s := newSpender(0.01, 8)
	s.b.Ask(50, 500)
	s.lock = func(_ int, now int64) float64 {
		if now < 300e9 {
			return 5e6
		}
		return 1e3
	}
	s.stack = func(_ int, now int64) float64 {
		if now < 300e9 {
			return 50e6
		}
		return 5e3
	}
	s.run(299e9)
	if _, lowered := s.b.Says(); !lowered {
		t.Error("all is overdrawn, and it doesn't show")
	}
	s.run(330e9)
	if lock, stack := s.rates(10e9); lock < 200 || stack < 20 {
		t.Errorf("half a minute after ticks became a thousand times as cheap: %.1f and %.1f Hz", lock, stack)
	}
	s.run(400e9)
	if _, lowered := s.b.Says(); lowered {
		t.Error("nothing is owed, and it says so still")
	}
}

// TestBudgetOff: without a budget, no interval between ticks gets longer, and ddtop does not read its own CPU time.
func TestBudgetOff(t *testing.T) {
	b := NewBudget(0)
	c := NewClock(100, 1000, 0)
	b.Pace(c, 1e7, 1e6)
	all, stacks := b.Spent(sampler.StackTick, 1e9, 1e9, 1e9, func() int64 { t.Error("asked"); return 0 })
	if c.stackNS != 1e7 || c.lockNS != 1e6 || c.slowLockNS != slowIntervalNS || all != 0 || stacks != 0 {
		t.Error("no budget was asked for and there is one")
	}
	b.Look(1e9, func() (int64, error) { t.Error("looked"); return 0, nil }, sampler.Pressure{}, new(Press))
}

// TestBudgetOfAFullMachine: half of the budget applies after two consecutive readings at which the machine had no free
// CPU. All of it applies again after two consecutive readings with a free CPU. Pressure in the process's cgroup counts
// as well.
func TestBudgetOfAFullMachine(t *testing.T) {
	b, now, idle := NewBudget(0.03), int64(0), int64(0)
	var own Press
	pressure := sampler.Pressure{Source: sampler.PressureCgroup, CPUSomeNS: 1}
	second := func(free, pressed float64) bool {
		now += 1e9
		idle += int64(free * 1e9)
		pressure.CPUSomeNS += int64(pressed * 1e9)
		b.Look(now, func() (int64, error) { return idle, nil }, pressure, &own)
		halved, _ := b.Says()
		return halved
	}
	for i, c := range []struct {
		free, pressed float64
		want          bool
	}{
		{2, 0, false}, {0, 0, false}, {0.1, 0, true}, {0.4, 0, true}, {0.4, 0, true}, {0.6, 0, true}, {0.6, 0, false},
		{0.4, 0, false}, {0.4, 0, false}, {2, 0.9, false}, {2, 0.9, true}, {2, 0.1, true}, {0, 0, true}, {2, 0, true}, {2, 0, false},
	} {
		if got := second(c.free, c.pressed); got != c.want {
			t.Errorf("after %d looks, the last with %g CPUs idle and %g of the time pressed: halved is %v", i+1, c.free, c.pressed, got)
		}
	}
	b.Look(now+1e9, func() (int64, error) { return 0, errors.New("no /proc/uptime") }, pressure, &own)
	b.Look(now+2e9, func() (int64, error) { return 0, errors.New("no /proc/uptime") }, pressure, &own)
	if halved, _ := b.Says(); halved {
		t.Error("halved for want of an answer")
	}
}

// TestBudgetOfSeveralCgroups: each process's pressure is compared with the earlier pressure of the same process. If one
// process is under pressure, half of the budget applies until this process ends. The machine's idle time is read once
// for all processes.
func TestBudgetOfSeveralCgroups(t *testing.T) {
	b, now, asked := NewBudget(0.03), int64(0), 0
	var own [2]Press
	some := [2]int64{1, 1e15}
	second := func(pressed float64) bool {
		now += 1e9
		some[1] += int64(pressed * 1e9)
		for i := range own {
			p := sampler.Pressure{Source: sampler.PressureCgroup, CPUSomeNS: some[i]}
			b.Look(now+int64(i), func() (int64, error) { asked++; return 8 * now, nil }, p, &own[i])
		}
		halved, _ := b.Says()
		return halved
	}
	for range 4 {
		if second(0) {
			t.Fatal("halved where no process waits for a CPU")
		}
	}
	if asked != 4 {
		t.Errorf("in 4 s the machine was asked %d times", asked)
	}
	for range 3 {
		second(0.9)
	}
	if !second(0.9) {
		t.Error("not halved, and one of two processes waits for a CPU")
	}
	b.Leave(&own[1])
	for range 3 {
		now += 1e9
		b.Look(now, func() (int64, error) { return 8 * now, nil }, sampler.Pressure{Source: sampler.PressureCgroup, CPUSomeNS: some[0]}, &own[0])
	}
	if halved, _ := b.Says(); halved {
		t.Error("halved for a process that has ended")
	}
}

// TestBudgetHasNoBias: a program is expensive to read for a third of its time, in phases at random times. ddtop must
// see these phases in a third of its samples. The phases are shorter than, equal to or longer than two intervals:
// between ticks, and between decisions of the rates.
//
// In a first part, all ticks count, and a tick in a phase costs ten times as much. In a second part, only stack ticks
// count, and a stack tick in a phase costs three hundred times as much. Each of them costs more than the savings. A
// clock that rests after each tick in proportion to its cost would see the phases in more than a third of its samples.
// The test must detect this bias.
func TestBudgetHasNoBias(t *testing.T) {
	for _, meanNS := range []float64{1e6, 20e6, 500e6} {
		for _, c := range []struct {
			dearNS        float64
			until         int64
			stacks, rests bool
		}{
			{dearNS: 1e6, until: 1000e9},
			{dearNS: 1e6, until: 1000e9, rests: true},
			{dearNS: 30e6, until: 12_000e9, stacks: true},
		} {
			if c.stacks && meanNS > 100e6 {
				// such a phase has the same length as the interval between two stack readings, so this case shows
				// little
				continue
			}
			p := newPhases(meanNS, c.until)
			s := newSpender(0.03, 1)
			if c.stacks {
				s.b.Ask(100, 100)
			}
			var seen []bool // for each tick, whether it was in an expensive phase
			var looks []int // indexes of the ticks that count
			cost := func(dear bool) float64 {
				if dear {
					return c.dearNS
				}
				return 1e5
			}
			s.lock = func(_ int, now int64) float64 {
				seen = append(seen, p.dear(now))
				if !c.stacks {
					looks = append(looks, len(seen)-1)
					return cost(seen[len(seen)-1])
				}
				return 1e5
			}
			s.stack = func(int, int64) float64 { // for each tick, called after s.lock
				if c.stacks {
					looks = append(looks, len(seen)-1)
				}
				return cost(seen[len(seen)-1])
			}
			if c.rests {
				for now := int64(0); now < c.until; now += s.sources[0].jitter(s.lock(0, now) / 0.03) {
					s.ticks = append(s.ticks, now)
				}
			} else {
				s.run(c.until)
			}
			var sum, squares, hits float64
			at := func(look int) int64 { return s.ticks[looks[look]] }
			for i := 1; i < len(looks)-1; i++ {
				w := float64(at(i+1)-at(i-1)) / 2
				sum, squares = sum+w, squares+w*w
				if seen[looks[i]] {
					hits += w
				}
			}
			got, want := hits/sum, p.share(at(0), at(len(looks)-1))
			// The samples in the same phase are not independent of each other. So count all samples of one phase as one
			// sample.
			bound := odds.Within(min(odds.Effective(sum, squares), float64(len(p.turns))))
			text := fmt.Sprintf("phases of %g and %g ms, stacks %t, rests %t: %.4f of the time, truly %.4f, bound %.4f, %d looks",
				2*meanNS/1e6, meanNS/1e6, c.stacks, c.rests, got, want, bound, len(looks))
			t.Log(text)
			if off := math.Abs(got - want); !c.rests && off > bound {
				t.Error(text)
			} else if c.rests && meanNS == 1e6 && off <= bound {
				t.Errorf("%s: the test does not see the bias", text)
			}
		}
	}
}

// phases are the periods in which a program is alternately cheap and expensive to read. The second phase is the first
// expensive one. Cheap phases are twice as long on average.
type phases struct {
	turns []int64 // the times at which phases begin
	at    int
}

func newPhases(meanNS float64, until int64) *phases {
	rng := rand.New(rand.NewPCG(uint64(meanNS), 6))
	p := &phases{turns: []int64{0}}
	for last := int64(0); last < until; last = p.turns[len(p.turns)-1] {
		length := rng.ExpFloat64() * meanNS
		if len(p.turns)%2 == 1 {
			length *= 2
		}
		p.turns = append(p.turns, last+max(int64(length), 1))
	}
	return p
}

// The result is true if the time now is in an expensive phase. The time now must not decrease from call to call.
func (p *phases) dear(now int64) bool {
	for p.at+1 < len(p.turns) && p.turns[p.at+1] <= now {
		p.at++
	}
	return p.at%2 == 1
}

// share returns the share of an interval that is in expensive phases.
func (p *phases) share(from, to int64) float64 {
	var ns float64
	for i := 1; i+1 < len(p.turns); i += 2 {
		ns += float64(max(min(p.turns[i+1], to)-max(p.turns[i], from), 0))
	}
	return ns / float64(to-from)
}

// TestBudgetInExactMode: in exact mode, all ticks come at the stack rate, which is lower than the lock rate. The budget
// must not reserve CPU time for ticks at the lock rate, which would cost much more.
func TestBudgetInExactMode(t *testing.T) {
	for _, exact := range []bool{false, true} {
		s := newSpender(0.05, 1) // at full rates, ticks take 8 % of a CPU; at the stack rate, 3 %
		s.exact = exact
		if exact {
			s.b.CountExact(true)
		}
		s.run(20e9)
		if _, lowered := s.b.Says(); lowered == exact {
			t.Errorf("exact %v: lowered %v", exact, lowered)
		}
		if exact {
			s.b.CountExact(false)
			s.exact = false
			s.run(40e9)
			if _, lowered := s.b.Says(); !lowered {
				t.Error("after exact mode the rates are those asked for, which take too much")
			}
		}
	}
}

// TestBudgetOfStarting: the CPU time of work that ddtop does only once, at the start, reduces the stacks that it can
// read. It costs at most a fifth of the stacks of the first ten seconds. On a full machine, where ddtop may take more
// than the limit, it costs at most a tenth.
func TestBudgetOfStarting(t *testing.T) {
	for _, full := range []bool{false, true} {
		stacks := func(start float64) int {
			s := newSpender(0.03, 1)
			s.b.Extend(0.06, sampler.QualityWindow)
			s.b.full.is, s.exact, s.start = full, true, start
			s.b.CountExact(true)
			s.lock, s.stack = func(int, int64) float64 { return 300e3 }, func(int, int64) float64 { return 2e6 }
			s.run(10e9)
			return s.stk
		}
		least := 0.8
		if full {
			least = 0.9
		}
		if got, of := stacks(300e6), stacks(0); float64(got) < least*float64(of) {
			t.Errorf("%d stacks in the first ten seconds, %d if starting costs nothing (full machine: %v)", got, of, full)
		} else {
			t.Logf("%d of %d stacks, full machine: %v", got, of, full)
		}
	}
}

// TestBudgetForFiguresThatCanBe: ddtop uses more CPU time only if kinds of figures then reach their least quality.
// Fifty processes in exact mode cannot have enough stacks in ten seconds, so the usual limit holds. In a minute they
// can. Sixteen processes can have enough stacks in ten seconds, but not enough for figures of requests. In any case,
// each process has at least the lowest rate of stacks.
func TestBudgetForFiguresThatCanBe(t *testing.T) {
	for _, c := range []struct {
		sources int
		window  time.Duration
		more    bool
		kinds   sampler.Figure
	}{
		{sources: 1, window: sampler.QualityWindow, kinds: sampler.NumFigures},
		{sources: 50, window: sampler.QualityWindow, kinds: sampler.FigureStacks},
		{sources: 16, window: sampler.QualityWindow, more: true, kinds: sampler.FigureRequests},
		{sources: 50, window: time.Minute, more: true, kinds: sampler.FigureRequests},
	} {
		s := newSpender(0.015, c.sources)
		s.b.Extend(0.06, c.window)
		s.exact = true
		for range c.sources {
			s.b.CountExact(true)
		}
		s.lock, s.stack = func(int, int64) float64 { return 100e3 }, func(int, int64) float64 { return 1.5e6 }
		s.run(30e9)
		if got := s.b.TakesMore(); got != c.more || s.b.kinds != c.kinds {
			t.Errorf("%d processes, a window of %v: it takes more: %v, for %d kinds of figures", c.sources, c.window, got, s.b.kinds)
		}
		if float64(s.stk) < leastStackHz*20 {
			t.Errorf("%d processes, a window of %v: %d stacks of the first one in 30 s", c.sources, c.window, s.stk)
		}
	}
}

// TestBudgetForQuality: if the share that ddtop may use is large enough, figures have their least quality, and ddtop
// uses no more CPU time than they need. A limit that the user has requested always holds.
func TestBudgetForQuality(t *testing.T) {
	lockHz, stackHz := sampler.LeastRates(sampler.QualityWindow, false, sampler.NumFigures)
	for _, c := range []struct {
		name         string
		most         float64
		sources      int
		lock, stack  float64 // CPU time of a tick, in ns
		beside       float64
		full, exact  bool
		enough, more bool
	}{
		{name: "enough without", most: 0.06, sources: 1, lock: 50e3, stack: 300e3, enough: true},
		{name: "Rails on a full machine", most: 0.06, sources: 1, lock: 150e3, stack: 2e6, full: true, enough: true, more: true},
		{name: "beside a screen", most: 0.06, sources: 1, lock: 100e3, stack: 2e6, full: true, beside: 0.02, enough: true, more: true},
		{name: "two workers", most: 0.06, sources: 2, lock: 100e3, stack: 2e6, full: true, enough: true, more: true},
		{name: "asked for", most: 0, sources: 1, lock: 150e3, stack: 2e6, full: true},
		{name: "more than may be taken", most: 0.06, sources: 8, lock: 100e3, stack: 4e6, full: true, more: true},
		{name: "exact changes need no lock ticks", most: 0.06, sources: 1, lock: 2e6, stack: 2.1e6, full: true, exact: true, enough: true, more: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			const share, second = 0.03, 1e9
			s := newSpender(share, c.sources)
			s.b.Extend(c.most, sampler.QualityWindow)
			s.b.full.is, s.beside, s.exact = c.full, c.beside, c.exact
			if c.exact {
				s.b.CountExact(true)
			}
			s.lock, s.stack = func(int, int64) float64 { return c.lock }, func(int, int64) float64 { return c.stack }
			s.run(10 * second)
			ticks, stacks := len(s.ticks), s.stk
			s.run(40 * second)
			lock, stack := float64(len(s.ticks)-ticks)/30, float64(s.stk-stacks)/30
			least := lockHz
			if c.exact {
				least = stackHz
			}
			// The budget chooses rates at which the quality of figures is twice the least quality, so half of these
			// rates is enough.
			if got := lock >= least/2 && stack >= stackHz/2; got != c.enough {
				t.Errorf("%.1f samples and %.1f stacks a second, for the least quality %.1f and %.1f: enough is %v", lock, stack, least/2, stackHz/2, got)
			}
			if got := s.b.TakesMore(); got != c.more {
				t.Errorf("it takes more than usual: %v", got)
			}
			most := share
			if c.full {
				most /= 2
			}
			if c.more {
				most = c.most
			}
			if took := s.most(10 * second); took > most*(1+2*burstNS/(10*second))+(c.stack+c.lock)/(10*second)+c.beside/2 {
				t.Errorf("it takes %.2f %% of a CPU, of %.2f", 100*took, 100*most)
			}
			t.Logf("%.2f %%, %.1f and %.1f Hz", 100*s.most(10*second), lock, stack)
		})
	}
}

// TestBudgetAfterExpensiveTicks: a few very expensive ticks lower the rates far. The rates must recover soon. When
// ticks are rare, decisions of the rates are rare too, so each decision must raise the rates by more.
func TestBudgetAfterExpensiveTicks(t *testing.T) {
	const expensiveNS = 2e9
	stacks := func(lock, stack float64) int {
		s := newSpender(0.03, 1)
		s.b.Extend(0.06, sampler.QualityWindow)
		s.exact = true
		s.b.CountExact(true)
		costs := func(first, later float64) func(int, int64) float64 {
			return func(_ int, now int64) float64 {
				if now < expensiveNS {
					return first
				}
				return later
			}
		}
		s.lock, s.stack = costs(lock, 300e3), costs(stack, 2e6)
		s.run(3 * expensiveNS)
		before := s.stk
		s.run(5 * expensiveNS)
		return s.stk - before
	}
	if got, of := stacks(6e6, 20e6), stacks(300e3, 2e6); 3*got < 2*of {
		t.Errorf("%d stacks from the sixth to the tenth second, %d if the first ticks cost the same", got, of)
	}
}
