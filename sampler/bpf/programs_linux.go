package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// License is the license of ddtop's BPF programs. The kernel lets only programs with a GPL-compatible license read
// memory.
const License = "Dual MIT/GPL"

// maxTargets limits how many processes a set of programs can follow at the same time.
const maxTargets = 4096

// Programs are BPF programs in the kernel, with their maps, rings and clocks. Close removes them. If ddtop ends without
// Close, the kernel removes them.
type Programs struct {
	closing []func() error
	// types is the kernel's description of its types. It is kept from the call of Types to the call of Load, because
	// decoding it takes 20 ms and 10 MB.
	types *btf.Cache
}

// Types returns the kernel's description of its types (BTF). Its error is ErrKernel. Load uses the same description and
// frees it afterwards.
func (p *Programs) Types() (*btf.Spec, error) {
	if p.types == nil {
		p.types = btf.NewCache()
	}
	spec, err := p.types.Kernel()
	if err != nil {
		return nil, fmt.Errorf("%w: reading what it says of itself: %w", ErrKernel, err)
	}
	return spec, nil
}

// Map creates a map in the kernel.
func (p *Programs) Map(spec ebpf.MapSpec) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(&spec)
	if err != nil {
		return nil, Explain("making the map "+spec.Name, err)
	}
	p.Closes(m.Close)
	return m, nil
}

// Targets creates a map of the followed processes. The keys are their PIDs, and each value has size bytes.
func (p *Programs) Targets(name string, size uint32) (*ebpf.Map, error) {
	return p.Map(ebpf.MapSpec{Name: name, Type: ebpf.Hash, KeySize: 4, ValueSize: size, MaxEntries: maxTargets,
		Flags: unix.BPF_F_NO_PREALLOC})
}

// Ring creates a ring buffer of the given size. It returns the descriptor of the ring's map, and a reader.
func (p *Programs) Ring(name string, bytes uint32) (fd int, r *Ring, err error) {
	m, err := p.Map(ebpf.MapSpec{Name: name, Type: ebpf.RingBuf, MaxEntries: bytes})
	if err != nil {
		return 0, nil, err
	}
	if r, err = NewRing(m); err != nil {
		return 0, nil, err
	}
	p.Closes(r.Close)
	return m.FD(), r, nil
}

// Load loads programs by name, and returns them under the same names. Callers load all programs in one call, because
// this is faster: the library then reads the kernel's description of its tracepoints only once.
func (p *Programs) Load(specs map[string]*ebpf.ProgramSpec) (map[string]*ebpf.Program, error) {
	types := p.types
	p.types = nil
	loaded, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{Programs: specs},
		ebpf.CollectionOptions{Cache: types})
	if err != nil {
		return nil, Explain("loading the programs", err)
	}
	p.Closes(func() error { loaded.Close(); return nil })
	return loaded.Programs, nil
}

// Attach attaches a program to its tracepoint.
func (p *Programs) Attach(program *ebpf.Program, tracepoint string) error {
	l, err := link.AttachTracing(link.TracingOptions{Program: program})
	if err != nil {
		return Explain("attaching to "+tracepoint, err)
	}
	p.Closes(l.Close)
	return nil
}

// Closes adds a function that Close must call. Close calls the functions in reverse order.
func (p *Programs) Closes(f func() error) { p.closing = append(p.closing, f) }

// StartClocks starts a clock on each CPU. The clock runs a program once in each period of the CPU's time. attr.Sample
// is the period in ns. StartClocks does not use a clock with a fixed rate, because the kernel can double the period of
// such a clock. Before each clock starts, StartClocks calls the function opened with the clock's descriptor.
func (p *Programs) StartClocks(program *ebpf.Program, attr unix.PerfEventAttr, opened func(fd int) error) error {
	attr.Type, attr.Config = unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK
	attr.Bits |= unix.PerfBitDisabled
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("%w: counting its CPUs: %w", ErrKernel, err)
	}
	for cpu := range cpus {
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ENODEV) {
			continue // the CPU is offline
		}
		if err != nil {
			return Explain(fmt.Sprintf("opening the clock of CPU %d", cpu), err)
		}
		p.Closes(func() error { return unix.Close(fd) })
		if err := opened(fd); err != nil {
			return Explain(fmt.Sprintf("preparing the clock of CPU %d", cpu), err)
		}
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, program.FD()); err != nil {
			return Explain(fmt.Sprintf("attaching to the clock of CPU %d", cpu), err)
		}
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return Explain(fmt.Sprintf("starting the clock of CPU %d", cpu), err)
		}
	}
	return nil
}

// Close removes everything from the kernel: clocks and links first, maps last.
func (p *Programs) Close() error {
	var errs []error
	for i := len(p.closing) - 1; i >= 0; i-- {
		errs = append(errs, p.closing[i]())
	}
	p.closing = nil
	return errors.Join(errs...)
}

// CountersOf copies a process's value in a map that was created by Targets. It returns a function that reads single
// words of this copy. place is the offset of a word in bytes.
func CountersOf(targets *ebpf.Map, pid int) (func(place int) uint64, error) {
	b := make([]byte, targets.ValueSize())
	if err := targets.Lookup(uint32(pid), &b); err != nil {
		return nil, fmt.Errorf("reading what was counted of process %d: %w", pid, err)
	}
	return func(place int) uint64 { return binary.LittleEndian.Uint64(b[place:]) }, nil
}

// Shared holds BPF programs that all followed processes share. The first process loads the programs, and the last one
// removes them. The zero value is ready for use. Any goroutine may use it.
type Shared[P interface{ Close() error }] struct {
	mu       sync.Mutex
	programs P
	users    int
}

// Join adds a process with the function add. If it is the first process, Join first loads the programs with the
// function open.
func (s *Shared[P]) Join(open func() (P, error), add func(P) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		var err error
		if s.programs, err = open(); err != nil {
			return err
		}
	}
	if err := add(s.programs); err != nil {
		return errors.Join(err, s.closeUnused())
	}
	s.users++
	return nil
}

// Leave removes a process with the function remove. If it is the last process, Leave also removes the programs from the
// kernel.
func (s *Shared[P]) Leave(remove func(P) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := remove(s.programs)
	s.users--
	return errors.Join(err, s.closeUnused())
}

// Try checks whether the programs can be loaded. Unless they are loaded already, it loads them for this and removes
// them again.
func (s *Shared[P]) Try(open func() (P, error)) error {
	nothing := func(P) error { return nil }
	if err := s.Join(open, nothing); err != nil {
		return err
	}
	return s.Leave(nothing)
}

func (s *Shared[P]) closeUnused() error {
	if s.users > 0 {
		return nil
	}
	programs := s.programs
	s.programs = *new(P)
	return programs.Close()
}
