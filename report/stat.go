package report

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// Stat is the JSON of `ddtop stat`. It says what happened in the process during the measured time, which is called the
// window.
type Stat struct {
	PID        int       `json:"pid"`
	StartNS    int64     `json:"start_monotonic_ns"`
	EndNS      int64     `json:"end_monotonic_ns"`
	DurationNS int64     `json:"duration_ns"`
	Rate       StatRates `json:"rate"`
	// Quality says on how many samples the figures are based, and for which figures there are too few.
	Quality StatQuality `json:"quality"`
	Samples uint64      `json:"samples"`
	Torn    uint64      `json:"torn"`
	Partial uint64      `json:"partial"`
	Failed  uint64      `json:"failed"`
	Retried uint64      `json:"retried"`
	Late    uint64      `json:"late"`
	// Lost is the number of samples that were dropped because the receiver or the disk was too slow
	// (sampler.Reads.Lost).
	Lost       uint64 `json:"lost"`
	NotSampled int64  `json:"not_sampled_ns"`
	// ExactNS is the part of the measured time in which ddtop recorded every change of the GVL, in ns. From the rest of
	// the time, ddtop has only samples.
	ExactNS int64 `json:"exact_ns"`
	// NamesLeftOut counts the frames, stacks, threads and peers whose names are missing, since ddtop attached. The
	// Dictionary holds the names, and had no room for them.
	NamesLeftOut uint64       `json:"names_left_out"`
	GVL          []StatGVL    `json:"gvl"`
	Threads      []StatThread `json:"threads"`
	GC           StatGC       `json:"gc"`
	Alloc        StatAlloc    `json:"alloc"`
	Process      StatProcess  `json:"process"`
	// Queues is nil if no queue was read.
	Queues *StatQueues `json:"queues"`
	// Capacity predicts the throughput with other numbers of threads. It is nil if the process has no pool of threads
	// that serve requests. Package gvl/measure sets it, and package gvl/account leaves it empty.
	Capacity *StatCapacity `json:"capacity"`
	Self     StatSelf      `json:"self"`
	Pauses   StatPauses    `json:"pauses"`
	// ThreadsGone is the number of threads that ended in the window. ThreadsOmitted is how many of them are missing in
	// Threads, because there were too many.
	ThreadsGone    int `json:"threads_gone"`
	ThreadsOmitted int `json:"threads_omitted"`
	// Findings are the findings that were active at some time in the window. Blame is the code that made other threads
	// wait for the GVL. LongestWaits are the longest single waits. Package gvl/measure sets these three fields and
	// Requests, and package gvl/account leaves them empty.
	Findings     []StatFinding `json:"findings"`
	Blame        StatBlame     `json:"blame"`
	LongestWaits []StatWait    `json:"longest_waits"`
	// NativeThreads are the native threads that run no Ruby thread, the busiest first. Examples are Ruby's timer
	// thread, and pools of threads in C libraries. If the process is alive, the caller sets NativeThreads, Exact and
	// Source.
	NativeThreads []StatNative `json:"native_threads"`
	// NativeWaits are the C functions in which blocked threads waited for a second or more. The longest waiting time
	// comes first. NativeReads is null if ddtop did not look for such waits.
	NativeWaits []StatNativeWait `json:"native_waits"`
	NativeReads *StatNativeReads `json:"native_reads"`
	// Requests are the requests and jobs for which threads worked.
	Requests StatRequests `json:"requests"`
	// Exact describes the run of exact mode, in which breakpoints in Ruby record each change of the GVL. It is null if
	// exact mode was not on, and for a recording.
	Exact *StatExact `json:"exact"`
	// Source says how ddtop found out what threads did. It is null for a recording.
	Source *StatSource `json:"source"`
}

// StatSource says how ddtop observed threads. Kind is the method at the end of the measurement. It is "switches" if the
// kernel reported when threads got and left a CPU, and what they did then. It is "moved" if the kernel reported only
// which threads got and left a CPU. Otherwise it is "polling".
type StatSource struct {
	Kind string `json:"kind"`
	// Why is the reason why ddtop did not follow thread switches all the time, although the user requested it. It is
	// empty if the user did not request it, or if ddtop followed them all the time.
	Why string `json:"why"`
	// Each record has one period of a thread on a CPU. Records is the number of records. Lost is the number of records
	// that were dropped because a buffer was full. FailedWords is the number of words of memory that could not be read.
	// KernelNS is how long the kernel took to make the records, in ns.
	Records     uint64 `json:"records"`
	Lost        uint64 `json:"lost"`
	FailedWords uint64 `json:"failed_words"`
	KernelNS    int64  `json:"kernel_ns"`
}

// StatExact describes a run of exact mode. The run covers about the same time as the window.
type StatExact struct {
	StartNS    int64 `json:"start_monotonic_ns"`
	EndNS      int64 `json:"end_monotonic_ns"`
	DurationNS int64 `json:"duration_ns"`
	// Ended is the reason why exact mode ended early. It is empty if it did not end early. Wrong is set if the records
	// cannot be trusted. Then no record is used.
	Ended string `json:"ended"`
	Wrong bool   `json:"wrong"`
	// Turns is the number of times that any thread got the GVL.
	Turns  uint64     `json:"turns"`
	Probes StatProbes `json:"probes"`
}

// StatProbes describes the work of exact mode's probes (breakpoints in Ruby), and their cost.
type StatProbes struct {
	// Hits is the number of times that a thread reached a probe. Records is the number of hits that made a record. Lost
	// is the number of records that were dropped because a buffer was full.
	Hits    uint64 `json:"hits"`
	Records uint64 `json:"records"`
	Lost    uint64 `json:"lost"`
	// CostNS is an estimate of how long the probes delayed threads, in ns. CPUNS is the CPU time of the process in the
	// same period, in ns. HitNS is the cost of a hit that makes no record, in ns.
	CostNS int64 `json:"cost_ns"`
	CPUNS  int64 `json:"process_cpu_ns"`
	HitNS  int64 `json:"hit_ns"`
	// Agreed counts the holds of the GVL for which samples and the probes' records name the same thread. Disagreed
	// counts all other holds in the samples.
	Agreed    uint64 `json:"agreed"`
	Disagreed uint64 `json:"disagreed"`
}

// StatRates holds the sampling rates in Hz.
type StatRates struct {
	Stack StatRate `json:"stack"`
	Lock  StatRate `json:"lock"`
}

// StatRate has two rates in Hz. Asked is the rate that the user requested, and Achieved is the rate that ddtop
// achieved. Every sample reads the locks, so the achieved rate for locks includes all samples.
type StatRate struct {
	Asked    float64 `json:"asked"`
	Achieved float64 `json:"achieved"`
}

// StatGVL describes the use of one ractor's GVL. HeldShare (0 to 1) is the share of the time in which a thread held the
// GVL. A thread holds it in the states running, stalled and gc. WaitingMean is the mean number of threads that waited
// for it, for any reason.
type StatGVL struct {
	Ractor      sampler.RactorID `json:"ractor"`
	HeldShare   float64          `json:"held_share"`
	WaitingMean float64          `json:"waiting_mean"`
	// UnheldNS is how long threads waited while no thread held the GVL, because the next holder had not woken up yet.
	UnheldNS int64     `json:"unheld_ns"`
	Waits    StatWaits `json:"waits"`
	enough
}

// StatStates holds time by state in ns.
type StatStates struct {
	Running  int64 `json:"running"`
	Stalled  int64 `json:"stalled"`
	GC       int64 `json:"gc"`
	Waiting  int64 `json:"waiting"`
	Native   int64 `json:"native"`
	IO       int64 `json:"io"`
	Lock     int64 `json:"lock"`
	Parked   int64 `json:"parked"`
	Sleeping int64 `json:"sleeping"`
	Unknown  int64 `json:"unknown"`
	enough
}

// StatesOf converts times by state to their form in JSON. The index in the array is the State.
func StatesOf(ns [gvl.NumStates]int64) StatStates {
	return StatStates{
		Running: ns[gvl.Running], Stalled: ns[gvl.Stalled], GC: ns[gvl.GC], Waiting: ns[gvl.Waiting], Native: ns[gvl.Native], IO: ns[gvl.IO],
		Lock: ns[gvl.Lock], Parked: ns[gvl.Parked], Sleeping: ns[gvl.Sleeping], Unknown: ns[gvl.Unknown],
	}
}

// Array returns the times in an array. The index is the State.
func (n *StatStates) Array() [gvl.NumStates]int64 {
	return [gvl.NumStates]int64{
		gvl.Running: n.Running, gvl.Stalled: n.Stalled, gvl.GC: n.GC, gvl.Waiting: n.Waiting, gvl.Native: n.Native, gvl.IO: n.IO,
		gvl.Lock: n.Lock, gvl.Parked: n.Parked, gvl.Sleeping: n.Sleeping, gvl.Unknown: n.Unknown,
	}
}

// Sum returns the time in all states.
func (n *StatStates) Sum() (ns int64) {
	for _, x := range n.Array() {
		ns += x
	}
	return ns
}

// StatThread describes one thread in the window. The sum of its times is the time in which ddtop saw the thread.
type StatThread struct {
	ID   sampler.ThreadID `json:"id"`
	TID  *int32           `json:"tid"`
	Name *string          `json:"name"`
	// FullName is the thread's name as it is displayed. It has a number if other threads have the same name.
	FullName string           `json:"-"`
	Main     bool             `json:"main"`
	Ractor   sampler.RactorID `json:"ractor"`
	NS       StatStates       `json:"ns"`
	// CPUNS is how long the native thread ran on a CPU. RunDelayNS is how long it could run but had no CPU. Both are in
	// ns and come from the kernel's counters. Both are nil if ddtop read the counters less than twice in the window.
	CPUNS      *int64    `json:"cpu_ns"`
	RunDelayNS *int64    `json:"run_delay_ns"`
	NoCPU      StatNoCPU `json:"no_cpu_ns"`
	Waits      StatWaits `json:"waits"`
	// Gone is set if the thread ended within the window.
	Gone bool `json:"gone"`
}

// StatNoCPU says how long the thread was ready but had no CPU, in ns, for each of three states. The kernel measures
// only the whole time (RunDelayNS). If the thread was in only one state between two readings, ddtop adds the growth of
// RunDelayNS to this state. All other time is left out, so each figure is a lower bound.
type StatNoCPU struct {
	Running int64 `json:"running"`
	GC      int64 `json:"gc"`
	Native  int64 `json:"native"`
	enough
}

// StatWaits describes waits for the GVL, from wanting the GVL to getting it. A wait that has not ended is included with
// its length so far. Quantiles come from a histogram with a resolution of 3 %. Bounds says which of the lengths are
// only bounds. AtLeast and AtMost say whether some of them are lower or upper bounds.
//
// ResolutionNS is the mean time between two samples, in ns. It is zero if ddtop recorded every change of the GVL. Waits
// much shorter than ResolutionNS may be missed, but sums of waiting time are right on average.
type StatWaits struct {
	Count        int64      `json:"count"`
	P50NS        int64      `json:"p50_ns"`
	P90NS        int64      `json:"p90_ns"`
	P99NS        int64      `json:"p99_ns"`
	MaxNS        int64      `json:"max_ns"`
	ResolutionNS int64      `json:"resolution_ns"`
	AtLeast      bool       `json:"at_least"`
	AtMost       bool       `json:"at_most"`
	InProgress   int64      `json:"in_progress"`
	Bounds       StatBounds `json:"bounds"`
	// These four fields split the waiting time by kind (gvl.WaitKind). Their sum is the whole waiting time. There are
	// four kinds of waits: in the queue, chosen but not yet awake, about to queue, and without a native thread or at a
	// GC barrier.
	QueueNS    int64 `json:"queue_ns"`
	HandoverNS int64 `json:"handover_ns"`
	YieldNS    int64 `json:"yield_ns"`
	CPUSlotNS  int64 `json:"cpu_slot_ns"`
	// RunDelayNS is the part of the waiting time in which the thread could run but had no CPU. The operating system
	// causes this part, and not the GVL.
	RunDelayNS int64 `json:"run_delay_ns"`
	// AfterNS splits the waiting time by the state of the thread just before it waited. If no sample saw this state,
	// the time is in Unknown. The figures add up to the waiting time.
	AfterNS StatStates `json:"after_ns"`
	enough
}

// StatBounds says for each length in StatWaits whether it is exact or only a bound.
type StatBounds struct {
	P50 gvl.Bound `json:"p50"`
	P90 gvl.Bound `json:"p90"`
	P99 gvl.Bound `json:"p99"`
	Max gvl.Bound `json:"max"`
}

// P50 returns the length that half of the waits did not exceed.
func (w *StatWaits) P50() gvl.Bounded { return gvl.Bounded{NS: w.P50NS, Bound: w.Bounds.P50} }

// P90 returns the length that 90 % of the waits did not exceed.
func (w *StatWaits) P90() gvl.Bounded { return gvl.Bounded{NS: w.P90NS, Bound: w.Bounds.P90} }

// P99 returns the length that 99 % of the waits did not exceed.
func (w *StatWaits) P99() gvl.Bounded { return gvl.Bounded{NS: w.P99NS, Bound: w.Bounds.P99} }

// Max returns the length of the longest wait.
func (w *StatWaits) Max() gvl.Bounded { return gvl.Bounded{NS: w.MaxNS, Bound: w.Bounds.Max} }

// StatGC describes the garbage collections in the window. NS is the time inside the collector, computed from samples.
// RubyNS is the same time as Ruby itself measures it, in CPU time of the process. RubyNS is 0 before Ruby 3.1.
type StatGC struct {
	Valid  bool   `json:"valid"`
	Count  uint64 `json:"count"`
	Minor  uint64 `json:"minor"`
	Major  uint64 `json:"major"`
	NS     int64  `json:"ns"`
	RubyNS uint64 `json:"ruby_ns"`
	// Allocated is the exact number of objects allocated in the window. It comes from Ruby's counter, which also counts
	// objects that compaction only moved. Moved is the number of these objects, and Allocated does not include them.
	Allocated          uint64  `json:"allocated"`
	AllocatedPerSecond float64 `json:"allocated_per_second"`
	Moved              uint64  `json:"moved"`
	// Share is NS divided by the length of the window (0 to 1). PhaseNS splits NS by the phase of the collector.
	Share   float64      `json:"share"`
	PhaseNS StatGCPhases `json:"phase_ns"`
	// The field By counts the collections of the window by the event that started them. MajorBy counts the major
	// collections by the reason why they were major.
	By      StatGCBy      `json:"by"`
	MajorBy StatGCMajorBy `json:"major_by"`
	// Triggers are the places in the code where collections began. Payers are the places where threads did the work of
	// collections. In both lists, the largest entry comes first. Each list has at most MaxStatGC entries.
	Triggers []StatGCTrigger `json:"triggers"`
	Payers   []StatGCPayer   `json:"payers"`
	// Figures are the figures of GC.stat at the end of the window. They are null if they could not be read.
	Figures *GCFigures `json:"figures"`
	enough
}

// StatProcess describes how much CPU time, memory and I/O the process used in the window, by the kernel's counters.
type StatProcess struct {
	// SpanNS is the time between the first and the last reading of the counters in the window. All counters describe
	// this time. SpanNS is zero if the window is too short for two readings.
	SpanNS int64 `json:"span_ns"`
	// UserNS and SystemNS are the two parts of CPUNS: CPU time in user mode and in the kernel.
	UserNS   int64 `json:"user_ns"`
	SystemNS int64 `json:"system_ns"`
	// Switches is the number of times that threads got a CPU in the time SwitchesSpanNS. ddtop reads this counter once
	// per second. SwitchesSpanNS is the time between the first and the last reading in the window. It is zero if the
	// window is too short. If a thread has ended, its switches after the last reading are missing.
	Switches       int64 `json:"context_switches"`
	SwitchesSpanNS int64 `json:"switches_span_ns"`
	// PSSBytes is the process's memory at the last reading. The size of shared memory is divided by the number of
	// processes that share it. The last reading is up to ten seconds before the end of the window, or half a minute if
	// fifty processes are read. PSSBytes is zero if it is not known.
	PSSBytes    int64 `json:"pss_bytes"`
	CPUNS       int64 `json:"cpu_ns"`
	ThrottledNS int64 `json:"throttled_ns"`
	RSSBytes    int64 `json:"rss_bytes"`
	MajorFaults int64 `json:"major_faults"`
	// SwapBytes is how much of the process's memory was swapped out at the end.
	SwapBytes int64        `json:"swap_bytes"`
	Pressure  StatPressure `json:"pressure"`
	// Stopped is set if a signal or a debugger had stopped the process at the end of the window. Frozen is set if its
	// cgroup was frozen at that time.
	Stopped bool `json:"stopped"`
	Frozen  bool `json:"frozen"`
	// StoppedNS is how long the process was stopped in the window, and FrozenNS how long it was frozen.
	StoppedNS int64 `json:"stopped_ns"`
	FrozenNS  int64 `json:"frozen_ns"`
}

// StatPressure says how long tasks with work to do stood still in the window, because they lacked a CPU, memory or I/O.
// SomeNS is the time in which at least one such task stood still. FullNS is the time in which all such tasks stood
// still. Source is a word of sampler.PressureSource. It says whether the tasks are in the process's cgroup or on the
// whole machine.
type StatPressure struct {
	Source       string `json:"source"`
	CPUSomeNS    int64  `json:"cpu_some_ns"`
	MemorySomeNS int64  `json:"memory_some_ns"`
	MemoryFullNS int64  `json:"memory_full_ns"`
	IOSomeNS     int64  `json:"io_some_ns"`
	IOFullNS     int64  `json:"io_full_ns"`
	// Unread is set if ddtop read the pressure less than twice in the window.
	Unread bool `json:"-"`
}

// StatSelf is what ddtop itself cost in the window.
type StatSelf struct {
	// CPUNS is ddtop's CPU time in SpanNS. SpanNS is the time between the first and the last reading of this CPU time
	// in the window. If there are no two readings, CPUNS is nil and SpanNS is zero. This happens for a core file, and
	// if the window is too short.
	CPUNS       *int64 `json:"cpu_ns"`
	SpanNS      int64  `json:"span_ns"`
	MaxRSSBytes int64  `json:"max_rss_bytes"`
	// Priority is the last priority of ddtop's sampling thread, a word of sampler.Priority. PriorityNote is a sentence.
	// It says what this priority means for the figures, or why it is not higher. It is empty if there is nothing to
	// say.
	Priority     string `json:"priority"`
	PriorityNote string `json:"priority_note"`
	// Overhead is the largest share of one CPU that ddtop was allowed to use. It is nil if there was no limit or if the
	// limit is not known. Halved is set if ddtop was allowed only half of Overhead at the end, because no CPU was free.
	// Lowered is set if the limit made the rates lower than requested at some time.
	Overhead *float64 `json:"overhead"`
	Halved   bool     `json:"halved"`
	Lowered  bool     `json:"lowered"`
	// OverheadMost is a second limit, also a share of one CPU. ddtop was allowed to use it if the minimum number of
	// samples needed more than Overhead. It is nil if Overhead was a fixed limit, or if it is not known. Extended is
	// set if ddtop was allowed more than Overhead at the end because of this minimum.
	OverheadMost *float64 `json:"overhead_most"`
	Extended     bool     `json:"extended"`
}

// Known returns a sentence that says how precise the lengths of the waits are.
func (w *StatWaits) Known() string {
	if w.ResolutionNS == 0 {
		return "every change of the GVL was seen: all waits are there, to the microsecond"
	}
	text := "samples are " + units.ProseDuration(w.ResolutionNS) + " apart; shorter waits can be missed"
	if w.AtMost {
		text += "; ≤ stands before a length that may be several waits"
	}
	return text
}
