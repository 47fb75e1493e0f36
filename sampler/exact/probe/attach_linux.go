package probe

import (
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

// ringBytes is the size of the ring for records, in bytes. About 115,000 records fit. The busiest load that was
// measured makes this number in one second.
const ringBytes = 8 << 20

// maxDrain is the largest number of records that one call of Drain reads. It is twice the number that fits into the
// ring.
const maxDrain = 2 * ringBytes / recordSize

// Probes are the probes in one process. Close removes them. If ddtop ends for any reason, the kernel removes them,
// because they depend on file descriptors of ddtop. Only one goroutine at a time may use Probes. The exception is
// Detach, which may run at the same time as Drain, Counts and Stop.
type Probes struct {
	target   Target
	counters *ebpf.Map
	ring     *ebpf.Map
	reader   *ringbuf.Reader
	stacks   stackMaps
	// copied is the ring with copies of Ruby stacks. It is nil if stacks are not copied.
	copied   *bpf.Ring
	programs []*ebpf.Program
	links    []link.Link
	// calls are the probes at the places where code calls a function (call sites). There is one callProbes for each
	// function. callSites is the number of all call sites, and callCounts counts their hits. If wide is true, all call
	// sites keep their probes, and Narrow does nothing.
	calls      []*callProbes
	entries    []*site // the functions that have a probe themselves, and not at their call sites
	callSites  int
	callCounts *ebpf.Map
	wide       bool
	narrowed   error // the error that Narrow had, or nil
	record     ringbuf.Record
	// HitNS is the cost of a hit that makes no record, in ns. A hit makes no record if its mutex is not the
	// scheduler's. Attach measures the cost.
	HitNS int64
}

// Check returns an error if exact mode cannot work on this machine with ddtop's rights. The error is ErrKernel or
// ErrRights, and says why. If untried is true, Check also accepts a kind of processor on which exact mode was never
// tested.
func Check(untried bool) error {
	_, err := checkMachine(untried)
	return err
}

// checkMachine does the work of Check. many is true if the kernel and ddtop's rights allow one BPF link to serve many
// probes.
func checkMachine(untried bool) (many bool, err error) {
	m, err := thisMachine()
	if err != nil {
		return false, err
	}
	m.untried = untried
	return m.check()
}

// Attach puts probes into a process. After that, Drain returns their records. The error of Attach is ErrKernel,
// ErrRights or ErrNotPlaced.
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

// settings are choices that tests change. If many is true, Attach uses BPF links, which can serve many probes, instead
// of perf events. For such links, CAP_PERFMON is enough. If entries is true, or many is false, all probes are in the
// functions themselves, and none at call sites.
type settings struct {
	many      bool
	entries   bool
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
	// The probes are put in one after the other. While only some are in place, a hand-over of the GVL would be recorded
	// only in part. So the programs record nothing until all probes are in place.
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
	if err := p.place(code, kernel, o); err != nil {
		return nil, err
	}
	if err := p.check(mem, kernel.set.breakpoint); err != nil {
		return nil, err
	}
	if err := p.counters.Put(uint32(0), [counters / 8]uint64{}); err != nil {
		return nil, explain("writing a BPF map", err)
	}
	placed = true
	return p, nil
}

// place puts in all probes.
func (p *Probes) place(code Code, kernel kernelPlaces, o settings) error {
	files := make(map[*codeFile]*link.Executable)
	for i := range code.sites {
		s := &code.sites[i]
		b := builder{target: &p.target, kernel: kernel, kind: s.kind, argument: s.argument, counters: p.counters.FD(), ring: p.ring.FD(), stacks: &p.stacks}
		calls := o.many && !o.entries && len(s.callSites) > 0
		if calls && s.kind != exact.Slept {
			if err := p.countCalls(); err != nil {
				return err
			}
			b.calls = p.callCounts.FD()
		}
		program, err := loadProgram(b, o.many)
		if err != nil {
			return err
		}
		p.programs = append(p.programs, program)
		if calls {
			err = p.placeCalls(s, program)
		} else {
			err = p.placeEntry(s, program, files, o.many)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check returns an error if the target's memory lacks the breakpoint of a probe.
func (p *Probes) check(mem attach.Memory, breakpoint []byte) error {
	for _, s := range p.entries {
		if err := checkPlaced(mem, p.target.PID, s.at, breakpoint, s.symbol, s.file.Path); err != nil {
			return err
		}
	}
	for _, c := range p.calls {
		if err := c.check(mem, p.target.PID, breakpoint); err != nil {
			return err
		}
	}
	return nil
}

// countCalls makes the map in which the BPF programs count the hits of call sites (Narrow).
func (p *Probes) countCalls() (err error) {
	if p.callCounts != nil {
		return nil
	}
	p.callCounts, err = ebpf.NewMap(&ebpf.MapSpec{Name: "ddtop_calls", Type: ebpf.Array, KeySize: 4, ValueSize: maxCallSites * callCounters, MaxEntries: 1})
	if err != nil {
		return explain("making a BPF map", err)
	}
	return nil
}

// placeEntry puts a probe into a function itself. It is used for functions without probes at their call sites.
func (p *Probes) placeEntry(s *site, program *ebpf.Program, files map[*codeFile]*link.Executable, many bool) (err error) {
	file := files[s.file]
	if file == nil {
		if file, err = link.OpenExecutable(s.file.path()); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrNoCode, s.file.Path, err)
		}
		files[s.file] = file
	}
	l, err := attachAt(file, program, s.offset, p.target.PID, many)
	if err != nil {
		return explain(fmt.Sprintf("putting a probe at %s of %s", s.symbol, s.file.Path), err)
	}
	p.links = append(p.links, l)
	p.entries = append(p.entries, s)
	return nil
}

// placesOfKernel finds the fields of a task that the BPF programs read. Their places differ from kernel to kernel.
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

// placesIn does the work of placesOfKernel. spec describes the types of the kernel.
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

// watchExits makes the kernel record the end of each native thread.
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

// Drain calls emit with the records since the last call, approximately in order of time. If records come from different
// CPUs within microseconds, their order may be wrong. A Record is valid only during the call of emit.
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

// DrainStacks calls emit with the Ruby stacks that were copied since the last call. One call returns at most as many as
// fit into the ring. A stack belongs to the end of a thread's wait for the GVL, but not every wait has a stack. The
// record of the wait's end can come from a Drain before or after this call. A Stack is valid only during the call of
// emit.
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
	// Hits counts how many times threads hit a probe. This includes hits for mutexes other than the scheduler's, which
	// make no record. Lost counts the records that did not fit into the ring.
	Hits, Lost uint64
	// BusyNS is how long threads were busy with making records, in ns.
	BusyNS int64
}

// realCost is the real cost of a hit, as a multiple of the cost that hitCost measures. hitCost measures too little,
// because it runs in a loop whose data is all in the CPU's caches. At 15,000 to 150,000 holds per second, the CPU time
// of processes grew by 1.3 to 1.6 times the measured cost (make bench-exact).
const realCost = 1.4

// CostNS estimates how much time the probes have cost the threads of the process so far, in ns.
func (p *Probes) CostNS(c Counts) int64 {
	return int64(realCost * float64(int64(c.Hits)*p.HitNS+c.BusyNS))
}

// Counts reads the counters of the BPF programs.
func (p *Probes) Counts() (Counts, error) {
	var v [counters / 8]uint64
	if err := p.counters.Lookup(uint32(0), &v); err != nil {
		return Counts{}, fmt.Errorf("exact mode: reading the counters: %w", err)
	}
	return Counts{Hits: v[countHits/8], Lost: v[countLost/8], BusyNS: int64(v[countBusyNS/8])}, nil
}

// stop makes the BPF programs record nothing. It is called before probes are put in or removed. Both happen one probe
// after the other, and records would be incomplete while only some probes are in place.
func (p *Probes) stop() error {
	var v [counters / 8]uint64
	if err := p.counters.Lookup(uint32(0), &v); err != nil {
		return err
	}
	v[countOff/8] = 1
	return p.counters.Put(uint32(0), v)
}

// Stop makes the BPF programs record nothing from now on. Drain still returns earlier records.
func (p *Probes) Stop() error {
	if err := p.stop(); err != nil {
		return fmt.Errorf("exact mode: stopping the programs: %w", err)
	}
	return nil
}

// Detach removes the probes from the process. This takes about ten milliseconds. Drain and Counts still work
// afterwards.
func (p *Probes) Detach() error {
	errs := []error{p.narrowed}
	p.narrowed = nil
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	for _, c := range p.calls {
		errs = append(errs, c.close())
	}
	p.links, p.calls = nil, nil
	for _, program := range p.programs {
		errs = append(errs, program.Close())
	}
	p.programs = nil
	return errors.Join(errs...)
}

// Close removes the probes and frees all resources.
func (p *Probes) Close() error {
	errs := []error{p.Detach()}
	if p.reader != nil {
		errs = append(errs, p.reader.Close())
	}
	if p.copied != nil {
		errs = append(errs, p.copied.Close())
	}
	for _, m := range []*ebpf.Map{p.ring, p.counters, p.callCounts, p.stacks.slept, p.stacks.ring} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	p.reader, p.ring, p.counters, p.callCounts, p.copied, p.stacks = nil, nil, nil, nil, nil, stackMaps{}
	return errors.Join(errs...)
}
