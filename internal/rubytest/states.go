package rubytest

import "testing"

// States is what the Ruby program states.rb reports about its threads. The names of states are the same as in ddtop's
// JSON.
type States struct {
	Ruby    string
	PID     int
	Threads []StateTruth
}

// Thread returns the thread of that name.
func (s *States) Thread(name string) (StateTruth, bool) {
	for _, t := range s.Threads {
		if t.Name == name {
			return t, true
		}
	}
	return StateTruth{}, false
}

// StateTruth is a thread of states.rb, and what ddtop must report about this thread. A field with its zero value is not
// checked.
type StateTruth struct {
	Name string
	// TID is the native thread ID. It is 0 for a thread that Ruby itself started, on a release before 3.1.
	TID int32
	// States are the states that the thread can be in. It is in the first one most of the time. A thread that waits has
	// only one state, and stays in it. Up to Ruby 3.2 there is an exception while threads of a group compute. To
	// measure time slices, Ruby then wakes threads that sleep, are parked, or wait for a lock or a child, one after the
	// other. Each wakes up for an instant.
	States []string
	// Must are the states that ddtop must see at least once if it watches the thread for two seconds.
	Must []string
	// Object is the class of what the thread waits for: Mutex, Monitor, Queue, SizedQueue, ConditionVariable, Thread.
	Object string
	// Holder is the name of the thread that holds the lock, or of the thread that this thread joins.
	Holder string
	// FDs are the descriptors that the thread waits for. Kind is the kind of the first descriptor: pipe, tcp, udp,
	// unix, listener.
	FDs  []int32
	Kind string
	// Remote and Local are the two ends of the socket for which the thread waits, as address:port. For a unix socket
	// they are its path (inside the Ruby's root).
	Remote, Local string
	// Child is the PID of the child process that the thread waits for.
	Child int
	// Timed reports whether the thread waits with a timeout. It is nil if this is not checked.
	Timed *bool
}

// These are groups of threads. StartStates always starts the threads that wait, and adds the groups that the test
// names.
const (
	// GroupSpin has two threads that compute. Each alternates between running and waiting for the GVL.
	GroupSpin = "spin"
	// GroupGC has a thread that collects garbage again and again.
	GroupGC = "gc"
	// GroupNative has threads that use a CPU without the GVL: one reads much from /dev/urandom, and one runs zlib.
	GroupNative = "native"
	// GroupStalled has a thread that sleeps in the kernel for 200 ms at a time and keeps the GVL.
	GroupStalled = "stalled"
	// GroupDeadlock has two threads that wait for each other's Mutex.
	GroupDeadlock = "deadlock"
)

// StartStates starts a program that has a thread in each kind of waiting state, and the threads of the given groups. It
// returns when all threads are in their states.
func (r Ruby) StartStates(t testing.TB, o Options, groups ...string) (*Process, States) {
	t.Helper()
	o.Name = "states.rb"
	o.Args = groups
	p := r.Start(t, states, o)
	var said States
	p.JSON(t, &said)
	return p, said
}
