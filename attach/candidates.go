package attach

import "time"

// Candidate is a process of this machine that is, or looks like, a Ruby process.
type Candidate struct {
	PID, PPID int
	// Version is Ruby's release; "" when the process can't be read.
	Version string
	// Threads is the number of native threads.
	Threads int
	// CPU is the CPU time that the process has used. Started is when it started. Both are exact to a clock tick
	// (10 ms). Started is zero if it is not known.
	CPU     time.Duration
	Started time.Time
	// ReadAt is when CPU was read. startTicks is the start time by the kernel's clock.
	ReadAt     time.Time
	startTicks uint64
	User       string
	// RSSBytes is the memory that it has resident. Zero means that the kernel did not say.
	RSSBytes int64
	// Part is the role of the process in a service, as its own title names it: "w0" for a worker, or MasterPart. It is
	// empty for most processes. Now is the part of the title that changes, "[3 of 5 busy]".
	Part, Now string
	// Title is the program's name without its arguments. Arguments is the whole command line, which may hold secrets.
	Title     string
	Arguments []string
	// Err says why the process can't be read; nil when it can.
	Err error
}
