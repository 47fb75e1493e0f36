package gvl

import (
	"cmp"
	"strconv"

	"github.com/ddtop/ddtop/sampler"
)

// These are the values of Detail.Op. They say what a thread in state IO waits for.
const (
	OpRead    = "read"
	OpWrite   = "write"
	OpAccept  = "accept"
	OpConnect = "connect"
	OpPoll    = "poll"
	OpSelect  = "select"
	OpChild   = "child"
	OpResolve = "resolve"
	// OpIO is a wait for a descriptor for which it is not known whether the thread reads or writes.
	OpIO = "io"
	// OpSemaphore is a System V semaphore, which threads of any process can raise.
	OpSemaphore = "semaphore"
	// OpFile is a file operation that is neither read nor write (fsync, open, flock …).
	OpFile = "file"
)

// These are the values of Detail.Reason. They say why a state is Unknown.
const (
	ReasonNotAsked   = "kernel not asked yet"
	reasonFutex      = "futex in a blocking region"
	reasonOldAnswer  = "the kernel's answer is too old"
	reasonUnmounted  = "no native thread, and memory names nothing it waits for"
	ReasonNotSampled = "not sampled"
	reasonNoStatus   = "status could not be read"
	reasonStarting   = "its native thread has not run yet"
	ReasonDead       = "finished, still listed"
	// ReasonWaitsForEnd and ReasonEnding are for the main thread at the program's end, when the program's code has
	// ended and its process has not.
	ReasonWaitsForEnd = "the program has ended and waits for its other threads to end"
	ReasonEnding      = "the program has ended and runs what is left: finalizers, exit handlers of C code"
	reasonOtherCall   = "a system call with no known meaning"
	reasonNoSyscall   = "asleep outside a system call"
	reasonEnded       = "its native thread has ended, and Ruby does not know"
	reasonNoKernelRow = "the kernel did not answer"
	// reasonStopped and reasonFrozen are for threads that want the GVL of a process that is stopped from outside.
	reasonStopped = "stopped by a signal or a debugger"
	reasonFrozen  = "frozen by its cgroup"
)

// Halts reports whether call, a thread's Detail.Syscall, means that the thread is stopped from outside, by a signal, a
// debugger or its cgroup.
func Halts(call string) bool { return call == sampler.SyscallStopped || call == sampler.SyscallFrozen }

// Detail has more facts about a state. Which fields are set depends on the state. A field that is not set is zero,
// except that FD is then -1.
type Detail struct {
	// Op is what a thread in state IO waits for, one of the Op constants.
	Op string
	// Kind is the kind of Object: "Mutex", "Monitor", "Queue", "SizedQueue", "ConditionVariable", "Thread" or "Ractor".
	Kind string
	// Syscall is the system call that the kernel reported since the state began. It is empty if the kernel was not
	// asked.
	Syscall string
	// Reason says why the state is Unknown.
	Reason string
	// Within describes code that the main thread runs outside the program's normal course: a hook at the program's end,
	// or a handler that has interrupted the thread. It is empty if the thread runs no such code, or if this is not
	// known.
	Within string
	// Object is the address of the object that the thread waits for.
	Object uint64
	// DeadlineNS is when a timed wait ends, CLOCK_MONOTONIC in ns.
	DeadlineNS int64
	Peer       sampler.PeerID
	// Holder is the thread that holds the Mutex or Monitor. Joined is the thread that Thread#join waits for.
	Holder, Joined sampler.ThreadID
	// FD is the descriptor that the thread waits for. FDs is the number of descriptors of a poll or select.
	FD, FDs int32
	// Child is the pid of the child process that the thread waits for. It is -1 for any child, and 0 if the thread
	// waits for no child.
	Child int32
	// Wait says why a Waiting thread cannot run yet.
	Wait WaitKind
	// After is the state of a Waiting thread before it wanted the GVL. It is Unknown if no sample saw this state.
	After State
	// GCMode and GCMinor describe the garbage collection that a thread in state GC does.
	GCMode  sampler.GCMode
	GCMinor bool
	// GCReason is set only for the state GC. It has the bits of sampler.GC.Reason, which show why the collection began.
	// For a major collection, they also show why it is a major one.
	GCReason uint16
	// Inferred is set if Ruby's memory does not name this thread as a waiting one. Instead, ddtop concludes from a
	// count of waiting threads that this thread waits for the GVL (Ruby 2.5).
	Inferred bool
}

// Specific reports whether the detail names what the thread waits for.
func (d *Detail) Specific() bool { return d.Op != "" || d.Kind != "" || d.Object != 0 || d.FD >= 0 }

// ThreadState is the state of one thread in one sample, as the Classifier decided it.
type ThreadState struct {
	Thread sampler.ThreadID
	Ractor sampler.RactorID
	State  State
	// Unchanged is set if nothing except AtNS and Stack has changed since the last sample.
	Unchanged bool
	// SinceNS is when the state began: the middle between the last sample of another state and the first sample of this
	// state. AtNS is the sample's time. Both are CLOCK_MONOTONIC in ns.
	SinceNS, AtNS int64
	// Stack is the thread's stack, or the last known one if the sample did not read it.
	Stack  sampler.StackID
	Detail Detail
	// MovedNS is set while a thread waits for a lock, a Queue or a ConditionVariable. It is when the thread last had a
	// CPU since SinceNS, or zero if it had none. All samples since SinceNS show the thread waiting, so there are two
	// possibilities. Either the thread was woken, did not get the object, and has waited since SinceNS. Or it got the
	// object, and its present wait began at MovedNS or later.
	MovedNS int64
	// readNS is when the thread's counters last proved that the thread still waits for the same lock. After readNS, the
	// wait is not certain. readNS is set only while ddtop reads less often than the user asked for. At full rates it is
	// zero. Then the wait counts as certain until AtNS, because the next reading soon corrects an error.
	readNS int64
	// StillNS is a lower bound of the length of a wait in IO or a sleep, in ns. AtNS - SinceNS is an upper bound.
	StillNS int64
	Span    WaitSpan
}

// Stopped reports whether the thread holds the GVL and is stopped by a signal or a debugger, or frozen by its cgroup.
func (t *ThreadState) Stopped() bool { return t.State == Stalled && Halts(t.Detail.Syscall) }

// Open reports whether a thread is Unknown only because the kernel has not been asked yet.
func (t *ThreadState) Open() bool { return t.State == Unknown && t.Detail.Reason == ReasonNotAsked }

// DurationNS returns how long the state has lasted, as samples show it, in ns.
func (t ThreadState) DurationNS() int64 { return t.AtNS - t.SinceNS }

// SureNS returns how long the thread is known to have been in its state without a break, in ns. Time before MovedNS is
// not included, because the thread may have left the state at MovedNS.
func (t ThreadState) SureNS() int64 {
	until := t.AtNS
	if t.readNS != 0 {
		until = t.readNS
	}
	return max(until-max(t.SinceNS, t.MovedNS), 0)
}

// KnownNS returns how long a thread is known to have been in its present wait in IO, in ns. If the thread's counters
// were not read, KnownNS returns the length that samples show.
func (t *ThreadState) KnownNS() int64 {
	if t.StillNS > 0 {
		return t.StillNS
	}
	return t.DurationNS()
}

// AtMost reports whether DurationNS is only an upper bound of the state's length. The state may be shorter if the
// thread has had a CPU since SinceNS (MovedNS), or if LeastNS is less than half of DurationNS.
func (t ThreadState) AtMost() bool {
	if t.State == Waiting {
		return t.waited().Bound == AtMost
	}
	return t.MovedNS != 0 || t.LeastNS() < t.DurationNS()/2
}

// LeastNS returns a lower bound of the state's length, in ns: the time in which the thread has certainly not left the
// state.
func (t ThreadState) LeastNS() int64 {
	switch {
	case t.State == Waiting:
		w := t.Wait()
		return w.LeastNS
	case t.State == IO, (t.State == Sleeping || t.State == Parked) && !InQueue(t.State, &t.Detail):
		return t.StillNS
	}
	return t.SureNS()
}

// Wait returns the wait for the GVL that the thread is in now, as samples show it.
func (t *ThreadState) Wait() Wait {
	w := Wait{Thread: t.Thread, FromNS: t.SinceNS, ToNS: t.AtNS, InProgress: true, After: t.Detail.After}
	if w.SetBounds(&t.Span, t.AtNS, 0); t.Span.ByNS == 0 {
		w.LeastNS = w.MostNS // the length is known exactly
	} else {
		w.LeastNS = min(t.Span.stillNS(), w.MostNS)
	}
	return w
}

// WaitsExactly corrects the beginning of the thread's wait for the GVL, which samples show only roughly. A change of
// the GVL has shown that the wait began at fromNS and still lasts at atNS.
func (t *ThreadState) WaitsExactly(fromNS, atNS int64) {
	t.SinceNS, t.AtNS, t.Span = fromNS, max(atNS, t.AtNS), WaitSpan{}
}

// waited returns how long a thread has waited for the GVL so far, or a bound.
func (t *ThreadState) waited() Bounded {
	w := t.Wait()
	if w.Cut && w.LeastNS > 0 {
		return Bounded{w.LeastNS, AtLeast} // the wait began before the first sample that shows it
	}
	return BoundedOf(w.LeastNS, w.MostNS, false)
}

// JSON returns the object "detail" of a thread in the given state. Its keys are in docs/reference/states.md. It has no
// keys without a value, and is never nil. If dict is nil, peers are left out.
func (d Detail) JSON(state State, dict *sampler.Dictionary) map[string]any {
	m := make(map[string]any)
	put := func(key, v string) {
		if v != "" {
			m[key] = v
		}
	}
	thread := func(key string, id sampler.ThreadID) {
		if id != 0 {
			m[key] = uint32(id)
		}
	}
	put("syscall", d.Syscall)
	put("within", d.Within)
	switch state {
	case Unknown:
		put("reason", d.Reason)
	case GC:
		put("phase", gcPhase(d.GCMode))
		m["minor"] = d.GCMinor
	case Waiting:
		m["kind"] = d.Wait.String()
		if d.After != Unknown {
			m["after"] = d.After.String()
		}
		if d.Inferred {
			m["inferred"] = true
		}
	case IO:
		put("op", d.Op)
		if d.FDs > 1 {
			m["fds"] = d.FDs
		}
		if d.Child != 0 {
			m["child"] = d.Child
		}
	case Lock, Parked:
		put("kind", d.Kind)
		if d.Object != 0 {
			m["object"] = "0x" + strconv.FormatUint(d.Object, 16)
		}
		thread("holder", d.Holder)
		thread("joined", d.Joined)
	}
	if state == IO || state == Stalled || state == Native {
		if d.FD >= 0 {
			m["fd"] = d.FD
		}
		if d.Peer != 0 && dict != nil {
			m["peer"] = PeerJSON(dict.Peer(d.Peer))
		}
	}
	if d.DeadlineNS != 0 {
		m["deadline_monotonic_ns"] = d.DeadlineNS
	}
	return m
}

// PeerJSON returns the JSON object that describes a peer in a dump.
func PeerJSON(p sampler.Peer) map[string]any {
	m := map[string]any{"kind": PeerKindWord(p.Kind)}
	texts := map[string]string{"remote": p.Remote, "local": p.Local, "service": p.Service, "path": p.Path, "process": p.Process}
	for key, text := range texts {
		if text != "" {
			m[key] = text
		}
	}
	return m
}

// peerKinds are the words for kinds of peers in JSON.
var peerKinds = map[sampler.PeerKind]string{
	sampler.PeerTCP: "tcp", sampler.PeerUDP: "udp", sampler.PeerUnix: "unix", sampler.PeerPipe: "pipe", sampler.PeerFile: "file",
	sampler.PeerTTY: "tty", sampler.PeerEventFD: "eventfd", sampler.PeerEpoll: "epoll", sampler.PeerTimerFD: "timerfd",
	sampler.PeerListener: "listener", sampler.PeerOther: "other",
}

// PeerKindWord returns the word for a kind of peer in JSON.
func PeerKindWord(k sampler.PeerKind) string { return cmp.Or(peerKinds[k], "unknown") }

// gcPhase returns the word for the present phase of a garbage collection, or "" between two steps of it.
func gcPhase(m sampler.GCMode) string {
	if m == sampler.GCIdle || m > sampler.GCCompacting {
		return ""
	}
	return m.String()
}
