package clock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/native"
)

const (
	// ringBytes is the size of the ring for copied stacks, in bytes, if the clock ticks 49 times a second on each CPU.
	// It has room for the 36 stacks that 14 busy CPUs make between two reads of the ring. fastRingBytes is the size for
	// a faster clock.
	ringBytes, fastRingBytes = 2 << 20, 8 << 20
	// maxPending bounds how many stacks of all processes wait until Drain takes them.
	maxPending = fastRingBytes / entrySize
)

// timer has the BPF program that copies stacks. All processes that ddtop follows share it.
type timer struct {
	bpf.Programs
	mu      sync.Mutex
	targets *ebpf.Map
	ring    *bpf.Ring
	// asks is true if the BPF program runs at the end of system calls, to find calls that request memory. Otherwise it
	// runs at ticks of a clock.
	asks bool
	// records has, for each CPU, what the kernel has recorded about processes that map code. recordsNS is when it was
	// last read.
	records   []records
	recordsNS int64
	feeds     map[uint32]*Feed
}

// shared is the timer that all Feeds of Follow share.
var shared bpf.Shared[*timer]

// Feed receives the stacks of one process. It is for one goroutine at a time.
type Feed struct {
	shared *bpf.Shared[*timer]
	t      *timer
	target Target
	// pending are stacks of this process that were taken from the ring, and that Drain has not passed on yet. Feeds of
	// other processes also take stacks from the ring and store them here. spare is memory for further stacks.
	pending, spare []Sample
	// dropped is how many stacks had no room in pending.
	dropped uint64
	// changes are the periods in which the process may have mapped code of files, in the order in which ddtop learned
	// of them.
	changes []change
}

// Check returns why stacks of running threads cannot be copied on this machine with ddtop's rights. It returns nil if
// they can. The error is bpf.ErrKernel or bpf.ErrRights.
func Check() error {
	m, err := bpf.ThisMachine()
	if err != nil {
		return err
	}
	return m.CheckRegisters()
}

// Try loads the program, starts its clock, and removes both again. This shows whether the kernel, a container or a
// security module forbids the program. The errors are the same as Follow's.
func Try() error { return shared.Try(func() (*timer, error) { return open(Hz) }) }

// Follow copies the stacks of a process's running threads until Close, hz times a second on each CPU. If ddtop already
// follows another process, Follow uses that process's rate instead of hz. The error is bpf.ErrKernel or bpf.ErrRights,
// or the error of a full map.
func Follow(target Target, hz int) (*Feed, error) {
	return follow(&shared, target, func() (*timer, error) { return open(hz) })
}

func follow(shared *bpf.Shared[*timer], target Target, open func() (*timer, error)) (*Feed, error) {
	f := &Feed{shared: shared, target: target}
	if err := shared.Join(open, f.join); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *Feed) join(t *timer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	began, err := monotonic()
	if err == nil {
		err = t.targets.Update(uint32(f.target.PID), f.target.encode(), ebpf.UpdateNoExist)
	}
	if err != nil {
		return bpf.Explain(fmt.Sprintf("copying stacks of process %d", f.target.PID), err)
	}
	f.t, f.changes = t, []change{{0, began}}
	t.feeds[uint32(f.target.PID)] = f
	return nil
}

// Close ends a Feed. When the last Feed ends, the program is removed from the kernel.
func (f *Feed) Close() error {
	if f.t == nil {
		return nil
	}
	f.t = nil
	return f.shared.Leave(func(t *timer) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.feeds, uint32(f.target.PID))
		return t.targets.Delete(uint32(f.target.PID))
	})
}

// Drain calls emit with the stacks that were copied since the last Drain. A Sample is valid only during the call of
// emit. emit may read the process's memory, which can hang. So Drain does not block other Feeds while emit runs.
func (f *Feed) Drain(emit func(*Sample)) error {
	list, err := f.take()
	for i := range list {
		emit(&list[i])
	}
	if err != nil {
		return fmt.Errorf("reading the ring of running threads' stacks: %w", err)
	}
	return nil
}

// take empties the ring, which has stacks for all Feeds, and returns the stacks for f.
func (f *Feed) take() ([]Sample, error) {
	t := f.t
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.readRing(f)
	list := f.pending
	f.pending, f.spare = f.spare[:0], list
	return list, err
}

// readRing empties the ring, which all Feeds share, and stores each entry in the Feed of its process until Drain. f
// always has room for an entry. Other Feeds have room only if hasRoom allows it. f may be nil. The caller holds mu.
func (t *timer) readRing(f *Feed) error {
	return t.ring.Read(func(b []byte) error {
		tgid, err := tgidOf(b)
		of := t.feeds[tgid]
		if err != nil || of == nil {
			return err
		}
		if a, ns, ok := decodeCode(b); ok && a == askCode {
			of.changed(change{ns, ns})
			return nil
		}
		if of != f && !of.hasRoom(t.mostPending()/len(t.feeds)) {
			return nil
		}
		return of.keep(b)
	})
}

// mostPending is how many entries from the ring may wait until Drain takes them. An entry is a stack, or a call without
// a stack.
func (t *timer) mostPending() int {
	if t.asks {
		return maxPending + maxEvents
	}
	return maxPending
}

// hasRoom reports whether the Feed may keep one more stack until Drain. If it may not, hasRoom counts the stack as
// dropped.
func (f *Feed) hasRoom(most int) bool {
	if len(f.pending) < most {
		return true
	}
	f.dropped++
	return false
}

// keep copies a stack from the ring, and keeps the copy until Drain.
func (f *Feed) keep(b []byte) error {
	if n := len(f.pending); n < cap(f.pending) {
		f.pending = f.pending[:n+1]
	} else {
		f.pending = append(f.pending, Sample{})
	}
	s := &f.pending[len(f.pending)-1]
	frames, values, stack := s.Frames, s.Values, s.Native
	if err := f.target.decode(b, s); err != nil {
		f.pending = f.pending[:len(f.pending)-1]
		return err
	}
	s.Frames, s.Values = append(frames[:0], s.Frames...), append(values[:0], s.Values...)
	s.Native = append(stack[:0], s.Native...)
	return nil
}

func tgidOf(b []byte) (uint32, error) {
	if len(b) == callSize {
		return binary.LittleEndian.Uint32(b[callTGID:]), nil
	}
	s, err := bpf.DecodeStack(b)
	return uint32(s.TGID), err
}

// Counts returns what the program in the kernel has counted.
func (f *Feed) Counts() (Counts, error) {
	at, err := bpf.CountersOf(f.t.targets, f.target.PID)
	if err != nil {
		return Counts{}, err
	}
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	return Counts{Ticks: at(targetTicks), Copied: at(targetCopied) - f.dropped, BusyNS: int64(at(targetBusyNS)),
		Calls: at(targetCalls), Asked: at(targetAsked), Unseen: at(targetUnseen)}, nil
}

// open loads the program and starts a clock on each CPU.
func open(hz int) (*timer, error) {
	size := uint32(ringBytes)
	if hz > 2*Hz {
		size = fastRingBytes
	}
	return load(size, func(t *timer, p *places, ring int) error {
		program, err := t.load(ebpf.ProgramSpec{Name: "ddtop_running", Type: ebpf.PerfEvent,
			Instructions: p.program(t.targets.FD(), ring, nil, nil)})
		if err != nil {
			return err
		}
		return t.start(program, uint64(1_000_000_000/hz))
	})
}

// load makes the maps, and a ring of size bytes. Then it calls begin, which loads the program and attaches it.
func load(size uint32, begin func(t *timer, p *places, ring int) error) (_ *timer, err error) {
	if err := Check(); err != nil {
		return nil, err
	}
	t := &timer{feeds: make(map[uint32]*Feed)}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Programs.Close())
		}
	}()
	places, err := placesOfKernel()
	if err != nil {
		return nil, err
	}
	if t.targets, err = t.Targets("ddtop_running", targetSize); err != nil {
		return nil, err
	}
	ringFD, ring, err := t.Ring("ddtop_cstacks", size)
	if err != nil {
		return nil, err
	}
	t.ring = ring
	return t, begin(t, &places, ringFD)
}

func (t *timer) load(spec ebpf.ProgramSpec) (*ebpf.Program, error) {
	spec.License = bpf.License
	loaded, err := t.Load(map[string]*ebpf.ProgramSpec{spec.Name: &spec})
	return loaded[spec.Name], err
}

// start starts a clock on each CPU. Through the clock, the kernel also reports which processes map code on this CPU.
func (t *timer) start(program *ebpf.Program, periodNS uint64) error {
	return t.StartClocks(program, unix.PerfEventAttr{
		Size: uint32(unix.PERF_ATTR_SIZE_VER5), Sample: periodNS,
		Sample_type: unix.PERF_SAMPLE_TIME, Clockid: unix.CLOCK_MONOTONIC,
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID,
	}, func(clock int) error {
		told, err := openRecords(clock)
		if err != nil {
			return err
		}
		t.records = append(t.records, told)
		t.Closes(told.close)
		return nil
	})
}

// places are the offsets of the fields of this kernel's structs that the program reads, in bytes.
type places struct {
	threadPointer int16
	registers     [native.NumRegisters]int16
	// call is the place of the number of the system call among the registers.
	call int16
}

func placesOfKernel() (p places, err error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return p, fmt.Errorf("%w: reading what it says of itself: %w", bpf.ErrKernel, err)
	}
	if p.threadPointer, err = bpf.MemberAt(spec, "task_struct", []string{"thread", "fsbase"}, 8); err != nil {
		return p, fmt.Errorf("%w: %w", bpf.ErrKernel, err)
	}
	for i, name := range append(native.KernelNames[:], "orig_ax") {
		at, err := bpf.MemberAt(spec, "pt_regs", []string{name}, 8)
		if err != nil {
			return p, fmt.Errorf("%w: %w", bpf.ErrKernel, err)
		}
		if p.call = at; i < native.NumRegisters {
			p.registers[i] = at
		}
	}
	return p, nil
}

// These constants are places on the BPF program's stack, in bytes.
const (
	keyAt     = -8
	nsAt      = keyAt - 8
	tidAt     = nsAt - 8
	tgidAt    = tidAt + 4
	askAt     = tidAt - askSize
	contextAt = askAt - bpf.ContextSize
	spAt      = contextAt - 8
	framesAt  = spAt - 8
	valuesAt  = framesAt - 8
	ecAt      = valuesAt - 8
	threadAt  = ecAt - 8
	ownerAt   = threadAt - 8
	collectAt = ownerAt - 8
)

// program returns the BPF program, which runs at ticks of a CPU's clock or at the end of system calls. For system
// calls, the instructions in filter choose the calls, and the instructions in event find out what each call did. R9 has
// the address of the target's data.
func (p *places) program(targets, ring int, filter, event asm.Instructions) asm.Instructions {
	ins := append(filter,
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, tidAt, asm.R0, asm.DWord), // the lower half is the TID, and the upper half the TGID
		asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, keyAt, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, targets),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, nsAt, asm.R0, asm.DWord))
	ins = append(ins, event...)
	ins = append(ins,
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, ownerAt, asm.R1, asm.DWord), asm.StoreMem(asm.RFP, collectAt, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, threadAt, asm.R1, asm.DWord),
		asm.FnGetCurrentTaskBtf.Call(),
		asm.LoadMem(asm.R7, asm.R0, p.threadPointer, asm.DWord))
	// plus emits the instructions that read a word of the process's memory. The word's address is R7 plus an offset,
	// which the target's data has. If the word cannot be read, it is 0.
	plus := func(field, to int16) {
		ins = append(ins, asm.Mov.Reg(asm.R3, asm.R7), asm.LoadMem(asm.R1, asm.R9, field, asm.DWord), asm.Add.Reg(asm.R3, asm.R1))
		ins = append(ins, bpf.ReadTo(to, 8)...)
	}
	plus(targetContext, ecAt)
	ins = append(ins,
		asm.LoadMem(asm.R7, asm.RFP, ecAt, asm.DWord), asm.JEq.Imm(asm.R7, 0, "not Ruby's"),
		asm.LoadMem(asm.R1, asm.R9, targetThreadOfEC, asm.DWord), asm.JSLT.Imm(asm.R1, 0, "thread itself"))
	plus(targetThreadOfEC, threadAt)
	ins = append(ins, asm.Ja.Label("have both"),
		asm.StoreMem(asm.RFP, threadAt, asm.R7, asm.DWord).WithSymbol("thread itself"))
	plus(targetContextOfThread, ecAt)
	ins = append(ins, asm.LoadMem(asm.R3, asm.R9, targetOwner, asm.DWord).WithSymbol("have both"))
	ins = append(ins, bpf.ReadTo(ownerAt, 8)...)
	ins = append(ins, asm.LoadMem(asm.R3, asm.R9, targetCollector, asm.DWord), asm.JEq.Imm(asm.R3, 0, "no collector"))
	ins = append(ins, bpf.ReadTo(collectAt, 8)...)
	ins = append(ins, count(targetTicks, "no collector")...)
	ins = append(ins, asm.LoadMem(asm.R3, asm.RFP, ecAt, asm.DWord))
	places := bpf.StackPlaces{Ring: ring, NS: nsAt, TID: tidAt, TGID: tgidAt, Context: contextAt,
		SP: spAt, Frames: framesAt, Values: valuesAt, Running: true, More: moreSize}
	calls := event != nil
	places.Also = append(p.also(calls, "copied"), count(targetCopied, "copied")...)
	ins = append(ins, bpf.CopyStack(places, "done")...)
	places.Also = append(p.also(calls, "copied alone"), asm.Mov.Imm(asm.R1, 0).WithSymbol("copied alone"))
	alone := bpf.NoStack(places, "done")
	alone[0] = alone[0].WithSymbol("not Ruby's")
	ins = append(ins, alone...)
	return append(ins,
		asm.FnKtimeGetNs.Call().WithSymbol("done"), asm.LoadMem(asm.R1, asm.RFP, nsAt, asm.DWord),
		asm.Sub.Reg(asm.R0, asm.R1), asm.Mov.Reg(asm.R2, asm.R9), asm.Add.Imm(asm.R2, targetBusyNS),
		asm.StoreXAdd(asm.R2, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
}

// count adds one to a counter of the target.
func count(place int32, symbol string) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R1, 1).WithSymbol(symbol), asm.Mov.Reg(asm.R2, asm.R9),
		asm.Add.Imm(asm.R2, place), asm.StoreXAdd(asm.R2, asm.R1, asm.DWord)}
}

// also emits the instructions that append the registers and the C stack to the copy of the Ruby stack in R8. If calls
// is true, they also append the words of an Ask. At the first page of the C stack that is not in memory, they jump to
// the label end.
func (p *places) also(calls bool, end string) asm.Instructions {
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R7, asm.R8), asm.Add.Imm(asm.R7, bpf.StackSize),
		asm.FnGetCurrentTaskBtf.Call(), asm.Mov.Reg(asm.R1, asm.R0), asm.FnTaskPtRegs.Call(),
	}
	for i, from := range p.registers {
		ins = append(ins, asm.LoadMem(asm.R1, asm.R0, from, asm.DWord), asm.StoreMem(asm.R7, int16(8*i), asm.R1, asm.DWord))
	}
	words := [][2]int16{{moreThread, threadAt}, {moreOwner, ownerAt}, {moreCollector, collectAt}}
	for at := int16(0); calls && at < askSize; at += 8 {
		words = append(words, [2]int16{moreAsk + at, askAt + at})
	}
	for _, w := range words {
		ins = append(ins, asm.LoadMem(asm.R1, asm.RFP, w[1], asm.DWord), asm.StoreMem(asm.R7, w[0], asm.R1, asm.DWord))
	}
	ins = append(ins, asm.LoadMem(asm.R6, asm.R7, 8*native.StackPointer, asm.DWord), asm.Sub.Imm(asm.R6, redZone),
		asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R7, morePieces, asm.R1, asm.DWord))
	// Copy the stack in pieces. If a page is not in memory, the pieces before this page can still be copied. A single
	// copy of the whole stack would fail.
	for i := range int32(maxPieces) {
		ins = append(ins,
			asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Imm(asm.R1, moreHead+i*pieceBytes), asm.Mov.Imm(asm.R2, pieceBytes),
			asm.Mov.Reg(asm.R3, asm.R6), asm.Add.Imm(asm.R3, i*pieceBytes), asm.FnProbeReadUser.Call(),
			asm.JNE.Imm(asm.R0, 0, end), asm.StoreImm(asm.R7, morePieces, int64(i+1), asm.Word))
	}
	return ins
}
