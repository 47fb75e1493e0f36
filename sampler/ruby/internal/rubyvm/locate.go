package rubyvm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

var (
	// ErrBooting means that the process has loaded Ruby, but its VM does not exist yet.
	ErrBooting = errors.New("the Ruby VM is still starting")
	// ErrNoVM means that no VM was found in the memory of a Ruby process.
	ErrNoVM = errors.New("no Ruby VM found in the process's memory")
)

const (
	// bootPatience is how long LocateVM waits for a VM to be ready, unless its context ends earlier. Ruby boots in 50
	// to 300 ms.
	bootPatience = 3 * time.Second
	// bootPoll is the interval between two attempts to find the VM. ddtop must try repeatedly, because nothing outside
	// the process shows when a VM is ready.
	bootPoll = 10 * time.Millisecond
)

// locator searches for a VM.
type locator struct {
	mem    attach.Memory
	module *attach.Module
	// Symbol finds the module's symbols. Tests replace it to hide symbols.
	Symbol func(name string) (attach.Symbol, bool)
	o      *Offsets
	// objects reads objects of the VM that is being located.
	objects *heap.Objects
}

// LocateVM finds the VM of the Ruby whose variables are in module. If the VM is just starting, it waits up to
// bootPatience. If the library is stripped (3.3 and later), no symbol leads to the VM. LocateVM then searches the
// library's variables for a pointer to a VM (docs/internals/threads.md#finding-the-vm). Errors are ErrBooting, ErrNoVM,
// an error of attach if the target cannot be read, or an error that names what the layout lacks.
func LocateVM(ctx context.Context, mem attach.Memory, module *attach.Module, table *layout.Table, version string) (*VM, error) {
	return locateVM(ctx, mem, module, table, version, bootPatience)
}

// locateVM does the same as LocateVM, but the parameter patience limits how long it waits. If patience is zero, it
// tries once.
func locateVM(ctx context.Context, mem attach.Memory, module *attach.Module, table *layout.Table, version string, patience time.Duration) (*VM, error) {
	release, err := places.ParseRelease(version)
	if err != nil {
		return nil, err
	}
	vm, err := NewVM(mem, table, version, release)
	if err != nil {
		return nil, err
	}
	l := NewLocator(vm, module)
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(bootPoll)
	defer tick.Stop()
	for {
		err := l.Locate(vm)
		if err == nil {
			return vm, nil
		}
		if Unreadable(err) {
			return nil, err
		}
		if !errors.Is(err, ErrBooting) && !errors.Is(err, ErrNoVM) {
			err = fmt.Errorf("%w: %w", ErrNoVM, err) // a candidate was not a VM
		}
		if !time.Now().Before(deadline) {
			return nil, fmt.Errorf("%w (looked for %v in %s, Ruby %s)", err, patience, module.Path, version)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, ctx.Err())
		case <-tick.C:
		}
	}
}

// Unreadable reports whether an error means that the target cannot be read at all. In this case another attempt to find
// the VM would fail, too.
func Unreadable(err error) bool {
	for _, end := range []error{attach.ErrGone, attach.ErrReplaced, attach.ErrZombie, attach.ErrNoProcess, attach.ErrPermission} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// NewVM returns a VM that is not located yet. The error names what the layout lacks.
func NewVM(mem attach.Memory, table *layout.Table, version string, release places.Release) (*VM, error) {
	o, err := ResolveOffsets(table, release)
	if err != nil {
		return nil, err
	}
	return &VM{Mem: mem, Table: table, Version: version, Release: release, Places: o}, nil
}

// NewLocator returns a locator that searches the variables of module, to find vm.
func NewLocator(vm *VM, module *attach.Module) *locator {
	return &locator{mem: vm.Mem, module: module, Symbol: module.Symbol, o: vm.Places,
		objects: heap.New(view.New(vm.Mem), &vm.Places.Objects, vm.Addr, vm.Symbols)}
}

// Locate fills in the fields of vm. The error names what was not found.
func (l *locator) Locate(vm *VM) error {
	addr, err := l.findVM()
	if err != nil {
		return err
	}
	vm.Addr, l.objects.VM = addr, addr
	main, err := l.word(addr + attach.Address(l.o.VMMainThread))
	if err != nil {
		return err
	}
	vm.MainThread = attach.Address(main)
	if vm.Symbols, err = l.findSymbols(); err != nil {
		return err
	}
	if vm.Shapes, err = l.findShapes(); err != nil {
		return err
	}
	vm.variables = l.eachVariable
	if s, ok := l.Symbol("rb_zjit_entry"); ok && vm.Release.AtLeast(4, 1) {
		// The symbol belongs to ZJIT, which can leave iseq and pc out of a control frame. Ruby 4.0 also exports the
		// symbol, but its control frames always have both.
		entry, err := l.word(s.Addr)
		if err != nil {
			return err
		}
		vm.ZJITFrames = entry != 0 && l.o.Code.FrameJIT >= 0
	}
	l.objects.Symbols = vm.Symbols
	vm.Description = l.description()
	l.objects.View.Reset() // vm keeps l, so drop the memory that l has read
	// YJIT of 3.1 stores ec->cfp, the pointer to the innermost frame, before it fills the new frame. Later releases
	// fill the frame first.
	vm.EarlyFrames = vm.Release.AtLeast(3, 1) && !vm.Release.AtLeast(3, 2) && strings.Contains(vm.Description, "+YJIT")
	vm.jits = code.JITs(l.Symbol, vm.Release, vm.Description, &vm.Places.Code)
	return nil
}

func (l *locator) word(a attach.Address) (uint64, error) {
	var b [8]byte
	if err := l.mem.Read(a, b[:]); err != nil {
		return 0, err
	}
	return view.U64(b[:]), nil
}

// findVM returns the address of a VM that is ready.
func (l *locator) findVM() (attach.Address, error) {
	if s, ok := l.Symbol("ruby_current_vm_ptr"); ok && !s.TLS {
		v, err := l.word(s.Addr)
		if err != nil {
			return 0, err
		}
		if v == 0 {
			return 0, ErrBooting
		}
		found, err := l.proveVMs([]attach.Address{attach.Address(v)})
		if err != nil {
			return 0, err
		}
		if found == 0 {
			return 0, ErrBooting
		}
		return found, nil
	}
	words, err := l.variables()
	if err != nil {
		return 0, err
	}
	seen := make(map[attach.Address]bool)
	var candidates []attach.Address
	for _, w := range words {
		for b := w.data; len(b) >= 8; b = b[8:] {
			v := attach.Address(view.U64(b))
			if v&7 == 0 && v >= 1<<16 && v < 1<<56 && !seen[v] {
				seen[v] = true
				candidates = append(candidates, v)
			}
		}
	}
	found, err := l.proveVMs(candidates)
	if err != nil {
		return 0, err
	}
	if found == 0 {
		return 0, ErrNoVM
	}
	return found, nil
}

// proveVMs returns the first candidate that is a VM. A VM refers to its main thread, and the main thread refers back.
// The thread and its execution context refer to each other in the same way. From 3.0 on, the main ractor and the thread
// do so, too. Fewer checks are not enough, because on Ruby's development branch a wrong candidate would pass them.
func (l *locator) proveVMs(candidates []attach.Address) (attach.Address, error) {
	type proof struct{ vm, thread, ractor, ec attach.Address }
	var ps []proof
	read := func(n int, addr func(i int) attach.Address, keep func(i int, word uint64) bool) error {
		buf := make([]byte, 8*n)
		ranges := make([]attach.Range, n)
		for i := range ranges {
			ranges[i] = attach.Range{Addr: addr(i), Buf: buf[8*i : 8*i+8]}
		}
		if _, err := l.mem.ReadBatch(ranges); err != nil {
			return err
		}
		left := ps[:0]
		for i := range ranges {
			if !ranges[i].Failed && keep(i, view.U64(ranges[i].Buf)) {
				left = append(left, ps[i])
			}
		}
		ps = left
		return nil
	}
	for _, c := range candidates {
		ps = append(ps, proof{vm: c})
	}
	type step struct {
		addr func(p *proof) attach.Address
		keep func(p *proof, w attach.Address) bool
	}
	steps := []step{
		{func(p *proof) attach.Address { return p.vm + attach.Address(l.o.VMMainThread) },
			func(p *proof, w attach.Address) bool { p.thread = w; return w&7 == 0 && w >= 1<<12 }},
		{func(p *proof) attach.Address { return p.thread + attach.Address(l.o.ThVM) },
			func(p *proof, w attach.Address) bool { return w == p.vm }},
		{func(p *proof) attach.Address { return p.thread + attach.Address(l.o.ThEC) },
			func(p *proof, w attach.Address) bool { p.ec = w; return w != 0 }},
		{func(p *proof) attach.Address { return p.ec + attach.Address(l.o.ECThread) },
			func(p *proof, w attach.Address) bool { return w == p.thread }},
		{func(p *proof) attach.Address { return p.ec + attach.Address(l.o.ecFrame) },
			func(p *proof, w attach.Address) bool { return w != 0 }},
	}
	if l.o.vmMainRactor >= 0 {
		steps = append(steps, []step{
			{func(p *proof) attach.Address { return p.vm + attach.Address(l.o.vmMainRactor) },
				func(p *proof, w attach.Address) bool { p.ractor = w; return w != 0 }},
			{func(p *proof) attach.Address { return p.ractor + attach.Address(l.o.RactorMain) },
				func(p *proof, w attach.Address) bool { return w == p.thread }},
			{func(p *proof) attach.Address { return p.thread + attach.Address(l.o.ThRactor) },
				func(p *proof, w attach.Address) bool { return w == p.ractor }},
		}...)
	}
	for _, s := range steps {
		if len(ps) == 0 {
			return 0, nil
		}
		err := read(len(ps), func(i int) attach.Address { return s.addr(&ps[i]) },
			func(i int, w uint64) bool { return s.keep(&ps[i], attach.Address(w)) })
		if err != nil {
			return 0, err
		}
	}
	if len(ps) == 0 {
		return 0, nil
	}
	return ps[0].vm, nil
}

// description returns the constant RUBY_DESCRIPTION, or "" if it is not found. It does not read the library's variable
// ruby_description, because only the constant names the JIT in use.
func (l *locator) description() string {
	s, ok := l.Symbol("rb_cObject")
	if !ok {
		return ""
	}
	var text string
	err := l.objects.Read(func() error {
		object, err := l.objects.View.Word(s.Addr)
		if err != nil {
			return err
		}
		text, err = l.objects.Constant(object, "RUBY_DESCRIPTION")
		return err
	})
	if err != nil {
		return ""
	}
	return text
}
