package probe

// Target describes the scheduler of a Ruby VM: where its parts are in the process's memory.
type Target struct {
	// PID is the process's number in the kernel's first PID namespace, in which ddtop must be, too.
	PID int
	// Lock is the address of the scheduler's mutex. Owner is the address of the scheduler's pointer to the thread that
	// owns the GVL. QueueTail is the address of the pointer to the last thread in the queue for the GVL. This pointer
	// is the second word of the queue's list head.
	Lock, Owner, QueueTail uint64
	// ReadyNode and RunningNode are the offsets of two list nodes in an rb_thread_t, in bytes. One is the node in the
	// queue for the GVL, the other is the node in the list of running threads.
	ReadyNode, RunningNode int
	// Before33 is true up to Ruby 3.2. In this case the programs do not read the queue and the lists of threads.
	Before33 bool
	// ExecutionContext is the distance in bytes from a native thread's thread pointer to a word with an address. This
	// is the address of the thread's execution context. ThreadOfEC is the offset, in the execution context, of the
	// pointer to the rb_thread_t. ThreadOfEC is -1 if the word is the address of the rb_thread_t itself.
	ExecutionContext int64
	ThreadOfEC       int
	// Stacks is true if the programs copy the control frames of a thread that has waited (Stack). ContextOfThread is
	// the offset in an rb_thread_t of the pointer to its execution context, in bytes.
	Stacks          bool
	ContextOfThread int
	// SmallRing is true if many processes are followed at once. Each then has an eighth of the ring of a single
	// process.
	SmallRing bool
	// Untried is true if the user allows exact mode on a kind of processor on which it has never run.
	Untried bool
}
