package sampler

// NativeFrame is a C function on a thread's native stack.
type NativeFrame struct {
	// Name is the function's symbol. It is empty if no symbol table of the file names the function.
	Name string
	// Library is the short name of the file: libruby for libruby-3.1.so.3.1. Path is the file's path.
	Library, Path string
	// BuildID, Offset and Function identify a function that has no name here, so that other tools can find its name.
	// BuildID is the linker's id of the file. Offset is where in the file the function continues, and Function where it
	// begins. Function is zero if it is not known.
	BuildID          string
	Offset, Function uint64
}

// NativeStack is the native stack of a thread that did not run while it was read.
type NativeStack struct {
	// Frames are innermost first. For a Ruby thread they end where Ruby's own frames begin.
	Frames []NativeFrame
	// Missing says in a few words why frames are missing. It is empty if none are.
	Missing string
	// Kernel describes what the kernel does for the thread. It is empty if the name of the system call is enough, or
	// if it is not known. If a description would help and is not known, KernelMissing says why.
	Kernel, KernelMissing string
}

// Empty reports whether nothing is known of the stack.
func (s NativeStack) Empty() bool { return len(s.Frames) == 0 && s.Kernel == "" }
