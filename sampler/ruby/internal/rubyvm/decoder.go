package rubyvm

import (
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// NewDecoder returns a Decoder for the code of a VM. The Decoder adds frames and stacks to dict.
func (vm *VM) NewDecoder(dict *sampler.Dictionary) *code.Decoder {
	return code.NewDecoder(code.Target{Mem: vm.Mem, Release: vm.Release, Code: &vm.Places.Code, Objects: &vm.Places.Objects,
		VM: vm.Addr, Symbols: vm.Symbols, Shapes: vm.Shapes, Variables: vm.variables, ZJITFrames: vm.ZJITFrames, EarlyFrames: vm.EarlyFrames, JITs: vm.jits}, dict)
}
