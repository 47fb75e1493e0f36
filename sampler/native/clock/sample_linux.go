package clock

import (
	"encoding/binary"
	"fmt"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/native"
)

// Hz is how often per second the stack of a running thread is copied by default. The rates of kernel ticks, such as 250
// Hz, must not be multiples of it. Otherwise the copies would always be made at the same moment between two kernel
// ticks.
const Hz = 49

// Target describes a process to the program in the kernel. It says where the program finds the data that it reads in
// the process's memory.
type Target struct {
	// PID is the process's number. ddtop's PID namespace and the machine's first one must have the same number for the
	// process.
	PID int
	// These fields have the same meaning as in tracer.Target: ExecutionContext, ThreadOfEC, ContextOfThread, Owner,
	// Collector, CollectsShift and CollectsBits.
	ExecutionContext            int64
	ThreadOfEC, ContextOfThread int
	Owner, Collector            uint64
	CollectsShift, CollectsBits uint
	// Break is the end of the memory that brk(2) manages. Zero means that the process has no such memory yet.
	Break uint64
}

// The kernel's map of targets has one value for each process. These are the offsets of the words in the value. Some
// words tell the program where to read, and others are its counters.
const (
	targetContext = 8 * iota
	targetThreadOfEC
	targetContextOfThread
	targetOwner
	targetCollector
	targetTicks
	targetCopied
	targetBusyNS
	targetBreak
	targetCalls
	targetAsked
	targetUnseen
	targetSecond
	targetStacks
	targetEvents
	targetSize
)

func (t *Target) encode() []byte {
	b := make([]byte, targetSize)
	for place, v := range map[int]int64{targetContext: t.ExecutionContext, targetThreadOfEC: int64(t.ThreadOfEC),
		targetContextOfThread: int64(t.ContextOfThread), targetOwner: int64(t.Owner), targetCollector: int64(t.Collector), targetBreak: int64(t.Break)} {
		binary.LittleEndian.PutUint64(b[place:], uint64(v))
	}
	return b
}

const (
	// maxPieces and pieceBytes limit the size of the C stack that is copied to 16 KB. In Rails, 8 KB are enough to
	// reach the interpreter's loop in 999 of 1,000 stacks.
	maxPieces, pieceBytes = 16, 1024
	// redZone is how many bytes below the stack pointer a function may use (psABI, "The Stack Frame").
	redZone = 128
)

// These constants are offsets, in bytes, of words in an entry of the ring. The words follow the copy of the Ruby stack
// and the registers. The C stack comes after them.
const (
	moreThread = 8 * (native.NumRegisters + iota)
	moreOwner
	moreCollector
	morePieces
	moreAsk
	moreHead = moreAsk + askSize
	moreSize = moreHead + maxPieces*pieceBytes
	// entrySize is the size of an entry, in bytes.
	entrySize = bpf.StackSize + moreSize
)

// Sample is what was copied from a running thread at one instant.
type Sample struct {
	// Stack is the thread's Ruby stack. Like Native, it points into the bytes that the Sample was decoded from.
	bpf.Stack
	Registers native.Registers
	// Native has the bytes of the C stack from the address NativeAt on.
	Native   []byte
	NativeAt uint64
	// Thread is the address of the thread's rb_thread_t. Holds is true if the thread owned the GVL. Collects is true if
	// the garbage collector was running.
	Thread          uint64
	Holds, Collects bool
	// Alone is true for a thread that Ruby does not know. It has no Ruby stack.
	Alone bool
	// Ask is the system call at which the sample was made, if the Feed comes from FollowAsks. For a call that gives
	// memory back or moves it, the Sample has no stack.
	Ask Ask
}

// decode makes a Sample from the bytes that the program has put into the ring.
func (t *Target) decode(b []byte, s *Sample) (err error) {
	if len(b) == callSize {
		*s = Sample{Stack: bpf.Stack{NS: int64(binary.LittleEndian.Uint64(b[callNS:]))}, Ask: decodeAsk(b)}
		return nil
	}
	if len(b) < entrySize {
		return fmt.Errorf("a stack of %d bytes, not %d", len(b), entrySize)
	}
	if s.Stack, err = bpf.DecodeStack(b); err != nil {
		return err
	}
	b = b[bpf.StackSize:]
	at := func(place int) uint64 { return binary.LittleEndian.Uint64(b[place:]) }
	var registers [native.NumRegisters]uint64
	for i := range registers {
		registers[i] = at(8 * i)
	}
	s.Registers = native.AllRegisters(registers)
	s.NativeAt = s.Registers.SP() - redZone
	s.Ask = decodeAsk(b[moreAsk:])
	s.Native = b[moreHead:][:min(at(morePieces), maxPieces)*pieceBytes]
	s.Thread = at(moreThread)
	s.Alone = s.CFP == 0
	s.Holds = at(moreOwner) == s.Thread
	s.Collects = t.CollectsBits != 0 && at(moreCollector)>>t.CollectsShift&(1<<t.CollectsBits-1) != 0
	return nil
}

// Counts are the counters that the program in the kernel keeps for a process.
type Counts struct {
	// Ticks counts how often a Ruby thread ran at a tick. Copied counts how often its stack was copied at such a tick.
	// A stack is not copied if the ring has no room for it, or if it is too large.
	Ticks, Copied uint64
	// BusyNS is how long the program has run in the kernel, in ns.
	BusyNS int64
	// Calls counts the calls that requested memory from the kernel, and Asked counts the bytes. Both include calls
	// whose stack was not copied. Unseen counts the calls that gave memory back or moved it, but that are missing among
	// the Samples. All three are zero unless the Feed comes from FollowAsks.
	Calls, Asked, Unseen uint64
}
