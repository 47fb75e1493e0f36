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
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/switches"
)

const (
	// ringBytes is the size of the ring for records, in bytes. 33,000 records fit into it. The busiest program that was
	// measured makes 190,000 records per second.
	ringBytes = 8 << 20
	// stackRingBytes is the size of the ring for copied stacks, in bytes. 100 stacks fit into it. The programs make at
	// most 250 copies per second of one process's stacks.
	stackRingBytes = 4 << 20
	// maxPendingStacks limits how many copied stacks of a process are kept until DrainStacks is called for it.
	maxPendingStacks = stackRingBytes / bpf.StackSize
	// clockHz is the rate at which a thread that keeps its CPU makes records, in records per second. It is not a
	// divisor of the kernel's tick rate, so that the two clocks do not tick at the same times. A tick costs each CPU of
	// the machine about 2 µs.
	clockHz = 99
	// ClockNS is the longest time between two records of a thread that keeps its CPU, in ns. It is the time between two
	// ticks.
	ClockNS = 1_000_000_000 / clockHz
	// ringRecords is the number of records that fit into the ring. All processes share the ring.
	ringRecords = ringBytes / (recordSize + 8)
)

// Tracer has the programs that ddtop has loaded into the kernel. One Tracer serves all processes that ddtop follows.
// Any goroutine may use it.
type Tracer struct {
	bpf.Programs
	mu      sync.Mutex
	targets *ebpf.Map
	slots   *ebpf.Map
	ring    *bpf.Ring
	stacks  *bpf.Ring
	// places is the map with the WorkPlace of each process: where its threads have the environment of a request. works
	// is the ring with the copies of such environments, which become Works.
	places *ebpf.Map
	works  *bpf.Ring
	feeds  map[uint32]*Feed
	// filled counts how often the method read has emptied a ring that may have been full. When a ring is full, records
	// may be lost.
	filled uint64
	// record is the record that the method read is decoding. It is reused for the next record.
	record switches.Record
	bell   bell
}

// shared is the Tracer that all Feeds use.
var shared bpf.Shared[*Tracer]

// Feed has the records of one process. Only one goroutine at a time may use it.
type Feed struct {
	t      *Tracer
	target Target
	// pending are records of this process that another process's Feed took from the ring. dropped counts the records
	// that had no room in pending.
	pending []switches.Record
	// pendingStacks are stacks of this process that another process's Feed took from the ring.
	pendingStacks []bpf.Stack
	pendingWorks  []Work
	// waits is true while at least one of pending, pendingStacks and pendingWorks has entries.
	waits   atomic.Bool
	dropped uint64
	// counted has the values that Tracer.filled and dropped had at the last call of Counts. If both values are still
	// the same, no record was lost since then.
	counted [2]uint64
	// fresh is true if the ring had entries of this process since the last call of Counts. Before the first call it is
	// also true.
	fresh bool
}

// Counts are the counters that the programs in the kernel keep for one process.
type Counts struct {
	// Records counts all records. Lost counts the records that did not fit into the ring. Failed counts the words of
	// memory that could not be read.
	Records, Lost, Failed uint64
	// BusyNS is how long the programs took to make the records, in ns.
	BusyNS int64
	// Room is how many records can wait for the call of Drain. If there are more, records are lost.
	Room int
}

// Check returns nil if ddtop can follow threads on this machine with the rights that it has. Otherwise it returns the
// reason. The error is bpf.ErrKernel or bpf.ErrRights.
func Check() error {
	m, err := bpf.ThisMachine()
	if err != nil {
		return err
	}
	return m.CheckRegisters()
}

// Try loads the programs into the kernel and removes them again. It fails if the kernel, a container or a security
// module forbids this. The errors are the same as those from Follow.
func Try() error { return shared.Try(open) }

// Follow makes the programs record a process until Close is called. The error is bpf.ErrKernel or bpf.ErrRights, or
// says that a map is full.
func Follow(target Target) (*Feed, error) {
	f := &Feed{target: target, fresh: true}
	if err := shared.Join(open, f.join); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *Feed) join(t *Tracer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.targets.Update(uint32(f.target.PID), f.target.encode(), ebpf.UpdateNoExist); err != nil {
		return bpf.Explain(fmt.Sprintf("following process %d", f.target.PID), err)
	}
	t.feeds[uint32(f.target.PID)] = f
	if err := t.fillSlots(); err != nil {
		delete(t.feeds, uint32(f.target.PID))
		return errors.Join(err, t.targets.Delete(uint32(f.target.PID)))
	}
	f.t = t
	return nil
}

// fillSlots sets the slots of all processes that are followed. It can run while the programs read the slots, because it
// never changes a byte that need not change.
func (t *Tracer) fillSlots() error {
	var set [slots]byte
	for pid := range t.feeds {
		set[pid%slots] = 1
	}
	if err := t.slots.Update(uint32(0), set[:], ebpf.UpdateAny); err != nil {
		return bpf.Explain("filling the map of slots", err)
	}
	return nil
}

// Close ends the recording of the process. When the last Feed is closed, the programs are removed from the kernel.
func (f *Feed) Close() error {
	if f.t == nil {
		return nil
	}
	f.t = nil
	return shared.Leave(func(t *Tracer) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.feeds, uint32(f.target.PID))
		err := t.targets.Delete(uint32(f.target.PID))
		if e := t.places.Delete(uint32(f.target.PID)); !errors.Is(e, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, e)
		}
		return errors.Join(err, t.fillSlots())
	})
}

// Drain calls emit with the records since the last call, approximately in order of time. A record is valid only
// during the call of emit.
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

// Fetch takes the records of all processes from the ring, so that the ring has room again. Each Feed keeps the records
// of its process until Drain is called.
func (f *Feed) Fetch() error {
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	return f.t.read(nil, nil)
}

// Ring makes the next record of any process call the function rung, once and in another goroutine. If a record is
// already waiting, Ring calls rung itself.
func (f *Feed) Ring(rung func()) {
	f.t.bell.set(rung)
	f.t.mu.Lock()
	waits := !f.t.ring.Empty() || len(f.pending) > 0
	f.t.mu.Unlock()
	if waits { // call rung now, because the kernel may not report these records again
		f.t.bell.ring()
	}
}

// Crowded reports whether at least an eighth of the ring is full. All processes share the ring.
func (f *Feed) Crowded() bool {
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	return f.t.ring.Crowded() || f.t.stacks.Crowded()
}

// Waiting reports whether f keeps records, stacks or environments for the next Drain. Fetch or another Feed has already
// taken them from the rings.
func (f *Feed) Waiting() bool { return f.waits.Load() }

// read empties the ring. It calls emit with the records of f, and stores the records of other processes in their Feeds.
// f may be nil.
func (t *Tracer) read(f *Feed, emit func(*switches.Record)) error {
	r := &t.record
	err := t.ring.Read(func(b []byte) error {
		if len(b) < recordSize {
			return fmt.Errorf("an entry of %d bytes", len(b))
		}
		of := t.feeds[binary.LittleEndian.Uint32(b[recordTGID:])]
		if of == nil {
			return nil // ddtop has stopped following this process
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

// DrainStacks calls emit with the stacks that were copied since the last call. Each stack belongs to the record with
// the same TID and NS. Drain may return this record before or after DrainStacks returns the stack. A Stack is valid
// only during the call of emit.
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

// room returns how many records each Feed may keep. The Feeds of all processes together may keep as many records as fit
// into the ring.
func (t *Tracer) room() int { return ringRecords / max(len(t.feeds), 1) }

// Quiet reports whether the process has made no record since the last Counts, and no record is waiting for Drain. If it
// returns true, no record was lost either. Quiet makes no system call.
func (f *Feed) Quiet() bool {
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	empty := f.t.ring.Empty() && f.t.stacks.Empty() && f.t.works.Empty() && len(f.pending)+len(f.pendingStacks)+len(f.pendingWorks) == 0
	return empty && !f.fresh && !f.mayHaveLost()
}

// MayHaveLost reports whether records may have been lost between the last Counts and the last Drain. It checks two
// things: the ring may have been full, or records were dropped. A ring that was never full has lost no record.
// MayHaveLost makes no system call.
func (f *Feed) MayHaveLost() bool {
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	return f.mayHaveLost()
}

func (f *Feed) mayHaveLost() bool { return f.counted != [2]uint64{f.t.filled, f.dropped} }

// Counts reads the counters that the programs in the kernel keep for the process.
func (f *Feed) Counts() (Counts, error) {
	f.t.mu.Lock()
	f.counted, f.fresh = [2]uint64{f.t.filled, f.dropped}, false
	f.t.mu.Unlock()
	at, err := bpf.CountersOf(f.t.targets, f.target.PID)
	if err != nil {
		return Counts{}, err
	}
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
			err = errors.Join(err, t.Programs.Close())
		}
	}()
	kernel, err := placesOfKernel()
	if err != nil {
		return nil, err
	}
	if t.targets, err = t.Targets("ddtop_targets", targetSize); err != nil {
		return nil, err
	}
	threads, err := t.Map(ebpf.MapSpec{
		Name: "ddtop_threads", Type: ebpf.TaskStorage, KeySize: 4, ValueSize: storedSize, Flags: unix.BPF_F_NO_PREALLOC,
		Key: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Value: storedType(),
	})
	if err != nil {
		return nil, err
	}
	t.slots, err = t.Map(ebpf.MapSpec{Name: "ddtop_slots", Type: ebpf.Array, KeySize: 4, ValueSize: slots, MaxEntries: 1})
	if err != nil {
		return nil, err
	}
	b := builder{kernel: kernel, targets: t.targets.FD(), threads: threads.FD(), slots: t.slots.FD()}
	if b.ring, t.ring, err = t.Ring("ddtop_switches", ringBytes); err != nil {
		return nil, err
	}
	if b.stacks, t.stacks, err = t.Ring("ddtop_stacks", stackRingBytes); err != nil {
		return nil, err
	}
	if t.places, err = t.Targets("ddtop_places", placeSize); err != nil {
		return nil, err
	}
	b.places = t.places.FD()
	if b.works, t.works, err = t.Ring("ddtop_works", workRingBytes); err != nil {
		return nil, err
	}
	flags, err := t.Map(ebpf.MapSpec{Name: "ddtop_bell", Type: ebpf.Array, KeySize: 4, ValueSize: bellSize, MaxEntries: 1,
		Flags: unix.BPF_F_MMAPABLE})
	if err != nil {
		return nil, err
	}
	t.Closes(t.bell.close)
	if err := t.bell.open(flags, b.ring); err != nil {
		return nil, err
	}
	b.bell = flags.FD()
	const clock = "clock"
	all := map[string]*ebpf.ProgramSpec{
		clock: {Name: "ddtop_clock", Type: ebpf.PerfEvent, Instructions: b.ticked(), License: bpf.License},
	}
	for at, ins := range map[string]asm.Instructions{"sched_process_exit": b.ended(), "sched_waking": b.woken(), "sched_switch": b.switched()} {
		all[at] = &ebpf.ProgramSpec{
			Name: "ddtop_" + strings.TrimPrefix(at, "sched_"), Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: at, Instructions: ins, License: bpf.License,
		}
	}
	programs, err := t.Load(all)
	if err != nil {
		return nil, err
	}
	for _, at := range []string{"sched_process_exit", "sched_waking", "sched_switch"} {
		if err := t.Attach(programs[at], at); err != nil {
			return nil, err
		}
	}
	attr := unix.PerfEventAttr{Size: uint32(unix.PERF_ATTR_SIZE_VER1), Sample: ClockNS}
	return t, t.StartClocks(programs[clock], attr, func(int) error { return nil })
}

// storedType describes the data that the programs keep for each thread. The kernel needs this description to make a map
// in task storage.
func storedType() btf.Type {
	word := &btf.Int{Name: "unsigned long", Size: 8}
	s := &btf.Struct{Name: "ddtop_stored", Size: storedSize}
	for at := uint32(0); at < storedSize; at += 8 {
		s.Members = append(s.Members, btf.Member{Name: fmt.Sprintf("word%d", at/8), Type: word, Offset: btf.Bits(8 * at)})
	}
	return s
}
