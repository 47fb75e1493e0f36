package gvl

import (
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
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
		eras  []sampler.Era // nil means all eras
		s     *sampler.Sample
		state State // the expected state of thread 1
		check func(Detail) bool
	}{
		{"holder runs", nil, gvltest.SampleAt(gvltest.Base, 1, gvltest.Holder(1)), Running, nil},
		{"holder collects", nil, with(gvltest.SampleAt(gvltest.Base, 1, gvltest.Holder(1)), func(s *sampler.Sample) {
			s.GC.During, s.GC.Minor, s.GC.Mode = true, true, sampler.GCSweeping
		}), GC, func(d Detail) bool { return d.GCMinor && d.GCMode == sampler.GCSweeping }},
		{"gc mode without during is not gc", nil, with(gvltest.SampleAt(gvltest.Base, 1, gvltest.Holder(1)), func(s *sampler.Sample) {
			s.GC.Mode = sampler.GCMarking
		}), Running, nil},
		{"during without valid is not gc", nil, with(gvltest.SampleAt(gvltest.Base, 1, gvltest.Holder(1)), func(s *sampler.Sample) {
			s.GC = sampler.GC{During: true}
		}), Running, nil},
		{"holder asleep, rechecked", nil, gvltest.SampleAt(gvltest.Base, 1, gvltest.Rechecked(gvltest.Answered(gvltest.Holder(1), gvltest.Base, "clock_nanosleep", -1, 0))),
			Stalled, func(d Detail) bool { return d.Syscall == "clock_nanosleep" }},
		{"holder in a page fault", nil, gvltest.SampleAt(gvltest.Base, 1, gvltest.Rechecked(gvltest.Answered(gvltest.Holder(1), gvltest.Base, sampler.SyscallNone, -1, 0))),
			Stalled, func(d Detail) bool { return d.Syscall == sampler.SyscallNone && d.FD == -1 }},
		{"holder asleep, not rechecked", nil, gvltest.SampleAt(gvltest.Base, 1, gvltest.Answered(gvltest.Holder(1), gvltest.Base, "futex", -1, 0)), Running, nil},
		{"holder asleep, old answer", nil, gvltest.SampleAt(gvltest.Base, 1, gvltest.Rechecked(gvltest.Answered(gvltest.Holder(1), gvltest.Base-1000*gvltest.MS, "read", 3, 0))),
			Running, nil},
		{"holder on a CPU", nil, gvltest.SampleAt(gvltest.Base, 1, gvltest.Rechecked(gvltest.Answered(gvltest.Holder(1), gvltest.Base, sampler.SyscallRunning, -1, 0))),
			Running, nil},
		{"queued", nil, gvltest.SampleAt(gvltest.Base, 2, gvltest.Queued(1), gvltest.Holder(2)), Waiting,
			func(d Detail) bool { return d.Wait == WaitQueue }},
		{"queued after a blocking region", nil,
			gvltest.SampleAt(gvltest.Base, 2, bits(gvltest.Released(1), sampler.BitQueued|sampler.BitBlockingRegion), gvltest.Holder(2)), Waiting,
			func(d Detail) bool { return d.Wait == WaitQueue }},
		{"head of the queue without an owner", []sampler.Era{sampler.EraFlag, sampler.EraOwner},
			gvltest.SampleAt(gvltest.Base, 0, gvltest.Queued(1), gvltest.Queued(2)), Waiting, func(d Detail) bool { return d.Wait == WaitHandover }},
		{"behind the head without an owner", []sampler.Era{sampler.EraOwner},
			gvltest.SampleAt(gvltest.Base, 0, gvltest.Queued(1), gvltest.Queued(2)), Waiting, nil},
		{"queue without an owner, 3.3+", []sampler.Era{sampler.EraSched}, gvltest.SampleAt(gvltest.Base, 0, gvltest.Queued(1)), Waiting,
			func(d Detail) bool { return d.Wait == WaitQueue }},
		{"chosen, not running yet", []sampler.Era{sampler.EraSched}, gvltest.SampleAt(gvltest.Base, 1, bits(gvltest.Released(1), 0)), Waiting,
			func(d Detail) bool { return d.Wait == WaitHandover }},
		{"chosen, no native thread", []sampler.Era{sampler.EraSched},
			gvltest.SampleAt(gvltest.Base, 1, bits(gvltest.Released(1), sampler.BitUnmounted)), Waiting,
			func(d Detail) bool { return d.Wait == WaitCPUSlot }},
		{"yielding", nil, gvltest.SampleAt(gvltest.Base, 2, bits(gvltest.Holder(1), 0), gvltest.Holder(2)), Waiting,
			func(d Detail) bool { return d.Wait == WaitYield }},
		{"inferred waiter", []sampler.Era{sampler.EraFlag},
			gvltest.SampleAt(gvltest.Base, 2, bits(gvltest.Holder(1), sampler.BitQueued|sampler.BitInferred), gvltest.Holder(2)), Waiting,
			func(d Detail) bool { return d.Inferred }},
		{"mutex", nil, gvltest.SampleAt(gvltest.Base, 0, blocked(gvltest.Asleep(1, sampler.StoppedForever, 0),
			sampler.Blocked{Kind: sampler.BlockMutex, Object: 0xa8, Holder: 7, FD: -1})), Lock,
			func(d Detail) bool { return d.Kind == "Mutex" && d.Object == 0xa8 && d.Holder == 7 }},
		{"monitor", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Asleep(1, sampler.StoppedForever, sampler.BlockMonitor)), Lock,
			func(d Detail) bool { return d.Kind == "Monitor" }},
		{"queue", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Asleep(1, sampler.StoppedForever, sampler.BlockQueue)), Parked,
			func(d Detail) bool { return d.Kind == "Queue" }},
		{"sized queue", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Asleep(1, sampler.StoppedForever, sampler.BlockSizedQueue)), Parked, nil},
		{"condvar", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Asleep(1, sampler.StoppedForever, sampler.BlockConditionVariable)), Parked,
			func(d Detail) bool { return d.Kind == "ConditionVariable" }},
		{"join", nil, gvltest.SampleAt(gvltest.Base, 0, blocked(gvltest.Asleep(1, sampler.StoppedForever, 0),
			sampler.Blocked{Kind: sampler.BlockJoin, Holder: 3, FD: -1})), Parked,
			func(d Detail) bool { return d.Joined == 3 && d.Holder == 0 && d.Kind == "Thread" }},
		{"ractor", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Asleep(1, sampler.StoppedForever, sampler.BlockRactor)), Parked, nil},
		{"sleep", nil, gvltest.SampleAt(gvltest.Base, 0, blocked(gvltest.Asleep(1, sampler.Stopped, 0),
			sampler.Blocked{Kind: sampler.BlockSleep, DeadlineNS: 5, FD: -1})), Sleeping,
			func(d Detail) bool { return d.DeadlineNS == 5 }},
		{"sleep for ever", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Asleep(1, sampler.StoppedForever, sampler.BlockSleepForever)), Sleeping, nil},
		{"child by memory", nil, gvltest.SampleAt(gvltest.Base, 0, blocked(gvltest.Asleep(1, sampler.Stopped, 0),
			sampler.Blocked{Kind: sampler.BlockChild, Child: 77, FD: -1})), IO,
			func(d Detail) bool { return d.Op == OpChild && d.Child == 77 }},
		{"fd by memory, kernel not asked", nil, gvltest.SampleAt(gvltest.Base, 0, blocked(gvltest.Released(1),
			sampler.Blocked{Kind: sampler.BlockIO, FD: 9})), IO,
			func(d Detail) bool { return d.Op == OpIO && d.FD == 9 }},
		{"fd by memory, read by the kernel", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(blocked(gvltest.Released(1),
			sampler.Blocked{Kind: sampler.BlockIO, FD: 9}), gvltest.Base, "read", 9, pg)), IO,
			func(d Detail) bool { return d.Op == OpRead && d.FD == 9 && d.Peer == pg }},
		{"fd by memory, on a CPU", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(blocked(gvltest.Released(1),
			sampler.Blocked{Kind: sampler.BlockIO, FD: 9}), gvltest.Base, sampler.SyscallRunning, -1, 0)), Native, nil},
		{"select by memory", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Asleep(1, sampler.Stopped, sampler.BlockSelect)), IO,
			func(d Detail) bool { return d.Op == OpSelect }},
		{"read", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "recvfrom", 14, pg)), IO,
			func(d Detail) bool { return d.Op == OpRead && d.FD == 14 && d.Peer == pg && d.Syscall == "recvfrom" }},
		{"write", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "write", 1, 0)), IO,
			func(d Detail) bool { return d.Op == OpWrite }},
		{"connect", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "connect", 1, 0)), IO,
			func(d Detail) bool { return d.Op == OpConnect }},
		{"accept", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "accept4", 4, 0)), IO,
			func(d Detail) bool { return d.Op == OpAccept }},
		{"poll of a listener is accept", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "poll", 4, listener)), IO,
			func(d Detail) bool { return d.Op == OpAccept }},
		{"poll before a read is read", nil,
			gvltest.SampleAt(gvltest.Base, 0, withStack(gvltest.Answered(gvltest.Released(1), gvltest.Base, "poll", 4, pg), "IO#gets", "x")), IO,
			func(d Detail) bool { return d.Op == OpRead }},
		{"select", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "pselect6", 4, 0)), IO,
			func(d Detail) bool { return d.Op == OpSelect }},
		{"epoll", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "epoll_wait", 4, 0)), IO,
			func(d Detail) bool { return d.Op == OpPoll }},
		{"fsync", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "fsync", 4, 0)), IO,
			func(d Detail) bool { return d.Op == OpFile }},
		{"name server", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "poll", 4, dns)), IO,
			func(d Detail) bool { return d.Op == OpResolve }},
		{"resolving by frames", []sampler.Era{sampler.EraSched},
			gvltest.SampleAt(gvltest.Base, 0, withStack(gvltest.Answered(gvltest.Released(1), gvltest.Base, "futex", -1, 0), "Addrinfo.getaddrinfo")), IO,
			func(d Detail) bool { return d.Op == OpResolve }},
		{"resolving while connecting", []sampler.Era{sampler.EraSched},
			gvltest.SampleAt(gvltest.Base, 0, withStack(gvltest.Answered(gvltest.Released(1), gvltest.Base, "futex", -1, 0), "TCPSocket#initialize")), IO,
			func(d Detail) bool { return d.Op == OpResolve }},
		{"in a resolver whose helper is at a lock", []sampler.Era{sampler.EraSched},
			gvltest.SampleAt(gvltest.Base, 0, withStack(
				gvltest.Answered(gvltest.Released(1), gvltest.Base, sampler.SyscallHelperLock, -1, 0), "Addrinfo.getaddrinfo")), Lock,
			func(d Detail) bool { return d.Op == "" && d.Kind == kindCLock }},
		{"in a resolver without a helper, at a lock", []sampler.Era{sampler.EraOwner},
			gvltest.SampleAt(gvltest.Base, 0,
				withStack(gvltest.Answered(gvltest.Released(1), gvltest.Base, "futex", -1, 0), "Addrinfo.getaddrinfo")), Lock,
			func(d Detail) bool { return d.Op == "" && d.Kind == kindCLock }},
		{"eventfd ppoll outside a region is sleep", []sampler.Era{sampler.EraOwner},
			gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Asleep(1, sampler.Stopped, 0), gvltest.Base, "ppoll", 3, event)), Sleeping, nil},
		{"eventfd ppoll, waiting for a thread", []sampler.Era{sampler.EraOwner},
			gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Asleep(1, sampler.StoppedForever, 0), gvltest.Base, "ppoll", 3, event)), Parked, nil},
		{"wait4", nil, gvltest.SampleAt(gvltest.Base, 0, func() sampler.Thread {
			th := gvltest.Answered(gvltest.Released(1), gvltest.Base, "wait4", -1, 0)
			th.Kernel.Child = -1
			return th
		}()), IO, func(d Detail) bool { return d.Op == OpChild && d.Child == -1 }},
		{"nanosleep in a region", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "clock_nanosleep", -1, 0)), Sleeping, nil},
		{"native", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, sampler.SyscallRunning, -1, 0)), Native, nil},
		{"futex in a region", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "futex", -1, 0)), Unknown,
			func(d Detail) bool { return d.Reason == reasonFutex }},
		{"futex with frames", nil,
			gvltest.SampleAt(gvltest.Base, 0, withStack(gvltest.Answered(gvltest.Released(1), gvltest.Base, "futex", -1, 0), "Thread::Queue#pop")), Parked,
			func(d Detail) bool { return d.Kind == "Queue" }},
		{"condvar by frames", nil, gvltest.SampleAt(gvltest.Base, 0, withStack(gvltest.Asleep(1, sampler.StoppedForever, 0),
			"Thread::Mutex#sleep", "Thread::ConditionVariable#wait", "x")), Parked,
			func(d Detail) bool { return d.Kind == "ConditionVariable" }},
		{"Mutex#sleep by frames", nil, gvltest.SampleAt(gvltest.Base, 0, withStack(gvltest.Asleep(1, sampler.StoppedForever, 0),
			"Thread::Mutex#sleep", "x")), Sleeping, nil},
		{"outer frames say nothing", nil,
			gvltest.SampleAt(gvltest.Base, 0, withStack(gvltest.Answered(gvltest.Released(1), gvltest.Base, "futex", -1, 0), "Zlib.deflate", "IO#each_line")), Unknown, nil},
		{"sleep_forever with nothing known", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Asleep(1, sampler.StoppedForever, 0)), Parked, nil},
		{"sleep with nothing known", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Asleep(1, sampler.Stopped, 0)), Sleeping, nil},
		{"kernel not asked", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Released(1)), Unknown,
			func(d Detail) bool { return d.Reason == ReasonNotAsked }},
		{"kernel asked while it held the GVL", nil,
			gvltest.SampleAt(gvltest.Base, 0, gvltest.Rechecked(gvltest.Answered(gvltest.Released(1), gvltest.Base, "read", 3, 0))), Unknown,
			func(d Detail) bool { return d.Reason == ReasonNotAsked }},
		{"a minute old answer", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base-60_000*gvltest.MS, "read", 3, 0)), Unknown,
			func(d Detail) bool { return d.Reason == reasonOldAnswer }},
		{"unmounted, nothing known", []sampler.Era{sampler.EraSched}, gvltest.SampleAt(gvltest.Base, 0, func() sampler.Thread {
			th := bits(gvltest.Released(1), sampler.BitUnmounted|sampler.BitBlockingRegion)
			th.TID = 0
			return th
		}()), Unknown, func(d Detail) bool { return d.Reason == reasonUnmounted }},
		{"page fault without the GVL", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, sampler.SyscallNone, -1, 0)),
			Unknown, func(d Detail) bool { return d.Reason == reasonNoSyscall }},
		{"unknown call", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "perf_event_open", -1, 0)), Unknown,
			func(d Detail) bool { return d.Reason == reasonOtherCall }},
		{"dead", nil, gvltest.SampleAt(gvltest.Base, 0, gvltest.Asleep(1, sampler.Killed, 0)), Unknown,
			func(d Detail) bool { return d.Reason == ReasonDead }},
		{"no status at first sight", nil,
			gvltest.SampleAt(gvltest.Base, 0, bits(gvltest.Released(1), sampler.BitNoStatus|sampler.BitBlockingRegion)), Unknown,
			func(d Detail) bool { return d.Reason == reasonNoStatus }},
		{"just created", nil, gvltest.SampleAt(gvltest.Base, 0, bits(gvltest.Holder(1), sampler.BitStarting)), Waiting,
			func(d Detail) bool { return d.Wait == WaitYield }},
	}
	for _, tt := range tests {
		list := tt.eras
		if list == nil {
			list = gvltest.Eras
		}
		for _, era := range list {
			got := NewClassifier(gvltest.ProcOf(era), dict).Classify(tt.s)[0]
			if got.State != tt.state || tt.check != nil && !tt.check(got.Detail) {
				t.Errorf("%s, era %d: %v %+v, want %v", tt.name, era, got.State, got.Detail, tt.state)
			}
			if got.AtNS != tt.s.TimeNS || got.Thread != 1 {
				t.Errorf("%s: at %d of thread %d", tt.name, got.AtNS, got.Thread)
			}
		}
	}
}

// TestOwnerChangesDuringRead: if the owner of the GVL changes while ddtop reads a sample, two threads look like holders
// of the GVL. Only one of them is running.
func TestOwnerChangesDuringRead(t *testing.T) {
	for _, era := range gvltest.Eras {
		s := gvltest.SampleAt(gvltest.Base, 1, gvltest.Holder(1), gvltest.Holder(2))
		s.Ractors[0].OwnerEnd = 2
		got := NewClassifier(gvltest.ProcOf(era), nil).Classify(s)
		if got[0].State != Waiting || got[1].State != Running {
			t.Errorf("era %d: %v, %v", era, got[0].State, got[1].State)
		}
		s.Threads[0], s.Threads[1] = s.Threads[1], s.Threads[0]
		got = NewClassifier(gvltest.ProcOf(era), nil).Classify(s)
		if got[1].State != Waiting || got[0].State != Running {
			t.Errorf("era %d, other order: %v, %v", era, got[0].State, got[1].State)
		}
	}
	// The GVL is released while memory is being read. For this sample, the last holder still counts as the holder.
	s := gvltest.SampleAt(gvltest.Base, 1, gvltest.Holder(1))
	s.Ractors[0].OwnerEnd = 0
	if got := NewClassifier(gvltest.ProcOf(sampler.EraOwner), nil).Classify(s)[0].State; got != Running {
		t.Errorf("released during the read: %v", got)
	}
	// The GVL is handed over to a thread that does not run yet. The first thread still runs, as its data proves, so it
	// still holds the GVL.
	s = gvltest.SampleAt(gvltest.Base, 1, gvltest.Holder(1), gvltest.Released(2))
	s.Ractors[0].OwnerEnd = 2
	got := NewClassifier(gvltest.ProcOf(sampler.EraSched), nil).Classify(s)
	if got[0].State != Running || got[1].State != Waiting || got[1].Detail.Wait != WaitHandover {
		t.Errorf("handed over: %v, %v", got[0], got[1])
	}
	// As in the last case, the proof that the first thread runs is still set (BitLinked). But the thread is in a
	// blocking region: it has already released the GVL, and is only waking the next thread.
	s.Threads[0].Status, s.Threads[0].Bits = sampler.Stopped, s.Threads[0].Bits|sampler.BitBlockingRegion
	got = NewClassifier(gvltest.ProcOf(sampler.EraSched), nil).Classify(s)
	if !got[0].State.Released() && got[0].State != Unknown || got[1].State != Waiting {
		t.Errorf("let go during the read: %v, %v", got[0], got[1])
	}
	// BitLinked is not set, so nothing proves that the first thread runs. When ddtop read the thread's words in memory,
	// the thread was about to run. These words do not show what the thread did later.
	s.Threads[0].Bits &^= sampler.BitLinked
	got = NewClassifier(gvltest.ProcOf(sampler.EraSched), nil).Classify(s)
	if got[0].State != Waiting || got[0].Detail.Wait != WaitHandover || got[1].State != Waiting {
		t.Errorf("about to run when it was read: %v, %v", got[0], got[1])
	}
	if got := NewClassifier(gvltest.ProcOf(sampler.EraOwner), nil).Classify(s)[0].State; got == Waiting {
		t.Errorf("released, before 3.3: %v", got)
	}
	s.Threads[0].Bits |= sampler.BitLinked
	// In this older release, BitLinked comes from the field for the GVL's owner. So the thread counts as running. From
	// Ruby 3.3 on, BitLinked comes from the list of running threads. In any release, a thread that owns the GVL at both
	// ends of the read holds it, even in a blocking region.
	if got := NewClassifier(gvltest.ProcOf(sampler.EraOwner), nil).Classify(s)[0].State; got != Running {
		t.Errorf("released during the read, in a region, before 3.3: %v", got)
	}
	s.Ractors[0].OwnerEnd = 1
	if got := NewClassifier(gvltest.ProcOf(sampler.EraSched), nil).Classify(s)[0].State; got != Running {
		t.Errorf("owner at both ends, in a region: %v", got)
	}
}

func TestAfterAndSince(t *testing.T) {
	c := NewClassifier(gvltest.ProcOf(sampler.EraSched), nil)
	io := func(at int64) sampler.Thread { return gvltest.Answered(gvltest.Released(1), at, "read", 3, 0) }
	step := func(at int64, th sampler.Thread, owner sampler.ThreadID) ThreadState {
		return c.Classify(gvltest.SampleAt(at, owner, th))[0]
	}
	if got := step(gvltest.Base, io(gvltest.Base), 0); got.State != IO || got.SinceNS != gvltest.Base {
		t.Fatalf("%+v", got)
	}
	got := step(gvltest.Base+2*gvltest.MS, gvltest.Queued(1), 9)
	if got.State != Waiting || got.Detail.After != IO || got.SinceNS != gvltest.Base+1*gvltest.MS || got.DurationNS() != 1*gvltest.MS {
		t.Errorf("after io: %+v", got)
	}
	chosen := gvltest.Released(1)
	if got = step(gvltest.Base+4*gvltest.MS, chosen, 1); got.Detail.Wait != WaitHandover || got.Detail.After != IO || got.SinceNS != gvltest.Base+1*gvltest.MS {
		t.Errorf("hand-over: %+v", got)
	}
	if got = step(gvltest.Base+6*gvltest.MS, gvltest.Holder(1), 1); got.State != Running || got.SinceNS != gvltest.Base+5*gvltest.MS {
		t.Errorf("running: %+v", got)
	}
	if got = step(gvltest.Base+8*gvltest.MS, gvltest.Queued(1), 9); got.Detail.After != Running {
		t.Errorf("after running: %+v", got)
	}
}

// TestAnswersBelongToEpisodes: an answer of the kernel is valid for one episode, a thread's time in one place. An
// answer from an earlier episode is not valid for the current one. An answer that comes late is valid from the
// beginning of its episode.
func TestAnswersBelongToEpisodes(t *testing.T) {
	c := NewClassifier(gvltest.ProcOf(sampler.EraSched), nil)
	at := int64(gvltest.Base)
	step := func(owner sampler.ThreadID, th sampler.Thread) ThreadState {
		at += gvltest.MS
		return c.Classify(gvltest.SampleAt(at, owner, th))[0]
	}
	first := at + gvltest.MS
	if got := step(0, gvltest.Answered(gvltest.Released(1), first, "read", 3, 0)); got.State != IO {
		t.Fatalf("%+v", got)
	}
	step(1, gvltest.Holder(1))
	if got := step(0, gvltest.Answered(gvltest.Released(1), first, "read", 3, 0)); got.State != Unknown || got.Detail.Reason != ReasonNotAsked {
		t.Errorf("an old episode's answer was used: %+v", got)
	}
	began := at - gvltest.MS/2
	step(0, gvltest.Released(1))
	now := at + gvltest.MS
	if got := step(0, gvltest.Answered(gvltest.Released(1), now, "write", 3, 0)); got.State != IO || got.SinceNS != began {
		t.Errorf("late answer: %+v, want io since %d", got, began)
	}
	if got := step(0, gvltest.Answered(gvltest.Released(1), now, "write", 3, 0)); got.State != IO || got.SinceNS != began {
		t.Errorf("kept answer: %+v", got)
	}
	// If memory names another descriptor than in the last sample, the thread waits for something else: a new episode
	// has begun. So the kernel's answer about the old descriptor is not valid for it.
	th := gvltest.Answered(gvltest.Released(1), now, "write", 3, 0)
	th.Blocked = sampler.Blocked{Kind: sampler.BlockIO, FD: 8}
	if got := step(0, th); got.Detail.FD != 8 || got.Detail.Op != OpIO || got.SinceNS == began {
		t.Errorf("new descriptor: %+v", got)
	}
}

func TestStalledNeedsThisHold(t *testing.T) {
	c := NewClassifier(gvltest.ProcOf(sampler.EraSched), nil)
	th := gvltest.Rechecked(gvltest.Answered(gvltest.Holder(1), gvltest.Base, "read", 3, 0))
	if got := c.Classify(gvltest.SampleAt(gvltest.Base, 1, th))[0]; got.State != Stalled {
		t.Fatalf("%+v", got)
	}
	if got := c.Classify(gvltest.SampleAt(gvltest.Base+5*gvltest.MS, 1, th))[0]; got.State != Stalled {
		t.Errorf("between two stack ticks: %+v", got)
	}
	c.Classify(gvltest.SampleAt(gvltest.Base+6*gvltest.MS, 0, gvltest.Released(1)))
	if got := c.Classify(gvltest.SampleAt(gvltest.Base+7*gvltest.MS, 1, th))[0]; got.State != Running {
		t.Errorf("another hold: %+v", got)
	}
}

// TestWhoCollects: if one of several ractors collects garbage, the threads that hold the GVLs of the other ractors wait
// at its barrier. They may still run in two cases: while the collecting ractor sweeps, and before all of them have
// stopped.
func TestWhoCollects(t *testing.T) {
	const collects, barrier = sampler.BitCollects, sampler.BitBarrier
	stopped := func(id sampler.ThreadID) sampler.Thread {
		return gvltest.Rechecked(gvltest.Answered(gvltest.Holder(id), gvltest.Base, "futex", -1, 0))
	}
	runs := func(id sampler.ThreadID) sampler.Thread {
		return gvltest.Answered(gvltest.Holder(id), gvltest.Base, sampler.SyscallRunning, -1, 0)
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
		{"and the kernel does not say so", marking, []sampler.Thread{with(gvltest.Holder(1), collects), gvltest.Holder(2)}, []State{GC, Waiting}},
		{"one sweeps, the others run", sweeping, []sampler.Thread{runs(1), with(runs(2), collects), runs(3)}, []State{Running, GC, Running}},
		{"and one of them stalls", sweeping, []sampler.Thread{with(runs(1), collects), gvltest.Rechecked(gvltest.Answered(gvltest.Holder(2), gvltest.Base, "write", 3, 0))}, []State{GC, Stalled}},
		{"one sweeps, another wants the lock of the VM", sweeping, []sampler.Thread{with(runs(1), collects), stopped(2)}, []State{GC, Waiting}},
		{"the collector sleeps in a futex", marking, []sampler.Thread{with(stopped(1), collects), stopped(2)}, []State{GC, Waiting}},
		{"a barrier is asked for", idle, []sampler.Thread{with(stopped(1), barrier), with(runs(2), barrier), with(stopped(3), barrier)}, []State{Waiting, Running, Waiting}},
		{"a futex of one's own", idle, []sampler.Thread{stopped(1), runs(2)}, []State{Stalled, Running}},
		{"not recorded who: one does not sleep", marking, []sampler.Thread{stopped(1), runs(2), stopped(3)}, []State{Waiting, GC, Waiting}},
		{"not recorded who: two do not", sweeping, []sampler.Thread{runs(1), runs(2), stopped(3)}, []State{Running, Running, Waiting}},
		{"not recorded who: one holder", sweeping, []sampler.Thread{gvltest.Released(1), runs(2)}, []State{Unknown, GC}},
		{"one ractor", marking, []sampler.Thread{stopped(1)}, []State{GC}},
	} {
		s := gvltest.SampleAt(gvltest.Base, 0)
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
		for i, got := range NewClassifier(gvltest.ProcOf(sampler.EraSched), nil).Classify(s) {
			if got.State != c.want[i] || got.State == Waiting && got.Detail.Wait != WaitCPUSlot {
				t.Errorf("%s: thread %d: %v %+v, want %v", c.name, i+1, got.State, got.Detail, c.want[i])
			}
		}
	}
}

func TestNoStatusKeepsTheLastVerdict(t *testing.T) {
	c := NewClassifier(gvltest.ProcOf(sampler.EraSched), nil)
	c.Classify(gvltest.SampleAt(gvltest.Base, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base, "read", 3, 0)))
	th := gvltest.Released(1)
	th.Bits |= sampler.BitNoStatus
	if got := c.Classify(gvltest.SampleAt(gvltest.Base+gvltest.MS, 0, th))[0]; got.State != IO || got.AtNS != gvltest.Base+gvltest.MS {
		t.Errorf("%+v", got)
	}
}
