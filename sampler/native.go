package sampler

// NativeFrame is a C function on a thread's native stack.
type NativeFrame struct {
	// Name is the function's symbol. It is empty if no symbol table of the file names the function.
	Name string
	// Library is what people call the file: libruby for libruby-3.1.so.3.1. Path is the file's path.
	Library, Path string
	// BuildID, Offset and Function say where to find the name elsewhere: the linker's id of the file, where in it the
	// function goes on, and where the function begins. Function is zero if that is not known.
	BuildID          string
	Offset, Function uint64
}

// NativeStack is the native stack of a thread that did not run while it was read.
type NativeStack struct {
	// Frames are innermost first. Of a thread of Ruby's they end where Ruby's own frames begin.
	Frames []NativeFrame
	// Missing says in a few words why frames are missing. It is empty if none are.
	Missing string
	// Kernel says in words what the kernel does for the thread. It is empty if the system call says all, or if it is
	// not known. KernelMissing then says why, if the words would help.
	Kernel, KernelMissing string
}

// Empty reports whether nothing is known of the stack.
func (s NativeStack) Empty() bool { return len(s.Frames) == 0 && s.Kernel == "" }
