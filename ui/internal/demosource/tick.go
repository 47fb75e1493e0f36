package demosource

import (
	"slices"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// tick moves the simulation on by one step.
func (s *Source) tick() {
	s.now += step
	if o := s.owner; o != nil {
		s.held += step
		o.left -= step
		if o.do.kind != stall {
			o.cpuNS += step
		}
		switch {
		case o.left <= 0:
			s.owner = nil
			s.next(o, false)
		case s.held >= slice && len(s.queue) > 0 && o.do.kind == cpu:
			s.owner = nil
			o.waiting, o.after = true, false
			s.queue = append(s.queue, o)
		}
	}
	for _, t := range s.threads {
		if t.waiting || t == s.owner || t.do.kind == lock {
			continue
		}
		if t.do.kind == native {
			t.cpuNS += step
		}
		if t.left -= step; t.left <= 0 {
			s.next(t, true)
		}
	}
	if s.mutex == nil {
		for _, t := range s.threads {
			if t.do.kind == lock {
				s.mutex = t
				s.next(t, true)
				break
			}
		}
	}
	if s.owner == nil && len(s.queue) > 0 {
		s.owner = s.queue[0]
		s.owner.turns++
		s.queue = slices.Delete(s.queue, 0, 1)
		s.owner.waiting, s.held = false, 0
	}
}

// next begins a thread's next activity.
func (s *Source) next(t *thread, released bool) {
	const maxInstant = 16 // limits how many activities of zero length can follow each other
	for range maxInstant {
		t.do = t.script()
		t.left = t.do.ns
		s.serve(t)
		switch t.do.kind {
		case unlock:
			if s.mutex == t {
				s.mutex = nil
			}
			continue
		case lock:
			if s.mutex != nil {
				return
			}
			s.mutex = t
			continue
		case cpu, gc, stall:
			if t.left == 0 {
				continue
			}
			if !released && s.owner == nil && s.held < slice { // the thread keeps the GVL
				s.owner = t
				t.turns++
				return
			}
			t.waiting, t.after = true, released
			s.queue = append(s.queue, t)
			return
		}
		return
	}
}

// serve assigns a request or job to a thread, if the thread's new activity belongs to one.
func (s *Source) serve(t *thread) {
	if !s.opt.Serving {
		return
	}
	if w := t.do.begins; w.Kind != sampler.WorkNone {
		s.served++
		w.Number, w.SinceNS, w.BeforeNS = s.served, s.now, max(t.readNS, s.now-stackEach*step)
		if said := s.opt.Said; said != "" {
			w.Endpoint, w.Values, w.QueuedNS = w.Endpoint+said, said, int64(time.Second)
			t.serving.Exception = s.dict.InternText("IOError: " + said)
		}
		t.serving.Work = s.dict.InternWork(w)
	}
	if t.do.kind == park {
		t.serving = sampler.Serving{}
	}
	if t.serving.Statement = 0; t.do.statement != "" {
		t.serving.Statement = s.dict.InternText(t.do.statement + s.opt.Said)
	}
}

// read fills the n-th sample with what the simulated threads do at this instant.
func (s *Source) read(n int) *sampler.Sample {
	out := &s.sample
	out.TimeNS, out.ReadNS, out.Depth = s.now, 9_000, sampler.LockTick
	if n%stackEach == 0 {
		out.Depth = sampler.StackTick
	}
	r := sampler.Ractor{ID: 1, Waiting: int32(len(s.queue))}
	if len(out.Ractors) == 1 {
		r.Queue = out.Ractors[0].Queue[:0]
	}
	for _, t := range s.queue {
		r.Queue = append(r.Queue, t.id)
	}
	if s.owner != nil {
		r.OwnerStart, r.OwnerEnd = s.owner.id, s.owner.id
	}
	out.Ractors = append(out.Ractors[:0], r)
	out.Threads = out.Threads[:0]
	for _, t := range s.threads {
		out.Threads = append(out.Threads, s.evidence(t, out.Depth))
	}
	s.counters(n)
	if s.opt.Exact {
		s.change(n == 0)
	}
	return out
}

func (s *Source) evidence(t *thread, depth sampler.Depth) sampler.Thread {
	// A real Source asks the kernel about a thread less often than it reads memory. It asks about the threads in turn.
	// If a thread's activity has changed, it asks about this thread at once. This simulation does the same.
	const askEach = 64
	if tick := s.now / step; (tick+int64(t.id))%askEach == 0 || t.asked != t.do {
		t.asked, t.askedNS = t.do, s.now
		t.countedNS, t.cpu0, t.turns0 = s.now, t.cpuNS, t.turns+1
	}
	if t.waiting && depth == sampler.StackTick {
		t.countedNS, t.cpu0, t.turns0 = s.now, t.cpuNS, t.turns+1
	}
	e := sampler.Thread{ID: t.id, Ractor: 1, TID: 4241 + int32(t.id), Stack: t.do.stack, Serving: t.serving, Status: sampler.Runnable,
		Blocked: sampler.Blocked{FD: -1},
		Kernel:  sampler.Kernel{StateAtNS: t.askedNS, CPUAtNS: t.countedNS, CPUNS: t.cpu0, Turns: t.turns0, Syscall: "futex", FD: -1}}
	if t.main {
		e.Bits |= sampler.BitMain
	}
	if depth == sampler.StackTick || t == s.owner {
		e.Quality |= sampler.StackFresh
		t.readNS = s.now
	}
	switch {
	case t == s.owner:
		e.Bits |= sampler.BitLinked
		e.Kernel.Syscall = sampler.SyscallRunning
		if t.do.kind == stall {
			e.Kernel.Syscall, e.Kernel.Rechecked, e.Kernel.FD = t.do.syscall, true, t.do.fd
		}
		return e
	case t.waiting:
		e.Bits |= sampler.BitQueued
		if t.after {
			e.Bits |= sampler.BitBlockingRegion
		}
		return e
	}
	switch t.do.kind {
	case native:
		e.Status, e.Kernel.Syscall = sampler.Stopped, sampler.SyscallRunning
		e.Bits |= sampler.BitBlockingRegion
	case io:
		e.Status = sampler.Stopped
		e.Bits |= sampler.BitBlockingRegion
		e.Kernel.Syscall, e.Kernel.FD, e.Kernel.FDs, e.Kernel.Peer = t.do.syscall, t.do.fd, 1, t.do.peer
	case park:
		e.Status = sampler.StoppedForever
		e.Blocked.Kind, e.Blocked.Object = sampler.BlockQueue, 0x7f2c44a810a8
	case join:
		e.Status = sampler.StoppedForever
		e.Blocked.Kind, e.Blocked.Holder = sampler.BlockJoin, 2
	case sleep:
		e.Status = sampler.Stopped
		e.Blocked.Kind, e.Blocked.DeadlineNS = sampler.BlockSleep, s.now+t.left
	case lock:
		e.Status = sampler.StoppedForever
		e.Blocked.Kind, e.Blocked.Object = sampler.BlockMutex, 0x7f2c44a888e0
		if s.mutex != nil {
			e.Blocked.Holder = s.mutex.id
		}
	}
	return e
}

func (s *Source) counters(n int) {
	out := &s.sample
	age := s.now - startNS
	collecting := s.owner != nil && s.owner.do.kind == gc
	if collecting && !out.GC.During {
		out.GC.Count++
		if out.GC.Count%12 == 0 {
			out.GC.MajorCount++
		} else {
			out.GC.MinorCount++
		}
	}
	out.GC.Valid, out.GC.During = true, collecting
	out.GC.Mode = sampler.GCIdle
	if collecting {
		out.GC.Mode, out.GC.Minor = sampler.GCMarking, out.GC.Count%12 != 0
		out.GC.TimeNS += uint64(step)
	}
	out.GC.Allocated += 900
	out.GC.Pair = sampler.AllocPair{}
	const pairs = 7 // in every 7th tick, ddtop sees a thread allocate
	if s.owner != nil && !collecting && n%pairs == 0 {
		out.GC.Pair = sampler.AllocPair{Thread: s.owner.id, Objects: uint32(1 + n/pairs%3)}
	}
	const each = 250 // ticks between two reads of the process's counters
	if n%each == 0 {
		var sum int64
		for _, t := range s.threads {
			sum += t.cpuNS
		}
		out.Proc = sampler.Proc{AtNS: s.now, UserNS: sum, SystemNS: sum / 20, RSSBytes: 498_000_000 + age/2000,
			PSSBytes: 431_000_000 + age/2000, Switches: int64(2 * n), MajorFaults: age / 7e9}
		out.Self = sampler.Self{CPUNS: age * 23 / 1000, MaxRSSBytes: 41_000_000}
	}
	out.Reads.Ticks++
	out.Reads.Calls += 2
	if out.Depth == sampler.StackTick {
		out.Reads.StackTicks++
	}
}
