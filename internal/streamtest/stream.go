// Package streamtest makes random streams of samples. Tests use them to compute the same figures in two ways and
// compare the results.
package streamtest

import (
	"math/rand/v2"

	"github.com/ddtop/ddtop/sampler"
)

// Stream makes samples of a made-up process whose threads come and go. For some threads, the kernel's report of the
// state comes only some samples later. There are gaps without samples.
type Stream struct {
	// Fixed is true if the stream always has the same threads.
	Fixed bool
	// Damaged is true if the stream changes its samples by the function Damage.
	Damaged bool
	damaged sampler.Sample

	rnd     *rand.Rand
	stacks  []sampler.StackID
	s       sampler.Sample
	nextID  sampler.ThreadID
	samples int
	// unanswered is the number of samples after which the kernel's report about a thread comes at the latest.
	unanswered int
	askAt      map[sampler.ThreadID]int
}

// New returns a stream. Two streams with the same seed have the same samples.
func New(seed uint64, dict *sampler.Dictionary) *Stream {
	g := &Stream{rnd: rand.New(rand.NewPCG(seed, 11)), askAt: make(map[sampler.ThreadID]int), unanswered: 1 << (seed % 12)}
	for _, label := range []string{"Work#a", "Work#b", "Work#c", "Work#d"} {
		g.stacks = append(g.stacks, dict.InternStack(0, dict.InternFrame(sampler.Frame{Label: label, Path: "w.rb"})))
	}
	g.s = sampler.Sample{TimeNS: 5e9, Ractors: []sampler.Ractor{{ID: 1}}}
	for range 6 {
		g.start()
	}
	return g
}

// Process returns the process to which all streams belong, with the given sampling rates in Hz.
func Process(lockRate, stackRate float64) sampler.Process {
	return sampler.Process{PID: 1, Era: sampler.EraSched, LockRate: lockRate, StackRate: stackRate, RubyVersion: "3.4.1"}
}

func (g *Stream) start() {
	g.nextID++
	g.s.Threads = append(g.s.Threads, sampler.Thread{
		ID: g.nextID, Ractor: 1, TID: int32(100 + g.nextID), Blocked: sampler.Blocked{FD: -1}, Kernel: sampler.Kernel{FD: -1},
		Stack: g.stacks[0],
	})
}

// lostEvery is the number of samples from one report of lost samples to the next.
const lostEvery = 97

// Next returns the next sample. It is valid until the next call of Next. Every tenth sample has stacks.
func (g *Stream) Next() *sampler.Sample {
	s := &g.s
	s.TimeNS += 1 + g.rnd.Int64N(3e6)
	if g.rnd.IntN(60) == 0 {
		s.TimeNS += g.rnd.Int64N(2e9)
	}
	s.Slow = g.samples/100%3 == 1
	s.Depth = sampler.LockTick
	if g.samples%10 == 0 {
		s.Depth = sampler.StackTick
	}
	g.samples++
	if g.samples%lostEvery == 0 {
		s.Reads.Lost += 1 + uint64(g.samples%3)
	}
	if !g.Fixed && g.rnd.IntN(40) == 0 {
		g.start()
	}
	if n := len(s.Threads); !g.Fixed && n > 4 && g.rnd.IntN(40) == 0 {
		i := g.rnd.IntN(n)
		s.Threads = append(s.Threads[:i], s.Threads[i+1:]...)
	}
	owner := g.rnd.IntN(len(s.Threads))
	for i := range s.Threads {
		g.move(&s.Threads[i], i == owner)
	}
	s.Ractors[0].OwnerStart, s.Ractors[0].OwnerEnd = s.Threads[owner].ID, s.Threads[owner].ID
	if g.Damaged {
		g.damaged.CopyFrom(s)
		Damage(g.rnd, &g.damaged)
		return &g.damaged
	}
	return s
}

// Damage changes a sample as a hostile process or a damaged recording could. For example, a thread is listed twice or
// is missing for a moment, threads have another order, a time goes back, or samples are lost.
func Damage(rng *rand.Rand, s *sampler.Sample) {
	switch rng.IntN(12) {
	case 0:
		s.Threads = append(s.Threads, s.Threads[rng.IntN(len(s.Threads))])
	case 1:
		rng.Shuffle(len(s.Threads), func(i, j int) { s.Threads[i], s.Threads[j] = s.Threads[j], s.Threads[i] })
	case 2:
		i := rng.IntN(len(s.Threads))
		s.Threads = append(s.Threads[:i:i], s.Threads[i+1:]...)
	case 3:
		s.TimeNS -= rng.Int64N(5e6)
	case 4:
		s.Reads.Lost = uint64(rng.IntN(2))
	case 5:
		s.Slow = true
	}
}

// move changes at random what a thread does in the next sample.
func (g *Stream) move(t *sampler.Thread, owner bool) {
	t.Quality = 0
	if g.s.Depth == sampler.StackTick || g.rnd.IntN(20) == 0 {
		t.Quality = sampler.StackFresh
		if g.rnd.IntN(3) == 0 {
			t.Stack = g.stacks[g.rnd.IntN(len(g.stacks))]
		}
	}
	t.Bits &^= sampler.BitLinked
	if owner {
		t.Bits, t.Status, t.Blocked.Kind = sampler.BitLinked, sampler.Runnable, sampler.BlockNone
		return
	}
	if at, ok := g.askAt[t.ID]; ok && g.samples >= at {
		delete(g.askAt, t.ID)
		g.answer(t)
	}
	if g.rnd.IntN(8) != 0 {
		return
	}
	delete(g.askAt, t.ID)
	t.Status, t.Bits, t.Blocked = sampler.Stopped, sampler.BitBlockingRegion, sampler.Blocked{FD: -1}
	switch g.rnd.IntN(6) {
	case 0:
		t.Status, t.Bits = sampler.Runnable, sampler.BitQueued
	case 1:
		t.Blocked.Kind, t.Status = sampler.BlockMutex, sampler.StoppedForever
	case 2:
		t.Blocked.Kind = sampler.BlockSleep
	case 3, 4:
		t.Kernel = sampler.Kernel{FD: -1}
		g.askAt[t.ID] = g.samples + 1 + g.rnd.IntN(g.unanswered)
	default:
		g.answer(t)
	}
}

// answer sets what the kernel reports about a thread in this sample.
func (g *Stream) answer(t *sampler.Thread) {
	at := g.s.TimeNS
	calls := []string{"read", "futex", sampler.SyscallRunning, "poll"}
	t.Kernel = sampler.Kernel{FD: -1, StateAtNS: at, CPUAtNS: at, CPUNS: at / 3, Syscall: calls[g.rnd.IntN(len(calls))]}
}
