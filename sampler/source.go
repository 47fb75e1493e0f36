package sampler

import (
	"context"
	"errors"
	"time"
)

// ErrEnded is returned by Source.Run when the target has exited or the recording has ended. Source.End says how.
var ErrEnded = errors.New("the target has ended")

// ErrGaveWay is returned by Source.Run when the Group samples another process instead of this one. The caller must
// then call Group.Done. After that a new Source may sample the process again.
var ErrGaveWay = errors.New("its place was given to another process")

// Era is the generation of the target's scheduler (docs/internals/threads.md#the-gvl-and-its-queue). It decides which
// facts ddtop can know about a thread.
type Era uint8

const (
	// EraFlag is 2.5: a flag and a count, no list of waiters.
	EraFlag Era = iota
	// EraOwner is 2.6 to 3.2: an owner pointer and a queue.
	EraOwner
	// EraSched is 3.3 and later: the releasing thread hands the GVL over before the next one wakes up.
	EraSched
)

// Process describes a target. It does not change while it is sampled.
type Process struct {
	PID int
	// Parent is the PID of the process's parent when it was attached to. It is zero if not known.
	Parent int `json:",omitempty"`
	// StartTicks is the process's start in clock ticks since boot (/proc/PID/stat field 22). Together with PID it
	// identifies a process even if the PID is reused.
	StartTicks uint64
	// StartedAt is the process's start as wall-clock time.
	StartedAt time.Time
	// Title is the program's name without its arguments, which can hold secrets.
	Title string
	// Part is the role that the process had in a service when ddtop attached to it. It is "w0" for the worker with the
	// number 0, "master" for a process with workers below it, and "" for most processes.
	Part string `json:",omitempty"`
	// CommandLine is the whole command line. It is empty when redacted.
	CommandLine []string
	User        string
	Host        string
	// RubyVersion is like "3.4.11", RubyDescription what ruby -v says, JIT "yjit", "zjit", "rjit", "mjit" or "".
	RubyVersion, RubyDescription, JIT string
	Era                               Era
	// Machine is the target's ELF machine: "x86_64" or "aarch64".
	Machine string
	// Layout names the table of struct offsets in use. LayoutNote is a note for the user if the table is not made for
	// exactly this release. Otherwise it is empty.
	Layout, LayoutNote string
	// CPUs is the number of CPUs the target may use.
	CPUs int
	// StackRate and LockRate are the rates asked for, in Hz.
	StackRate, LockRate float64
	// Overhead is the share of one CPU that ddtop may take. It lowers its rates to stay below. Zero means no limit.
	Overhead float64 `json:",omitempty"`
	// OverheadMost is the share of a CPU that ddtop may take if Overhead is not enough for the least quality of
	// figures (LeastQualities). Zero means that Overhead is the limit whatever the quality.
	OverheadMost float64 `json:",omitempty"`
	// Pauses is true if all threads are stopped while stacks are read.
	Pauses bool
	// AttachedAt and AttachedNS are the time of the attach by the wall clock, and by CLOCK_MONOTONIC in ns. Together
	// they convert a Sample's TimeNS into wall-clock time.
	AttachedAt time.Time
	AttachedNS int64
	// PriorityNote says what priority the sampling thread got, if it is not the wanted one.
	PriorityNote string
}

// Name returns what people call the process: its title with its part in the service, "puma w0".
func (p Process) Name() string {
	if p.Part == "" {
		return p.Title
	}
	return p.Title + " " + p.Part
}

// Family is the part that a process has in a service at one moment, such as a worker's. It comes from the process's
// title and from the processes below it.
type Family struct {
	// Part is as in Process. Now is what the title of the process says of its work at this moment: "[3 of 5 busy]".
	Part, Now string
	// Below is how many descendants of the process run the same program.
	Below int
}

// WallTime turns CLOCK_MONOTONIC ns of a Sample into wall-clock time.
func (p Process) WallTime(ns int64) time.Time {
	return p.AttachedAt.Add(time.Duration(ns - p.AttachedNS))
}

// End says how a target ended.
type End struct {
	// AtNS is when the target ended, CLOCK_MONOTONIC in ns.
	AtNS int64
	// Reason is a sentence for the user: "exited", "replaced itself by another program (exec)".
	Reason string
	// ExitKnown is true if ExitCode is known. ExitCode is from the kernel, and 128+n for an end by signal n.
	ExitKnown bool
	ExitCode  int
}

// Source produces Samples: a live process, or a recording.
type Source interface {
	// Process returns the description of the target.
	Process() Process
	// Dictionary returns the Dictionary of the IDs in the samples. It grows while Run runs.
	Dictionary() *Dictionary
	// Run delivers samples to emit, in order of time. It returns nil when ctx ends, and ErrEnded when the target or
	// the recording ends. It returns ErrGaveWay when the Group samples another process instead, and another error when
	// nothing can be read. emit must not keep the Sample (see Sample.Clone) and should return within a fraction of a
	// tick.
	Run(ctx context.Context, emit func(*Sample)) error
	// End says how the target ended. ok is false while it lives.
	End() (end End, ok bool)
}

const (
	// MoreShare is the share of one CPU that a user may let ddtop take for a short time, instead of the usual limit.
	// On most processes it is enough for the rates asked for.
	MoreShare = 0.25
	// MoreExactCost is the share of the target's CPU time that exact mode may cost while ddtop takes MoreShare.
	MoreExactCost = 0.15
	// MoreTime is how long ddtop may take MoreShare.
	MoreTime = 30 * time.Second
)

// A Spender is a Source that can take more of a CPU for a time.
type Spender interface {
	// TakeMore lets ddtop take MoreShare of one CPU for the time d from now on. Meanwhile exact mode may cost the
	// target MoreExactCost. After that the usual limits apply again. Zero ends the extra time at once. All Sources of
	// a Group share the limit of the CPU.
	TakeMore(d time.Duration)
}
