package kernelview

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// firstStack finds out whether the main thread of a forked process runs on the stack with which its program began. If a
// thread other than the main thread forks, it becomes the child's main thread. It still runs on its own stack, and not
// on the program's first stack.
type firstStack struct {
	// The field of is the mapping of the stack with which the program began. It is empty if the process was not
	// forked, or if it has called exec since.
	of attach.Mapping
	// tid is the thread that was checked. known is true if the thread was asleep at the check, so that the result is
	// certain. elsewhere is true if the thread runs on another stack than the program's first.
	tid              int32
	known, elsewhere bool
}

// maxFirstStack limits how far a program's first stack can grow below its mapping, in bytes. The kernel keeps at least
// this much room free below the first stack (MIN_GAP in mm/util.c). So an address further below is on another stack.
const maxFirstStack = 128 << 20

// NewFirstStack finds the stack of a process.
func NewFirstStack(p *attach.Process) firstStack {
	if !p.Forked() {
		return firstStack{}
	}
	mappings, err := p.Maps()
	if err != nil {
		return firstStack{} // the result for a process that was not forked
	}
	for _, m := range mappings {
		if m.Path == "[stack]" {
			return firstStack{of: m}
		}
	}
	return firstStack{}
}

// check removes BitRootFiber from the main thread of a forked process, unless the thread is known to run on the
// program's first stack.
func (f *firstStack) check(v *View, t *sampler.Thread) {
	if f.of.End == 0 || t.Bits&sampler.BitRootFiber == 0 || t.TID == 0 {
		return
	}
	if !f.known || f.tid != t.TID {
		sp, ok := v.tasks.StackPointer(t.TID)
		f.tid, f.known = t.TID, ok
		f.elsewhere = ok && (attach.Address(sp) >= f.of.End || attach.Address(sp)+maxFirstStack < f.of.Start)
	}
	if !f.known || f.elsewhere {
		t.Bits &^= sampler.BitRootFiber
	}
}
