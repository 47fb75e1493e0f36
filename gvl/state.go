package gvl

// State is what a thread does at an instant. A thread has exactly one.
type State uint8

// The states, in the order of the screens and of stat's columns.
const (
	// Unknown: the evidence does not tell; Detail.Reason says why.
	Unknown State = iota
	// Running: holds the GVL and is not known to sleep in the kernel.
	Running
	// Stalled: holds the GVL and sleeps in the kernel, proven by a second look at the memory after the kernel's answer.
	Stalled
	// GC: holds the GVL and collects garbage.
	GC
	// Waiting: wants to run Ruby and can't; Detail.Wait says in which way.
	Waiting
	// Native: released the GVL and is on a CPU, or waits for one (StatNoCPU has that part).
	Native
	// IO: released the GVL and waits for the outside: a descriptor, a child process, a name's resolution.
	IO
	// Lock: blocked on a Mutex or Monitor.
	Lock
	// Parked: waits for work or for another thread: Queue, ConditionVariable, Thread#join, Ractor.
	Parked
	// Sleeping: in sleep or stop.
	Sleeping
	// NumStates is the number of states.
	NumStates
)

var stateNames = [NumStates]string{
	Unknown: "unknown", Running: "running", Stalled: "stalled", GC: "gc", Waiting: "waiting", Native: "native",
	IO: "io", Lock: "lock", Parked: "parked", Sleeping: "sleeping",
}

var stateLetters = [NumStates]byte{
	Unknown: '?', Running: 'R', Stalled: 'S', GC: 'G', Waiting: 'w', Native: 'n', IO: 'i', Lock: 'L', Parked: 'p',
	Sleeping: '.',
}

var stateGlyphs = [NumStates]rune{
	Unknown: '?', Running: '█', Stalled: 'S', GC: 'G', Waiting: 'w', Native: 'n', IO: 'i', Lock: 'L', Parked: 'p',
	Sleeping: '·',
}

// String returns the state's word, as in the JSON of dump and stat: "running", "waiting" …
func (s State) String() string {
	if s >= NumStates {
		return "unknown"
	}
	return stateNames[s]
}

// Letter returns the state's ASCII letter, for output without Unicode.
func (s State) Letter() byte {
	if s >= NumStates {
		return '?'
	}
	return stateLetters[s]
}

// Glyph returns the character that stands for the state in the timeline.
func (s State) Glyph() rune {
	if s >= NumStates {
		return '?'
	}
	return stateGlyphs[s]
}

// Held reports whether a thread in this state holds the GVL of its ractor.
func (s State) Held() bool { return s == Running || s == Stalled || s == GC }

// Released reports whether a thread in this state neither holds the GVL nor wants it.
func (s State) Released() bool { return s >= Native && s < NumStates }

// Idle reports whether the state is rest rather than trouble: parked and sleeping threads are left out of the wall
// flamegraph unless asked for.
func (s State) Idle() bool { return s == Parked || s == Sleeping }

// Works reports whether a thread in the state works or is kept from it. IO counts as neither, because a server that waits for a
// client looks the same.
func (s State) Works() bool { return !s.Idle() && s != IO && s != Unknown }

// ParseState returns the state with the given word.
func ParseState(word string) (State, bool) {
	for s, n := range stateNames {
		if n == word {
			return State(s), true
		}
	}
	return Unknown, false
}

// WaitKind says in which way a thread waits to run Ruby.
type WaitKind uint8

// The kinds of waiting.
const (
	// WaitQueue: in the ractor's queue for the GVL.
	WaitQueue WaitKind = iota
	// WaitHandover: chosen as the next holder, not running yet; the time until the operating system wakes it.
	WaitHandover
	// WaitYield: gave the GVL up after its time slice and is about to queue again, or is about to queue for the first
	// time.
	WaitYield
	// WaitCPUSlot: has the right to run and lacks a native thread (M:N), or is at another ractor's GC barrier.
	WaitCPUSlot
	// NumWaitKinds is the number of kinds.
	NumWaitKinds
)

// String returns the kind's word in JSON: "queue", "handover", "yield" or "cpu_slot".
func (k WaitKind) String() string {
	switch k {
	case WaitQueue:
		return "queue"
	case WaitHandover:
		return "handover"
	case WaitYield:
		return "yield"
	case WaitCPUSlot:
		return "cpu_slot"
	}
	return "unknown"
}
