package clock

import (
	"encoding/binary"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/ddtop/ddtop/sampler/bpf"
)

const (
	// MaxAsks limits how many stacks of a process are copied in a second. The ring has room for this many. maxEvents
	// limits how many calls that give memory back or move it are reported for a process in a second.
	MaxAsks, maxEvents = 100, 4000
	// maxError is the largest error number of a system call (include/linux/err.h).
	maxError = 4095
)

// Ask is a system call, such as mmap(2), that has changed which memory a process has mapped.
type Ask struct {
	Kind AskKind
	// Address and Bytes are the begin and the length of the memory. After mremap(2), From and FromBytes are its begin
	// and length before the call.
	Address, Bytes, From, FromBytes uint64
}

// AskKind is what a call did to the process's memory.
type AskKind uint64

// These constants are the kinds of calls, by their effect on the process's memory. With AskMore the process gets
// memory. With AskGone it gives memory back. AskMoved moves memory.
const (
	AskNone AskKind = iota
	AskMore
	AskGone
	AskMoved
	askCode // code of a file was mapped
)

// These constants are the offsets of an Ask's words, in bytes, on the BPF program's stack and in the ring. In a ring
// entry without a stack, the thread and the time follow at callTGID and callNS.
const (
	askKind = 8 * iota
	askAddress
	askBytes
	askFrom
	askFromBytes
	askSize
	callTGID, callNS, callSize = askSize + 4, askSize + 8, askSize + 16
)

func decodeAsk(b []byte) Ask {
	at := func(place int) uint64 { return binary.LittleEndian.Uint64(b[place:]) }
	return Ask{AskKind(at(askKind)), at(askAddress), at(askBytes), at(askFrom), at(askFromBytes)}
}

// decodeCode returns the kind and the time of a call from a ring entry without a stack. ok is false for other entries.
func decodeCode(b []byte) (kind AskKind, ns int64, ok bool) {
	if len(b) != callSize {
		return AskNone, 0, false
	}
	return decodeAsk(b).Kind, int64(binary.LittleEndian.Uint64(b[callNS:])), true
}

// sharedAsks has the BPF program that all Feeds of FollowAsks share.
var sharedAsks bpf.Shared[*timer]

// FollowAsks copies the stacks of threads that request memory from the kernel, until Close is called. The requests are
// the system calls mmap, mremap and brk. mprotect is a request, too, because malloc uses it to make more of an arena
// usable. The errors are the same as Follow's. Until Close, each system call of each process on the machine takes a
// little longer.
func FollowAsks(target Target) (*Feed, error) { return follow(&sharedAsks, target, openAsks) }

func openAsks() (*timer, error) {
	return load(fastRingBytes, func(t *timer, p *places, ring int) error {
		t.asks = true
		const at = "sys_exit"
		program, err := t.load(ebpf.ProgramSpec{Name: "ddtop_asks", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: at,
			Instructions: p.program(t.targets.FD(), ring, p.chooseCalls(), p.asked(ring))})
		if err != nil {
			return err
		}
		return t.Attach(program, at)
	})
}

// These constants are numbers of system calls (arch/x86/entry/syscalls/syscall_64.tbl). All but the last are
// consecutive.
const (
	callMmap, callMprotect, callMunmap, callBrk, callMremap = 9, 10, 11, 12, 25
)

// These constants are flags of mmap(2) and mprotect(2).
const (
	protWrite, protExec     = 2, 4
	readWrite               = 1 | protWrite
	mapFixed, mapAnonymous  = 0x10, 0x20
	mapStack                = 0x20000
	pageShift               = 12
	arenaShift, arenaMapped = 26, 24
)

// These constants say in which register a system call has an argument, as an index of native.KernelNames.
const (
	argThird, argFirst, argSecond, argFourth = 1, 5, 4, 10
)

// chooseCalls emits the first part of the program. This part ends the program if the call cannot have changed the
// mappings. Afterwards R6 has the address of the registers, R7 the call's result, and R8 its number.
func (p *places) chooseCalls() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R8, asm.R6, p.call, asm.DWord),
		asm.JEq.Imm(asm.R8, callMremap, "ours"),
		asm.JLT.Imm(asm.R8, callMmap, "end"), asm.JGT.Imm(asm.R8, callBrk, "end"),
		asm.LoadMem(asm.R7, asm.R1, 8, asm.DWord).WithSymbol("ours"),
		asm.JGE.Imm(asm.R7, -maxError, "end"),
	}
}

// asked emits the part of the program that stores what a system call did (Ask). If the call requests memory and its
// stack must be copied, the program continues after this part. Otherwise the program ends here.
func (p *places) asked(ring int) (ins asm.Instructions) {
	arg := func(to asm.Register, n int) asm.Instruction {
		return asm.LoadMem(to, asm.R6, p.registers[n], asm.DWord)
	}
	add := func(more ...asm.Instruction) { ins = append(ins, more...) }
	store := func(place int16, from asm.Register) asm.Instruction {
		return asm.StoreMem(asm.RFP, askAt+place, from, asm.DWord)
	}
	// Lengths are rounded up to whole pages.
	length := func(to asm.Register, n int) {
		add(arg(to, n), asm.Add.Imm(to, 1<<pageShift-1), asm.RSh.Imm(to, pageShift), asm.LSh.Imm(to, pageShift))
	}
	kind := func(k AskKind, then string) {
		// the upper half of the word stays 0
		add(asm.StoreImm(asm.RFP, askAt+askKind, int64(k), asm.Word), asm.Ja.Label(then))
	}
	add(asm.Mov.Imm(asm.R1, 0))
	for at := int16(0); at < askSize; at += 8 {
		add(store(at, asm.R1))
	}
	add(asm.JEq.Imm(asm.R8, callMmap, "mmap"), asm.JEq.Imm(asm.R8, callMprotect, "mprotect"),
		asm.JEq.Imm(asm.R8, callMunmap, "munmap"), asm.JEq.Imm(asm.R8, callBrk, "brk"))

	add(arg(asm.R1, argFirst), store(askFrom, asm.R1), store(askAddress, asm.R7)) // mremap
	length(asm.R1, argSecond)
	length(asm.R2, argThird)
	add(store(askFromBytes, asm.R1), store(askBytes, asm.R2), asm.JGT.Reg(asm.R2, asm.R1, "asks"))
	kind(AskMoved, "event")

	add(asm.LoadMem(asm.R1, asm.R9, targetBreak, asm.DWord).WithSymbol("brk"),
		asm.StoreMem(asm.R9, targetBreak, asm.R7, asm.DWord), asm.JEq.Imm(asm.R1, 0, "end"), asm.JEq.Reg(asm.R1, asm.R7, "end"),
		asm.JGT.Reg(asm.R7, asm.R1, "brk more"),
		store(askAddress, asm.R7), asm.Sub.Reg(asm.R1, asm.R7), store(askBytes, asm.R1))
	kind(AskGone, "event")
	add(store(askAddress, asm.R1).WithSymbol("brk more"), asm.Sub.Reg(asm.R7, asm.R1), store(askBytes, asm.R7), asm.Ja.Label("asks"))

	add(arg(asm.R1, argFirst).WithSymbol("munmap"), store(askAddress, asm.R1))
	length(asm.R1, argSecond)
	add(store(askBytes, asm.R1))
	kind(AskGone, "event")

	// mprotect counts only if it makes more of a malloc arena usable. An arena has 64 MB, and begins at a multiple of
	// 64 MB. A word in its head has the number of bytes that were usable before this call (struct _heap_info,
	// mprotect_size, glibc malloc/arena.c). In a new arena, the word is zero, and its page is not in memory yet.
	add(arg(asm.R1, argThird).WithSymbol("mprotect"), asm.JNE.Imm(asm.R1, readWrite, "end"),
		arg(asm.R8, argFirst), asm.RSh.Imm(asm.R8, arenaShift), asm.LSh.Imm(asm.R8, arenaShift),
		asm.Mov.Reg(asm.R3, asm.R8), asm.Add.Imm(asm.R3, arenaMapped))
	add(bpf.ReadTo(askAt+askAddress, 8)...)
	add(asm.LoadMem(asm.R1, asm.RFP, askAt+askAddress, asm.DWord), asm.Add.Reg(asm.R1, asm.R8),
		arg(asm.R2, argFirst), asm.JNE.Reg(asm.R1, asm.R2, "end"), store(askAddress, asm.R2))
	length(asm.R1, argSecond)
	add(store(askBytes, asm.R1), asm.Ja.Label("asks"))

	add(store(askAddress, asm.R7).WithSymbol("mmap"))
	length(asm.R1, argSecond)
	add(store(askBytes, asm.R1), arg(asm.R1, argFourth), arg(asm.R2, argThird), asm.JSet.Imm(asm.R1, mapAnonymous, "anonymous"),
		asm.And.Imm(asm.R2, protExec), asm.JEq.Imm(asm.R2, 0, "end"))
	kind(askCode, "report")
	// Memory without access (PROT_NONE) is only reserved, so such a call is not a request for memory. Memory for a
	// thread's stack does not count either, because most of it stays unused.
	add(asm.JEq.Imm(asm.R2, 0, "reserved").WithSymbol("anonymous"), asm.JSet.Imm(asm.R1, mapStack, "reserved"), asm.Ja.Label("asks"),
		asm.And.Imm(asm.R1, mapFixed).WithSymbol("reserved"), asm.JEq.Imm(asm.R1, 0, "end"))
	kind(AskGone, "event")

	// spend emits the instructions that limit calls per second. The counter at place in the target's data counts the
	// calls in the current second. If the counter has reached the parameter most, the program jumps to the label full.
	// Otherwise it adds one to the counter. The parameter have is the name of a label that spend needs within these
	// instructions.
	spend := func(place int16, most int32, have, full string) {
		add(asm.LoadMem(asm.R0, asm.RFP, nsAt, asm.DWord), asm.LoadMem(asm.R1, asm.R9, targetSecond, asm.DWord),
			asm.Mov.Reg(asm.R2, asm.R0), asm.Sub.Reg(asm.R2, asm.R1),
			asm.JLT.Imm(asm.R2, 1_000_000_000, have), asm.StoreMem(asm.R9, targetSecond, asm.R0, asm.DWord), asm.Mov.Imm(asm.R1, 0),
			asm.StoreMem(asm.R9, targetStacks, asm.R1, asm.DWord), asm.StoreMem(asm.R9, targetEvents, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.R9, place, asm.DWord).WithSymbol(have), asm.JGE.Imm(asm.R1, most, full),
			asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R9, place, asm.R1, asm.DWord))
	}
	add(asm.Mov.Imm(asm.R1, 0).WithSymbol("event"))
	spend(targetEvents, maxEvents, "this second's events", "unseen")
	add(asm.LoadMapPtr(asm.R1, ring).WithSymbol("report"), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, askAt), asm.Mov.Imm(asm.R3, callSize),
		asm.Mov.Imm(asm.R4, bpf.NoWakeup), asm.FnRingbufOutput.Call(), asm.JEq.Imm(asm.R0, 0, "end"))
	ins = append(ins, count(targetUnseen, "unseen")...)
	add(asm.Ja.Label("end"))

	ins = append(ins, count(targetCalls, "asks")...)
	add(asm.StoreImm(asm.RFP, askAt+askKind, int64(AskMore), asm.Word),
		asm.LoadMem(asm.R1, asm.RFP, askAt+askBytes, asm.DWord), asm.LoadMem(asm.R3, asm.RFP, askAt+askFromBytes, asm.DWord), asm.Sub.Reg(asm.R1, asm.R3),
		asm.Mov.Reg(asm.R2, asm.R9), asm.Add.Imm(asm.R2, targetAsked), asm.StoreXAdd(asm.R2, asm.R1, asm.DWord))
	spend(targetStacks, MaxAsks, "this second's stacks", "end")
	return ins
}
