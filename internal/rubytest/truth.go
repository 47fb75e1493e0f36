package rubytest

import (
	_ "embed" // embeds the programs
	"testing"
)

// These are Ruby programs. Each runs on Ruby 2.5 and later, prints JSON lines on standard output, and ends when its
// standard input is closed.
var (
	// parked is a program whose threads are parked in every shape of stack. StartParked starts it.
	//go:embed programs/parked.rb
	parked string
	//go:embed programs/parked_more.rb
	parkedMore string
	// states is a program with a thread in each state. StartStates starts it.
	//go:embed programs/states.rb
	states string
	// ractors is a program with threads in three ractors. StartRactors starts it.
	//go:embed programs/ractors.rb
	ractors string
)

// Truth is what Ruby, inside the started program, reports about its own threads. Tests compare ddtop's results with it.
type Truth struct {
	// Ruby is RUBY_VERSION. Description is RUBY_DESCRIPTION.
	Ruby, Description string
	PID               int
	// Threads are all threads except the thread ReporterName, which writes this report.
	Threads []TruthThread
}

// ReporterName is the name of the thread that writes the Truth. The Truth has all threads except this one.
const ReporterName = "reporter"

// Thread returns the thread of that name.
func (tr *Truth) Thread(name string) (TruthThread, bool) {
	for _, t := range tr.Threads {
		if t.Name == name {
			return t, true
		}
	}
	return TruthThread{}, false
}

// TruthThread is one thread as Ruby describes it.
type TruthThread struct {
	// Name is Thread#name. Every thread has a name, and all names differ.
	Name string
	// TID is the native thread id, from Ruby (3.1 and later) or from the thread's own call of gettid. It is 0 if
	// neither is known. This can happen before 3.1, for a thread that the standard library started.
	TID  int32
	Main bool
	// Ractor is the ractor's own number (1 is the main one) in the report of StartRactors. In other reports it is 0,
	// because all threads belong to the main ractor.
	Ractor int
	// Status is the status in the text of Thread#inspect: run, sleep, sleep_forever, dead.
	Status string
	// Frames are Thread#backtrace_locations, innermost first.
	Frames []TruthFrame
	// Fibers are the fibers that are suspended because they have resumed another fiber. The first has resumed the
	// running fiber, the next has resumed the first, and so on. Each has its Fiber#backtrace_locations. Ruby reports
	// them from 3.0 on, and only for the threads "fiber" and "nested fibers". For all other threads, Fibers is empty.
	Fibers []struct{ Frames []TruthFrame }
}

// TruthFrame is one Thread::Backtrace::Location. Path and AbsolutePath are nil if they are nil in Ruby.
type TruthFrame struct {
	Path         *string
	AbsolutePath *string `json:"absolute_path"`
	Line         int32
	Label        string
	BaseLabel    string `json:"base_label"`
}

// StartParked starts a program with 250 or so named threads, which are parked in stacks of every kind that Ruby makes.
// When all are parked, it returns the program and what Ruby reports about the threads. They stay parked until the
// program reads a line (see Retell).
func (r Ruby) StartParked(t testing.TB, o Options) (*Process, Truth) {
	t.Helper()
	o.Name = "parked.rb"
	o.files = map[string]string{"parked_more.rb": parkedMore}
	p := r.Start(t, parked, o)
	var truth Truth
	p.JSON(t, &truth)
	return p, truth
}

// StartRactors starts a program with three threads in each of three ractors, all parked. It returns the program and
// what Ruby reports about the threads. The test is skipped on releases before 3.0, which have no ractors.
func (r Ruby) StartRactors(t testing.TB, o Options) (*Process, Truth) {
	t.Helper()
	if !r.AtLeast(3, 0) {
		recordAtEnd(t, r)
		Skip(t, "Ruby %s has no ractors", r.Version)
	}
	o.Name = "ractors.rb"
	p := r.Start(t, ractors, o)
	var truth Truth
	for range 3 {
		var part Truth
		p.JSON(t, &part)
		part.Threads = append(truth.Threads, part.Threads...)
		truth = part
	}
	return p, truth
}

// Retell sends a command to a parked program, and returns what Ruby reports about the threads afterwards. The command
// is "gc" for a full collection, "compact" for a collection that moves objects, or "truth" to do nothing.
func (p *Process) Retell(t testing.TB, command string) Truth {
	t.Helper()
	p.Send(t, command)
	var truth Truth
	p.JSON(t, &truth)
	return truth
}
