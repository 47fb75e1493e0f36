package kernelview

import (
	"errors"
	"sync/atomic"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
)

// These constants decide how often ddtop asks the kernel. They are times in ns, and shares of times.
const (
	// askAgainNS is how long the kernel's answer about a blocked thread is valid. Then ddtop asks again.
	askAgainNS = 100_000_000
	// idleCPUNS is the interval at which the CPU counters of a thread that seems idle are read.
	idleCPUNS = 250_000_000
	// waitParts limits the age of a waiting thread's counters to 1/waitParts of the time since the thread last ran. The
	// thread may run and wait again between two ticks. With this limit, the error in the length of the first wait is at
	// most an eighth.
	waitParts = 8
	// cpuShareNS limits the age of a thread's CPU counters. The limit is cpuShareNS times the number of threads at
	// work, in ns. So the more threads work, the less often each thread is read. Each read costs 1.3 µs, so all reads
	// together cost less than half a percent of a CPU. If at most 30 threads work, all of them are read in every stack
	// tick. The holder of a GVL is read in every stack tick in any case.
	cpuShareNS = 330_000
	// OldestCPUNS is the largest age of a thread's CPU counters, in ns, if ddtop's CPU budget makes stack ticks rare.
	// One read per second is enough, because the counters are sums, so no CPU time is missed between two reads. A read
	// costs 1.3 µs per thread.
	OldestCPUNS = 1_000_000_000
	// EndParts limits the age of counters at the beginning and at the end of a window of time that figures cover. The
	// limit is 1/EndParts of the window. View.OldestNS is the smaller of this limit and OldestCPUNS.
	EndParts = 4
	// settleNS is how long a thread may take to return to its system call after ddtop has stopped the target for a
	// sample, in ns. During this time the thread seems to run, although it was asleep.
	settleNS = 3_000_000
	// ProcNS and SelfNS are the intervals at which the counters of the process and of ddtop are read.
	ProcNS = 250_000_000
	// listensNS is the interval of checks whether a thread listens: it waits at a connection for data, without having
	// sent a request. A check takes 5 µs.
	listensNS = 1_000_000_000
	SelfNS    = 1_000_000_000
)

// freeCPUReads is the largest number of working threads for which every stack tick reads all their CPU counters.
const freeCPUReads = 30

// computes is a number of answers of the kernel. If so many answers in a row show a thread on a CPU, the thread
// computes. A thread that is only about to enter a system call is on a CPU in no more than one or two answers.
const computes = 3

// maxAsksPerTick is the largest number of threads about which one lock tick asks the kernel. A lock tick asks which
// system call a thread is in if the thread has just blocked.
const maxAsksPerTick = 64

// View keeps what the kernel has answered about each thread, and decides when to ask again. Asking about one thread
// costs 1 to 2 µs. So View asks only for facts that memory does not show, and only when something has changed.
type View struct {
	tasks   *kernel.Tasks
	mem     attach.Memory
	recheck func(sampler.RactorID, sampler.ThreadID) bool
	now     func() int64
	threads map[sampler.ThreadID]*threadView
	// order has what the View knows about each thread of the last sample, in the same order as the sample's Threads.
	order []*threadView
	round uint64
	// working is the number of threads in the last stack tick whose CPU counters are read often. Such a thread has run
	// since its counters were last read, or has waited for less than waitParts times idleCPUNS.
	working int64
	// pausedNS is the time at which ddtop last let the target run again after it had stopped it for a sample. It is
	// zero if ddtop has never stopped it.
	pausedNS int64
	// Spaces says which threads the process has. It serves to check whether the owner of a lock still exists. It is nil
	// if this is not checked.
	Spaces *kernel.Namespace
	lost   lostHelpers
	// LockWaitNS is when a thread was last seen to wait for a lock of C code, CLOCK_MONOTONIC in ns. LostLocks are the
	// addresses of the locks of C code that no thread of the process can release. It is nil if there are none. Any
	// goroutine may use LockWaitNS and LostLocks.
	LockWaitNS atomic.Int64
	LostLocks  atomic.Pointer[[]uint64]
	First      firstStack
	// Frozen is true if the process's cgroup was frozen at the last check.
	Frozen bool
	// OldestNS limits the age of a thread's CPU counters, in ns.
	OldestNS int64
	// refused is the first error by which the kernel has refused to answer.
	refused error
}

type threadView struct {
	// gone is true if the kernel has reported on the thread before, and now reports that the thread has ended.
	gone bool
	// Each sample reads the following fields, so they are at the front of the struct.
	id       sampler.ThreadID
	tid      int32
	stack    sampler.StackID
	released bool
	busy     bool // true if the thread ran or wanted to run since its CPU counters were read
	round    uint64
	// ranNS is the last time at which the thread's counters showed that the thread had run or wanted to run. It is
	// CLOCK_MONOTONIC in ns.
	ranNS int64
	k     sampler.Kernel
	sleep sleepConfidence
	// call is the thread's last system call. restart_syscall does not count, because it only continues an interrupted
	// call.
	call kernel.Call
	// listensNS is when ddtop last checked whether the thread listens. A thread listens if it waits for data without
	// having sent a request. listensFD is the descriptor at which the thread waited then.
	listensNS int64
	listensFD int32
	settling  settling
	lost      lostWait
}

// sleepConfidence decides for how long ddtop uses the kernel's answer that a thread sleeps. Usually this is askAgainNS.
// But a thread that computes without the GVL can sleep for a moment, for example until it gets a page of memory.
// Nothing in memory shows when it continues. With askAgainNS, such a moment would be shown as 0.1 s of I/O.
//
// So if the thread has computed, ddtop uses the answer only for the same time that the sleep has lasted so far. If the
// thread alternates between computing and sleeping, the answer is valid only for its own instant. These exceptions end
// when a sleep has lasted for askAgainNS.
type sleepConfidence struct {
	ran      int  // number of consecutive answers in which the thread was on a CPU
	computed bool // true if the thread was seen to compute since it released the GVL or its stack changed
	turns    bool // true if the thread slept and then ran, after it had computed
	// when the kernel first answered that the thread sleeps, if all answers since are the same. Zero if the thread ran
	// in the last answer
	asleepNS int64
}

func (c *sleepConfidence) answer(k *sampler.Kernel, ns int64) {
	if k.Syscall == sampler.SyscallRunning || k.Syscall == "" {
		c.turns = c.turns || c.computed && c.asleepNS != 0
		c.ran, c.asleepNS = c.ran+1, 0
		c.computed = c.computed || c.ran >= computes
		return
	}
	c.ran = 0
	if c.asleepNS == 0 {
		c.asleepNS = ns
	}
	c.turns = c.turns && ns-c.asleepNS < askAgainNS
}

// believedNS returns for how long ddtop uses the answer that the thread sleeps, in ns. ns is the time of the answer.
func (c *sleepConfidence) believedNS(ns int64) int64 {
	switch {
	case c.turns:
		return 0
	case c.computed:
		return min(askAgainNS, ns-c.asleepNS)
	}
	return askAgainNS
}

// settling records whether a thread has had a CPU since ddtop let the target run again after a pause. Until the thread
// gets a CPU, it cannot return to the system call in which it slept. On a full machine this can take long.
type settling struct {
	pauseNS int64
	cpu     kernel.CPU
	ran     bool
}

// New returns a View of a process. recheck reports whether a thread still owns a GVL (ruby.Reader.RecheckOwner).
func New(tasks *kernel.Tasks, mem attach.Memory, now func() int64, recheck func(sampler.RactorID, sampler.ThreadID) bool) *View {
	return &View{tasks: tasks, mem: mem, now: now, recheck: recheck, OldestNS: OldestCPUNS, threads: make(map[sampler.ThreadID]*threadView)}
}

// restarted is the name of the system call that continues another one after a stop (restart_syscall(2)).
const restarted = "restart_syscall"

// question is what the kernel is asked about one thread in one tick.
type question uint8

const (
	askNothing question = iota // nothing, because the last answer is still valid
	askForget                  // nothing, and drop the last answer
	askOwner                   // whether the holder of the GVL sleeps in the kernel, and still holds it
	askCall                    // in which system call the thread is
	askFD                      // for a thread without a native thread: what the descriptor in memory is
)

// Fill adds the kernel's facts about threads to a sample. The parameter all is true for a single dump. Then Fill asks
// the kernel about every thread.
func (v *View) Fill(s *sampler.Sample, all bool) {
	v.round++
	if s.PauseNS != 0 {
		v.pausedNS = v.now()
	}
	asks := 0
	working, young := int64(0), min(v.working*cpuShareNS, idleCPUNS)
	if v.working <= freeCPUReads {
		young = 0
	}
	for i := range s.Threads {
		t := &s.Threads[i]
		w := v.of(i, t.ID)
		if t.TID != w.tid {
			// The thread has another native thread now, or none. So the known counters and calls, which belong to the
			// previous native thread, are dropped.
			w.tid = t.TID
			w.k, w.call, w.sleep = sampler.Kernel{FD: -1}, kernel.Call{}, sleepConfidence{}
		}
		owner := owns(s, t)
		queued := t.Bits&sampler.BitQueued != 0
		runnable := t.Status == sampler.Runnable && t.Bits&sampler.BitBlockingRegion == 0
		released := !owner && !queued && !runnable
		if released && !w.released {
			// This answer was about the thread while it held the GVL, which it has released. So drop the answer.
			// Otherwise ddtop would not ask the kernel again.
			w.forget()
		}
		q := v.question(s, t, w, owner, released, all)
		if (q == askCall || q == askFD) && !all && s.Depth != sampler.StackTick {
			if asks++; asks > maxAsksPerTick {
				q = askNothing
			}
		}
		v.put(q, t, w)
		if t.TID != 0 {
			w.busy = w.busy || !released || w.k.Syscall == sampler.SyscallRunning || w.stack != t.Stack
			old := min((s.TimeNS-w.ranNS)/waitParts, idleCPUNS)
			if w.busy {
				old = 0
			}
			if old < idleCPUNS {
				working++
			}
			age := s.TimeNS - w.k.CPUAtNS
			if all || age >= v.OldestNS || s.Depth == sampler.StackTick && (owner || age >= max(old, young)) {
				v.readCPU(t.TID, w)
			}
		}
		w.released = released
		if t.Quality&sampler.StackFresh != 0 {
			w.stack = t.Stack
		}
		t.Kernel = w.k
		v.First.check(v, t)
	}
	if s.Depth == sampler.StackTick {
		v.working = working
	}
	v.order = v.order[:len(s.Threads)]
	if len(v.threads) > len(s.Threads) {
		for id, w := range v.threads {
			if w.round != v.round {
				if w.tid != 0 {
					v.tasks.Forget(w.tid)
				}
				delete(v.threads, id)
			}
		}
	}
}

// LastCounters reads the CPU counters of all threads once more for the last sample. Otherwise the CPU time that threads
// used since the previous reading would be missing at the end.
func (v *View) LastCounters(s *sampler.Sample) {
	for i := range s.Threads {
		if t := &s.Threads[i]; t.TID != 0 {
			w := v.of(i, t.ID)
			v.readCPU(t.TID, w)
			t.Kernel = w.k
		}
	}
}

// question decides what the kernel is asked about a thread. It uses what memory shows now, and what the kernel answered
// before.
func (v *View) question(s *sampler.Sample, t *sampler.Thread, w *threadView, owner, released, all bool) question {
	switch {
	case t.TID == 0:
		if released && t.Blocked.FD >= 0 && v.unasked(s, t, w, all) {
			return askFD
		}
		return askNothing
	case s.PauseNS != 0 && w.k.StateAtNS != 0 && w.k.Syscall != sampler.SyscallRunning &&
		(owner || released && w.released && w.stack == t.Stack):
		// After a pause of the target, threads return to the call in which they slept. If the thread's stack has not
		// changed, the kernel's earlier answer is still valid, so do not ask again.
		return askNothing
	case owner && t.Bits&sampler.BitLinked != 0:
		return askOwner
	case !released:
		return askForget // the last system call has ended, so it does not show what the thread does now
	case v.wanted(s, t, w, all):
		return askCall
	}
	return askNothing
}

func (v *View) put(q question, t *sampler.Thread, w *threadView) {
	switch q {
	case askForget:
		w.forget()
	case askOwner:
		v.askOwner(t, w)
	case askCall:
		v.ask(t.TID, w)
	case askFD:
		v.tasks.DescribeFD(&w.k, t.Blocked.FD)
		w.k.StateAtNS = v.now()
	}
}

// forget drops the kernel's answer about a call or a wait, because this call or wait has ended.
func (w *threadView) forget() {
	w.k.Syscall, w.k.StateAtNS, w.k.FD, w.k.FDs, w.k.Peer, w.k.Child, w.k.Rechecked = "", 0, -1, 0, 0, 0, false
	w.sleep = sleepConfidence{}
}

// of returns the threadView of the sample's i-th thread. Usually the thread was also the i-th in the last sample, so no
// search is needed.
func (v *View) of(i int, id sampler.ThreadID) *threadView {
	if i < len(v.order) && v.order[i].id == id {
		w := v.order[i]
		w.round = v.round
		return w
	}
	w := v.threads[id]
	if w == nil {
		w = &threadView{id: id, k: sampler.Kernel{FD: -1}}
		v.threads[id] = w
	}
	w.round = v.round
	if i < len(v.order) {
		v.order[i] = w
	} else {
		v.order = append(v.order, w)
	}
	return w
}

// owns reports whether the GVL's owner field named the thread at the start or at the end of the sample's reading.
func owns(s *sampler.Sample, t *sampler.Thread) bool {
	for i := range s.Ractors {
		if r := &s.Ractors[i]; r.ID == t.Ractor && (r.OwnerStart == t.ID || r.OwnerEnd == t.ID) {
			return true
		}
	}
	return false
}

// wanted reports whether ddtop must ask the kernel what a thread that has released the GVL does.
func (v *View) wanted(s *sampler.Sample, t *sampler.Thread, w *threadView, all bool) bool {
	switch t.Blocked.Kind {
	case sampler.BlockNone, sampler.BlockIO, sampler.BlockSelect, sampler.BlockChild:
	default:
		// memory shows why the thread is blocked, so ask only for a dump
		return all && t.Bits&sampler.BitBlockingRegion != 0
	}
	if all || !w.released || w.k.StateAtNS == 0 {
		return true
	}
	if t.Quality&sampler.StackFresh != 0 && w.stack != t.Stack {
		w.sleep = sleepConfidence{}
		return true
	}
	if w.k.Syscall == sampler.SyscallRunning {
		// The thread was last seen on a CPU. A thread that has just released the GVL is usually about to make a system
		// call. Without a new answer, it would be shown as running native code until the next stack tick. Asking is
		// cheap: only as many threads as there are CPUs can run for long.
		return true
	}
	// ddtop asks the kernel again only if the last answer is too old (believedNS). Usually only stack ticks ask. Lock
	// ticks ask, too, if stack ticks stop the target, or if the thread was seen to compute (sleepConfidence).
	return (s.Depth == sampler.StackTick || v.pausedNS != 0 || w.sleep.computed) && s.TimeNS-w.k.StateAtNS > w.sleep.believedNS(w.k.StateAtNS)
}

// unasked reports whether ddtop must find the peer (other end) of the descriptor at which a thread waits. It is called
// only for a thread that has no native thread. ddtop repeats this from time to time, because a socket that is still
// connecting gets its peer later.
func (v *View) unasked(s *sampler.Sample, t *sampler.Thread, w *threadView, all bool) bool {
	return all || !w.released || w.k.StateAtNS == 0 || w.k.FD != t.Blocked.FD ||
		t.Quality&sampler.StackFresh != 0 && w.stack != t.Stack ||
		s.Depth == sampler.StackTick && s.TimeNS-w.k.StateAtNS > askAgainNS
}

// askOwner asks the kernel whether the holder of the GVL sleeps. If it sleeps, askOwner reads the GVL's owner again, to
// check that the thread still holds the GVL.
func (v *View) askOwner(t *sampler.Thread, w *threadView) {
	w.k.Rechecked = false
	v.ask(t.TID, w)
	if w.gone { // a thread that has ended by pthread_exit holds the GVL for ever
		w.k.Syscall, w.k.FD, w.k.FDs, w.k.Peer, w.k.Child, w.k.StateAtNS = sampler.SyscallEnded, -1, 0, 0, 0, v.now()
	}
	if w.k.Syscall == "" || w.k.Syscall == sampler.SyscallRunning {
		return
	}
	w.k.Rechecked = v.recheck(t.Ractor, t.ID)
	// A process that was stopped (kill -STOP, a debugger) or frozen also keeps the GVL while it sleeps. This hold is
	// not the fault of the process's code. So the state gets a name of its own.
	if v.Frozen {
		w.k.Syscall, w.k.FD, w.k.FDs, w.k.Peer, w.k.Child = sampler.SyscallFrozen, -1, 0, 0, 0
	} else if state, err := v.tasks.State(t.TID); err == nil && (state == 'T' || state == 't') {
		w.k.Syscall, w.k.FD, w.k.FDs, w.k.Peer, w.k.Child = sampler.SyscallStopped, -1, 0, 0, 0
	}
}

func (v *View) ask(tid int32, w *threadView) {
	call, err := v.tasks.Call(tid)
	w.gone = errors.Is(err, kernel.ErrGone) && w.k.CPUAtNS != 0
	if err != nil {
		w.k.Syscall, w.k.StateAtNS = "", 0
		v.note(err)
		return
	}
	switch call.Name {
	case sampler.SyscallRunning, sampler.SyscallNone:
		if v.pausedNS != 0 && w.k.StateAtNS != 0 && w.k.Syscall != "" && w.k.Syscall != sampler.SyscallRunning && v.settles(tid, w) {
			return // the thread was in a system call, and left it only because ddtop stopped the process
		}
	case restarted:
		if call.Args == w.call.Args && w.call.Name != "" {
			call = w.call
		}
	default:
		w.call = call
	}
	v.tasks.Describe(&w.k, call, v.mem)
	w.k.StateAtNS = v.now()
	if call.Name == "futex" {
		w.k.Syscall = v.lostName(&call, w)
	}
	if w.k.Peer == 0 {
		w.k.Listens = false
	} else if w.listensFD != w.k.FD || w.k.StateAtNS-w.listensNS >= listensNS {
		w.k.Listens, w.listensFD, w.listensNS = v.tasks.Listens(&w.k), w.k.FD, w.k.StateAtNS
	}
	w.sleep.answer(&w.k, w.k.StateAtNS)
}

// settles reports whether a thread that seems to run may only be returning to its system call after a pause of the
// target. It returns true for settleNS after the pause. It also returns true until the thread's CPU counters show that
// the thread has run since the pause.
func (v *View) settles(tid int32, w *threadView) bool {
	now, at := v.now(), &w.settling
	cpu, err := v.tasks.CPU(tid)
	if err != nil {
		v.note(err)
		return false
	}
	if at.pauseNS == v.pausedNS {
		at.ran = at.ran || at.cpu != cpu
	} else {
		*at = settling{pauseNS: v.pausedNS, cpu: cpu}
	}
	return !at.ran || now-v.pausedNS < settleNS
}

func (v *View) readCPU(tid int32, w *threadView) {
	cpu, err := v.tasks.CPU(tid)
	if err != nil {
		v.note(err)
		return
	}
	at := v.now()
	if cpu.Turns != w.k.Turns || w.busy {
		w.ranNS = at
	}
	w.k.CPUNS, w.k.RunDelayNS, w.k.Turns, w.k.CPUAtNS = cpu.RanNS, cpu.DelayNS, cpu.Turns, at
	w.busy = false
}

func (v *View) note(err error) {
	if v.refused == nil && !errors.Is(err, kernel.ErrGone) {
		v.refused = err
	}
}
