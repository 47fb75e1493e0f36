package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/exact"
)

// ringBytes is the size of the ring: about 115,000 records, a second of the busiest load that was seen.
const ringBytes = 8 << 20

// maxDrain bounds the records that one Drain takes. It is twice the size of the ring.
const maxDrain = 2 * ringBytes / recordSize

// Probes are the probes in a process. Close removes them. They belong to file descriptors, so the kernel removes them
// when ddtop ends in any way. One goroutine at a time may use them, but Detach may run at the same time as Drain,
// Counts and Stop.
type Probes struct {
	target   Target
	counters *ebpf.Map
	ring     *ebpf.Map
	reader   *ringbuf.Reader
	stacks   stackMaps
	// copied is nil if stacks are not copied.
	copied   *bpf.Ring
	programs []*ebpf.Program
	links    []link.Link
	record   ringbuf.Record
	// HitNS is the cost in ns to the process of a probe hit with another mutex, as measured at Attach.
	HitNS int64
}

// Check returns why exact mode cannot work on this machine with ddtop's rights, as ErrKernel or ErrRights, or nil if
// it can. If untried is true, it also allows a kind of processor on which exact mode was never tested.
func Check(untried bool) error {
	_, err := checkMachine(untried)
	return err
}

// checkMachine is Check. many is true if links of many probes may be used.
func checkMachine(untried bool) (many bool, err error) {
	m, err := thisMachine()
	if err != nil {
		return false, err
	}
	m.untried = untried
	return m.check()
}

// Attach puts probes into a process. From then on Drain returns their records. The error is ErrKernel, ErrRights or
// ErrNotPlaced.
func Attach(mem attach.Memory, code Code, target Target) (*Probes, error) {
	many, err := checkMachine(target.Untried)
	if err != nil {
		return nil, err
	}
	o := settings{many: many, ringBytes: ringBytes}
	if target.SmallRing {
		o.ringBytes /= 8
	}
	return attachBy(mem, code, target, o)
}

// settings are what tests vary. If many is true, links of many probes are used instead of perf events. CAP_PERFMON is
// enough for such links.
type settings struct {
	many      bool
	ringBytes uint32
}

func attachBy(mem attach.Memory, code Code, target Target, o settings) (_ *Probes, err error) {
	p, placed := &Probes{target: target}, false
	defer func() {
		if !placed { // also after a panic
			err = errors.Join(err, p.Close())
		}
	}()
	kernel, err := placesOfKernel()
	if err != nil {
		return nil, err
	}
	if p.counters, err = ebpf.NewMap(&ebpf.MapSpec{Name: "ddtop_counts", Type: ebpf.Array, KeySize: 4, ValueSize: counters, MaxEntries: 1}); err != nil {
		return nil, explain("making a BPF map", err)
	}
	// With one of the probes in and another not, a thread that hands the GVL on is half seen: nothing is recorded until
	// all are in.
	if err := p.stop(); err != nil {
		return nil, explain("writing a BPF map", err)
	}
	if p.ring, err = ebpf.NewMap(&ebpf.MapSpec{Name: "ddtop_records", Type: ebpf.RingBuf, MaxEntries: o.ringBytes}); err != nil {
		return nil, explain("making a ring for records", err)
	}
	if p.reader, err = ringbuf.NewReader(p.ring); err != nil {
		return nil, explain("opening the ring for records", err)
	}
	if target.Stacks {
		if p.stacks, err = newStackMaps(ringBytes / o.ringBytes); err != nil {
			return nil, err
		}
		if p.copied, err = bpf.NewRing(p.stacks.ring); err != nil {
			return nil, explain("opening the ring for stacks", err)
		}
	}
	if p.HitNS, err = hitCost(kernel, p.ring, o.many); err != nil {
		return nil, err
	}
	if err := p.watchExits(kernel); err != nil {
		return nil, err
	}
	files := make(map[*codeFile]*link.Executable)
	for _, s := range code.sites {
		file := files[s.file]
		if file == nil {
			if file, err = link.OpenExecutable(s.file.path()); err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrNoCode, s.file.Path, err)
			}
			files[s.file] = file
		}
		b := builder{target: &target, kernel: kernel, kind: s.kind, argument: s.argument, counters: p.counters.FD(), ring: p.ring.FD(), stacks: &p.stacks}
		program, err := loadProgram(b, o.many)
		if err != nil {
			return nil, err
		}
		p.programs = append(p.programs, program)
		l, err := attachAt(file, program, s.offset, target.PID, o.many)
		if err != nil {
			return nil, explain(fmt.Sprintf("putting a probe at %s of %s", s.symbol, s.file.Path), err)
		}
		p.links = append(p.links, l)
	}
	for _, s := range code.sites {
		b := make([]byte, len(kernel.set.breakpoint))
		if err := mem.Read(s.at, b); err != nil {
			return nil, fmt.Errorf("process %d: looking for the probe at %s: %w", target.PID, s.symbol, err)
		}
		if !bytes.Equal(b, kernel.set.breakpoint) {
			return nil, fmt.Errorf("process %d: %w: at %v, %s of %s, is %#x", target.PID, ErrNotPlaced, s.at, s.symbol, s.file.Path, b)
		}
	}
	if err := p.counters.Put(uint32(0), [counters / 8]uint64{}); err != nil {
		return nil, explain("writing a BPF map", err)
	}
	placed = true
	return p, nil
}

// placesOfKernel finds the places in this kernel of the fields of a task that the programs read.
func placesOfKernel() (kernelPlaces, error) {
	set, ok := instructionSetOf(runtime.GOARCH)
	if !ok {
		return kernelPlaces{}, fmt.Errorf("%w: it is not for %s", ErrKernel, runtime.GOARCH)
	}
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return kernelPlaces{}, fmt.Errorf("%w: reading what it says of itself: %w", ErrKernel, err)
	}
	return placesIn(spec, set)
}

// placesIn is placesOfKernel for a kernel with the given description of itself.
func placesIn(spec *btf.Spec, set instructionSet) (kernelPlaces, error) {
	k := kernelPlaces{set: set}
	for _, f := range []struct {
		to   *int16
		path []string
	}{{&k.threadPointer, set.threadPointer}, {&k.runDelay, []string{"sched_info", "run_delay"}}} {
		at, err := bpf.MemberAt(spec, "task_struct", f.path, 8)
		if err != nil {
			return k, fmt.Errorf("%w: %w", ErrKernel, err)
		}
		*f.to = at
	}
	return k, nil
}

func loadProgram(b builder, many bool) (*ebpf.Program, error) {
	spec := &ebpf.ProgramSpec{Name: "ddtop_exact", Type: ebpf.Kprobe, Instructions: b.program(), License: bpf.License}
	switch {
	case b.kind == exact.Exited:
		spec.Type, spec.AttachType, spec.AttachTo = ebpf.Tracing, ebpf.AttachTraceRawTp, "sched_process_exit"
	case many:
		spec.AttachType = ebpf.AttachTraceUprobeMulti
	}
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		return nil, explain("loading a BPF program", err)
	}
	return p, nil
}

// watchExits has the end of each native thread recorded.
func (p *Probes) watchExits(kernel kernelPlaces) error {
	program, err := loadProgram(builder{target: &p.target, kernel: kernel, kind: exact.Exited, counters: p.counters.FD(), ring: p.ring.FD()}, false)
	if err != nil {
		return err
	}
	p.programs = append(p.programs, program)
	l, err := link.AttachTracing(link.TracingOptions{Program: program})
	if err != nil {
		return explain("watching the ends of threads", err)
	}
	p.links = append(p.links, l)
	return nil
}

func attachAt(file *link.Executable, program *ebpf.Program, offset uint64, pid int, many bool) (link.Link, error) {
	if many {
		return file.UprobeMulti(nil, program, &link.UprobeMultiOptions{Addresses: []uint64{offset}, PID: uint32(pid)})
	}
	return file.Uprobe("", program, &link.UprobeOptions{Address: offset, PID: pid})
}

// Drain passes the records since the last call to emit, in about the order of time. Within microseconds, records of
// several CPUs may be in the wrong order. A record is valid only during the call of emit.
func (p *Probes) Drain(emit func(*exact.Record)) error {
	if err := p.reader.Flush(); err != nil {
		return fmt.Errorf("exact mode: reading the ring: %w", err)
	}
	for range maxDrain {
		err := p.reader.ReadInto(&p.record)
		if errors.Is(err, ringbuf.ErrFlushed) || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("exact mode: reading the ring: %w", err)
		}
		r, err := p.target.decode(p.record.RawSample)
		if err != nil {
			return fmt.Errorf("exact mode: %w", err)
		}
		emit(&r)
	}
	return nil
}

// DrainStacks passes the stacks that were copied since the last call to emit, at most as many as fit in the ring. They
// belong to some of the ended waits. Their records come from the Drain before or after this call. A Stack is valid
// only during the call of emit.
func (p *Probes) DrainStacks(emit func(*Stack)) error {
	if p.copied == nil {
		return nil
	}
	err := p.copied.Read(func(b []byte) error {
		s, err := bpf.DecodeStack(b)
		if err == nil {
			emit(&s)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("exact mode: reading the ring of stacks: %w", err)
	}
	return nil
}

// Counts are the probes' counters since Attach.
type Counts struct {
	// Hits is how often a thread hit a probe, also with other mutexes. Lost is how many records had no room.
	Hits, Lost uint64
	// BusyNS is the time that threads spent on making records, in ns.
	BusyNS int64
}

// beside is the full cost of a hit, as a multiple of the cost that a loop measures. In a loop, everything is in the
// CPU's caches. At 5,000 to 50,000 turns a second, the CPU time of processes grew by 1.3 to 1.4 times the measured
// cost (make bench-exact).
const beside = 1.4

// CostNS estimates the time that the probes have cost the process's threads, in ns.
func (p *Probes) CostNS(c Counts) int64 {
	return int64(beside * float64(int64(c.Hits)*p.HitNS+c.BusyNS))
}

// Counts reads the counters.
func (p *Probes) Counts() (Counts, error) {
	var v [counters / 8]uint64
	if err := p.counters.Lookup(uint32(0), &v); err != nil {
		return Counts{}, fmt.Errorf("exact mode: reading the counters: %w", err)
	}
	return Counts{Hits: v[countHits/8], Lost: v[countLost/8], BusyNS: int64(v[countBusyNS/8])}, nil
}

// stop makes the BPF programs record nothing. It is called because records are incomplete while probes are put in or
// removed one by one.
func (p *Probes) stop() error {
	var v [counters / 8]uint64
	if err := p.counters.Lookup(uint32(0), &v); err != nil {
		return err
	}
	v[countOff/8] = 1
	return p.counters.Put(uint32(0), v)
}

// Stop makes the programs record nothing more. Existing records can still be drained.
func (p *Probes) Stop() error {
	if err := p.stop(); err != nil {
		return fmt.Errorf("exact mode: stopping the programs: %w", err)
	}
	return nil
}

// Detach removes the probes from the process, which takes about ten milliseconds. Records and counts can still be
// read.
func (p *Probes) Detach() error {
	var errs []error
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	p.links = nil
	for _, program := range p.programs {
		errs = append(errs, program.Close())
	}
	p.programs = nil
	return errors.Join(errs...)
}

// Close removes the probes and closes everything.
func (p *Probes) Close() error {
	errs := []error{p.Detach()}
	if p.reader != nil {
		errs = append(errs, p.reader.Close())
	}
	if p.copied != nil {
		errs = append(errs, p.copied.Close())
	}
	for _, m := range []*ebpf.Map{p.ring, p.counters, p.stacks.slept, p.stacks.ring} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	p.reader, p.ring, p.counters, p.copied, p.stacks = nil, nil, nil, nil, stackMaps{}
	return errors.Join(errs...)
}
