package attach

// Candidate is a Ruby process of this machine, or what looks like one.
type Candidate struct {
	PID, PPID int
	// Version is Ruby's release; "" when the process can't be read.
	Version string
	// Threads is the number of native threads.
	Threads int
	User    string
	// Title is the program's name without its arguments, Arguments the whole command line, which may hold secrets.
	Title     string
	Arguments []string
	// Err says why the process can't be read; nil when it can.
	Err error
}
