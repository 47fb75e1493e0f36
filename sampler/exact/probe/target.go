package probe

// Target is the scheduler of a Ruby VM, with the places of its parts in the process's memory.
type Target struct {
	// PID is the process's number, which must be the same for ddtop and for the kernel.
	PID int
	// Lock is the address of the scheduler's mutex. Owner is the address of its pointer to the thread that owns the
	// GVL. QueueTail is the address of its pointer to the last thread in the queue (the second word of the list's
	// head).
	Lock, Owner, QueueTail uint64
	// ReadyNode and RunningNode are the offsets in an rb_thread_t of its nodes in the queue and in the list of running
	// threads, in bytes.
	ReadyNode, RunningNode int
	// Before33 is true up to Ruby 3.2. Its queue and lists are not read.
	Before33 bool
	// ExecutionContext is the distance from a native thread's thread pointer to its pointer to the execution context,
	// in bytes. ThreadOfEC is the offset in the context of the pointer to the rb_thread_t. It is -1 if
	// ExecutionContext leads to the rb_thread_t itself.
	ExecutionContext int64
	ThreadOfEC       int
	// Stacks is true if the control frames of threads that have waited are copied (Stack). ContextOfThread is the
	// offset in an rb_thread_t of the pointer to its execution context, in bytes.
	Stacks          bool
	ContextOfThread int
	// SmallRing is true if many processes are followed at once. Each then has an eighth of the ring of a single
	// process.
	SmallRing bool
	// Untried is true if exact mode is also wanted on a kind of processor on which it has not run yet.
	Untried bool
}
