package sampler

import (
	"context"
	"errors"
	"time"
)

// ErrEnded is returned by Source.Run when the target has exited or the recording is at its end. Source.End says how the
// target ended.
var ErrEnded = errors.New("the target has ended")

// ErrGaveWay is returned by Source.Run when the Group stops sampling this process, because another process gets its
// place. The caller must then call Group.Done. After that a new Source may sample the process again.
var ErrGaveWay = errors.New("its place was given to another process")

// Era is the kind of scheduler that the target's Ruby release has (docs/internals/threads.md#the-gvl-and-its-queue). It
// decides which facts ddtop can know about a thread.
type Era uint8

const (
	// EraFlag is Ruby 2.5. Its GVL consists of a flag and the number of the waiting threads. Ruby has no list of these
	// threads.
	EraFlag Era = iota
	// EraOwner is Ruby 2.6 to 3.2. Its GVL is a pointer to the owner and a queue of the waiting threads.
	EraOwner
	// EraSched is Ruby 3.3 and later. A thread that releases the GVL makes the next thread the owner at once, before
	// the next thread wakes up.
	EraSched
)

// Process describes a target. The description does not change while ddtop samples the target.
type Process struct {
	PID int
	// Parent is the PID of the process's parent at the time when ddtop attached to the process. It is zero if it is not
	// known.
	Parent int `json:",omitempty"`
	// StartTicks is when the process started, in clock ticks since boot (/proc/PID/stat field 22). The system can give
	// the PID to another process later. PID and StartTicks together always identify the same process.
	StartTicks uint64
	// StartedAt is the process's start as wall-clock time.
	StartedAt time.Time
	// Title is the program's name without its arguments, which can hold secrets.
	Title string
	// Part is the role that the process had in a service when ddtop attached to it. It is "w0" for the worker with the
	// number 0, "master" for a process that has workers as descendants, and "" for most processes.
	Part string `json:",omitempty"`
	// CommandLine is the whole command line. It is empty if the user asked ddtop to hide such values.
	CommandLine []string
	User        string
	Host        string
	// RubyVersion is like "3.4.11". RubyDescription is what ruby -v prints. JIT is "yjit", "zjit", "rjit", "mjit" or
	// "".
	RubyVersion, RubyDescription, JIT string
	Era                               Era
	// Machine is the target's ELF machine: "x86_64" or "aarch64".
	Machine string
	// Layout names the table of struct offsets with which ddtop reads Ruby's memory. LayoutNote is a note for the user
	// if the table is not made for exactly this release. Otherwise it is empty.
	Layout, LayoutNote string
	// CPUs is the number of CPUs the target may use.
	CPUs int
	// StackRate and LockRate are the rates that the user asked for, in Hz.
	StackRate, LockRate float64
	// Overhead is the share of one CPU that ddtop may take. ddtop lowers its rates of sampling to stay below this
	// share. Zero means no limit.
	Overhead float64 `json:",omitempty"`
	// OverheadMost is a higher limit for the share of a CPU that ddtop may take. It applies instead of Overhead if
	// Overhead is too low for the least quality of figures (LeastQualities). If OverheadMost is zero, Overhead is
	// always the limit.
	OverheadMost float64 `json:",omitempty"`
	// Pauses is true if ddtop stops all threads of the target while it reads stacks.
	Pauses bool
	// AttachedAt and AttachedNS are when ddtop attached to the process: the first by the wall clock, the second by
	// CLOCK_MONOTONIC in ns. WallTime uses both to convert a Sample's TimeNS into wall-clock time.
	AttachedAt time.Time
	AttachedNS int64
	// PriorityNote says what priority the sampling thread has, if the system did not allow the priority that ddtop
	// wanted. Otherwise it is empty.
	PriorityNote string
}

// Name returns a short name of the process for the user: its title and its part in the service, "puma w0".
func (p Process) Name() string {
	if p.Part == "" {
		return p.Title
	}
	return p.Title + " " + p.Part
}

// Family describes the role of a process in a service at one moment, such as the role of a worker. It comes from the
// process's title and from its descendants.
type Family struct {
	// Part is the same as Process.Part. Now is the text in the process's title about what the process does at this
	// moment, such as "[3 of 5 busy]".
	Part, Now string
	// Below is how many descendants of the process run the same program.
	Below int
}

// WallTime converts the time of a Sample, CLOCK_MONOTONIC in ns, into wall-clock time.
func (p Process) WallTime(ns int64) time.Time {
	return p.AttachedAt.Add(time.Duration(ns - p.AttachedNS))
}

// End says how a target ended.
type End struct {
	// AtNS is when the target ended, CLOCK_MONOTONIC in ns.
	AtNS int64
	// Reason says to the user how the target ended: "exited", "replaced itself by another program (exec)".
	Reason string
	// ExitKnown is true if ExitCode is known, because the kernel reported it. ExitCode is 128+n if signal n ended the
	// process.
	ExitKnown bool
	ExitCode  int
}

// Source produces Samples. It is a live process or a recording.
type Source interface {
	// Process returns the description of the target.
	Process() Process
	// Dictionary returns the Dictionary to which the IDs in the samples refer. It grows while Run runs.
	Dictionary() *Dictionary
	// Run calls emit with each sample, in order of time. It returns nil when ctx ends, and ErrEnded when the target or
	// the recording ends. It returns ErrGaveWay when the Group samples another process instead. It returns another
	// error when nothing can be read. emit must not keep the Sample (see Sample.Clone) and should return within a
	// fraction of a tick.
	Run(ctx context.Context, emit func(*Sample)) error
	// End says how the target ended. ok is false while the target lives.
	End() (end End, ok bool)
}

const (
	// MoreShare is the share of one CPU that ddtop may take while the user allows it more than the usual limit. For
	// most processes this share is enough to reach the rates of sampling that the user asked for.
	MoreShare = 0.25
	// MoreExactCost is the share of the target's CPU time that exact mode may cost while the user lets ddtop take
	// MoreShare.
	MoreExactCost = 0.15
	// MoreTime is how long ddtop may take MoreShare, after the user has allowed it.
	MoreTime = 30 * time.Second
)

// A Spender is a Source that can take more of a CPU for a limited time.
type Spender interface {
	// TakeMore lets ddtop take MoreShare of one CPU for the time d from now on. During this time exact mode may cost
	// the target MoreExactCost. After it, or at once if d is zero, the usual limits apply again. All Sources of a Group
	// share the limit of CPU time.
	TakeMore(d time.Duration)
}
