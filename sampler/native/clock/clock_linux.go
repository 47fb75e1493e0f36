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
	// ringBytes is the size of the ring for 49 stacks a second of each CPU. It has 36 stacks, which 14 busy CPUs make
	// between two reads. A faster clock has fastRingBytes.
	ringBytes, fastRingBytes = 2 << 20, 8 << 20
	// maxPending bounds the stacks of all processes that wait to be taken.
	maxPending = fastRingBytes / entrySize
	// maxTargets bounds the processes that are followed at once.
	maxTargets = 4096
	// leastMajor.leastMinor is the first kernel with bpf_task_pt_regs.
	leastMajor, leastMinor = 5, 15
	license                = "Dual MIT/GPL"
)

// timer has the program in the kernel. There is one for all processes that ddtop follows.
type timer struct {
	mu      sync.Mutex
	targets *ebpf.Map
	ringMap *ebpf.Map
	ring    *bpf.Ring
	program *ebpf.Program
	clocks  []int
	// records are of each clock's CPU, and recordsNS is when they were last read.
	records   []records
	recordsNS int64
	feeds     map[uint32]*Feed
}

// shared is the timer of all Feeds, and how many there are.
var shared struct {
	sync.Mutex
	t *timer
	n int
}

// Feed has the stacks of one process. It is for one goroutine at a time.
type Feed struct {
	t      *timer
	target Target
	// pending are stacks that were taken from the ring, also by another process's Feed. spare is memory for them.
	pending, spare []Sample
	// dropped is how many stacks had no room in pending.
	dropped uint64
	// changes are the times in which the process has mapped code of files, in the order in which they became known.
	changes []change
}

// Check returns why stacks of running threads cannot be copied on this machine with ddtop's rights. It returns nil if
// they can. The error is bpf.ErrKernel or bpf.ErrRights.
func Check() error {
	m, err := bpf.ThisMachine()
	if err != nil {
		return err
	}
	if m.Arch != "amd64" {
		return fmt.Errorf("%w: they are for x86_64 as yet, and not for %s", bpf.ErrKernel, m.Arch)
	}
	return m.Check(leastMajor, leastMinor)
}

// Try loads the program, starts its clock and ends both again. This shows what the kernel, a container or a security
// module forbids. The errors are the same as Follow's.
func Try() error {
	const none = 1 << 22 // no process has this number, nor a larger one (PID_MAX_LIMIT)
	f, err := Follow(Target{PID: none}, Hz)
	if err != nil {
		return err
	}
	return f.Close()
}

// Follow copies the stacks of a process's running threads until Close, hz times a second on each CPU. If other
// processes are followed, their rate holds for all. The error is bpf.ErrKernel or bpf.ErrRights, or
// the error of a full map.
func Follow(target Target, hz int) (*Feed, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.t == nil {
		t, err := open(hz)
		if err != nil {
			return nil, err
		}
		shared.t = t
	}
	t := shared.t
	t.mu.Lock()
	defer t.mu.Unlock()
	began, err := monotonic()
	if err == nil {
		err = t.targets.Update(uint32(target.PID), target.encode(), ebpf.UpdateNoExist)
	}
	if err != nil {
		if shared.n == 0 {
			shared.t = nil
			err = errors.Join(err, t.close())
		}
		return nil, bpf.Explain(fmt.Sprintf("copying stacks of process %d", target.PID), err)
	}
	f := &Feed{t: t, target: target, changes: []change{{0, began}}}
	t.feeds[uint32(target.PID)] = f
	shared.n++
	return f, nil
}

// Close ends it. With the last Feed the program leaves the kernel.
func (f *Feed) Close() error {
	shared.Lock()
	defer shared.Unlock()
	t := f.t
	if t == nil {
		return nil
	}
	f.t = nil
	t.mu.Lock()
	err := t.targets.Delete(uint32(f.target.PID))
	delete(t.feeds, uint32(f.target.PID))
	t.mu.Unlock()
	if shared.n--; shared.n == 0 {
		shared.t = nil
		err = errors.Join(err, t.close())
	}
	return err
}

// Drain hands out the stacks that were copied since the last time. A Sample is valid during the call. Other Feeds go on
// meanwhile, because emit may read the process's memory, which can hang.
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

// take takes what the ring has for all Feeds, and returns the stacks of f.
func (f *Feed) take() ([]Sample, error) {
	t := f.t
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.ring.Read(func(b []byte) error {
		tgid, err := tgidOf(b)
		of := t.feeds[tgid]
		if err != nil || of == nil {
			return err
		}
		if of != f && !of.hasRoom(len(t.feeds)) {
			return nil
		}
		return of.keep(b)
	})
	list := f.pending
	f.pending, f.spare = f.spare[:0], list
	return list, err
}

// hasRoom reports whether one more stack may wait until Drain. If not, it counts the stack as dropped.
func (f *Feed) hasRoom(feeds int) bool {
	if len(f.pending) < maxPending/feeds {
		return true
	}
	f.dropped++
	return false
}

// keep keeps a copy of a stack in the ring until Drain.
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
	s, err := bpf.DecodeStack(b)
	return uint32(s.TGID), err
}

// Counts reads what was counted.
func (f *Feed) Counts() (Counts, error) {
	b := make([]byte, targetSize)
	if err := f.t.targets.Lookup(uint32(f.target.PID), &b); err != nil {
		return Counts{}, fmt.Errorf("reading what was counted of process %d: %w", f.target.PID, err)
	}
	at := func(place int) uint64 { return binary.LittleEndian.Uint64(b[place:]) }
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	return Counts{Ticks: at(targetTicks), Copied: at(targetCopied) - f.dropped, BusyNS: int64(at(targetBusyNS))}, nil
}

// open loads the program and starts a clock on each CPU.
func open(hz int) (_ *timer, err error) {
	if err := Check(); err != nil {
		return nil, err
	}
	t := &timer{feeds: make(map[uint32]*Feed)}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	size := uint32(ringBytes)
	if hz > 2*Hz {
		size = fastRingBytes
	}
	places, err := placesOfKernel()
	if err != nil {
		return nil, err
	}
	for _, m := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&t.targets, ebpf.MapSpec{Name: "ddtop_running", Type: ebpf.Hash, KeySize: 4, ValueSize: targetSize,
			MaxEntries: maxTargets, Flags: unix.BPF_F_NO_PREALLOC}},
		{&t.ringMap, ebpf.MapSpec{Name: "ddtop_cstacks", Type: ebpf.RingBuf, MaxEntries: size}},
	} {
		if *m.to, err = ebpf.NewMap(&m.spec); err != nil {
			return nil, bpf.Explain("making the map "+m.spec.Name, err)
		}
	}
	if t.ring, err = bpf.NewRing(t.ringMap); err != nil {
		return nil, err
	}
	t.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "ddtop_running", Type: ebpf.PerfEvent, License: license,
		Instructions: places.program(t.targets.FD(), t.ringMap.FD())})
	if err != nil {
		return nil, bpf.Explain("loading the program", err)
	}
	return t, t.start(hz)
}

// start starts a clock on each CPU. The kernel also tells there which processes map code.
func (t *timer) start(hz int) error {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unix.PERF_ATTR_SIZE_VER5),
		Sample: uint64(1_000_000_000 / hz), Sample_type: unix.PERF_SAMPLE_TIME, Clockid: unix.CLOCK_MONOTONIC,
		Bits: unix.PerfBitDisabled | unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitSampleIDAll |
			unix.PerfBitUseClockID,
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("%w: counting its CPUs: %w", bpf.ErrKernel, err)
	}
	for cpu := range cpus {
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENODEV) {
			continue // it is offline
		}
		if err != nil {
			return bpf.Explain(fmt.Sprintf("opening the clock of CPU %d", cpu), err)
		}
		t.clocks = append(t.clocks, fd)
		told, err := openRecords(fd)
		if err != nil {
			return bpf.Explain(fmt.Sprintf("following what is mapped on CPU %d", cpu), err)
		}
		t.records = append(t.records, told)
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, t.program.FD()); err != nil {
			return bpf.Explain(fmt.Sprintf("attaching to the clock of CPU %d", cpu), err)
		}
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return bpf.Explain(fmt.Sprintf("starting the clock of CPU %d", cpu), err)
		}
	}
	return nil
}

// close removes everything from the kernel.
func (t *timer) close() error {
	var errs []error
	for i := range t.records {
		errs = append(errs, t.records[i].close())
	}
	for _, fd := range t.clocks {
		errs = append(errs, unix.Close(fd))
	}
	if t.program != nil {
		errs = append(errs, t.program.Close())
	}
	if t.ring != nil {
		errs = append(errs, t.ring.Close())
	}
	for _, m := range []*ebpf.Map{t.targets, t.ringMap} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

// places are the places in this kernel of the fields that the program reads, in bytes from the start of their struct.
type places struct {
	threadPointer int16
	registers     [native.NumRegisters]int16
}

func placesOfKernel() (p places, err error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return p, fmt.Errorf("%w: reading what it says of itself: %w", bpf.ErrKernel, err)
	}
	if p.threadPointer, err = bpf.MemberAt(spec, "task_struct", []string{"thread", "fsbase"}, 8); err != nil {
		return p, fmt.Errorf("%w: %w", bpf.ErrKernel, err)
	}
	for i, name := range native.KernelNames {
		if p.registers[i], err = bpf.MemberAt(spec, "pt_regs", []string{name}, 8); err != nil {
			return p, fmt.Errorf("%w: %w", bpf.ErrKernel, err)
		}
	}
	return p, nil
}

// Places on the program's stack.
const (
	keyAt     = -8
	nsAt      = keyAt - 8
	tidAt     = nsAt - 8
	tgidAt    = tidAt + 4
	contextAt = tidAt - bpf.ContextSize
	spAt      = contextAt - 8
	framesAt  = spAt - 8
	valuesAt  = framesAt - 8
	ecAt      = valuesAt - 8
	threadAt  = ecAt - 8
	ownerAt   = threadAt - 8
	collectAt = ownerAt - 8
)

// program runs on a CPU's clock. R9 is the target.
func (p *places) program(targets, ring int) asm.Instructions {
	ins := asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, tidAt, asm.R0, asm.DWord), // the TID, and the TGID above it
		asm.RSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.RFP, keyAt, asm.R0, asm.Word),
		asm.LoadMapPtr(asm.R1, targets),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, nsAt, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, ownerAt, asm.R1, asm.DWord), asm.StoreMem(asm.RFP, collectAt, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, threadAt, asm.R1, asm.DWord),
		asm.FnGetCurrentTaskBtf.Call(),
		asm.LoadMem(asm.R7, asm.R0, p.threadPointer, asm.DWord),
	}
	// The word at the address in R7 plus an offset of the target's. A word that is not there is 0.
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
	places.Also = append(p.also("copied"), count(targetCopied, "copied")...)
	ins = append(ins, bpf.CopyStack(places, "done")...)
	places.Also = append(p.also("copied alone"), asm.Mov.Imm(asm.R1, 0).WithSymbol("copied alone"))
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

// also copies the registers and the C stack behind the Ruby stack in R8. It jumps to the label end at the first page that
// is not there.
func (p *places) also(end string) asm.Instructions {
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R7, asm.R8), asm.Add.Imm(asm.R7, bpf.StackSize),
		asm.FnGetCurrentTaskBtf.Call(), asm.Mov.Reg(asm.R1, asm.R0), asm.FnTaskPtRegs.Call(),
	}
	for i, from := range p.registers {
		ins = append(ins, asm.LoadMem(asm.R1, asm.R0, from, asm.DWord), asm.StoreMem(asm.R7, int16(8*i), asm.R1, asm.DWord))
	}
	for _, w := range [...][2]int16{{moreThread, threadAt}, {moreOwner, ownerAt}, {moreCollector, collectAt}} {
		ins = append(ins, asm.LoadMem(asm.R1, asm.RFP, w[1], asm.DWord), asm.StoreMem(asm.R7, w[0], asm.R1, asm.DWord))
	}
	ins = append(ins, asm.LoadMem(asm.R6, asm.R7, 8*native.StackPointer, asm.DWord), asm.Sub.Imm(asm.R6, redZone),
		asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R7, morePieces, asm.R1, asm.DWord))
	// In pieces, because one read of all fails at the first page that is not there.
	for i := range int32(maxPieces) {
		ins = append(ins,
			asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Imm(asm.R1, moreHead+i*pieceBytes), asm.Mov.Imm(asm.R2, pieceBytes),
			asm.Mov.Reg(asm.R3, asm.R6), asm.Add.Imm(asm.R3, i*pieceBytes), asm.FnProbeReadUser.Call(),
			asm.JNE.Imm(asm.R0, 0, end), asm.StoreImm(asm.R7, morePieces, int64(i+1), asm.Word))
	}
	return ins
}
