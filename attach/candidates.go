package attach

import "time"

// Candidate is a process of this machine that is, or looks like, a Ruby process.
type Candidate struct {
	PID, PPID int
	// Version is Ruby's release. It is empty if the process cannot be read.
	Version string
	// Threads is the number of native threads.
	Threads int
	// CPU is the CPU time that the process has used. Started is the time at which it started. Both are exact to a clock
	// tick (10 ms). Started is zero if it is not known.
	CPU     time.Duration
	Started time.Time
	// ReadAt is the time at which the field CPU was read. startTicks is the start time of the process in clock ticks
	// since boot.
	ReadAt     time.Time
	startTicks uint64
	User       string
	// RSSBytes is the resident memory of the process in bytes. Zero means that the kernel did not report it.
	RSSBytes int64
	// Part is the role of the process in a service. The process names the role in its title: "w0" for a worker, or
	// MasterPart. Part is empty for most processes. Now is the part of the title that changes, such as "[3 of 5 busy]".
	Part, Now string
	// Title is the program's name without its arguments. Arguments is the whole command line, which may hold secrets.
	Title     string
	Arguments []string
	// Err says why the process cannot be read. It is nil if the process can be read.
	Err error
}
