package live

import (
	"context"
	"errors"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// clocked samples until ctx or the target ends. It calls emit on another goroutine, so it returns even if a read hangs.
func (s *Source) clocked(ctx context.Context, emit func(*sampler.Sample)) error {
	var out apart.Door
	wanted, cancel := context.WithCancel(ctx)
	defer cancel()
	exited := s.proc.Exited()
	go func() {
		select {
		case <-exited:
			cancel()
		case <-wanted.Done():
		}
		wakeClock(s)
	}()
	err := s.reading.Do(wanted, func() error {
		return s.run(ctx, func(x *sampler.Sample) { out.Emit(emit, x) })
	}, out.Close)
	switch {
	case !errors.Is(err, attach.ErrNoAnswer):
		return err
	case ctx.Err() != nil:
		return nil // the caller ended ctx. Silent reports the read that hangs
	case wanted.Err() != nil:
		return s.finish("exited")
	}
	return err
}

// run is the loop of the clock, which does all sampling. It occupies an OS thread, which ends when run returns.
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
	sleep := pace.NewSleeper(s.pauses != nil) // with stops of the target, timers must be exact
	s.sleeper.Store(sleep)
	defer sleep.Close()
	defer s.sleeper.Store(nil)
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
		if c.Serves {
			s.budget.CountServing(false)
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
	s.failing.Succeeded()
	seen := pace.Monotonic()
	seenStacks := int64(0) // if no thread had a CPU since this time, the last sample with stacks is still valid
	var stackNS int64      // CPU time of the last stack tick, in ns
	var sampleNS int64     // CPU time of the last sample without stacks that followed a glance, in ns
	var glances *switchRun
	var bells pace.Bells
	var after int64 // CPU time of the glance after the last sample, in ns; it is added to the cost of the next tick
	told := false   // true if the records show which threads have had a CPU until now
	for {
		s.tickBegan.Store(0)
		due := c.Next
		switch x := s.switches.now.Load(); {
		case c.Slow && x != nil && len(s.beginning) == 0 && x.ring(sleep, &bells):
			if told && c.Exact && x.still(min(seenStacks, pace.Monotonic()-pace.CalmNS)) { // no thread had a CPU
				due = max(due, pace.Monotonic()+int64(pace.UntilTurn(besideEvery, besideEvery/4)))
			}
		case fetchesItself(s, sleep, c.Slow):
			every := int64(workEveryNS)
			if c.Slow {
				every = slowWorkEveryNS
			}
			if len(s.beginning) > 0 {
				every = max(every, s.looks.Rest(s.budget.BesideRecords()))
			}
			due = min(due, pace.Monotonic()+every)
		}
		sleep.Unless(due, over)
		// Two selects with one channel each are cheaper than one select with two channels, which would lock both.
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
		c.Wait(min(now, due)) // a tick that was skipped on purpose is not late
		stackEvery, lockEvery := s.rates.Intervals()
		if exact := s.exact.is() || s.switches.is(); exact != c.Exact {
			c.Exact = exact
			c.Hurry(now)
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
			lockEvery = min(stackEvery, max(lockEvery, float64(s.view.OldestNS))) // ticks read only counters
		}
		s.budget.Pace(c, stackEvery, lockEvery)
		between := now < c.Next
		moves := s.learnMoves(cost)
		told = moves != nil
		if x := s.switches.now.Load(); between && x != nil && c.Next-now > namesLateNS && x.unnamed() &&
			s.looks.Allows(now, s.budget.BesideRecords()) {
			s.ticking.Lock()
			x.nameStacks()
			s.ticking.Unlock()
			s.looks.Spend(cost.Since())
		}
		if between && (len(s.beginning) == 0 || !s.looks.Allows(now, s.budget.BesideRecords())) {
			continue
		}
		depth, late := sampler.LockTick, uint64(0)
		if !between {
			depth, late = c.Tick(now)
			if x := s.switches.now.Load(); c.Slow && moves != nil && x.still(seenStacks) {
				if now-seen < stillEveryNS {
					s.note(c, now, false)
					continue // the last sample is still valid
				}
				// Only stacks show the end of a request. They are read rarely here, because no thread has had a CPU.
				depth = sampler.StackTick
			}
		}
		paid := depth // the depth that the budget is charged for
		if now-s.lastCheck > checkNS {
			s.lastCheck = now
			if err := s.gone(attach.ErrGone); err != nil {
				return err
			}
		}
		s.ticking.Lock()
		s.reader.SetMoves(moves)
		s.reader.LookAt(s.beginning)
		s.beginning = s.beginning[:0]
		s.reader.Reads().Late += late
		if glances != nil {
			glances.catchUp()
			_ = cost.Since() // drops the cost of catchUp, because fewer glances would not lower this cost
			moving := glances.glance()
			switch {
			case depth == sampler.StackTick:
			case now-seen >= pace.GlanceGap(sampleNS, s.budget.InForce(), c.Slow):
				paid = sampler.StackTick // the budget is charged for a stack tick
			default:
				s.ticking.Unlock()
				all, stacks := s.budget.Spent(depth, cost.Since(), stackNS, pace.Monotonic(), pace.OwnCPU)
				c.Wait(all)
				c.Rest(s.rests(), stacks)
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
			running := s.Running.is()
			s.listThreads(c.Exact || running)
			sample.Runs = sample.Runs[:0]
			if x := s.Running.now.Load(); running {
				x.NameStacks()
				x.Fill(&sample, s.listing.list)
			}
		}
		spent := cost.Since() + after
		after = 0
		if err == nil && c.Exact {
			nameStacks(s, &sample)
			// the cost of naming stacks is not added to the cost of ticks, because fewer ticks would not mean fewer
			// stacks to name
			s.looks.Spend(cost.Since())
		}
		s.ticking.Unlock()
		if paid == sampler.StackTick {
			stackNS = spent
		}
		if paid != depth {
			sampleNS = spent
		}
		if between {
			s.looks.Spend(spent) // the budget counts this time as work beside the ticks
		} else {
			all, stacks := s.budget.Spent(paid, spent, stackNS, pace.Monotonic(), pace.OwnCPU)
			c.Wait(all)
			c.Rest(s.rests(), stacks)
		}
		if cause := err; err != nil {
			if now-s.lastCheck > failCheckNS {
				// If the process has called exec, the addresses that ddtop knows are wrong. So check for this now.
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
		s.failing.Succeeded()
		if at := sample.TimeNS + sample.ReadNS; at-seen > reuseNS && !s.proc.Alive() {
			// Memory is read by PID, and PIDs are reused. If the process still lives, the memory was its own.
			if err := s.gone(attach.ErrGone); err != nil {
				return err
			}
		}
		if seen = sample.TimeNS; depth == sampler.StackTick {
			seenStacks = now - recordLateNS
		}
		s.slowCounters(&sample, false)
		s.countClasses(&sample)
		if !c.Serves && serves(s, &sample) {
			c.Serves = true
			s.budget.CountServing(true)
		}
		s.note(c, now, busy(&sample))
		s.tickBegan.Store(0)
		emit(&sample)
		if glances != nil {
			after = cost.Since()
		}
	}
}

// nameStacks names the stacks of earlier changes of the GVL. It also notes which threads serve requests or jobs in the
// sample.
func nameStacks(s *Source, sample *sampler.Sample) {
	if x := s.exact.now.Load(); x != nil {
		x.nameStacks()
	}
	if x := s.switches.now.Load(); x != nil {
		x.nameStacks()
		x.sampled(sample)
	}
}

// note tells the clock whether any thread runs, waits for the GVL or collects garbage. If this changes the clock's
// speed, note tells the budget, too.
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

// serves reports whether a thread serves a request or a job, according to a sample or to records of thread switches.
func serves(s *Source, sample *sampler.Sample) bool {
	if x := s.switches.now.Load(); x != nil && x.served() {
		return true
	}
	for i := range sample.Threads {
		if sample.Threads[i].Serving.Work != 0 {
			return true
		}
	}
	return false
}

// fetchesItself reports whether the clock must wake up between ticks to learn which threads begin work. For a process
// that is idle and never served requests, ticks are enough. This saves two thirds of the wake-ups.
func fetchesItself(s *Source, sleep *pace.Sleeper, slow bool) bool {
	switch x := s.switches.now.Load(); {
	case x == nil || !x.on() || x.glances():
		return false
	case len(s.beginning) > 0: // threads that have begun work still wait to be read
		return true
	case slow && !x.served() && (s.queuesNow == nil || len(s.queuesNow.Pools) == 0):
		return false
	}
	return !sleep.Wakes() || !fetching.is()
}

// wakeClock wakes the clock. The clock then checks whether it must end, and which threads have begun work.
func wakeClock(s *Source) {
	if z := s.sleeper.Load(); z != nil {
		z.Wake()
	}
}

// glances returns the switchRun if it needs glances (short reads of states) between samples. Otherwise it returns nil.
func (s *Source) glances() *switchRun {
	if x := s.switches.now.Load(); x != nil && x.on() && x.glances() {
		return x
	}
	return nil
}

// last takes one more sample, with all counters, when Run ends. It does not stop the target. If the read fails, no
// sample is emitted.
func (s *sampling) last(emit func(*sampler.Sample), sample *sampler.Sample) {
	if sample.TimeNS == 0 {
		return // no sample was taken at all
	}
	sample.Runs = nil // the previous sample already has these Runs
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

// learnMoves returns when each thread last had a CPU, so that a tick need not read threads that had none. It also notes
// threads that have begun work, and finds the requests that BPF programs have copied.
func (s *Source) learnMoves(cost *pace.Meter) (moves ruby.Moves) {
	if x := s.switches.now.Load(); x != nil && s.pauses == nil {
		moves, s.beginning = x.whoMoved(s.beginning)
		s.beginning = s.beginning[max(len(s.beginning)-maxBeginning, 0):] // keeps the newest
		x.findRequests(cost)
	}
	return moves
}
