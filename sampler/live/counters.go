package live

import (
	"context"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live/internal/cstacks"
	"github.com/ddtop/ddtop/sampler/live/internal/kernelview"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// besideEvery is the interval between two reads of the slow counters, and between two searches for the ends of sockets.
// If ddtop samples many processes, it skips reads of the counters, but never more than slowTurns - 1 in a row.
const (
	besideEvery = time.Second
	slowTurns   = 4
	// queuesNS is the interval between reads of the queues of requests in the process's memory, in ns. The kernel's
	// queues are read every besideEvery.
	queuesNS = 1_000_000_000
)

// beside starts a goroutine that names sockets and reads slow counters. The returned function stops it, and waits.
func (s *sampling) beside() func() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// All Sources wake up at the same instants. A wake-up of ddtop costs as much as the work after it, so common
		// wake-ups save time.
		tick := time.NewTimer(pace.UntilTurn(besideEvery, 0))
		defer tick.Stop()
		var locks lockWatch
		defer locks.close()
		var native cstacks.Watch
		defer native.Close()
		s.readSlow()
		for turn := int32(s.info.PID % slowTurns); ; turn++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				tick.Reset(pace.UntilTurn(besideEvery, besideEvery/2))
				// An error is not reported: the screen then shows the sockets without a name.
				_, _ = s.tasks.ResolveSockets(ctx, pace.Monotonic())
				if turn%min(max(s.sharers.Load()/procSharers, 1), slowTurns) == 0 {
					s.readSlow()
				}
				s.findPublishedAgain()
				s.readLocks(ctx, &locks, pace.Monotonic())
				s.readNative(ctx, &native, pace.Monotonic())
			}
		}
	}()
	return func() { stop(); <-done }
}

func (s *sampling) readSlow() {
	now := s.slow.Read(pace.Monotonic(), int(s.sharers.Load()), s.unmoved)
	now.CPUUse = s.names.CPUUse(now.CPUUse)
	s.slowNow.Store(&now)
}

// busy reports whether any thread ran, waited for the GVL or collected garbage in a sample.
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

// slowCounters adds to a sample the counters that are read only seldom. If all is true, it reads all of them now.
func (s *sampling) slowCounters(sample *sampler.Sample, all bool) {
	now := sample.TimeNS
	every := min(kernelview.ProcNS*max(int64(s.sharers.Load())/procSharers, 1), slowProcNS)
	if sample.Slow {
		every = slowProcNS
	}
	every = min(every, s.view.OldestNS)
	if all || now-s.lastProc >= every {
		s.lastProc = now
		if p, err := s.counts.Read(now); err == nil {
			s.procNow = p
			s.view.Frozen = p.Frozen
			if !all { // a single sample cannot show whether CPUs are scarce
				s.budget.Look(now, kernel.IdleNS, p.Pressure, &s.press)
			}
		}
	}
	sample.Proc, sample.Self = s.procNow, kernelview.OwnCost.Read(now, all)
	sample.Proc.Frozen = s.view.Frozen
	if slow := s.slowNow.Load(); slow != nil {
		sample.Proc.PSSBytes, sample.Proc.Switches, sample.CPUUse = slow.PSSBytes, slow.Switches, slow.CPUUse
		s.readQueues(now, slow, all)
	}
	sample.Queues = s.queuesNow
	s.tellTIDs(sample)
	sample.NativeLocks = s.locksNow.Load()
	s.tellPlaces(sample)
	s.nativeFrames(sample)
	sample.Native = s.watch
	sample.Self.Priority = s.priority
	sample.Self.Halved, sample.Self.Lowered = s.budget.Says()
	sample.Self.Extended = s.budget.TakesMore()
}

// readQueues reads the kernel's and the process's own queues of requests, at most once in queuesNS unless all is true.
func (s *sampling) readQueues(now int64, slow *kernel.SlowCounts, all bool) {
	if !all && s.queuesNow != nil && now-s.queuesNow.AtNS < queuesNS {
		return
	}
	q := &sampler.Queues{AtNS: now, Accept: slow.Accept}
	q.Accept.HeldByPassenger()
	s.ticking.Lock()
	s.reader.Pools(q)
	s.ticking.Unlock()
	s.queuesNow = s.names.Queues(q)
}
