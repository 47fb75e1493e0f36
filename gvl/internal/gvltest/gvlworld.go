package gvltest

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// GVLWorld simulates a GVL. As in Ruby, threads get it in the order in which they asked for it. Each thread holds the
// GVL for a fixed time, and then wants it again at once.
type GVLWorld struct {
	Now      int64
	turn     []int64 // length of each thread's holds, in ns
	queue    []sampler.ThreadID
	Owner    sampler.ThreadID
	untilNS  int64
	Since    []int64   // the time since which each thread waits
	Waits    [][]int64 // lengths of each thread's waits that have ended
	cpu, got []int64   // each thread's CPU time and number of times on a CPU
	seenCPU  []sampler.Kernel
}

// NewGVLWorld returns a GVLWorld with one thread for each element of turns. The element is how long this thread holds
// the GVL each time, in ns.
func NewGVLWorld(turns ...int64) *GVLWorld {
	w := &GVLWorld{Now: Base, turn: turns, Owner: 1, untilNS: Base + turns[0]}
	n := len(turns)
	w.Since, w.Waits, w.cpu, w.got, w.seenCPU = make([]int64, n), make([][]int64, n), make([]int64, n), make([]int64, n), make([]sampler.Kernel, n)
	for i := range n {
		w.Since[i], w.got[i], w.seenCPU[i].FD = Base, 1, -1
		if i > 0 {
			w.queue = append(w.queue, sampler.ThreadID(i+1))
		}
	}
	return w
}

// Until advances the simulation to a time.
func (w *GVLWorld) Until(at int64) {
	for w.untilNS <= at {
		last := int(w.Owner) - 1
		w.cpu[last] += w.turn[last]
		w.Now, w.Since[last] = w.untilNS, w.untilNS
		w.queue = append(w.queue, w.Owner)
		w.Owner, w.queue = w.queue[0], w.queue[1:]
		i := int(w.Owner) - 1
		w.Waits[i] = append(w.Waits[i], w.Now-w.Since[i])
		w.got[i]++
		w.untilNS = w.Now + w.turn[i]
	}
	w.Now = at
}

// Sample returns a sample of the simulated GVL. If counters is set, the sample also has the counters of all threads.
func (w *GVLWorld) Sample(counters bool) *sampler.Sample {
	s := &sampler.Sample{
		TimeNS: w.Now, Ractors: []sampler.Ractor{{ID: 1, OwnerStart: w.Owner, OwnerEnd: w.Owner, Queue: slices.Clone(w.queue)}},
		GC: sampler.GC{Valid: true},
	}
	if counters {
		s.Depth = sampler.StackTick
	}
	for i := range w.turn {
		t := Queued(sampler.ThreadID(i + 1))
		if t.ID == w.Owner {
			t = Holder(t.ID)
		}
		if k := &w.seenCPU[i]; counters {
			k.CPUAtNS, k.CPUNS, k.Turns = w.Now+20_000, w.cpu[i], w.got[i]
		}
		t.Kernel = w.seenCPU[i]
		s.Threads = append(s.Threads, t)
	}
	return s
}
