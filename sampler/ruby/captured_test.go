package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
)

// processOf returns the facts about a live process that the tests store in a file together with its memory.
func processOf(live *realTarget) memtest.Process {
	return memtest.Process{Version: live.vm.Version, Machine: live.mod.Machine, JmpBuf: live.mod.JmpBuf(),
		VM: live.vm.Addr, MainThread: live.vm.MainThread, Symbols: live.vm.Symbols}
}

// open makes a VM and a Decoder for a process whose memory was captured in a file. mem is this memory.
func open(p *memtest.Process, mem attach.Memory) (*VM, *code.Decoder, *sampler.Dictionary, error) {
	table, _, err := layout.For(p.Version, p.Machine, p.JmpBuf)
	if err != nil {
		return nil, nil, nil, err
	}
	release, err := places.ParseRelease(p.Version)
	if err != nil {
		return nil, nil, nil, err
	}
	vm, err := rubyvm.NewVM(mem, table, p.Version, release)
	if err != nil {
		return nil, nil, nil, err
	}
	vm.Addr, vm.MainThread, vm.Symbols = p.VM, p.MainThread, p.Symbols
	dict := sampler.NewDictionary()
	return vm, vm.NewDecoder(dict), dict, nil
}
