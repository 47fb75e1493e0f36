package tracer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/switches"
)

const (
	// ringBytes is the size of the ring: 33,000 records, of which the busiest load seen makes 190,000 a second.
	ringBytes = 8 << 20
	// stackRingBytes is the size of the ring for stacks: 100 of them, of which a process makes 250 a second at most.
	stackRingBytes = 4 << 20
	// maxPendingStacks bounds the stacks of a process that wait to be taken.
	maxPendingStacks = stackRingBytes / bpf.StackSize
	// maxTargets bounds the processes that are followed at once.
	maxTargets = 4096
	// clockHz is how often a thread that keeps its CPU makes a record. It is no divisor of the kernel's own ticks. A
	// tick costs each CPU of the machine about 2 µs.
	clockHz = 99
	// ClockNS is the longest time on a CPU between two records, in ns: a tick of clockHz, and the next one.
	ClockNS = 1_000_000_000 / clockHz
	// ringRecords is the number of records in the ring, of all processes.
	ringRecords = ringBytes / (recordSize + 8)
	// leastMajor.leastMinor is the first kernel with bpf_task_pt_regs.
	leastMajor, leastMinor = 5, 15
)

// Tracer has the programs in the kernel. There is one for all processes that ddtop follows. It is for any goroutine.
type Tracer struct {
	mu       sync.Mutex
	targets  *ebpf.Map
	threads  *ebpf.Map
	ringMap  *ebpf.Map
	ring     *bpf.Ring
	stackMap *ebpf.Map
	stacks   *bpf.Ring
	// works are the places of work by process, workRing has the copies.
	works, workMap *ebpf.Map
	workRing       *bpf.Ring
	programs       map[string]*ebpf.Program // by the event that they are attached to
	links          []link.Link
	clocks         []int
	feeds          map[uint32]*Feed
	// filled counts the reads before which the ring for records may have been full.
	filled uint64
	// record is the entry that read decodes. Nothing keeps it.
	record switches.Record
}

// license is the license that programs must state to be allowed to read memory.
const license = "Dual MIT/GPL"

// shared is the Tracer of all Feeds, and how many there are.
var shared struct {
	sync.Mutex
	t *Tracer
	n int
}

// Feed has the records of one process. It is for one goroutine at a time.
type Feed struct {
	t      *Tracer
	target Target
	// pending are records that another process's Feed took from the ring. dropped counts the ones without room.
	pending []switches.Record
	// pendingStacks are copies that another process's Feed took from the ring.
	pendingStacks []bpf.Stack
	pendingWorks  []Work
	// waits is set while pending, pendingStacks or pendingWorks have something.
	waits   atomic.Bool
	dropped uint64
	// counted is what losses were known by at the last Counts: Tracer.filled and dropped.
	counted [2]uint64
	// fresh is set if the ring had something of the process since the last Counts, and at first.
	fresh bool
}

// Counts are the programs' counters for a process.
type Counts struct {
	// Records counts all records, Lost the ones without room in the ring, Failed the words of memory that could not
	// be read.
	Records, Lost, Failed uint64
	// BusyNS is how long making records took, in ns.
	BusyNS int64
	// Room is how many records may wait to be taken.
	Room int
}

// Check returns why threads cannot be followed on this machine with ddtop's rights. It returns nil if they can. The
// error is bpf.ErrKernel or bpf.ErrRights.
func Check() error {
	m, err := bpf.ThisMachine()
	if err != nil {
		return err
	}
	return check(&m)
}

func check(m *bpf.Machine) error {
	if m.Arch != "amd64" {
		return fmt.Errorf("%w: they are for x86_64 as yet, and not for %s", bpf.ErrKernel, m.Arch)
	}
	return m.Check(leastMajor, leastMinor)
}

// Try loads the programs and removes them again. This shows what the kernel, a container or a security module forbids.
// The errors are the same as Follow's.
func Try() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.t != nil {
		return nil
	}
	t, err := open()
	if err != nil {
		return err
	}
	return t.close()
}

// Follow makes the programs record a process until Close. The error is bpf.ErrKernel or bpf.ErrRights, or the error of
// a full map.
func Follow(target Target) (*Feed, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.t == nil {
		t, err := open()
		if err != nil {
			return nil, err
		}
		shared.t = t
	}
	t := shared.t
	f := &Feed{t: t, target: target, fresh: true}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.targets.Update(uint32(target.PID), target.encode(), ebpf.UpdateNoExist); err != nil {
		if shared.n == 0 {
			shared.t = nil
			err = errors.Join(err, t.close())
		}
		return nil, bpf.Explain(fmt.Sprintf("following process %d", target.PID), err)
	}
	t.feeds[uint32(target.PID)] = f
	shared.n++
	return f, nil
}

// Close ends it. With the last Feed the programs leave the kernel.
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
	if e := t.works.Delete(uint32(f.target.PID)); !errors.Is(e, ebpf.ErrKeyNotExist) {
		err = errors.Join(err, e)
	}
	delete(t.feeds, uint32(f.target.PID))
	t.mu.Unlock()
	if shared.n--; shared.n == 0 {
		shared.t = nil
		err = errors.Join(err, t.close())
	}
	return err
}

// Drain hands out the records since the last time, in about the order of time. A record is valid during emit.
func (f *Feed) Drain(emit func(*switches.Record)) error {
	t := f.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range f.pending {
		emit(&f.pending[i])
	}
	f.pending = f.pending[:0]
	f.waits.Store(len(f.pendingStacks)+len(f.pendingWorks) > 0)
	return t.read(f, emit)
}

// Fetch takes the records from the ring, for all processes. They wait until the Drain of each Feed.
func (f *Feed) Fetch() error {
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	return f.t.read(nil, nil)
}

// Waiting reports whether records or stacks wait that Fetch, or another Feed, took from its ring.
func (f *Feed) Waiting() bool { return f.waits.Load() }

// read takes what is in the ring, and calls emit with the records of f. All others wait. f may be nil.
func (t *Tracer) read(f *Feed, emit func(*switches.Record)) error {
	r := &t.record
	err := t.ring.Read(func(b []byte) error {
		if len(b) < recordSize {
			return fmt.Errorf("an entry of %d bytes", len(b))
		}
		of := t.feeds[binary.LittleEndian.Uint32(b[recordTGID:])]
		if of == nil {
			return nil // ddtop has stopped following it
		}
		if err := of.target.decode(b, r); err != nil {
			return err
		}
		of.fresh = true
		switch {
		case of == f:
			emit(r)
		case len(of.pending) < t.room():
			of.pending = append(of.pending, *r)
			of.waits.Store(true)
		default:
			of.dropped++
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the ring of thread switches: %w", err)
	}
	if t.ring.Full(recordSize) {
		t.filled++
	}
	return nil
}

// DrainStacks hands out the stacks that were copied since the last time. The record of each, which has the same TID and
// NS, is handed out by a Drain that follows, or was by one before. A Stack is valid during the call.
func (f *Feed) DrainStacks(emit func(*bpf.Stack)) error {
	t := f.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range f.pendingStacks {
		emit(&f.pendingStacks[i])
	}
	f.pendingStacks = f.pendingStacks[:0]
	f.waits.Store(len(f.pending)+len(f.pendingWorks) > 0)
	err := t.stacks.Read(func(b []byte) error {
		s, err := bpf.DecodeStack(b)
		if err != nil {
			return err
		}
		of := t.feeds[uint32(s.TGID)]
		if of != nil {
			of.fresh = true
		}
		switch {
		case of == f:
			emit(&s)
		case of != nil && len(of.pendingStacks) < maxPendingStacks/max(len(t.feeds), 1):
			s.Frames, s.Values = bytes.Clone(s.Frames), bytes.Clone(s.Values)
			of.pendingStacks = append(of.pendingStacks, s)
			of.waits.Store(true)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the ring of stacks: %w", err)
	}
	return nil
}

// room returns the number of records of each process that may wait to be taken. All processes together have the
// ring's size.
func (t *Tracer) room() int { return ringRecords / max(len(t.feeds), 1) }

// Quiet reports whether nothing waits to be taken, and there was nothing since the last Counts. Then nothing was lost
// either. It makes no system call.
func (f *Feed) Quiet() bool {
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	empty := f.t.ring.Empty() && f.t.stacks.Empty() && f.t.workRing.Empty() && len(f.pending)+len(f.pendingStacks)+len(f.pendingWorks) == 0
	return empty && !f.fresh && !f.mayHaveLost()
}

// MayHaveLost reports whether records can have been lost between the last Counts and the last Drain. It makes no system
// call: a ring that had room has lost none.
func (f *Feed) MayHaveLost() bool {
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	return f.mayHaveLost()
}

func (f *Feed) mayHaveLost() bool { return f.counted != [2]uint64{f.t.filled, f.dropped} }

// Counts reads what was counted.
func (f *Feed) Counts() (Counts, error) {
	f.t.mu.Lock()
	f.counted, f.fresh = [2]uint64{f.t.filled, f.dropped}, false
	f.t.mu.Unlock()
	b := make([]byte, targetSize)
	if err := f.t.targets.Lookup(uint32(f.target.PID), &b); err != nil {
		return Counts{}, fmt.Errorf("reading what was counted of process %d: %w", f.target.PID, err)
	}
	at := func(place int) uint64 { return binary.LittleEndian.Uint64(b[place:]) }
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	return Counts{Records: at(targetRecords), Lost: at(targetLost) + f.dropped, Failed: at(targetFailed), BusyNS: int64(at(targetBusyNS)), Room: f.t.room()}, nil
}

// open loads the programs and attaches them.
func open() (_ *Tracer, err error) {
	if err := Check(); err != nil {
		return nil, err
	}
	t := &Tracer{feeds: make(map[uint32]*Feed)}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	kernel, err := placesOfKernel()
	if err != nil {
		return nil, err
	}
	for _, m := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&t.targets, ebpf.MapSpec{Name: "ddtop_targets", Type: ebpf.Hash, KeySize: 4, ValueSize: targetSize, MaxEntries: maxTargets, Flags: unix.BPF_F_NO_PREALLOC}},
		{&t.threads, ebpf.MapSpec{
			Name: "ddtop_threads", Type: ebpf.TaskStorage, KeySize: 4, ValueSize: storedSize, Flags: unix.BPF_F_NO_PREALLOC,
			Key: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Value: storedType(),
		}},
		{&t.ringMap, ebpf.MapSpec{Name: "ddtop_switches", Type: ebpf.RingBuf, MaxEntries: ringBytes}},
		{&t.stackMap, ebpf.MapSpec{Name: "ddtop_stacks", Type: ebpf.RingBuf, MaxEntries: stackRingBytes}},
		{&t.works, ebpf.MapSpec{Name: "ddtop_works", Type: ebpf.Hash, KeySize: 4, ValueSize: placeSize, MaxEntries: maxTargets, Flags: unix.BPF_F_NO_PREALLOC}},
		{&t.workMap, ebpf.MapSpec{Name: "ddtop_work", Type: ebpf.RingBuf, MaxEntries: workRingBytes}},
	} {
		if *m.to, err = ebpf.NewMap(&m.spec); err != nil {
			return nil, bpf.Explain("making the map "+m.spec.Name, err)
		}
	}
	if t.ring, err = bpf.NewRing(t.ringMap); err != nil {
		return nil, err
	}
	if t.stacks, err = bpf.NewRing(t.stackMap); err != nil {
		return nil, err
	}
	if t.workRing, err = bpf.NewRing(t.workMap); err != nil {
		return nil, err
	}
	b := builder{kernel: kernel, targets: t.targets.FD(), threads: t.threads.FD(), ring: t.ringMap.FD(), stacks: t.stackMap.FD(),
		works: t.works.FD(), workRing: t.workMap.FD()}
	// All at once: what the kernel says of its tracepoints is then read once.
	const clock = "clock"
	all := &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{
		clock: {Name: "ddtop_clock", Type: ebpf.PerfEvent, Instructions: b.ticked(), License: license},
	}}
	for at, ins := range map[string]asm.Instructions{"sched_process_exit": b.ended(), "sched_waking": b.woken(), "sched_switch": b.switched()} {
		all.Programs[at] = &ebpf.ProgramSpec{
			Name: "ddtop_" + strings.TrimPrefix(at, "sched_"), Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: at, Instructions: ins, License: license,
		}
	}
	loaded, err := ebpf.NewCollection(all)
	if err != nil {
		return nil, bpf.Explain("loading the programs", err)
	}
	t.programs = loaded.Programs
	for _, at := range []string{"sched_process_exit", "sched_waking", "sched_switch"} {
		l, err := link.AttachTracing(link.TracingOptions{Program: t.programs[at]})
		if err != nil {
			return nil, bpf.Explain("attaching to "+at, err)
		}
		t.links = append(t.links, l)
	}
	return t, t.startClocks(t.programs[clock])
}

// storedType describes the kept data of a thread, as maps of that kind need it.
func storedType() btf.Type {
	word := &btf.Int{Name: "unsigned long", Size: 8}
	s := &btf.Struct{Name: "ddtop_stored", Size: storedSize}
	for at := uint32(0); at < storedSize; at += 8 {
		s.Members = append(s.Members, btf.Member{Name: fmt.Sprintf("word%d", at/8), Type: word, Offset: btf.Bits(8 * at)})
	}
	return s
}

// startClocks starts a clock on each CPU.
func (t *Tracer) startClocks(program *ebpf.Program) error {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unix.PERF_ATTR_SIZE_VER1),
		Sample: ClockNS, Bits: unix.PerfBitDisabled, // a period: one of a rate is changed by the kernel, to twice as long
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
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, program.FD()); err != nil {
			return bpf.Explain(fmt.Sprintf("attaching to the clock of CPU %d", cpu), err)
		}
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return bpf.Explain(fmt.Sprintf("starting the clock of CPU %d", cpu), err)
		}
	}
	return nil
}

// close removes everything from the kernel.
func (t *Tracer) close() error {
	var errs []error
	for _, fd := range t.clocks {
		errs = append(errs, unix.Close(fd))
	}
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	for _, p := range t.programs {
		errs = append(errs, p.Close())
	}
	for _, r := range []*bpf.Ring{t.ring, t.stacks, t.workRing} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	for _, m := range []*ebpf.Map{t.targets, t.threads, t.ringMap, t.stackMap, t.works, t.workMap} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}
