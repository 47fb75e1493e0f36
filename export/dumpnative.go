package export

import (
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// SetNative adds the native threads that Ruby does not know. It also adds native stacks: the parameter ruby has the
// stacks of Ruby's threads, and others has the stacks of other threads by TID. If no stacks could be read, missing is
// the reason. Otherwise missing is empty.
func (d *Dump) SetNative(threads []report.StatNative, ruby map[sampler.ThreadID]sampler.NativeStack,
	others map[int32]sampler.NativeStack,
	missing string) {
	d.NativeMissing = report.TextOrNil(missing)
	for i := range d.Threads {
		if s, ok := ruby[d.Threads[i].ID]; ok {
			d.Threads[i].Native = report.NewDumpNative(s)
		}
	}
	for _, t := range threads {
		out := report.DumpNativeThread{StatNative: t}
		if s, ok := others[t.TID]; ok {
			out.Native = report.NewDumpNative(s)
		}
		d.NativeThreads = append(d.NativeThreads, out)
	}
}

// SetNativeLocks adds the locks of C code that threads wait for.
func (d *Dump) SetNativeLocks(locks *sampler.NativeLocks, dict *sampler.Dictionary) {
	d.NativeLocks, d.nativeLocks, d.dict = report.NewDumpNativeLocks(locks), locks, dict
}

// writeNativeLocks writes a line for each lock of C code.
func (t *dumpText) writeNativeLocks() {
	if t.d.nativeLocks == nil {
		return
	}
	for i := range t.d.nativeLocks.List {
		l := &t.d.nativeLocks.List[i]
		t.printf("lock of C code 0x%x", l.Address)
		if place := gvl.NativeLockPlace(l); place != "" {
			t.printf(" in %s", flamegraph.Printable(place))
		}
		t.printf(": %s", flamegraph.Printable(gvl.NativeLockHolder(l, t.d.dict)))
		for i, id := range l.Waiters {
			if i == 0 {
				t.printf("\n  waiting: %d: ", len(l.Waiters))
			} else {
				t.printf(", ")
			}
			t.printf("%s", t.name(id))
		}
		if l.Others > 0 {
			t.printf("\n  waiting: %s", units.Plural(int(l.Others), "native thread", "native threads"))
		}
		t.printf("\n")
	}
}

// native writes the C functions of a native stack. The caller of native writes the Ruby frames after them, because the
// stack is written innermost first, and Ruby frames called the C functions.
func (t *dumpText) native(n *report.DumpNative) {
	if n == nil || t.d.ownOnly {
		return
	}
	for _, line := range gvl.NativeLines(report.NativeFrames(n.Frames)) {
		t.printf("    at %s\n", flamegraph.Printable(line))
	}
}

// nativeNote writes what the kernel does for the innermost C function of a native stack, such as a system call. It also
// writes which frames are missing.
func (t *dumpText) nativeNote(n *report.DumpNative) {
	if n != nil && n.Kernel != nil {
		t.printf("  (kernel: %s)\n", flamegraph.Printable(*n.Kernel))
	}
	if n != nil && n.KernelMissing != nil {
		t.printf("  (kernel: %s)\n", flamegraph.Printable(*n.KernelMissing))
	}
	switch {
	case n == nil || n.Missing == nil || t.d.ownOnly:
	case len(n.Frames) == 0:
		t.printf("  (no native frames: %s)\n", flamegraph.Printable(*n.Missing))
	default:
		t.printf("  (outer native frames are missing: %s)\n", flamegraph.Printable(*n.Missing))
	}
}
