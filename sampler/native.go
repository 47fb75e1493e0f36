package sampler

// NativeFrame is a C function on a thread's native stack.
type NativeFrame struct {
	// Name is the function's symbol. It is empty if the file's symbol tables have no name for the function.
	Name string
	// Library is the short name of the function's file: libruby for libruby-3.1.so.3.1. Path is the path of this file.
	Library, Path string
	// BuildID, Offset and Function identify a function that has no name here, so that other tools can find its name.
	// BuildID is the linker's id of the file. Offset is the place in the file where the function continues, and
	// Function the place where it begins. Function is zero if it is not known.
	BuildID          string
	Offset, Function uint64
}

// NativeStack is the stack of C functions of a thread. The thread did not run while the stack was read.
type NativeStack struct {
	// Frames are the C functions, innermost first. For a Ruby thread the list ends where the frames of Ruby code begin.
	Frames []NativeFrame
	// Missing says in a few words why frames are missing. It is empty if the stack is complete.
	Missing string
	// Kernel describes what the kernel does for the thread. It is empty if the name of the system call is enough, or if
	// the description is not known. In the second case KernelMissing has the reason.
	Kernel, KernelMissing string
}

// Empty reports whether nothing is known about the thread's native stack.
func (s NativeStack) Empty() bool { return len(s.Frames) == 0 && s.Kernel == "" }
