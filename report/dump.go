package report

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// Dump is the JSON of `ddtop dump`, a thread dump.
type Dump struct {
	PID   int      `json:"pid"`
	Title string   `json:"title"`
	Ruby  DumpRuby `json:"ruby"`
	// Time is the sample's wall-clock time, RFC 3339 with nanoseconds. MonotonicNS is the same time by CLOCK_MONOTONIC.
	Time        string `json:"time"`
	MonotonicNS int64  `json:"monotonic_ns"`
	// ReadNS is how long it took to read the threads. A thread's state can be from any moment within this time. So Time
	// is uncertain by ReadNS.
	ReadNS int64 `json:"read_ns"`
	// PauseNS is how long ddtop stopped the target for the dump. It is zero if the target was not stopped.
	PauseNS int64 `json:"pause_ns"`
	// Stopped is set if a signal or a debugger had stopped the process. Frozen is set if its cgroup was frozen.
	Stopped bool         `json:"stopped"`
	Frozen  bool         `json:"frozen"`
	Ractors []DumpRactor `json:"ractors"`
	// Deadlocks are cycles of threads, in which each thread waits for the next one.
	Deadlocks []DumpDeadlock `json:"deadlocks"`
	// Locks are the objects that threads wait for, such as Mutexes, Monitors, Queues and joined threads.
	Locks   []DumpLock   `json:"locks"`
	Threads []DumpThread `json:"threads"`
	// NativeThreads are the process's native threads that are not threads of Ruby, with their CPU time since they
	// started. Samples do not contain them, so the caller sets this field.
	NativeThreads []DumpNativeThread `json:"native_threads"`
	// NativeLocks are locks in C code for which threads wait. It is null if ddtop did not look for such locks.
	NativeLocks []DumpNativeLock `json:"native_locks"`
	// NativeMissing says why no thread has a native stack. It is null if ddtop read native stacks. It is also null if
	// ddtop did not try to read them, as for a recording.
	NativeMissing *string `json:"native_missing"`
	// SuspendedFibers counts the suspended fibers. It is null if ddtop did not look for such fibers, for example in a
	// recording.
	SuspendedFibers *DumpSuspended `json:"suspended_fibers"`
	// MeasuredNS is how long ddtop measured the process before it made the dump, in ns. It is zero if ddtop did not
	// measure. Findings has the problems that were found in this time.
	MeasuredNS int64         `json:"measured_ns"`
	Findings   []StatFinding `json:"findings"`
	GC         DumpGC        `json:"gc"`
	// Alloc has the objects that were allocated in the last MeasuredNS before the dump, by class.
	Alloc StatAlloc `json:"alloc"`
	Reads DumpReads `json:"reads"`
}

// DumpRuby describes the target's Ruby. JIT is null if Ruby runs without a JIT.
type DumpRuby struct {
	Version     string  `json:"version"`
	Description string  `json:"description"`
	JIT         *string `json:"jit"`
}

// DumpRactor is one ractor and its GVL.
type DumpRactor struct {
	ID  sampler.RactorID `json:"id"`
	GVL DumpGVL          `json:"gvl"`
}

// DumpGVL is the holder of a GVL and the threads that wait for it.
type DumpGVL struct {
	Owner *sampler.ThreadID `json:"owner"`
	// Handover is the thread that will get the GVL next. Ruby has chosen the thread, but the thread does not run yet.
	Handover *sampler.ThreadID `json:"handover"`
	// Waiting are the waiting threads, the one with the longest wait first.
	Waiting []sampler.ThreadID `json:"waiting"`
	// WaitingCount is the number of waiting threads. In Ruby 2.5, only the number of waiting threads is known, and
	// Waiting is not.
	WaitingCount int  `json:"waiting_count"`
	Torn         bool `json:"torn"`
}

// DumpThread describes one thread of the process.
type DumpThread struct {
	ID     sampler.ThreadID `json:"id"`
	TID    *int32           `json:"tid"`
	Name   *string          `json:"name"`
	Main   bool             `json:"main"`
	Ractor sampler.RactorID `json:"ractor"`
	// Status is Ruby's word for what the thread does, such as "sleep". State is ddtop's word, which is more exact. The
	// keys of Detail depend on State (docs/reference/states.md).
	Status string         `json:"status"`
	State  string         `json:"state"`
	Detail map[string]any `json:"detail"`
	// Serving is the request or job for which the thread works. It is null if there is none, or if it is not known.
	Serving *StatServing `json:"serving"`
	// StateNS is how long the thread has been in its state, in ns. StateBound says whether StateNS is only a lower or
	// an upper bound. There are two reasons for a bound. The thread may have left the state and come back between two
	// samples, or it was already in the state when ddtop first saw it.
	StateNS    int64     `json:"state_ns"`
	StateBound gvl.Bound `json:"state_bound"`
	// CPUNS is the native thread's CPU time since it started. It is null if it was not read.
	CPUNS *int64 `json:"cpu_ns"`
	// Native has the C functions that the innermost frame of Frames has called. It is null if the thread was running,
	// or has no native thread.
	Native *DumpNative `json:"native"`
	// Frames are the frames of the running fiber, innermost first. Fibers are the fibers that resumed the running
	// fiber, directly or through other fibers. The fiber that resumed it directly comes first.
	Frames []DumpFrame `json:"frames"`
	Fibers []DumpFiber `json:"fibers"`
	// Suspended are the thread's other fibers, in groups with the same stack. The largest group comes first. It is
	// empty if ddtop did not look for such fibers.
	Suspended []DumpSuspendedFibers `json:"suspended_fibers"`
	// Truncated is set if the stack was deeper than the limit. Then Omitted is the number of frames that are missing in
	// the middle of the stack.
	Truncated bool   `json:"truncated"`
	Omitted   uint32 `json:"omitted"`
	// Partial is set if the stack changed while it was read, so that its innermost frames are missing. Failed is set if
	// no stack could be read. Stale is set if the frames come from an earlier sample.
	Partial bool `json:"partial"`
	Failed  bool `json:"failed"`
	Stale   bool `json:"stale"`
}

// DumpFiber is the stack of a fiber that waits because it has resumed another fiber.
type DumpFiber struct {
	Frames []DumpFrame `json:"frames"`
}

// DumpFrame is one line of a backtrace. Path and AbsolutePath are null if Ruby has nil for them.
type DumpFrame struct {
	Label        string  `json:"label"`
	Name         string  `json:"name"`
	Path         *string `json:"path"`
	AbsolutePath *string `json:"absolute_path"`
	Line         int32   `json:"line"`
	C            bool    `json:"c"`
	Uncertain    bool    `json:"uncertain"`
	// Origin says where the frame's code comes from: app, gem, stdlib, core, eval or unknown. If the code comes from a
	// gem, Gem is the gem's name and version.
	Origin string  `json:"origin"`
	Gem    *string `json:"gem"`

	// Own is set if the frame's code belongs to the program itself. Otherwise, Library is the name of the library with
	// this code.
	Own     bool   `json:"-"`
	Library string `json:"-"`
}

// DumpReads counts, since ddtop attached, how many reads of the target's memory failed or had to be repeated.
type DumpReads struct {
	Torn    uint64 `json:"torn"`
	Partial uint64 `json:"partial"`
	Failed  uint64 `json:"failed"`
	Retried uint64 `json:"retried"`
	// Pauses is the number of times that ddtop stopped the target for a sample (--pause). PausesCut is the number of
	// these samples that still do not show all threads at one instant.
	Pauses    uint64 `json:"pauses"`
	PausesCut uint64 `json:"pauses_cut"`
}

// DumpDeadlock is a cycle of threads. Each thread waits for the next one, and the last one waits for the first one.
type DumpDeadlock struct {
	Threads []sampler.ThreadID `json:"threads"`
	// Waits has, for each of Threads in the same order, the object that the thread waits for.
	Waits []DumpWait `json:"waits"`
}

// DumpWait is one link of a deadlock.
type DumpWait struct {
	Thread sampler.ThreadID `json:"thread"`
	// Kind is the class of the object for which the thread waits ("Mutex", "Monitor", "Thread"). Object is the address
	// of the object. It is null if the thread waits for the end of another thread.
	Kind   string  `json:"kind"`
	Object *string `json:"object"`
	// HeldBy is the thread that holds the lock Object. If the thread waits for the end of another thread, HeldBy is
	// that other thread.
	HeldBy sampler.ThreadID `json:"held_by"`
}

// DumpLock is an object for which threads wait (account.Contended).
type DumpLock struct {
	Kind   *string `json:"kind"`
	Object *string `json:"object"`
	// Exclusive is set if only one thread at a time can hold the object, such as a Mutex or a Monitor. Then the waiting
	// threads wait for its holder.
	Exclusive bool `json:"exclusive"`
	// Holder is the thread that holds the lock. If threads wait for the end of a thread, Holder is that thread.
	// HolderState and HolderFrame are the state and the innermost frame of Holder.
	Holder      *sampler.ThreadID `json:"holder"`
	HolderState *string           `json:"holder_state"`
	HolderFrame *DumpFrame        `json:"holder_frame"`
	// Waiting are the waiting threads, the one with the longest wait first. LongestNS is the length of the longest
	// wait, in ns. LongestBound says whether LongestNS is only a bound. LongestNS is null if it is not known, because
	// each of the threads may have had the lock between two samples.
	Waiting      []sampler.ThreadID `json:"waiting"`
	LongestNS    *int64             `json:"longest_ns"`
	LongestBound gvl.Bound          `json:"longest_bound"`
	// Timed is how many of the waiting threads wait only until a deadline.
	Timed int `json:"timed"`
}

// DumpSuspended counts the suspended fibers of the process. A fiber is suspended if it does not run, and does not wait
// for a fiber that it has resumed.
type DumpSuspended struct {
	// Count is the number of all suspended fibers. Created is how many of them were never resumed.
	Count   int `json:"count"`
	Created int `json:"created"`
	// Requests is how many suspended fibers work for a request or a job.
	Requests int `json:"requests"`
	// Cut is set if there may be more suspended fibers, because ddtop did not read all. ReadNS is how long the search
	// took. The fibers were read at different moments within this time.
	Cut    bool  `json:"cut"`
	ReadNS int64 `json:"read_ns"`
}

// DumpSuspendedFibers is a group of a thread's suspended fibers that have the same stack. Created is set if they were
// never resumed. Frames is empty if Created is set, or if the stack could not be read.
type DumpSuspendedFibers struct {
	Count   int         `json:"count"`
	Created bool        `json:"created"`
	Frames  []DumpFrame `json:"frames"`
	// Serving has the requests and jobs for which these fibers work. The list may be incomplete, because the total
	// length of the lists of all groups is limited.
	Serving []StatServing `json:"serving"`
}

// DumpGC is the state of the garbage collector. Valid is false if ddtop cannot read it, for example if the collector is
// not Ruby's own.
type DumpGC struct {
	Valid bool `json:"valid"`
	// During is set if a thread was inside the collector when ddtop read its state. Phase is idle, mark, sweep or
	// compact. The collector marks and sweeps in steps. Between two steps, Phase is still mark or sweep, but During is
	// not set.
	During bool   `json:"during"`
	Phase  string `json:"phase"`
	// Count is the number of collections since the process started. Minor and Major are the numbers of minor and major
	// collections.
	Count uint64 `json:"count"`
	Minor uint64 `json:"minor"`
	Major uint64 `json:"major"`
	// Kind (minor, major), By and MajorBy describe the present collection or the last one, in the words of
	// GC.latest_gc_info. They are null before the first collection. MajorBy is null for a minor collection.
	Kind    *string `json:"kind"`
	By      *string `json:"by"`
	MajorBy *string `json:"major_by"`
	// RubyNS is the total time of all collections, in CPU time of the process. Ruby itself measures it. It is zero
	// before Ruby 3.1.
	RubyNS uint64 `json:"ruby_ns"`
	// Allocated is the number of objects allocated since the process started.
	Allocated uint64 `json:"allocated"`
	// Figures are the figures of GC.stat.
	Figures *GCFigures `json:"figures"`

	// Reason has the same bits as sampler.GC.Reason.
	Reason uint32 `json:"-"`
}
