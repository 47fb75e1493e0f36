package gvltest

import "github.com/ddtop/ddtop/sampler"

// MS is a millisecond in ns.
const MS = 1_000_000

// Sec is a second in ns.
const Sec = 1000 * MS

// Base is the time of the first sample in tests, CLOCK_MONOTONIC ns.
const Base = 1_000_000 * MS

// ProcOf returns a process of the given era. An era is a range of Ruby releases with the same kind of thread scheduler.
func ProcOf(era sampler.Era) sampler.Process {
	return sampler.Process{PID: 1, Era: era, StackRate: 100, LockRate: 1000}
}

// Released returns a thread in a blocking region, as the reader reports it.
func Released(id sampler.ThreadID) sampler.Thread {
	return sampler.Thread{
		ID: id, Ractor: 1, TID: int32(id) + 100, Status: sampler.Stopped, Bits: sampler.BitBlockingRegion,
		Blocked: sampler.Blocked{FD: -1}, Kernel: sampler.Kernel{FD: -1},
	}
}

// Asleep returns a thread that has released the GVL without entering a blocking region, as in sleep or a wait for a
// Queue.
func Asleep(id sampler.ThreadID, st sampler.Status, kind sampler.BlockKind) sampler.Thread {
	t := Released(id)
	t.Status, t.Bits, t.Blocked.Kind = st, 0, kind
	return t
}

// Holder returns a thread that holds the GVL.
func Holder(id sampler.ThreadID) sampler.Thread {
	t := Released(id)
	t.Status, t.Bits = sampler.Runnable, sampler.BitLinked
	return t
}

// Queued returns a thread in the queue for the GVL.
func Queued(id sampler.ThreadID) sampler.Thread {
	t := Released(id)
	t.Status, t.Bits = sampler.Runnable, sampler.BitQueued
	return t
}

// Answered returns the thread t with an answer of the kernel, as /proc shows it: the thread is in a system call.
func Answered(t sampler.Thread, at int64, call string, fd int32, peer sampler.PeerID) sampler.Thread {
	t.Kernel = sampler.Kernel{StateAtNS: at, Syscall: call, FD: fd, FDs: 1, Peer: peer, CPUAtNS: at}
	return t
}

// Rechecked returns t with Kernel.Rechecked set: after the kernel's answer about the thread's system call, the thread's
// memory was read again.
func Rechecked(t sampler.Thread) sampler.Thread {
	t.Kernel.Rechecked = true
	return t
}

// SampleAt returns a sample with one ractor, whose GVL has the given owner. The threads that Queued has made are in its
// queue.
func SampleAt(at int64, owner sampler.ThreadID, threads ...sampler.Thread) *sampler.Sample {
	s := &sampler.Sample{
		TimeNS: at, Depth: sampler.StackTick, Threads: threads, GC: sampler.GC{Valid: true},
		Ractors: []sampler.Ractor{{ID: 1, OwnerStart: owner, OwnerEnd: owner}},
	}
	for _, t := range threads {
		if t.Bits&sampler.BitQueued != 0 {
			s.Ractors[0].Queue = append(s.Ractors[0].Queue, t.ID)
			s.Ractors[0].Waiting++
		}
	}
	return s
}

// Eras has all eras of Ruby.
var Eras = []sampler.Era{sampler.EraFlag, sampler.EraOwner, sampler.EraSched}
