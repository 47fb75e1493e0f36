package report

import (
	"time"
)

// Child is a descendant of one of the processes that the user named. Times are in RFC 3339.
type Child struct {
	PID    int    `json:"pid"`
	Parent int    `json:"parent"`
	Title  string `json:"title"`
	// Part is the role of the process in its service, as in sampler.Process. It is null for most processes.
	Part  *string `json:"part"`
	Start string  `json:"start"`
	// Sampled is true if the process was measured.
	Sampled bool `json:"sampled"`
	// Ended is when the process ended. It is null while the process lives. Why is the reason why the process ended, or
	// the reason why it was not sampled.
	Ended *string `json:"ended"`
	Why   *string `json:"why"`
}

// Sum has the sums over several processes that were measured together.
type Sum struct {
	Processes int `json:"processes"`
	Threads   int `json:"threads"`
	// CPUShare is the mean number of CPUs that all processes together used. WaitingMean is the mean number of threads
	// that waited for a GVL. A process is left out if its values are not known.
	CPUShare    float64 `json:"cpu_share"`
	WaitingMean float64 `json:"waiting_mean"`
	// RSSBytes is the sum of the processes' resident memory. Memory that several processes share is counted once for
	// each of them.
	RSSBytes int64 `json:"rss_bytes"`
	Findings int   `json:"findings"`
}

// Several is the JSON document of `ddtop stat` and `ddtop dump` for several processes.
type Several struct {
	// All is the sum over all processes. Only `stat --json` has it.
	All       *Sum `json:"all,omitempty"`
	Processes any  `json:"processes"`
	// Siblings are processes in which requests wait, although other processes of the same program are idle. Only `stat
	// --json` has them.
	Siblings []Sibling `json:"siblings,omitempty"`
	// Workers predicts the effect of one more worker process. It is nil if there is no prediction. Only `stat --json`
	// has it.
	Workers *StatWorkers `json:"workers,omitempty"`
	// Findings are the findings of all processes, the worst first. Only `stat --json` has them.
	Findings []SharedFinding `json:"findings,omitempty"`
	Children []Child         `json:"children"`
	// Forgotten is the number of child processes that have ended and are not in Children, because its length is
	// limited.
	Forgotten int `json:"children_forgotten"`
}

// Sibling is a process in which requests wait for busy threads, while other processes of the same program have idle
// threads.
type Sibling struct {
	PID    int   `json:"pid"`
	Queued int64 `json:"queued"`
	// Behind is the route of most of the running requests. The queued requests wait until these requests end. Behind is
	// null if the route is not known.
	Behind *string `json:"behind"`
	// Idle is the number of processes of the same program that have idle threads.
	Idle int `json:"idle"`
}

// SharedFinding is a finding of several processes, with the number of processes that have it.
type SharedFinding struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Title    string `json:"title"`
	// Program is the name of the program that the processes run. Of is the number of processes of this program, and
	// Processes is how many of them have the finding. PID is the process in which the finding is most severe.
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

// StatNote is a note that a user has added to a recording.
type StatNote struct {
	AtNS int64  `json:"monotonic_ns"`
	Text string `json:"text"`
}

// TimedLine is a line that `ddtop stat --interval` prints.
type TimedLine struct {
	// Time is when the interval ended, by the wall clock that the process sees.
	Time time.Time `json:"time"`
	StatLine
}

// WatchEvent is one line of the output of `ddtop record --when`, in JSON.
type WatchEvent struct {
	// Event is "began", "wrote", "failed" or "removed". "removed" means that the oldest recording was deleted because
	// the recordings exceeded a limit.
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	// PID and Program identify the process to which the event belongs. They are 0 and "" if a recording was removed.
	PID     int    `json:"pid"`
	Program string `json:"program"`
	// Condition is the condition that became true, as the user wrote it. Text is the value or the finding that made it
	// true. If something failed, Text is the reason for the failure. Both are "" if a recording was removed.
	Condition string `json:"condition"`
	Text      string `json:"text"`
	// Path is the file of the recording. It is "" if there is no file yet.
	Path string `json:"path"`
	// StartNS and EndNS are the first and the last time of the recording so far. Bytes is its size.
	StartNS int64 `json:"start_monotonic_ns"`
	EndNS   int64 `json:"end_monotonic_ns"`
	Bytes   int64 `json:"bytes"`
	// MissingNS is how much of the time between StartNS and EndNS is missing because the disk was slow.
	MissingNS int64 `json:"missing_ns"`
}
