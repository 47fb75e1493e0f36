package report

import (
	"time"
)

// Child is a process that was found below the named ones. Times are RFC 3339.
type Child struct {
	PID    int    `json:"pid"`
	Parent int    `json:"parent"`
	Title  string `json:"title"`
	// Part is the process's part in its service, as in sampler.Process. It is null for most processes.
	Part  *string `json:"part"`
	Start string  `json:"start"`
	// Sampled is true if the process was measured.
	Sampled bool `json:"sampled"`
	// Ended is null while it lives. Why says how it ended or why it was not sampled.
	Ended *string `json:"ended"`
	Why   *string `json:"why"`
}

// Sum is the sum of several processes that were measured together.
type Sum struct {
	Processes int `json:"processes"`
	Threads   int `json:"threads"`
	// CPUShare is the CPU time of all processes together, in CPUs. WaitingMean is the mean number of threads that
	// waited for a GVL. Both leave out processes with unknown values.
	CPUShare    float64 `json:"cpu_share"`
	WaitingMean float64 `json:"waiting_mean"`
	// RSSBytes counts memory that processes share once for each of them.
	RSSBytes int64 `json:"rss_bytes"`
	Findings int   `json:"findings"`
}

// Several is the document of `stat --json` and `dump --json` with several processes.
type Several struct {
	// All is what the processes add up to, of `stat --json`.
	All       *Sum `json:"all,omitempty"`
	Processes any  `json:"processes"`
	// Siblings are the processes that have requests queued while others of their program are idle, of `stat --json`.
	Siblings []Sibling `json:"siblings,omitempty"`
	// Workers says what one process more would give, of `stat --json`. It is nil if that is not known.
	Workers *StatWorkers `json:"workers,omitempty"`
	// Findings are the findings of all processes, the worst first, of `stat --json`.
	Findings []SharedFinding `json:"findings,omitempty"`
	Children []Child         `json:"children"`
	// Forgotten is how many that have ended are missing in Children.
	Forgotten int `json:"children_forgotten"`
}

// Sibling is a process that has requests queued behind busy threads while others of the same program have idle threads.
type Sibling struct {
	PID    int   `json:"pid"`
	Queued int64 `json:"queued"`
	// Behind is the route of most requests in progress. It is null if it is not known.
	Behind *string `json:"behind"`
	// Idle is how many of the others have idle threads.
	Idle int `json:"idle"`
}

// SharedFinding is a finding that some of several processes have.
type SharedFinding struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Title    string `json:"title"`
	// Program is the program of the processes. Processes is how many of them have the finding, and Of is how many
	// there are. PID is the process in which the finding is most severe.
	Program   string `json:"program"`
	Processes int    `json:"processes"`
	Of        int    `json:"of"`
	PID       int    `json:"pid"`
}

// StatDocument is the JSON of `ddtop stat` and `ddtop report`.
type StatDocument struct {
	Stat
	Notes []StatNote `json:"notes"`
}

// StatNote is a user's note in a recording.
type StatNote struct {
	AtNS int64  `json:"monotonic_ns"`
	Text string `json:"text"`
}

// TimedLine is a line of `ddtop stat --interval` as it is printed.
type TimedLine struct {
	// Time is the end, by the process's wall clock.
	Time time.Time `json:"time"`
	StatLine
}

// WatchEvent is a line of `ddtop record --when`.
type WatchEvent struct {
	// Event is "began", "wrote", "failed" or "removed". The oldest recording is removed if a limit is exceeded.
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	// PID and Program are the process. They are 0 and "" if a recording was removed.
	PID     int    `json:"pid"`
	Program string `json:"program"`
	// Condition is the condition that came true, as it was given. Text is its figure or the finding, or the reason of
	// a failure. Both are "" if a recording was removed.
	Condition string `json:"condition"`
	Text      string `json:"text"`
	// Path is the recording. It is "" if there is none yet.
	Path string `json:"path"`
	// StartNS and EndNS are the begin and the end of the recording so far. Bytes is its size.
	StartNS int64 `json:"start_monotonic_ns"`
	EndNS   int64 `json:"end_monotonic_ns"`
	Bytes   int64 `json:"bytes"`
	// MissingNS is the time between them that is missing because the disk was slow.
	MissingNS int64 `json:"missing_ns"`
}
