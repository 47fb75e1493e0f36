package workload

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// The events that the program logs.
const (
	// EventReady is logged once, when all threads and the database are ready.
	EventReady = "ready"
	// EventBegin and EventEnd are logged at the begin and the end of the time in which all threads are in a phase.
	EventBegin = "begin"
	EventEnd   = "end"
	// EventDrained is logged after EventEnd, when all threads have left the phase. It has sums of what the threads did
	// in the phase.
	EventDrained = "drained"
	// EventSkipped is logged instead of all other events of a phase, if the phase cannot run on this Ruby.
	EventSkipped = "skipped"
	// EventExit comes last.
	EventExit = "exit"
)

// Event is one line of the program's log. Fields that an event doesn't have are zero.
type Event struct {
	Event string `json:"event"`
	Phase string `json:"phase"`
	// MonotonicNS is CLOCK_MONOTONIC in ns.
	MonotonicNS int64 `json:"monotonic_ns"`

	// Only EventReady has the following fields. Threads are the names of all threads except the threads main and
	// scheduler.
	Ruby        string   `json:"ruby"`
	DatabasePID int      `json:"database_pid"`
	Threads     []string `json:"threads"`

	// Only EventEnd has the following fields. They are differences between the end of the phase and its begin. CPUNS is
	// the process's CPU time. GCNS is the CPU time of garbage collections as Ruby 3.1 and later count it. It is 0 on
	// older releases.
	CPUNS   int64 `json:"cpu_ns"`
	GCNS    int64 `json:"gc_ns"`
	GCCount int64 `json:"gc_count"`

	// Only EventDrained has the following fields. Complete is true if all threads left the phase in time. All other
	// fields are sums over all threads. ReportCPUNS is the CPU time of reports. LockNS is the time spent waiting for
	// the Mutex. KeptNS is the time inside the C function that keeps the GVL, and KeptCPUNS is the part of this time on
	// a CPU.
	Complete    bool  `json:"complete"`
	Requests    int64 `json:"requests"`
	Reports     int64 `json:"reports"`
	ReportCPUNS int64 `json:"report_cpu_ns"`
	Queries     int64 `json:"queries"`
	QueryNS     int64 `json:"query_ns"`
	LockNS      int64 `json:"lock_ns"`
	KeptCalls   int64 `json:"kept_calls"`
	KeptNS      int64 `json:"kept_ns"`
	KeptCPUNS   int64 `json:"kept_cpu_ns"`

	// Only EventSkipped has a Reason.
	Reason string `json:"reason"`
}

// maxEvents limits how many events a Log keeps. The Log drops older events. With phases of 1 s, this is enough for a
// day.
const maxEvents = 1 << 18

// maxLine is the longest line that is accepted from the program, in bytes. Even EventReady with the names of 500
// threads is shorter.
const maxLine = 1 << 16

// errLogEnded is returned by WaitFor if the program ended without logging the event.
var errLogEnded = errors.New("the workload ended before that")

// Log has the events that the program has logged so far. Any goroutine may call its methods.
type Log struct {
	mu      sync.Mutex
	events  []Event
	changed chan struct{} // closed and replaced at each event, to wake WaitFor
	ended   bool
	err     error
}

func newLog() *Log { return &Log{changed: make(chan struct{})} }

// Events returns a copy of the events so far, oldest first.
func (l *Log) Events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Event(nil), l.events...)
}

// WaitFor returns the first event that the function match accepts. If there is no such event yet, WaitFor waits for it.
// It fails if ctx or the program ends first.
func (l *Log) WaitFor(ctx context.Context, match func(Event) bool) (Event, error) {
	for {
		l.mu.Lock()
		for _, e := range l.events {
			if match(e) {
				l.mu.Unlock()
				return e, nil
			}
		}
		changed, ended, err := l.changed, l.ended, l.err
		l.mu.Unlock()
		if ended {
			return Event{}, errors.Join(errLogEnded, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("waiting for the workload: %w", context.Cause(ctx))
		}
	}
}

// begun returns a function for WaitFor that accepts the event at the begin of a phase.
func begun(phase string) func(Event) bool {
	return func(e Event) bool { return e.Event == EventBegin && e.Phase == phase }
}

// read adds the events in the program's output to the log, until the output ends.
func (l *Log) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			l.add(nil, fmt.Errorf("the workload wrote %.200q, which is not a line of its log: %w", lines.Text(), err))
			continue
		}
		l.add(&e, nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.err = errors.Join(l.err, lines.Err())
	close(l.changed)
}

func (l *Log) add(e *Event, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e != nil {
		if len(l.events) == maxEvents {
			l.events = l.events[1:]
		}
		l.events = append(l.events, *e)
	}
	if err != nil {
		l.err = err
	}
	close(l.changed)
	l.changed = make(chan struct{})
}
