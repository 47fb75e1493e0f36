package gvl

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// gvlWorld is a GVL as Ruby hands it on: first in, first out. Each thread holds it for the length of its turn and wants it again at once.
type gvlWorld struct {
	now      int64
	turn     []int64 // by thread, from the first
	queue    []sampler.ThreadID
	owner    sampler.ThreadID
	untilNS  int64
	since    []int64   // since when each thread waits
	waits    [][]int64 // of each thread, those that are over
	cpu, got []int64   // its CPU time and its turns on a CPU
	seenCPU  []sampler.Kernel
}

func newGVLWorld(turns ...int64) *gvlWorld {
	w := &gvlWorld{now: base, turn: turns, owner: 1, untilNS: base + turns[0]}
	n := len(turns)
	w.since, w.waits, w.cpu, w.got, w.seenCPU = make([]int64, n), make([][]int64, n), make([]int64, n), make([]int64, n), make([]sampler.Kernel, n)
	for i := range n {
		w.since[i], w.got[i], w.seenCPU[i].FD = base, 1, -1
		if i > 0 {
			w.queue = append(w.queue, sampler.ThreadID(i+1))
		}
	}
	return w
}

// until lets time pass.
func (w *gvlWorld) until(at int64) {
	for w.untilNS <= at {
		last := int(w.owner) - 1
		w.cpu[last] += w.turn[last]
		w.now, w.since[last] = w.untilNS, w.untilNS
		w.queue = append(w.queue, w.owner)
		w.owner, w.queue = w.queue[0], w.queue[1:]
		i := int(w.owner) - 1
		w.waits[i] = append(w.waits[i], w.now-w.since[i])
		w.got[i]++
		w.untilNS = w.now + w.turn[i]
	}
	w.now = at
}

// sample reads it; counters: those of all threads are read, too.
func (w *gvlWorld) sample(counters bool) *sampler.Sample {
	s := &sampler.Sample{
		TimeNS: w.now, Ractors: []sampler.Ractor{{ID: 1, OwnerStart: w.owner, OwnerEnd: w.owner, Queue: slices.Clone(w.queue)}},
		GC: sampler.GC{Valid: true},
	}
	if counters {
		s.Depth = sampler.StackTick
	}
	for i := range w.turn {
		t := queued(sampler.ThreadID(i + 1))
		if t.ID == w.owner {
			t = holder(t.ID)
		}
		if k := &w.seenCPU[i]; counters {
			k.CPUAtNS, k.CPUNS, k.Turns = w.now+20_000, w.cpu[i], w.got[i]
		}
		t.Kernel = w.seenCPU[i]
		s.Threads = append(s.Threads, t)
	}
	return s
}
