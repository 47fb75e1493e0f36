package gvltest

import (
	"fmt"
	"math/rand/v2"

	"github.com/ddtop/ddtop/sampler"
)

// World makes random streams of samples. Most of them could come from a real reader, and some could not: for example,
// samples in which several threads hold the same GVL.
type World struct {
	rng     *rand.Rand
	Now     int64
	next    sampler.ThreadID
	threads []sampler.Thread
	ractors int
	Stacks  []sampler.StackID
	// Churn is the chance that a thread begins or ends in a tick. Gaps is the chance of a long gap between ticks.
	Churn, Gaps float64
	tick        uint64
}

// NewWorld returns a World with the given numbers of threads and ractors.
func NewWorld(seed uint64, threads, ractors int, dict *sampler.Dictionary) *World {
	w := &World{rng: rand.New(rand.NewPCG(seed, 1)), Now: Base, ractors: ractors}
	for i := range 8 {
		f := dict.InternFrame(sampler.Frame{Label: fmt.Sprintf("Work#m%d", i), Path: "w.rb", Line: int32(i)})
		w.Stacks = append(w.Stacks, dict.InternStack(0, f))
	}
	for range threads {
		w.add()
	}
	return w
}

func (w *World) add() {
	w.next++
	t := Released(w.next)
	t.Ractor = sampler.RactorID(1 + int(w.next)%w.ractors)
	w.threads = append(w.threads, t)
}

// Sample advances the time by about a tick, changes some threads, and returns a sample.
func (w *World) Sample() *sampler.Sample {
	w.tick++
	w.Now += MS/2 + w.rng.Int64N(MS)
	if w.rng.Float64() < w.Gaps {
		w.Now += 600*MS + w.rng.Int64N(2000*MS)
	}
	if w.rng.Float64() < w.Churn {
		w.add()
	}
	if len(w.threads) > 2 && w.rng.Float64() < w.Churn {
		i := w.rng.IntN(len(w.threads))
		w.threads = append(w.threads[:i], w.threads[i+1:]...)
	}
	s := &sampler.Sample{TimeNS: w.Now, GC: sampler.GC{Valid: true, During: w.rng.IntN(20) == 0}}
	if w.tick%10 == 1 {
		s.Depth = sampler.StackTick
	}
	for r := range w.ractors {
		s.Ractors = append(s.Ractors, sampler.Ractor{ID: sampler.RactorID(r + 1)})
	}
	for i := range w.threads {
		if w.rng.IntN(4) == 0 {
			w.move(&w.threads[i])
		}
		t := &w.threads[i]
		r := &s.Ractors[int(t.Ractor)-1]
		switch {
		case t.Bits&sampler.BitLinked != 0:
			// In this world several threads may hold the same GVL, but a sample can name only two owners.
			if r.OwnerStart == 0 {
				r.OwnerStart = t.ID
			} else if r.OwnerEnd == 0 {
				r.OwnerEnd = t.ID
			}
		case t.Bits&sampler.BitQueued != 0:
			r.Queue = append(r.Queue, t.ID)
		}
	}
	s.Threads = append(s.Threads, w.threads...)
	return s
}

func (w *World) move(t *sampler.Thread) {
	id, ractor := t.ID, t.Ractor
	switch w.rng.IntN(6) {
	case 0:
		*t = Holder(id)
	case 1:
		*t = Queued(id)
	case 2:
		*t = Released(id)
	case 3:
		*t = Answered(Released(id), w.Now, "read", 3, 0)
	case 4:
		*t = Asleep(id, sampler.StoppedForever, sampler.BlockMutex)
	case 5:
		*t = Rechecked(Answered(Holder(id), w.Now, "write", 3, 0))
	}
	t.Ractor = ractor
	t.Stack = w.Stacks[w.rng.IntN(len(w.Stacks))]
}
