package flamegraph

import (
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// feeder is a Collector, and the stream from which it gets its intervals.
type feeder struct {
	stream *stream.Stream
	c      *Collector
}

func newFeeder(p sampler.Process, out ...Sink) feeder {
	s := stream.New(p)
	return feeder{s, NewCollector(s, nil, out...)}
}

// Feed gives the Collector a sample whose threads are in the given states.
func (f feeder) Feed(s *sampler.Sample, states []gvl.ThreadState) {
	for i := range states {
		t := &s.Threads[i]
		states[i].Thread, states[i].Ractor, states[i].Stack = t.ID, t.Ractor, t.Stack
	}
	f.stream.Feed(s, states)
}

func (f feeder) Finish() {
	f.stream.Finish()
	f.c.Finish()
}

func everything(t testing.TB) (*Rolling, feeder) {
	r := newRolling(t, 0, 0)
	return r, newFeeder(sampler.Process{}, r)
}

func seen(states ...gvl.State) []gvl.ThreadState {
	var out []gvl.ThreadState
	for _, st := range states {
		out = append(out, gvl.ThreadState{State: st})
	}
	return out
}

func weightsOf(r *Rolling) map[Key]Weights {
	var s Snapshot
	r.Snapshot(&s)
	m := map[Key]Weights{}
	for _, e := range s.Entries {
		m[e.Key] = e.Weights
	}
	return m
}

// TestCollectorConservation: for every stream, no time is lost or counted twice. A thread's wall time is the time for
// which samples list the thread. Half of the interval before its first sample and half of the interval after its last
// one are part of it. The thread's CPU time is the difference of the kernel's counter. In the state Waiting, WaitNS
// equals WallNS.
func TestCollectorConservation(t *testing.T) {
	for seed := uint64(0); seed < uint64(rounds(200)); seed++ {
		rnd := rand.New(rand.NewPCG(seed, 7))
		r := newRolling(t, 0, 0)
		p := sampler.Process{LockRate: 1000}
		if seed%2 == 0 {
			p.LockRate = .001 // at such a low rate, no time between two samples is a gap
		}
		reach := stream.ReachOf(p)
		c := newFeeder(p, r)
		var missed int64
		type life struct {
			listed       int64
			last         int64
			gaps         int64
			cpu0, cpu    int64
			cpuAt        int64
			cpuSeen      bool
			stackSamples int64
		}
		lives := map[sampler.ThreadID]*life{}
		alive := map[sampler.ThreadID]bool{}
		nextID := sampler.ThreadID(1)
		now := int64(1e9)
		var cpu = map[sampler.ThreadID]int64{}
		for tick := range 400 {
			before := now
			now += 1 + rnd.Int64N(200e6)
			slow := tick/50%4 == 3
			if rnd.IntN(20) == 0 {
				now += rnd.Int64N(10e9)
			}
			limit := reach.GapNS
			if slow || tick > 0 && (tick-1)/50%4 == 3 {
				limit = reach.SlowGapNS
			}
			gap := tick > 0 && now-before > limit
			if gap {
				missed += now - before
			}
			if rnd.IntN(10) == 0 || len(alive) == 0 {
				alive[nextID] = true
				nextID++
			}
			if rnd.IntN(25) == 0 {
				for id := range alive {
					delete(alive, id)
					break
				}
			}
			s := &sampler.Sample{TimeNS: now, Slow: slow}
			if tick%7 == 0 || rnd.IntN(9) == 0 {
				s.Depth = sampler.StackTick
			}
			middle := before + (now-before)/2
			var states []gvl.State
			for id := sampler.ThreadID(1); id < nextID; id++ {
				l := lives[id]
				if !alive[id] {
					if l != nil && l.last == before && !gap {
						l.listed += middle - before
					}
					continue
				}
				cpu[id] += rnd.Int64N(1e6)
				th := sampler.Thread{ID: id, Ractor: 1, TID: int32(id), Stack: sampler.StackID(rnd.IntN(4) + 1)}
				if rnd.IntN(3) == 0 {
					th.Quality = sampler.StackFresh
				}
				if l == nil {
					l = &life{}
					lives[id] = l
					if tick > 0 && !gap {
						l.listed = now - middle
					}
				} else {
					l.listed += now - before
					if gap {
						l.gaps += now - before
					}
				}
				if rnd.IntN(5) == 0 || l.cpuAt != 0 {
					if rnd.IntN(4) == 0 || l.cpuAt == 0 {
						l.cpuAt, l.cpu = now, cpu[id]
						if !l.cpuSeen {
							l.cpuSeen, l.cpu0 = true, cpu[id]
						}
					}
					th.Kernel.CPUAtNS, th.Kernel.CPUNS = l.cpuAt, l.cpu
				}
				l.last = now
				if s.Depth == sampler.StackTick {
					l.stackSamples++
				}
				s.Threads = append(s.Threads, th)
				states = append(states, []gvl.State{gvl.Running, gvl.Waiting, gvl.IO, 0}[rnd.IntN(4)])
			}
			rnd.Shuffle(len(states), func(i, j int) {
				s.Threads[i], s.Threads[j] = s.Threads[j], s.Threads[i]
				states[i], states[j] = states[j], states[i]
			})
			c.Feed(s, seen(states...))
		}
		c.Finish()
		if c.stream.NotSampledNS() != missed || missed == 0 && seed%2 == 1 {
			t.Fatalf("seed %d: %d ns not sampled, want %d", seed, c.stream.NotSampledNS(), missed)
		}
		sums := map[sampler.ThreadID]Weights{}
		weights := weightsOf(r)
		for k, w := range weights {
			sums[k.Thread] = sums[k.Thread].Plus(w)
			if k.State == gvl.Waiting && w.WaitNS != w.WallNS || k.State != gvl.Waiting && w.WaitNS != 0 {
				t.Fatalf("seed %d: %v has wall %d and wait %d", seed, k, w.WallNS, w.WaitNS)
			}
		}
		for id, l := range lives {
			if got, want := weights[Key{Thread: id, State: gvl.Unknown}].WallNS, l.gaps; got != want {
				t.Fatalf("seed %d thread %d: %d ns of gaps, want %d", seed, id, got, want)
			}
			if got, want := sums[id].WallNS, l.listed; got != want {
				t.Fatalf("seed %d thread %d: wall %d, listed for %d", seed, id, got, want)
			}
			if got, want := sums[id].CPUNS, l.cpu-l.cpu0; got != want {
				t.Fatalf("seed %d thread %d: cpu %d, the kernel says %d", seed, id, got, want)
			}
			if got := sums[id].Samples; got != l.stackSamples {
				t.Fatalf("seed %d thread %d: %d samples, want %d", seed, id, got, l.stackSamples)
			}
		}
	}
}

func sample(at int64, depth sampler.Depth, threads ...sampler.Thread) *sampler.Sample {
	return &sampler.Sample{TimeNS: at, Depth: depth, Threads: threads}
}

func TestCollectorHalves(t *testing.T) {
	r, c := everything(t)
	th := func(stack sampler.StackID) sampler.Thread { return sampler.Thread{ID: 1, Ractor: 1, Stack: stack} }
	c.Feed(sample(1000, sampler.StackTick, th(10)), seen(gvl.Running))
	c.Feed(sample(1101, sampler.StackTick, th(11)), seen(gvl.Running))
	got := weightsOf(r)
	if a, b := got[Key{Thread: 1, Stack: 10, State: gvl.Running}].WallNS, got[Key{Thread: 1, Stack: 11, State: gvl.Running}].WallNS; a != 50 || b != 51 {
		t.Errorf("halves are %d and %d, want 50 and 51", a, b)
	}
}

// TestCollectorTagTellsStack: ddtop reads stacks less often than states. Between two readings of the stack, time in a
// state goes to the stack that was read when the thread was in the same state.
func TestCollectorTagTellsStack(t *testing.T) {
	r, c := everything(t)
	th := func(stack sampler.StackID) sampler.Thread { return sampler.Thread{ID: 1, Ractor: 1, Stack: stack} }
	c.Feed(sample(1000, sampler.StackTick, th(10)), seen(gvl.Running))
	c.Feed(sample(1800, sampler.LockTick, th(10)), seen(gvl.Running))
	c.Feed(sample(1900, sampler.LockTick, th(10)), seen(gvl.IO))
	c.Feed(sample(2000, sampler.StackTick, th(20)), seen(gvl.IO))
	want := map[Key]int64{{Thread: 1, Stack: 10, State: gvl.Running}: 850, {Thread: 1, Stack: 20, State: gvl.IO}: 150}
	got := weightsOf(r)
	for k, w := range got {
		if w.WallNS != want[k] {
			t.Errorf("%v: %d, want %d", k, w.WallNS, want[k])
		}
		delete(want, k)
	}
	if len(want) > 0 {
		t.Errorf("missing %v", want)
	}
}

// TestCollectorBlame: if threads wait while another thread holds the GVL, the holder's stack is charged with their
// waits.
func TestCollectorBlame(t *testing.T) {
	r, c := everything(t)
	tick := func(at int64, waiters int) {
		threads := []sampler.Thread{{ID: 1, Ractor: 1, Stack: 10, Quality: sampler.StackFresh}}
		states := []gvl.State{gvl.Running}
		for i := range 3 {
			threads = append(threads, sampler.Thread{ID: sampler.ThreadID(2 + i), Ractor: 1, Stack: 20})
			if i < waiters {
				states = append(states, gvl.Waiting)
			} else {
				states = append(states, gvl.IO)
			}
		}
		c.Feed(sample(at, sampler.LockTick, threads...), seen(states...))
	}
	tick(1000, 2)
	tick(2000, 2)
	tick(3000, 0)
	c.stream.SettleLocks()
	if got := weightsOf(r)[Key{Thread: 1, Stack: 10, State: gvl.Running}].BlameNS; got != 2000+1000 {
		t.Errorf("blame %d, want 3000", got)
	}
	var wait int64
	c.Finish()
	for _, w := range weightsOf(r) {
		wait += w.WaitNS
	}
	if wait != 3000 {
		t.Errorf("waiting time %d, want 3000: blame must equal it when somebody holds the GVL throughout", wait)
	}
}

// TestCollectorCPUFollowsRunning: CPU time goes to the stacks that were seen running. It does not go to stacks that
// waited.
func TestCollectorCPUFollowsRunning(t *testing.T) {
	r, c := everything(t)
	th := func(stack sampler.StackID, at, cpu int64) sampler.Thread {
		return sampler.Thread{ID: 1, Ractor: 1, TID: 7, Stack: stack, Kernel: sampler.Kernel{CPUAtNS: at, CPUNS: cpu}}
	}
	c.Feed(sample(1000, sampler.StackTick, th(10, 1000, 500)), seen(gvl.IO))
	c.Feed(sample(2000, sampler.StackTick, th(10, 1000, 500)), seen(gvl.IO))
	c.Feed(sample(3000, sampler.StackTick, th(11, 1000, 500)), seen(gvl.Running))
	c.Feed(sample(4000, sampler.StackTick, th(11, 4000, 1600)), seen(gvl.Running))
	got := weightsOf(r)
	if got[Key{Thread: 1, Stack: 11, State: gvl.Running}].CPUNS != 1100 || got[Key{Thread: 1, Stack: 10, State: gvl.IO}].CPUNS != 0 {
		t.Errorf("got %+v", got)
	}
	moved := th(11, 5000, 90000)
	moved.TID = 8 // an M:N thread on another native thread, which has another counter
	c.Feed(sample(5000, sampler.StackTick, moved), seen(gvl.Running))
	if n := weightsOf(r)[Key{Thread: 1, Stack: 11, State: gvl.Running}].CPUNS; n != 1100 {
		t.Errorf("after a change of native thread: cpu %d, want 1100", n)
	}
}

func steadyFeed(threads int) func() {
	r, err := NewRolling(30e9, 0)
	if err != nil {
		panic(err)
	}
	c := newFeeder(sampler.Process{LockRate: 1000, StackRate: 100}, r)
	s := &sampler.Sample{Threads: make([]sampler.Thread, threads)}
	states := make([]gvl.ThreadState, threads)
	n := 0
	return func() {
		n++
		s.TimeNS += 1e6
		s.Depth = sampler.LockTick
		if n%10 == 0 {
			s.Depth = sampler.StackTick
		}
		for i := range s.Threads {
			t := &s.Threads[i]
			t.ID, t.Ractor = sampler.ThreadID(i+1), 1
			t.Quality = 0
			states[i].State = gvl.Waiting
			if i == n/20%threads {
				states[i].State, t.Quality = gvl.Running, sampler.StackFresh
			}
			if s.Depth == sampler.StackTick {
				t.Stack = sampler.StackID(n/10%20*threads + i + 1)
				t.Kernel.CPUAtNS, t.Kernel.CPUNS = s.TimeNS, t.Kernel.CPUNS+1e5
			}
		}
		c.Feed(s, states)
	}
}

func TestCollectorSteadyStateAllocatesNothing(t *testing.T) {
	feed := steadyFeed(20)
	for range 70_000 { // twice the length of the window
		feed()
	}
	if n := testing.AllocsPerRun(5000, feed); n != 0 {
		t.Errorf("%v allocations a tick", n)
	}
}

func BenchmarkCollectorFeed100Threads(b *testing.B) {
	feed := steadyFeed(100)
	for range 2000 {
		feed()
	}
	b.ReportAllocs()
	for b.Loop() {
		feed()
	}
}
