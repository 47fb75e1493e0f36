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
	// EventReady comes once, when all threads and the database are ready.
	EventReady = "ready"
	// EventBegin and EventEnd are a phase's edges: all threads are in the phase in between.
	EventBegin = "begin"
	EventEnd   = "end"
	// EventDrained comes after EventEnd, when all threads have left the phase, with what they did in it.
	EventDrained = "drained"
	// EventSkipped stands for a phase that this Ruby can't play.
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

	// Of EventReady. Threads are the names of the threads beside main and scheduler.
	Ruby        string   `json:"ruby"`
	DatabasePID int      `json:"database_pid"`
	Threads     []string `json:"threads"`

	// Of EventEnd: what grew during the phase. CPUNS is the process's CPU time; GCNS is Ruby's own account of its
	// collections in CPU time, 3.1 and later, 0 before.
	CPUNS   int64 `json:"cpu_ns"`
	GCNS    int64 `json:"gc_ns"`
	GCCount int64 `json:"gc_count"`

	// The following belong to EventDrained. Complete means that all threads left in time. The rest are sums over all
	// threads. ReportCPUNS is the CPU time that reports took. LockNS is the time spent before the Mutex. KeptNS is the
	// time inside the C function that keeps the GVL, and KeptCPUNS is the part of it on a CPU.
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

	// Of EventSkipped.
	Reason string `json:"reason"`
}

// maxEvents is how many events a Log keeps; older ones are dropped. A day of phases of a second fits.
const maxEvents = 1 << 18

// maxLine is the longest line accepted from the program, in bytes: the length of EventReady with 500 threads.
const maxLine = 1 << 16

// errLogEnded is what WaitFor answers when the program ended without the event.
var errLogEnded = errors.New("the workload ended before that")

// Log holds what the program has logged so far. Its methods may be called from any goroutine.
type Log struct {
	mu      sync.Mutex
	events  []Event
	changed chan struct{} // closed and replaced with each event
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

// WaitFor returns the first event, of those logged already or later, that match accepts. It fails when ctx ends or the
// program does.
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

// begun matches the first begin of a phase.
func begun(phase string) func(Event) bool {
	return func(e Event) bool { return e.Event == EventBegin && e.Phase == phase }
}

// read takes events from the program's output until it ends.
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
