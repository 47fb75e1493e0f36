package gvl

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestClassify(t *testing.T) {
	dict := sampler.NewDictionary()
	pg := dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.5:5432", Service: "PostgreSQL"})
	event := dict.InternPeer(sampler.Peer{Kind: sampler.PeerEventFD})
	listener := dict.InternPeer(sampler.Peer{Kind: sampler.PeerListener, Local: "0.0.0.0:80"})
	dns := dict.InternPeer(sampler.Peer{Kind: sampler.PeerUDP, Remote: "10.0.0.2:53"})
	label := func(labels ...string) sampler.StackID {
		var ids []sampler.FrameID
		for _, l := range labels {
			ids = append(ids, dict.InternFrame(sampler.Frame{Label: l, C: true}))
		}
		return dict.InternStackOf(ids)
	}
	withStack := func(th sampler.Thread, labels ...string) sampler.Thread {
		th.Stack, th.Quality = label(labels...), sampler.StackFresh
		return th
	}
	with := func(s *sampler.Sample, f func(*sampler.Sample)) *sampler.Sample { f(s); return s }
	blocked := func(th sampler.Thread, b sampler.Blocked) sampler.Thread { th.Blocked = b; return th }
	bits := func(th sampler.Thread, b sampler.ThreadBits) sampler.Thread { th.Bits = b; return th }

	tests := []struct {
		name  string
		eras  []sampler.Era // nil: all
		s     *sampler.Sample
		state State // of thread 1
		check func(Detail) bool
	}{
		{"holder runs", nil, sampleAt(base, 1, holder(1)), Running, nil},
		{"holder collects", nil, with(sampleAt(base, 1, holder(1)), func(s *sampler.Sample) {
			s.GC.During, s.GC.Minor, s.GC.Mode = true, true, sampler.GCSweeping
		}), GC, func(d Detail) bool { return d.GCMinor && d.GCMode == sampler.GCSweeping }},
		{"gc mode without during is not gc", nil, with(sampleAt(base, 1, holder(1)), func(s *sampler.Sample) {
			s.GC.Mode = sampler.GCMarking
		}), Running, nil},
		{"during without valid is not gc", nil, with(sampleAt(base, 1, holder(1)), func(s *sampler.Sample) {
			s.GC = sampler.GC{During: true}
		}), Running, nil},
		{"holder asleep, rechecked", nil, sampleAt(base, 1, rechecked(answered(holder(1), base, "clock_nanosleep", -1, 0))),
			Stalled, func(d Detail) bool { return d.Syscall == "clock_nanosleep" }},
		{"holder in a page fault", nil, sampleAt(base, 1, rechecked(answered(holder(1), base, sampler.SyscallNone, -1, 0))),
			Stalled, func(d Detail) bool { return d.Syscall == sampler.SyscallNone && d.FD == -1 }},
		{"holder asleep, not rechecked", nil, sampleAt(base, 1, answered(holder(1), base, "futex", -1, 0)), Running, nil},
		{"holder asleep, old answer", nil, sampleAt(base, 1, rechecked(answered(holder(1), base-1000*ms, "read", 3, 0))),
			Running, nil},
		{"holder on a CPU", nil, sampleAt(base, 1, rechecked(answered(holder(1), base, sampler.SyscallRunning, -1, 0))),
			Running, nil},
		{"queued", nil, sampleAt(base, 2, queued(1), holder(2)), Waiting,
			func(d Detail) bool { return d.Wait == WaitQueue }},
		{"queued after a blocking region", nil,
			sampleAt(base, 2, bits(released(1), sampler.BitQueued|sampler.BitBlockingRegion), holder(2)), Waiting,
			func(d Detail) bool { return d.Wait == WaitQueue }},
		{"head of the queue without an owner", []sampler.Era{sampler.EraFlag, sampler.EraOwner},
			sampleAt(base, 0, queued(1), queued(2)), Waiting, func(d Detail) bool { return d.Wait == WaitHandover }},
		{"behind the head without an owner", []sampler.Era{sampler.EraOwner},
			sampleAt(base, 0, queued(1), queued(2)), Waiting, nil},
		{"queue without an owner, 3.3+", []sampler.Era{sampler.EraSched}, sampleAt(base, 0, queued(1)), Waiting,
			func(d Detail) bool { return d.Wait == WaitQueue }},
		{"chosen, not running yet", []sampler.Era{sampler.EraSched}, sampleAt(base, 1, bits(released(1), 0)), Waiting,
			func(d Detail) bool { return d.Wait == WaitHandover }},
		{"chosen, no native thread", []sampler.Era{sampler.EraSched},
			sampleAt(base, 1, bits(released(1), sampler.BitUnmounted)), Waiting,
			func(d Detail) bool { return d.Wait == WaitCPUSlot }},
		{"yielding", nil, sampleAt(base, 2, bits(holder(1), 0), holder(2)), Waiting,
			func(d Detail) bool { return d.Wait == WaitYield }},
		{"inferred waiter", []sampler.Era{sampler.EraFlag},
			sampleAt(base, 2, bits(holder(1), sampler.BitQueued|sampler.BitInferred), holder(2)), Waiting,
			func(d Detail) bool { return d.Inferred }},
		{"mutex", nil, sampleAt(base, 0, blocked(asleep(1, sampler.StoppedForever, 0),
			sampler.Blocked{Kind: sampler.BlockMutex, Object: 0xa8, Holder: 7, FD: -1})), Lock,
			func(d Detail) bool { return d.Kind == "Mutex" && d.Object == 0xa8 && d.Holder == 7 }},
		{"monitor", nil, sampleAt(base, 0, asleep(1, sampler.StoppedForever, sampler.BlockMonitor)), Lock,
			func(d Detail) bool { return d.Kind == "Monitor" }},
		{"queue", nil, sampleAt(base, 0, asleep(1, sampler.StoppedForever, sampler.BlockQueue)), Parked,
			func(d Detail) bool { return d.Kind == "Queue" }},
		{"sized queue", nil, sampleAt(base, 0, asleep(1, sampler.StoppedForever, sampler.BlockSizedQueue)), Parked, nil},
		{"condvar", nil, sampleAt(base, 0, asleep(1, sampler.StoppedForever, sampler.BlockConditionVariable)), Parked,
			func(d Detail) bool { return d.Kind == "ConditionVariable" }},
		{"join", nil, sampleAt(base, 0, blocked(asleep(1, sampler.StoppedForever, 0),
			sampler.Blocked{Kind: sampler.BlockJoin, Holder: 3, FD: -1})), Parked,
			func(d Detail) bool { return d.Joined == 3 && d.Holder == 0 && d.Kind == "Thread" }},
		{"ractor", nil, sampleAt(base, 0, asleep(1, sampler.StoppedForever, sampler.BlockRactor)), Parked, nil},
		{"sleep", nil, sampleAt(base, 0, blocked(asleep(1, sampler.Stopped, 0),
			sampler.Blocked{Kind: sampler.BlockSleep, DeadlineNS: 5, FD: -1})), Sleeping,
			func(d Detail) bool { return d.DeadlineNS == 5 }},
		{"sleep for ever", nil, sampleAt(base, 0, asleep(1, sampler.StoppedForever, sampler.BlockSleepForever)), Sleeping, nil},
		{"child by memory", nil, sampleAt(base, 0, blocked(asleep(1, sampler.Stopped, 0),
			sampler.Blocked{Kind: sampler.BlockChild, Child: 77, FD: -1})), IO,
			func(d Detail) bool { return d.Op == OpChild && d.Child == 77 }},
		{"fd by memory, kernel not asked", nil, sampleAt(base, 0, blocked(released(1),
			sampler.Blocked{Kind: sampler.BlockIO, FD: 9})), IO,
			func(d Detail) bool { return d.Op == OpIO && d.FD == 9 }},
		{"fd by memory, read by the kernel", nil, sampleAt(base, 0, answered(blocked(released(1),
			sampler.Blocked{Kind: sampler.BlockIO, FD: 9}), base, "read", 9, pg)), IO,
			func(d Detail) bool { return d.Op == OpRead && d.FD == 9 && d.Peer == pg }},
		{"fd by memory, on a CPU", nil, sampleAt(base, 0, answered(blocked(released(1),
			sampler.Blocked{Kind: sampler.BlockIO, FD: 9}), base, sampler.SyscallRunning, -1, 0)), Native, nil},
		{"select by memory", nil, sampleAt(base, 0, asleep(1, sampler.Stopped, sampler.BlockSelect)), IO,
			func(d Detail) bool { return d.Op == OpSelect }},
		{"read", nil, sampleAt(base, 0, answered(released(1), base, "recvfrom", 14, pg)), IO,
			func(d Detail) bool { return d.Op == OpRead && d.FD == 14 && d.Peer == pg && d.Syscall == "recvfrom" }},
		{"write", nil, sampleAt(base, 0, answered(released(1), base, "write", 1, 0)), IO,
			func(d Detail) bool { return d.Op == OpWrite }},
		{"connect", nil, sampleAt(base, 0, answered(released(1), base, "connect", 1, 0)), IO,
			func(d Detail) bool { return d.Op == OpConnect }},
		{"accept", nil, sampleAt(base, 0, answered(released(1), base, "accept4", 4, 0)), IO,
			func(d Detail) bool { return d.Op == OpAccept }},
		{"poll of a listener is accept", nil, sampleAt(base, 0, answered(released(1), base, "poll", 4, listener)), IO,
			func(d Detail) bool { return d.Op == OpAccept }},
		{"poll before a read is read", nil,
			sampleAt(base, 0, withStack(answered(released(1), base, "poll", 4, pg), "IO#gets", "x")), IO,
			func(d Detail) bool { return d.Op == OpRead }},
		{"select", nil, sampleAt(base, 0, answered(released(1), base, "pselect6", 4, 0)), IO,
			func(d Detail) bool { return d.Op == OpSelect }},
		{"epoll", nil, sampleAt(base, 0, answered(released(1), base, "epoll_wait", 4, 0)), IO,
			func(d Detail) bool { return d.Op == OpPoll }},
		{"fsync", nil, sampleAt(base, 0, answered(released(1), base, "fsync", 4, 0)), IO,
			func(d Detail) bool { return d.Op == OpFile }},
		{"name server", nil, sampleAt(base, 0, answered(released(1), base, "poll", 4, dns)), IO,
			func(d Detail) bool { return d.Op == OpResolve }},
		{"resolving by frames", nil,
			sampleAt(base, 0, withStack(answered(released(1), base, "futex", -1, 0), "Addrinfo.getaddrinfo")), IO,
			func(d Detail) bool { return d.Op == OpResolve }},
		{"resolving while connecting", nil,
			sampleAt(base, 0, withStack(answered(released(1), base, "futex", -1, 0), "TCPSocket#initialize")), IO,
			func(d Detail) bool { return d.Op == OpResolve }},
		{"eventfd ppoll outside a region is sleep", []sampler.Era{sampler.EraOwner},
			sampleAt(base, 0, answered(asleep(1, sampler.Stopped, 0), base, "ppoll", 3, event)), Sleeping, nil},
		{"eventfd ppoll, waiting for a thread", []sampler.Era{sampler.EraOwner},
			sampleAt(base, 0, answered(asleep(1, sampler.StoppedForever, 0), base, "ppoll", 3, event)), Parked, nil},
		{"wait4", nil, sampleAt(base, 0, func() sampler.Thread {
			th := answered(released(1), base, "wait4", -1, 0)
			th.Kernel.Child = -1
			return th
		}()), IO, func(d Detail) bool { return d.Op == OpChild && d.Child == -1 }},
		{"nanosleep in a region", nil, sampleAt(base, 0, answered(released(1), base, "clock_nanosleep", -1, 0)), Sleeping, nil},
		{"native", nil, sampleAt(base, 0, answered(released(1), base, sampler.SyscallRunning, -1, 0)), Native, nil},
		{"futex in a region", nil, sampleAt(base, 0, answered(released(1), base, "futex", -1, 0)), Unknown,
			func(d Detail) bool { return d.Reason == reasonFutex }},
		{"futex with frames", nil,
			sampleAt(base, 0, withStack(answered(released(1), base, "futex", -1, 0), "Thread::Queue#pop")), Parked,
			func(d Detail) bool { return d.Kind == "Queue" }},
		{"condvar by frames", nil, sampleAt(base, 0, withStack(asleep(1, sampler.StoppedForever, 0),
			"Thread::Mutex#sleep", "Thread::ConditionVariable#wait", "x")), Parked,
			func(d Detail) bool { return d.Kind == "ConditionVariable" }},
		{"Mutex#sleep by frames", nil, sampleAt(base, 0, withStack(asleep(1, sampler.StoppedForever, 0),
			"Thread::Mutex#sleep", "x")), Sleeping, nil},
		{"outer frames say nothing", nil,
			sampleAt(base, 0, withStack(answered(released(1), base, "futex", -1, 0), "Zlib.deflate", "IO#each_line")), Unknown, nil},
		{"sleep_forever with nothing known", nil, sampleAt(base, 0, asleep(1, sampler.StoppedForever, 0)), Parked, nil},
		{"sleep with nothing known", nil, sampleAt(base, 0, asleep(1, sampler.Stopped, 0)), Sleeping, nil},
		{"kernel not asked", nil, sampleAt(base, 0, released(1)), Unknown,
			func(d Detail) bool { return d.Reason == reasonNotAsked }},
		{"kernel asked while it held the GVL", nil,
			sampleAt(base, 0, rechecked(answered(released(1), base, "read", 3, 0))), Unknown,
			func(d Detail) bool { return d.Reason == reasonNotAsked }},
		{"a minute old answer", nil, sampleAt(base, 0, answered(released(1), base-60_000*ms, "read", 3, 0)), Unknown,
			func(d Detail) bool { return d.Reason == reasonOldAnswer }},
		{"unmounted, nothing known", []sampler.Era{sampler.EraSched}, sampleAt(base, 0, func() sampler.Thread {
			th := bits(released(1), sampler.BitUnmounted|sampler.BitBlockingRegion)
			th.TID = 0
			return th
		}()), Unknown, func(d Detail) bool { return d.Reason == reasonUnmounted }},
		{"page fault without the GVL", nil, sampleAt(base, 0, answered(released(1), base, sampler.SyscallNone, -1, 0)),
			Unknown, func(d Detail) bool { return d.Reason == reasonNoSyscall }},
		{"unknown call", nil, sampleAt(base, 0, answered(released(1), base, "perf_event_open", -1, 0)), Unknown,
			func(d Detail) bool { return d.Reason == reasonOtherCall }},
		{"dead", nil, sampleAt(base, 0, asleep(1, sampler.Killed, 0)), Unknown,
			func(d Detail) bool { return d.Reason == reasonDead }},
		{"no status at first sight", nil,
			sampleAt(base, 0, bits(released(1), sampler.BitNoStatus|sampler.BitBlockingRegion)), Unknown,
			func(d Detail) bool { return d.Reason == reasonNoStatus }},
		{"just created", nil, sampleAt(base, 0, bits(holder(1), sampler.BitStarting)), Waiting,
			func(d Detail) bool { return d.Wait == WaitYield }},
	}
	for _, tt := range tests {
		list := tt.eras
		if list == nil {
			list = eras
		}
		for _, era := range list {
			got := NewClassifier(procOf(era), dict).Classify(tt.s)[0]
			if got.State != tt.state || tt.check != nil && !tt.check(got.Detail) {
				t.Errorf("%s, era %d: %v %+v, want %v", tt.name, era, got.State, got.Detail, tt.state)
			}
			if got.AtNS != tt.s.TimeNS || got.Thread != 1 {
				t.Errorf("%s: at %d of thread %d", tt.name, got.AtNS, got.Thread)
			}
		}
	}
}

// An owner that changes during the read: two threads look like holders, one holds.
func TestOwnerChangesDuringRead(t *testing.T) {
	for _, era := range eras {
		s := sampleAt(base, 1, holder(1), holder(2))
		s.Ractors[0].OwnerEnd = 2
		got := NewClassifier(procOf(era), nil).Classify(s)
		if got[0].State != Waiting || got[1].State != Running {
			t.Errorf("era %d: %v, %v", era, got[0].State, got[1].State)
		}
		s.Threads[0], s.Threads[1] = s.Threads[1], s.Threads[0]
		got = NewClassifier(procOf(era), nil).Classify(s)
		if got[1].State != Waiting || got[0].State != Running {
			t.Errorf("era %d, other order: %v, %v", era, got[0].State, got[1].State)
		}
	}
	// Released during the read: still its last holder's time.
	s := sampleAt(base, 1, holder(1))
	s.Ractors[0].OwnerEnd = 0
	if got := NewClassifier(procOf(sampler.EraOwner), nil).Classify(s)[0].State; got != Running {
		t.Errorf("released during the read: %v", got)
	}
	// Handed over to a thread that does not run yet: the one proven to run holds it.
	s = sampleAt(base, 1, holder(1), released(2))
	s.Ractors[0].OwnerEnd = 2
	got := NewClassifier(procOf(sampler.EraSched), nil).Classify(s)
	if got[0].State != Running || got[1].State != Waiting || got[1].Detail.Wait != WaitHandover {
		t.Errorf("handed over: %v, %v", got[0], got[1])
	}
	// The same, and the one whose node is still linked says that it is in a blocking region: it only wakes the next.
	s.Threads[0].Status, s.Threads[0].Bits = sampler.Stopped, s.Threads[0].Bits|sampler.BitBlockingRegion
	got = NewClassifier(procOf(sampler.EraSched), nil).Classify(s)
	if !got[0].State.Released() && got[0].State != Unknown || got[1].State != Waiting {
		t.Errorf("let go during the read: %v, %v", got[0], got[1])
	}
	// Not linked: it was about to run, and what it did then came after its words were read.
	s.Threads[0].Bits &^= sampler.BitLinked
	got = NewClassifier(procOf(sampler.EraSched), nil).Classify(s)
	if got[0].State != Waiting || got[0].Detail.Wait != WaitHandover || got[1].State != Waiting {
		t.Errorf("about to run when it was read: %v, %v", got[0], got[1])
	}
	if got := NewClassifier(procOf(sampler.EraOwner), nil).Classify(s)[0].State; got == Waiting {
		t.Errorf("released, before 3.3: %v", got)
	}
	s.Threads[0].Bits |= sampler.BitLinked
	// Before 3.3 there is no such node; and who owns at both ends holds it, whatever region it is in.
	if got := NewClassifier(procOf(sampler.EraOwner), nil).Classify(s)[0].State; got != Running {
		t.Errorf("released during the read, in a region, before 3.3: %v", got)
	}
	s.Ractors[0].OwnerEnd = 1
	if got := NewClassifier(procOf(sampler.EraSched), nil).Classify(s)[0].State; got != Running {
		t.Errorf("owner at both ends, in a region: %v", got)
	}
}

func TestAfterAndSince(t *testing.T) {
	c := NewClassifier(procOf(sampler.EraSched), nil)
	io := func(at int64) sampler.Thread { return answered(released(1), at, "read", 3, 0) }
	step := func(at int64, th sampler.Thread, owner sampler.ThreadID) ThreadState {
		return c.Classify(sampleAt(at, owner, th))[0]
	}
	if got := step(base, io(base), 0); got.State != IO || got.SinceNS != base {
		t.Fatalf("%+v", got)
	}
	got := step(base+2*ms, queued(1), 9)
	if got.State != Waiting || got.Detail.After != IO || got.SinceNS != base+1*ms || got.DurationNS() != 1*ms {
		t.Errorf("after io: %+v", got)
	}
	chosen := released(1)
	if got = step(base+4*ms, chosen, 1); got.Detail.Wait != WaitHandover || got.Detail.After != IO || got.SinceNS != base+1*ms {
		t.Errorf("hand-over: %+v", got)
	}
	if got = step(base+6*ms, holder(1), 1); got.State != Running || got.SinceNS != base+5*ms {
		t.Errorf("running: %+v", got)
	}
	if got = step(base+8*ms, queued(1), 9); got.Detail.After != Running {
		t.Errorf("after running: %+v", got)
	}
}

// The kernel's answer of an earlier episode says nothing of this one; a late answer holds for the whole episode.
func TestAnswersBelongToEpisodes(t *testing.T) {
	c := NewClassifier(procOf(sampler.EraSched), nil)
	at := int64(base)
	step := func(owner sampler.ThreadID, th sampler.Thread) ThreadState {
		at += ms
		return c.Classify(sampleAt(at, owner, th))[0]
	}
	first := at + ms
	if got := step(0, answered(released(1), first, "read", 3, 0)); got.State != IO {
		t.Fatalf("%+v", got)
	}
	step(1, holder(1))
	if got := step(0, answered(released(1), first, "read", 3, 0)); got.State != Unknown || got.Detail.Reason != reasonNotAsked {
		t.Errorf("an old episode's answer was used: %+v", got)
	}
	began := at - ms/2
	step(0, released(1))
	now := at + ms
	if got := step(0, answered(released(1), now, "write", 3, 0)); got.State != IO || got.SinceNS != began {
		t.Errorf("late answer: %+v, want io since %d", got, began)
	}
	if got := step(0, answered(released(1), now, "write", 3, 0)); got.State != IO || got.SinceNS != began {
		t.Errorf("kept answer: %+v", got)
	}
	// Memory names another descriptor: another episode.
	th := answered(released(1), now, "write", 3, 0)
	th.Blocked = sampler.Blocked{Kind: sampler.BlockIO, FD: 8}
	if got := step(0, th); got.Detail.FD != 8 || got.Detail.Op != OpIO || got.SinceNS == began {
		t.Errorf("new descriptor: %+v", got)
	}
}

func TestStalledNeedsThisHold(t *testing.T) {
	c := NewClassifier(procOf(sampler.EraSched), nil)
	th := rechecked(answered(holder(1), base, "read", 3, 0))
	if got := c.Classify(sampleAt(base, 1, th))[0]; got.State != Stalled {
		t.Fatalf("%+v", got)
	}
	if got := c.Classify(sampleAt(base+5*ms, 1, th))[0]; got.State != Stalled {
		t.Errorf("between two stack ticks: %+v", got)
	}
	c.Classify(sampleAt(base+6*ms, 0, released(1)))
	if got := c.Classify(sampleAt(base+7*ms, 1, th))[0]; got.State != Running {
		t.Errorf("another hold: %+v", got)
	}
}

// Of several ractors one collects. The others stand at its barrier, or go on: while it sweeps, and until all have stopped.
func TestWhoCollects(t *testing.T) {
	const collects, barrier = sampler.BitCollects, sampler.BitBarrier
	stopped := func(id sampler.ThreadID) sampler.Thread { return rechecked(answered(holder(id), base, "futex", -1, 0)) }
	runs := func(id sampler.ThreadID) sampler.Thread {
		return answered(holder(id), base, sampler.SyscallRunning, -1, 0)
	}
	with := func(th sampler.Thread, bits sampler.ThreadBits) sampler.Thread {
		th.Bits |= bits
		return th
	}
	marking, sweeping := sampler.GC{Valid: true, During: true, Mode: sampler.GCMarking}, sampler.GC{Valid: true, During: true, Mode: sampler.GCSweeping}
	idle := sampler.GC{Valid: true}
	for _, c := range []struct {
		name    string
		gc      sampler.GC
		threads []sampler.Thread
		want    []State
	}{
		{"the others have stopped", marking, []sampler.Thread{with(runs(1), collects), stopped(2), stopped(3)}, []State{GC, Waiting, Waiting}},
		{"and the kernel does not say so", marking, []sampler.Thread{with(holder(1), collects), holder(2)}, []State{GC, Waiting}},
		{"one sweeps, the others run", sweeping, []sampler.Thread{runs(1), with(runs(2), collects), runs(3)}, []State{Running, GC, Running}},
		{"and one of them stalls", sweeping, []sampler.Thread{with(runs(1), collects), rechecked(answered(holder(2), base, "write", 3, 0))}, []State{GC, Stalled}},
		{"one sweeps, another wants the lock of the VM", sweeping, []sampler.Thread{with(runs(1), collects), stopped(2)}, []State{GC, Waiting}},
		{"the collector sleeps in a futex", marking, []sampler.Thread{with(stopped(1), collects), stopped(2)}, []State{GC, Waiting}},
		{"a barrier is asked for", idle, []sampler.Thread{with(stopped(1), barrier), with(runs(2), barrier), with(stopped(3), barrier)}, []State{Waiting, Running, Waiting}},
		{"a futex of one's own", idle, []sampler.Thread{stopped(1), runs(2)}, []State{Stalled, Running}},
		{"not recorded who: one does not sleep", marking, []sampler.Thread{stopped(1), runs(2), stopped(3)}, []State{Waiting, GC, Waiting}},
		{"not recorded who: two do not", sweeping, []sampler.Thread{runs(1), runs(2), stopped(3)}, []State{Running, Running, Waiting}},
		{"not recorded who: one holder", sweeping, []sampler.Thread{released(1), runs(2)}, []State{Unknown, GC}},
		{"one ractor", marking, []sampler.Thread{stopped(1)}, []State{GC}},
	} {
		s := sampleAt(base, 0)
		s.Ractors = s.Ractors[:0]
		for i, th := range c.threads {
			th.Ractor = sampler.RactorID(i + 1)
			r := sampler.Ractor{ID: th.Ractor}
			if th.Bits&sampler.BitLinked != 0 {
				r.OwnerStart, r.OwnerEnd = th.ID, th.ID
			}
			s.Threads, s.Ractors = append(s.Threads, th), append(s.Ractors, r)
		}
		s.GC = c.gc
		for i, got := range NewClassifier(procOf(sampler.EraSched), nil).Classify(s) {
			if got.State != c.want[i] || got.State == Waiting && got.Detail.Wait != WaitCPUSlot {
				t.Errorf("%s: thread %d: %v %+v, want %v", c.name, i+1, got.State, got.Detail, c.want[i])
			}
		}
	}
}

func TestNoStatusKeepsTheLastVerdict(t *testing.T) {
	c := NewClassifier(procOf(sampler.EraSched), nil)
	c.Classify(sampleAt(base, 0, answered(released(1), base, "read", 3, 0)))
	th := released(1)
	th.Bits |= sampler.BitNoStatus
	if got := c.Classify(sampleAt(base+ms, 0, th))[0]; got.State != IO || got.AtNS != base+ms {
		t.Errorf("%+v", got)
	}
}
