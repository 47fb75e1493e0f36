package cstacks

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/native"
)

// Dumped returns the registers of the threads in a core file. These threads never run, and all of their registers are
// known.
type Dumped struct{ Core *attach.Core }

// Registers implements native.Source. ok is false if the core has no registers of the thread.
func (d Dumped) Registers(tid int32) (r native.Registers, at native.Moment, ok bool, err error) {
	words, ok := d.Core.UserRegisters(tid)
	return native.OfUser(words), at, ok, nil
}

// Stays implements native.Source. It always returns true, because the threads of a core file do not run.
func (d Dumped) Stays(int32, native.Moment) (bool, error) { return true, nil }
