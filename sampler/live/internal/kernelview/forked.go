package kernelview

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// firstStack says whether the main thread of a forked process runs on the stack that its program began with. If a
// thread other than the main one forks, the child's main thread is that thread: it goes on in the thread's own block,
// on the thread's own stack.
type firstStack struct {
	// of is the mapping of the stack that the program began with. It is empty in a process not forked, or after an
	// exec.
	of attach.Mapping
	// tid is the thread that was asked about, and known that it was asleep then. elsewhere: its stack is another one.
	tid              int32
	known, elsewhere bool
}

// maxFirstStack is how far the stack of a program can grow below its mapping without being taken for another one, in
// bytes: the kernel keeps as much room free there at least (MIN_GAP in mm/util.c).
const maxFirstStack = 128 << 20

// NewFirstStack finds the stack of a process.
func NewFirstStack(p *attach.Process) firstStack {
	if !p.Forked() {
		return firstStack{}
	}
	mappings, err := p.Maps()
	if err != nil {
		return firstStack{} // as if it had not been forked
	}
	for _, m := range mappings {
		if m.Path == "[stack]" {
			return firstStack{of: m}
		}
	}
	return firstStack{}
}

// check takes BitRootFiber from a main thread whose outermost frame is not the program's, or not known yet.
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
