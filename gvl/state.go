package gvl

// State is what a thread does at one time. A thread is always in exactly one State.
type State uint8

// These are the states, in the order in which screens and the columns of ddtop stat show them.
const (
	// Unknown means that ddtop has too little evidence to decide the state. Detail.Reason says why.
	Unknown State = iota
	// Running means that the thread holds the GVL and is not known to sleep in the kernel.
	Running
	// Stalled means that the thread holds the GVL and sleeps in the kernel. The proof is that memory, read again after
	// the kernel's answer, still shows it as holder.
	Stalled
	// GC means that the thread holds the GVL and collects garbage.
	GC
	// Waiting means that the thread wants to run Ruby and cannot. Detail.Wait is the kind of wait.
	Waiting
	// Native means that the thread has released the GVL and is on a CPU, or waits for a CPU. The figure StatNoCPU has
	// the part of this time that is without a CPU.
	Native
	// IO means that the thread has released the GVL and waits for something outside the process: a descriptor, a child
	// process, the resolution of a name.
	IO
	// Lock means that the thread waits for a Mutex or Monitor.
	Lock
	// Parked means that the thread waits for work or for another thread: Queue, ConditionVariable, Thread#join,
	// Ractor.
	Parked
	// Sleeping means that the thread is in sleep or Thread.stop.
	Sleeping
	// NumStates is the number of states.
	NumStates
)

// A stateRow has the names and colours with which screens and exports show a state. It also has the state's position in
// several lists: ByUrgency, InBars and OnPages.
type stateRow struct {
	name, short string
	letter      byte
	glyph       rune
	// color is the state's colour, from the palette of Okabe and Ito. It is 0 if the colour depends on the background.
	color uint32
	// urgency, bar and page are the state's positions in the lists ByUrgency, InBars and OnPages.
	urgency, bar, page uint8
	// datadog is the state's name in Datadog's profiler. It is empty for Stalled, because Datadog has no name for a
	// thread that holds the GVL and sleeps in the kernel.
	datadog string
	meaning string
}

// DatadogCPU is the name for time on a CPU in Datadog's profiler. All CPU time of a profile has this name.
const DatadogCPU = "had cpu"

var states = [NumStates]stateRow{
	Unknown:  {"unknown", "?", '?', '?', 0, 7, 9, 7, "unknown", "not known: the samples do not tell"},
	Running:  {"running", "run", 'R', '█', 0x009E73, 2, 0, 0, DatadogCPU, "runs Ruby and holds the GVL, the lock that one thread of a ractor has at a time"},
	Stalled:  {"stalled", "stall", 'S', 'S', 0xCC79A7, 0, 1, 2, "blocked", "holds the GVL and sleeps in the kernel, so threads that want to run Ruby wait"},
	GC:       {"gc", "gc", 'G', 'G', 0xF0E442, 1, 2, 1, DatadogCPU, "holds the GVL and collects garbage"},
	Waiting:  {"waiting", "wait", 'w', 'w', 0xD55E00, 3, 3, 3, "waiting for gvl", "wants to run Ruby and waits for the GVL"},
	Native:   {"native", "native", 'n', 'n', 0x56B4E9, 6, 5, 4, DatadogCPU, "C code without the GVL, or waiting for a CPU to run it"},
	IO:       {"io", "io", 'i', 'i', 0x0072B2, 5, 6, 6, "network", "waits for something outside: a database, a socket, a file, a child process"},
	Lock:     {"lock", "lock", 'L', 'L', 0xE69F00, 4, 4, 5, "blocked", "waits for a Mutex or Monitor of the program"},
	Parked:   {"parked", "park", 'p', 'p', 0, 8, 7, 8, "waiting", "waits for work or for another thread"},
	Sleeping: {"sleeping", "sleep", '.', '·', 0, 9, 8, 9, "sleeping", "sleeps, as it asked to"},
}

var (
	// ByUrgency is the order in which the screen lists the states of a group of threads, the worst first.
	ByUrgency = ordered(func(r *stateRow) uint8 { return r.urgency })
	// InBars is the order of the states within a bar on the screen.
	InBars = ordered(func(r *stateRow) uint8 { return r.bar })
	// InColumns is the order of stat's columns.
	InColumns = [...]State{Running, Stalled, GC, Waiting, Native, IO, Lock, Parked, Sleeping, Unknown}
	// OnPages is the order of the states in bars and legends of HTML pages: first states of work, then of waiting, then
	// of rest.
	OnPages = ordered(func(r *stateRow) uint8 { return r.page })
)

// ordered returns all states, sorted by the number that the function place returns for a state.
func ordered(place func(*stateRow) uint8) (list [NumStates]State) {
	for s := range NumStates {
		list[place(&states[s])] = s
	}
	return list
}

func (s State) row() *stateRow {
	if s >= NumStates {
		s = Unknown
	}
	return &states[s]
}

// String returns the state's word, as in the JSON of dump and stat: "running", "waiting" …
func (s State) String() string { return s.row().name }

// Short returns a short word for narrow places.
func (s State) Short() string { return s.row().short }

// Letter returns the state's ASCII letter, for output that has no Unicode.
func (s State) Letter() byte { return s.row().letter }

// Glyph returns the character that shows the state in the timeline.
func (s State) Glyph() rune { return s.row().glyph }

// Color returns the state's colour as 0xRRGGBB. It is 0 if the colour depends on the background.
func (s State) Color() uint32 { return s.row().color }

// Datadog returns the state's name in Datadog's profiler. It is "" for Stalled.
func (s State) Datadog() string { return s.row().datadog }

// Meaning returns the sentence that explains the state.
func (s State) Meaning() string { return s.row().meaning }

// Held reports whether a thread in this state holds the GVL of its ractor.
func (s State) Held() bool { return s == Running || s == Stalled || s == GC }

// Released reports whether a thread in this state neither holds the GVL nor wants it.
func (s State) Released() bool { return s >= Native && s < NumStates }

// Idle reports whether a thread in this state has nothing to do. The wall-time flamegraph leaves out such threads by
// default.
func (s State) Idle() bool { return s == Parked || s == Sleeping }

// Works reports whether a thread in this state works, or wants to work but cannot. IO does not count, because a server
// that waits for a client is also in IO.
func (s State) Works() bool { return !s.Idle() && s != IO && s != Unknown }

// ParseState returns the state with the given word.
func ParseState(word string) (State, bool) {
	for s := range NumStates {
		if states[s].name == word {
			return s, true
		}
	}
	return Unknown, false
}

// WaitKind is why a Waiting thread cannot run Ruby yet.
type WaitKind uint8

// The kinds of waiting.
const (
	// WaitQueue means that the thread is in the ractor's queue for the GVL.
	WaitQueue WaitKind = iota
	// WaitHandover means that the thread is chosen as the next holder, but the operating system has not woken it yet.
	WaitHandover
	// WaitYield means that the thread is about to join the queue for the GVL. It has released the GVL at the end of its
	// time slice, or it is new.
	WaitYield
	// WaitCPUSlot means that the thread may run, but has no native thread to run on (with the M:N scheduler). Or it
	// waits until another ractor has collected garbage.
	WaitCPUSlot
	// NumWaitKinds is the number of kinds.
	NumWaitKinds
)

var waitKinds = [NumWaitKinds]string{WaitQueue: "queue", WaitHandover: "handover", WaitYield: "yield", WaitCPUSlot: "cpu_slot"}

// String returns the kind's word in JSON: "queue", "handover", "yield" or "cpu_slot".
func (k WaitKind) String() string {
	if k >= NumWaitKinds {
		return "unknown"
	}
	return waitKinds[k]
}
