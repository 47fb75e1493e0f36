package report

import (
	"github.com/ddtop/ddtop/gvl"
)

// StatLine is a line of `ddtop stat --interval`. It says what happened in one interval.
type StatLine struct {
	PID        int    `json:"pid"`
	StartNS    int64  `json:"start_monotonic_ns"`
	EndNS      int64  `json:"end_monotonic_ns"`
	DurationNS int64  `json:"duration_ns"`
	Samples    uint64 `json:"samples"`
	// Threads is the number of threads in the last sample of the interval.
	Threads int `json:"threads"`
	// NS is the time of all threads by state, in ns. HeldShare is the time in which GVLs were held, divided by
	// DurationNS. Each ractor has its own GVL, and HeldShare is the sum for all ractors. So it can be above 1.
	// WaitingMean is the mean number of threads that waited for a GVL.
	NS          StatStates `json:"ns"`
	HeldShare   OrNull     `json:"held_share"`
	WaitingMean OrNull     `json:"waiting_mean"`
	Waits       LineWaits  `json:"waits"`
	GC          LineGC     `json:"gc"`
	// Allocated is the number of objects allocated in the interval.
	Allocated *uint64 `json:"allocated"`
	// CPUShare is the CPU time of the process divided by the elapsed time, so 1 means one whole CPU. It is null if
	// ddtop did not read the CPU time twice.
	CPUShare *float64 `json:"cpu_share"`
	// RSSBytes is the resident memory of the process. It is zero if it is not known.
	RSSBytes int64 `json:"rss_bytes"`
	// Backlog is the number of connections and requests that waited for a thread of the process at the end of the
	// interval. It is null if this number is not known.
	Backlog *int64 `json:"backlog"`
	// ExactNS is the part of the interval in which ddtop recorded every change of the GVL, in ns. From the rest of the
	// interval, ddtop has only samples.
	ExactNS int64 `json:"exact_ns"`
	// Lacks has the reasons why figures of this line are null. There are only reasons for states and waits, because a
	// line has no figures about stacks or requests.
	Lacks LineLacks `json:"lacks"`
}

// LineLacks has a reason for each kind of figure that could not be computed, because there were too few samples
// (sampler.LeastQualities). The reason is null if there were enough samples.
type LineLacks struct {
	States *string `json:"states"`
	Waits  *string `json:"waits"`
}

// LineWaits describes the waits for the GVL that ended in the interval of a StatLine.
type LineWaits struct {
	Count  int64      `json:"count"`
	P50NS  int64      `json:"p50_ns"`
	P99NS  int64      `json:"p99_ns"`
	MaxNS  int64      `json:"max_ns"`
	Bounds LineBounds `json:"bounds"`
	enough
}

// P99 returns the length that 99 % of the waits did not exceed.
func (w *LineWaits) P99() gvl.Bounded { return gvl.Bounded{NS: w.P99NS, Bound: w.Bounds.P99} }

// Longest returns the length of the longest wait.
func (w *LineWaits) Longest() gvl.Bounded { return gvl.Bounded{NS: w.MaxNS, Bound: w.Bounds.Max} }

// LineBounds says for each length of LineWaits whether it is exact or only a bound.
type LineBounds struct {
	P50 gvl.Bound `json:"p50"`
	P99 gvl.Bound `json:"p99"`
	Max gvl.Bound `json:"max"`
}

// LineGC counts the garbage collections that began in the interval of a StatLine. It also has the time that threads
// spent inside the collector.
type LineGC struct {
	Count uint64  `json:"count"`
	Minor uint64  `json:"minor"`
	Major uint64  `json:"major"`
	NS    int64   `json:"ns"`
	Share float64 `json:"share"`
	// Unread is set if ddtop read the collector's counters less than twice in the interval. Then there are no
	// differences to report.
	Unread bool `json:"-"`
	enough
}
