package ruby

import (
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// newDecoder returns a Decoder for a VM whose frames and stacks are interned in dict.
func newDecoder(vm *VM, dict *sampler.Dictionary) *code.Decoder {
	return code.NewDecoder(code.Target{Mem: vm.Mem, Release: vm.Release, Code: &vm.o.code, Objects: &vm.o.objects,
		VM: vm.Addr, Symbols: vm.Symbols, Shapes: vm.Shapes, Variables: vm.variables, ZJITFrames: vm.ZJITFrames, EarlyFrames: vm.EarlyFrames, JITs: vm.jits}, dict)
}
