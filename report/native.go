package report

import "github.com/ddtop/ddtop/sampler"

// DumpNative is the native stack of a thread that was not running when ddtop read the stack.
type DumpNative struct {
	// Frames are the C functions on the stack, innermost first. For a Ruby thread, the list ends where functions of the
	// Ruby interpreter begin.
	Frames []DumpNativeFrame `json:"frames"`
	// Missing says why frames are missing. It is null if no frames are missing.
	Missing *string `json:"missing"`
	// Kernel describes what the kernel does for the thread. ddtop looks for this if the thread is uninterruptible, or
	// in a system call on files. Kernel is null if the name of the system call says enough. If Kernel is null because
	// the text is not known, KernelMissing is the reason. Otherwise KernelMissing is null.
	Kernel        *string `json:"kernel"`
	KernelMissing *string `json:"kernel_missing"`
}

// DumpNativeFrame is a C function on a native stack.
type DumpNativeFrame struct {
	// Name is the name of the C function. It is null if no symbol table has it. Library is the short name of the file
	// at Path.
	Name    *string `json:"name"`
	Library string  `json:"library"`
	Path    string  `json:"path"`
	// BuildID is the ID that the linker gave the file, or null. Offset is the place in the file at which the function
	// will continue. Function is the place at which the function begins, or null if it is not known. With these three,
	// another tool can find the function's name.
	BuildID  *string `json:"build_id"`
	Offset   uint64  `json:"offset"`
	Function *uint64 `json:"function"`
}

// DumpNativeThread is a native thread that runs no Ruby thread.
type DumpNativeThread struct {
	StatNative
	// Native is the thread's whole native stack. It is null if the thread was running.
	Native *DumpNative `json:"native"`
}

// NewDumpNative converts a native stack to its form in a dump.
func NewDumpNative(s sampler.NativeStack) *DumpNative {
	return &DumpNative{Frames: NewNativeFrames(s.Frames), Missing: TextOrNil(s.Missing), Kernel: TextOrNil(s.Kernel),
		KernelMissing: TextOrNil(s.KernelMissing)}
}

// NewNativeFrames converts C functions to their form in JSON. The result is never nil.
func NewNativeFrames(frames []sampler.NativeFrame) []DumpNativeFrame {
	out := make([]DumpNativeFrame, 0, len(frames))
	for _, f := range frames {
		frame := DumpNativeFrame{Name: TextOrNil(f.Name), Library: f.Library, Path: f.Path,
			BuildID: TextOrNil(f.BuildID), Offset: f.Offset}
		if f.Function != 0 {
			frame.Function = &f.Function
		}
		out = append(out, frame)
	}
	return out
}

// NativeFrames converts C functions in JSON to the form of samples. It keeps only names and libraries.
func NativeFrames(list []DumpNativeFrame) []sampler.NativeFrame {
	out := make([]sampler.NativeFrame, len(list))
	for i, f := range list {
		if out[i].Library = f.Library; f.Name != nil {
			out[i].Name = *f.Name
		}
	}
	return out
}

// StatNativeWait is a place in C code where blocked threads waited, each time for a second or more.
type StatNativeWait struct {
	// Place is the innermost Ruby frame. It is null if the frame's name is not known. Chain has the names of the C
	// functions that this frame called, outermost first. Functions without a known name are left out. Frames has all of
	// these functions, innermost first.
	Place  *string           `json:"place"`
	Chain  string            `json:"chain"`
	Frames []DumpNativeFrame `json:"frames"`
	// NS is how long ddtop saw threads at this place, in ns, added up. The true time is at least NS. Stays is the
	// number of times that a thread stayed at this place. Threads is the number of different threads that did so.
	NS      int64 `json:"ns"`
	Stays   int   `json:"stays"`
	Threads int   `json:"threads"`
}

// StatNativeReads counts the native stacks that were read since ddtop attached.
type StatNativeReads struct {
	// Read counts the stacks that were kept. Cut counts the kept stacks that lack their outer functions. Moved counts
	// reads that failed because the thread ran meanwhile. Refused counts stacks that do not fit the Ruby frames of the
	// same thread.
	Read    uint64 `json:"read"`
	Cut     uint64 `json:"cut"`
	Moved   uint64 `json:"moved"`
	Refused uint64 `json:"refused"`
	// Missing says why no stacks can be read. It is null if they can be read.
	Missing *string `json:"missing"`
	// Running has the counts for stacks of running threads. It is null if the user did not ask for such stacks
	// (--native).
	Running *StatRunningReads `json:"running"`
}

// StatRunningReads counts the C stacks that were copied while their threads ran.
type StatRunningReads struct {
	// Read counts the stacks that fit the Ruby frames of the same thread. Refused counts the stacks that do not fit.
	// Short counts the stacks whose copy is too short to be compared with Ruby frames. Lost counts the stacks that
	// could not be copied, or whose functions could not be named.
	Read    uint64 `json:"read"`
	Refused uint64 `json:"refused"`
	Short   uint64 `json:"short"`
	Lost    uint64 `json:"lost"`
	// BusyNS is the time that the kernel needed to copy these stacks, in ns.
	BusyNS int64 `json:"busy_ns"`
	// Missing says why no stacks can be copied. It is null if they can be copied.
	Missing *string `json:"missing"`
}
