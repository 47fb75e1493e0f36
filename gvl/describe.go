package gvl

import (
	"cmp"
	"fmt"

	"github.com/ddtop/ddtop/sampler"
)

// ThreadName returns a thread's name on screens: its own name, "main", or "thread 12". The ID 0 stands for short-lived
// threads that no sample listed.
func ThreadName(id sampler.ThreadID, dict *sampler.Dictionary) string {
	var info sampler.ThreadInfo
	if dict != nil {
		info, _ = dict.Thread(id)
	}
	return NameOf(id, info)
}

// NameOf returns the same name as ThreadName. It is for callers that already have the thread's ThreadInfo.
func NameOf(id sampler.ThreadID, info sampler.ThreadInfo) string {
	switch {
	case info.Name != "":
		return info.FullName()
	case info.Main:
		return "main"
	case id == 0:
		return "short-lived thread"
	}
	return fmt.Sprintf("thread %d", id)
}

// PeerName returns the name of a peer on screens: "10.0.0.5:5432 PostgreSQL", a path, "pipe". It is "" if nothing is
// known of the peer.
func PeerName(p sampler.Peer) string {
	name := p.Remote
	switch {
	case p.Kind == sampler.PeerListener:
		name = p.Local
	case name == "":
		name = p.Path
	}
	switch {
	case name == "" && p.Kind == sampler.PeerUnknown:
		return p.Service
	case name == "":
		name = PeerKindWord(p.Kind)
	}
	if p.Service != "" {
		name += " " + p.Service
	}
	return name
}

// Describe returns a few words about a thread's state for the screen: "waiting 41 ms after io", "io ← read
// 10.0.0.5:5432 PostgreSQL (fd 14)", "parked in Thread#join". dict may be nil.
func Describe(ts ThreadState, dict *sampler.Dictionary) string {
	if w := ts.Detail.Within; w != "" {
		return describe(ts, dict) + ", in " + w
	}
	return describe(ts, dict)
}

func describe(ts ThreadState, dict *sampler.Dictionary) string {
	d := &ts.Detail
	switch ts.State {
	case Running, Native:
		return ts.State.String()
	case Stalled:
		switch d.Syscall {
		case sampler.SyscallStopped:
			return "stalled: " + reasonStopped + ", keeps the GVL"
		case sampler.SyscallFrozen:
			return "stalled: " + reasonFrozen + ", keeps the GVL"
		case sampler.SyscallEnded:
			return "stalled: " + reasonEnded + ", keeps the GVL for ever"
		}
		if d.Syscall == sampler.SyscallNone {
			return "stalled outside a system call (page fault?), keeps the GVL"
		}
		if text := lostText(d); text != "" {
			return "stalled: " + text + ", keeps the GVL"
		}
		return "stalled in " + d.Syscall + peerSuffix(d, dict) + ", keeps the GVL"
	case GC:
		return describeGC(d)
	case Waiting:
		return describeWaiting(ts)
	case IO:
		return describeIO(d, dict)
	case Lock:
		if text := lostText(d); text != "" {
			return "lock: " + text
		}
		s := "lock " + cmp.Or(d.Kind, "Mutex")
		if d.Holder != 0 {
			s += " held by " + ThreadName(d.Holder, dict)
		}
		return s
	case Parked:
		return describeParked(ts, dict)
	case Sleeping:
		return "sleeping " + ts.lasted()
	}
	switch d.Reason {
	case "":
	case reasonStopped, reasonFrozen, ReasonWaitsForEnd, ReasonEnding:
		return d.Reason
	case reasonOtherCall:
		return "unknown: in the system call " + d.Syscall
	default:
		return "unknown: " + d.Reason
	}
	return "unknown"
}

// LostLock reports whether a thread waits for a lock in C code that no thread can release. Its holder has ended, or
// fork has not copied the holder into this process.
func LostLock(d *Detail) bool { return lostText(d) != "" }

// lostText describes a wait for a lock in C code whose holder has ended or was not copied by fork (LostLock). It
// returns "" for other waits.
func lostText(d *Detail) string {
	switch {
	case d.Syscall == sampler.SyscallLostLock:
		return "waits for a lock of C code that was held at fork by a thread that does not exist here, or by a thread that has ended"
	case d.Syscall == sampler.SyscallLostHelper && d.Kind == kindCLock:
		return "its helper thread waits for a lock of C code that was held at fork by a thread that does not exist here, or by a thread that has ended"
	}
	return ""
}

func describeGC(d *Detail) string {
	kind := "major"
	if d.GCMinor {
		kind = "minor"
	}
	if phase := gcPhase(d.GCMode); phase != "" {
		return "gc " + kind + ", " + phase
	}
	return "gc " + kind
}

func describeWaiting(ts ThreadState) string {
	s := "waiting " + ts.lasted()
	switch ts.Detail.Wait {
	case WaitHandover:
		s += " (next)"
	case WaitCPUSlot:
		s += " for a CPU slot"
	}
	if a := ts.Detail.After; a != Unknown {
		s += " after " + a.String()
	}
	return s
}

func describeIO(d *Detail, dict *sampler.Dictionary) string {
	s := "io " + ioArrow(d.Op) + " " + cmp.Or(d.Op, OpIO)
	switch {
	case d.Op == OpChild && d.Child > 0:
		s += fmt.Sprintf(" pid %d", d.Child)
	case d.Op == OpChild && d.Child < 0:
		s += " (any)"
	case d.FDs > 1:
		s += fmt.Sprintf(" %d descriptors", d.FDs)
		return s
	case d.Syscall == "":
	case d.Op == OpFile, d.FD < 0 && d.Peer == 0 && (d.Op == OpRead || d.Op == OpWrite || d.Op == OpSemaphore || d.Op == OpIO):
		s += " " + d.Syscall
	}
	return s + peerSuffix(d, dict)
}

// ioArrow returns an arrow that points in the direction in which an operation moves data: "←" for a read.
func ioArrow(op string) string {
	switch op {
	case OpWrite, OpConnect, OpResolve:
		return "→"
	}
	return "←"
}

func peerSuffix(d *Detail, dict *sampler.Dictionary) string {
	s := ""
	if d.Peer != 0 && dict != nil {
		if n := PeerName(dict.Peer(d.Peer)); n != "" {
			s = " " + n
		}
	}
	if d.FD >= 0 {
		s += fmt.Sprintf(" (fd %d)", d.FD)
	}
	return s
}

func describeParked(ts ThreadState, dict *sampler.Dictionary) string {
	d := &ts.Detail
	switch d.Kind {
	case "":
		return "parked " + ts.lasted()
	case "Thread":
		if d.Joined != 0 {
			return "parked in Thread#join of " + ThreadName(d.Joined, dict)
		}
		return "parked in Thread#join"
	}
	return "parked in " + d.Kind + " " + ts.lasted()
}
