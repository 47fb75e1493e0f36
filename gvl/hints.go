package gvl

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// hint is what a thread's innermost frames show about its wait without the GVL. ddtop uses it if neither memory nor the
// kernel shows what the thread waits for. For example, Thread#join and Queue#pop both end in the same system call,
// futex (docs/internals/threads.md#what-a-thread-waits-for).
type hint struct {
	state State
	op    string
	kind  string
}

// maxHintFrames limits how many of the innermost frames are searched. In most waits, the innermost frame is enough. In
// a wait for a condition variable, the innermost frame is Mutex#sleep, and the method that shows the wait is two or
// three frames outward.
const maxHintFrames = 4

// frameHints has the methods of Ruby's own classes in which threads wait. The keys are labels of Ruby 3.4, and the
// older labels without "Thread::" that some classes had before 3.4.
var frameHints = map[string]hint{
	"Thread::Mutex#lock": {Lock, "", "Mutex"}, "Mutex#lock": {Lock, "", "Mutex"},
	"Thread::Mutex#synchronize": {Lock, "", "Mutex"}, "Mutex#synchronize": {Lock, "", "Mutex"},
	"Monitor#enter": {Lock, "", "Monitor"}, "Monitor#synchronize": {Lock, "", "Monitor"},
	"Thread::Queue#pop": {Parked, "", "Queue"}, "Queue#pop": {Parked, "", "Queue"},
	"Thread::Queue#shift": {Parked, "", "Queue"}, "Thread::Queue#deq": {Parked, "", "Queue"},
	"Thread::SizedQueue#pop": {Parked, "", "SizedQueue"}, "SizedQueue#pop": {Parked, "", "SizedQueue"},
	"Thread::SizedQueue#push": {Parked, "", "SizedQueue"}, "SizedQueue#push": {Parked, "", "SizedQueue"},
	"Thread::ConditionVariable#wait": {Parked, "", "ConditionVariable"},
	"ConditionVariable#wait":         {Parked, "", "ConditionVariable"},
	"Monitor#wait_for_cond":          {Parked, "", "ConditionVariable"},
	"Thread#join":                    {Parked, "", "Thread"}, "Thread#value": {Parked, "", "Thread"},
	"Ractor.receive": {Parked, "", "Ractor"}, "Ractor#take": {Parked, "", "Ractor"}, "Ractor.yield": {Parked, "", "Ractor"},
	"Ractor#value": {Parked, "", "Ractor"}, "Ractor#join": {Parked, "", "Ractor"}, "Ractor.select": {Parked, "", "Ractor"},
	"Ractor::Port#receive": {Parked, "", "Ractor"},
	"Kernel#sleep":         {Sleeping, "", ""}, "Thread.stop": {Sleeping, "", ""},
	"Process.wait": {IO, OpChild, ""}, "Process.wait2": {IO, OpChild, ""}, "Process.waitpid": {IO, OpChild, ""},
	"Process.waitpid2": {IO, OpChild, ""}, "Process.waitall": {IO, OpChild, ""}, "Kernel#system": {IO, OpChild, ""},
	"Process::Status.wait": {IO, OpChild, ""}, "Kernel#`": {IO, OpChild, ""},
	"Addrinfo.getaddrinfo": {IO, OpResolve, ""}, "Socket.getaddrinfo": {IO, OpResolve, ""},
	"IPSocket.getaddress": {IO, OpResolve, ""}, "Socket.getnameinfo": {IO, OpResolve, ""},
	"Addrinfo#getnameinfo": {IO, OpResolve, ""}, "Addrinfo.tcp": {IO, OpResolve, ""},
	"IO#read": {IO, OpRead, ""}, "IO#gets": {IO, OpRead, ""}, "IO#readpartial": {IO, OpRead, ""},
	"IO#sysread": {IO, OpRead, ""}, "IO#getc": {IO, OpRead, ""}, "IO#getbyte": {IO, OpRead, ""},
	"IO#readline": {IO, OpRead, ""}, "IO#each_line": {IO, OpRead, ""}, "IO#wait_readable": {IO, OpRead, ""},
	"IO#pread": {IO, OpRead, ""}, "BasicSocket#recv": {IO, OpRead, ""}, "BasicSocket#__recv": {IO, OpRead, ""},
	"IO#write": {IO, OpWrite, ""}, "IO#puts": {IO, OpWrite, ""}, "IO#print": {IO, OpWrite, ""}, "IO#<<": {IO, OpWrite, ""},
	"IO#syswrite": {IO, OpWrite, ""}, "IO#flush": {IO, OpWrite, ""}, "IO#wait_writable": {IO, OpWrite, ""},
	"BasicSocket#send": {IO, OpWrite, ""}, "BasicSocket#__send": {IO, OpWrite, ""},
	"IO.select": {IO, OpSelect, ""}, "Kernel#select": {IO, OpSelect, ""},
	"TCPServer#accept": {IO, OpAccept, ""}, "UNIXServer#accept": {IO, OpAccept, ""}, "Socket#accept": {IO, OpAccept, ""},
	"TCPSocket#initialize": {IO, OpConnect, ""}, "TCPSocket.open": {IO, OpConnect, ""},
	"Socket#__accept": {IO, OpAccept, ""}, "Socket#connect": {IO, OpConnect, ""}, "Socket#__connect": {IO, OpConnect, ""},
}

// mutexSleep has the methods in which a thread sleeps while it waits for a ConditionVariable. But other code sleeps in
// these methods, too. Only the frames further out show which of the two it is.
var mutexSleep = map[string]bool{"Thread::Mutex#sleep": true, "Mutex#sleep": true}

// FitsLock reports whether a thread with this stack can wait for a lock of a kind ("Mutex" or "Monitor"). If it cannot,
// the stack was read before the wait began.
//
// A Monitor can be awaited only in Monitor's own methods, and at the end of a wait for a condition variable. The source
// is ext/monitor/monitor.c, 2.7 to 4.0. A Mutex can be awaited in Mutex's methods, at the end of a wait for a condition
// variable, and in some C functions. An example is io_binwrite in io.c.
func FitsLock(dict *sampler.Dictionary, stack sampler.StackID, kind string) bool {
	if stack == 0 {
		return false
	}
	_, id := dict.Stack(stack)
	if f := dict.Frame(id); !f.C {
		return false
	}
	switch h := (&hintTable{dict: dict}).hintOf(stack); h.state {
	case Lock:
		return h.kind == kind
	case Parked:
		return h.kind == "ConditionVariable"
	case IO:
		return kind == "Mutex" && h.op == OpWrite
	case Sleeping:
		return false
	default:
		return kind == "Mutex"
	}
}

// OnlyWaits reports whether a stack's innermost method only waits and makes no objects. Such a stack cannot be the
// cause of a garbage collection. A method that reads, such as IO#gets, does not count, because it makes objects.
func OnlyWaits(dict *sampler.Dictionary, stack sampler.StackID) bool {
	if dict == nil || stack == 0 {
		return false
	}
	_, id := dict.Stack(stack)
	switch h := (&hintTable{dict: dict}).hintOf(stack); h.state {
	case Lock, Parked, Sleeping:
		return true
	case IO:
		label := dict.Frame(id).Label
		return h.op == OpSelect || label == "IO#wait_readable" || label == "IO#wait_writable"
	}
	return false
}

// hintTable finds the hints of stacks. It looks up each frame's label only once.
type hintTable struct {
	dict *sampler.Dictionary
	// frames is indexed by FrameID. Its values are 1 + the index of the frame's hint in the slice said, or 0 if the
	// frame was not looked up yet.
	frames []uint8
	said   []frameHint
}

type frameHint struct {
	sleep bool
	h     hint
}

// hintOf returns the hint of a stack's innermost frames, or the zero hint if they show nothing.
func (t *hintTable) hintOf(stack sampler.StackID) hint {
	if t.dict == nil {
		return hint{}
	}
	asleep := false
	for range maxHintFrames {
		if stack == 0 {
			break
		}
		caller, id := t.dict.Stack(stack)
		f := t.frame(id)
		switch {
		case asleep && f.h.kind == "ConditionVariable":
			return f.h
		case asleep:
		case f.sleep:
			asleep = true
		default:
			return f.h
		}
		stack = caller
	}
	if asleep {
		return hint{state: Sleeping}
	}
	return hint{}
}

func (t *hintTable) frame(id sampler.FrameID) frameHint {
	if int(id) >= len(t.frames) {
		frames, _, _, _, _ := t.dict.Sizes()
		if int(id) > frames {
			return frameHint{}
		}
		t.frames = append(t.frames, make([]uint8, frames+1-len(t.frames))...)
	}
	if n := t.frames[id]; n != 0 {
		return t.said[n-1]
	}
	label := t.dict.Frame(id).Label
	f := frameHint{sleep: mutexSleep[label], h: frameHints[label]}
	n := slices.Index(t.said, f)
	if n < 0 {
		// A byte is enough for the index, because there are fewer than 255 different hints.
		n = len(t.said)
		t.said = append(t.said, f)
	}
	t.frames[id] = uint8(n + 1)
	return f
}
