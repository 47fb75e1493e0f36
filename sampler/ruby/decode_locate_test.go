package ruby

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
)

// TestLocateWithoutSymbols: on every release, ddtop must find the VM and the symbol table from the content of the
// memory alone. If the file has symbols, ddtop must find the same addresses with them.
func TestLocateWithoutSymbols(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, "STDOUT.puts :ready; STDOUT.flush; STDIN.gets", rubytest.Options{})
		p.Expect(t, "ready")
		g := openTarget(t, p.PID)
		vm, err := rubyvm.NewVM(g.proc, g.vm.Table, g.vm.Version, g.vm.Release)
		if err != nil {
			t.Fatal(err)
		}
		l := rubyvm.NewLocator(vm, g.mod)
		l.Symbol = func(string) (attach.Symbol, bool) { return attach.Symbol{}, false }
		if err := l.Locate(vm); err != nil {
			t.Fatal(err)
		}
		if vm.Addr != g.vm.Addr || vm.MainThread != g.vm.MainThread || vm.Symbols != g.vm.Symbols {
			t.Errorf("found VM %s, main thread %s, symbols %s; want %s, %s, %s",
				vm.Addr, vm.MainThread, vm.Symbols, g.vm.Addr, g.vm.MainThread, g.vm.Symbols)
		}
		if s, ok := g.mod.Symbol("ruby_current_vm_ptr"); ok && g.word(t, s.Addr) != vm.Addr {
			t.Errorf("found VM %s, the symbol says %s", vm.Addr, g.word(t, s.Addr))
		} else if !ok && !r.AtLeast(3, 3) {
			t.Error("ruby_current_vm_ptr is exported up to 3.2")
		}
	})
}

// TestLocateWhileBooting: ddtop finds the VM of a Ruby that has just been started, as soon as the VM exists.
func TestLocateWhileBooting(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, "STDIN.gets", rubytest.Options{})
		deadline := time.Now().Add(r.Timeout())
		// Before exec, the process is not a Ruby yet. Until the dynamic linker has mapped Ruby, there is no memory to
		// search. So try again in both cases.
		proc, err := attach.Open(p.PID)
		for errors.Is(err, attach.ErrNotLoaded) && time.Now().Before(deadline) {
			proc, err = attach.Open(p.PID)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer proc.Close()
		m, err := attach.FindRuby(proc)
		for err != nil && time.Now().Before(deadline) {
			m, err = attach.FindRuby(proc)
		}
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		g := openTarget(t, p.PID)
		if len(g.threads(t)) == 0 {
			t.Error("a VM without threads")
		}
	})
}

// TestLocateNoVM: if the memory is empty and the context has ended, LocateVM must return an error. If no symbol names
// the VM's address, the error must be ErrNoVM.
func TestLocateNoVM(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, "STDOUT.puts :ready; STDOUT.flush; STDIN.gets", rubytest.Options{})
		p.Expect(t, "ready")
		g := openTarget(t, p.PID)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := rubyvm.LocateVM(ctx, new(memtest.Pages), g.mod, g.vm.Table, g.vm.Version)
		if err == nil {
			t.Error("a VM was found in empty memory")
		}
		if _, symbol := g.mod.Symbol("ruby_current_vm_ptr"); !symbol && !errors.Is(err, ErrNoVM) {
			t.Errorf("got %v, want ErrNoVM", err)
		}
	})
}
