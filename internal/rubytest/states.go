package rubytest

import "testing"

// States is what the program states.rb reports of its threads. The names of states are the same as in ddtop's JSON.
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

// StateTruth is a thread of states.rb, and what ddtop must see of it from outside. A field with its zero value is not
// checked.
type StateTruth struct {
	Name string
	// TID is the native thread ID. It is 0 for a thread that Ruby itself started, on a release before 3.1.
	TID int32
	// States are the states that the thread can be in. It is in the first one most of the time. A thread that waits has
	// only one state, and stays in it. Up to Ruby 3.2 there is an exception while a group computes. Threads that sleep,
	// are parked, or wait for a lock or a child then wake up in turn for an instant. Ruby uses them to measure time
	// slices.
	States []string
	// Must are the states that must be seen when the thread is watched for two seconds.
	Must []string
	// Object is what the thread waits for: Mutex, Monitor, Queue, SizedQueue, ConditionVariable, Thread.
	Object string
	// Holder is the name of the thread that holds the lock, or of the thread that this thread joins.
	Holder string
	// FDs are the descriptors that the thread waits for. Kind is the kind of the first one: pipe, tcp, udp, unix,
	// listener.
	FDs  []int32
	Kind string
	// Remote and Local are the socket's ends as address:port, or a unix socket's path (inside the Ruby's root).
	Remote, Local string
	// Child is the PID of the child process that the thread waits for.
	Child int
	// Timed reports whether the wait has an end. It is nil if this is not checked.
	Timed *bool
}

// The groups of threads that StartStates can add to those that wait.
const (
	// GroupSpin has two threads that compute: they alternate between running and waiting.
	GroupSpin = "spin"
	// GroupGC has a thread that collects garbage again and again.
	GroupGC = "gc"
	// GroupNative has threads on a CPU without the GVL: a large read of /dev/urandom, and zlib.
	GroupNative = "native"
	// GroupStalled has a thread that sleeps in the kernel for 200 ms at a time and keeps the GVL.
	GroupStalled = "stalled"
	// GroupDeadlock has two threads that wait for each other's Mutex.
	GroupDeadlock = "deadlock"
)

// StartStates starts a program with a thread in each state that waits, and with the threads of the groups. It returns
// the program once all are in their states.
func (r Ruby) StartStates(t testing.TB, o Options, groups ...string) (*Process, States) {
	t.Helper()
	o.Name = "states.rb"
	o.Args = groups
	p := r.Start(t, states, o)
	var said States
	p.JSON(t, &said)
	return p, said
}
