package eventlog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Event is a flag of Ruby's API: RUBY_INTERNAL_THREAD_EVENT_… (include/ruby/thread.h) or RUBY_INTERNAL_EVENT_GC_…
// (include/ruby/internal/event.h).
type Event uint32

// The events that are logged.
const (
	Started   Event = 1 << 0
	Ready     Event = 1 << 1
	Resumed   Event = 1 << 2
	Suspended Event = 1 << 3
	Exited    Event = 1 << 4
	GCEnter   Event = 0x2000000
	GCExit    Event = 0x4000000
)

// Record is one event.
type Record struct {
	// NS is CLOCK_MONOTONIC in ns.
	NS int64
	// Thread is the address of the Thread object that the event is about. It is 0 in Ruby 3.2 and for GC events,
	// because these do not name a thread. Then the event is about the thread that runs on TID.
	Thread uint64
	// TID is the native thread that sent the event. For Ready, this can be the native thread of another thread, which
	// woke Thread.
	TID   uint32
	Event Event
}

// Log is what a program logged, in order of time.
type Log struct {
	Records []Record
	// threadOf maps the id of a native thread to the Thread object that last ran on it.
	threadOf map[uint32]uint64
}

const (
	magic      = "DDTOPEV1"
	headSize   = 24
	recordSize = 24
)

// Parse reads the file that the extension writes. It returns an error if the file had no space for all events, because
// sums over an incomplete log would be wrong.
func Parse(data []byte) (*Log, error) {
	if len(data) < headSize || string(data[:len(magic)]) != magic {
		return nil, errors.New("event log: not a file that the extension wrote")
	}
	noted, capacity := binary.LittleEndian.Uint64(data[8:]), binary.LittleEndian.Uint64(data[16:])
	if noted > capacity {
		return nil, fmt.Errorf("event log: %d events, room for %d", noted, capacity)
	}
	body := data[headSize:]
	if uint64(len(body)) != noted*recordSize {
		return nil, fmt.Errorf("event log: %d bytes of records, %d events noted", len(body), noted)
	}
	l := &Log{Records: make([]Record, noted), threadOf: make(map[uint32]uint64)}
	for i := range l.Records {
		b := body[i*recordSize:]
		r := Record{
			NS:     int64(binary.LittleEndian.Uint64(b)),
			Thread: binary.LittleEndian.Uint64(b[8:]),
			TID:    binary.LittleEndian.Uint32(b[16:]),
			Event:  Event(binary.LittleEndian.Uint32(b[20:])),
		}
		// If Event is 0, the log ended before the extension had written this record. Such records are removed below.
		// Tests do not need them, because they use only times before the end of the log.
		l.Records[i] = r
		if r.Event == Resumed && r.Thread != 0 {
			l.threadOf[r.TID] = r.Thread
		}
	}
	l.Records = slices.DeleteFunc(l.Records, func(r Record) bool { return r.Event == 0 })
	slices.SortStableFunc(l.Records, func(a, b Record) int { return cmp.Compare(a.NS, b.NS) })
	return l, nil
}

// Times is how long a thread was in each state that the events distinguish, in ns.
type Times struct {
	// Running is the time with the GVL, without the time in the garbage collector, which is GC. Waiting is the time
	// from wanting the GVL to getting it. Released is all other time.
	Running, GC, Waiting, Released int64
}

// state is a thread's state between two events.
type state uint8

const (
	none state = iota
	running
	collecting
	waiting
	released
)

// follow adds up how long one thread is in each state, between two instants.
type follow struct {
	tid   uint32
	state state
	since int64
	times Times
}

func (f *follow) to(s state, at int64) {
	d := at - f.since
	switch f.state {
	case running:
		f.times.Running += d
	case collecting:
		f.times.GC += d
	case waiting:
		f.times.Waiting += d
	case released:
		f.times.Released += d
	}
	f.state, f.since = s, at
}

// Times returns how long each thread was in each state between two instants (CLOCK_MONOTONIC in ns), by native thread
// id. If a thread started or ended between the two instants, the sum of its times is smaller.
func (l *Log) Times(from, to int64) map[uint32]Times {
	threads := make(map[uint64]*follow)
	for _, r := range l.Records {
		if r.NS >= to {
			break
		}
		at := max(r.NS, from)
		f := threads[l.key(r)]
		if f == nil {
			f = &follow{since: from, state: before(r.Event)}
			threads[l.key(r)] = f
		}
		if r.bySelf() {
			f.tid = r.TID
		}
		f.to(after(r.Event), at)
	}
	out := make(map[uint32]Times)
	for _, f := range threads {
		f.to(none, to)
		if f.tid != 0 {
			out[f.tid] = f.times
		}
	}
	return out
}

// bySelf reports whether an event was sent by the thread that it is about. Another thread always sends Started, and
// often sends Ready.
func (r Record) bySelf() bool { return r.Thread == 0 || r.Event != Ready && r.Event != Started }

// key identifies the thread that a record is about. If the record has the address of a Thread object, this is the key.
// The address stays the same, because objects move only by compaction, which no test does.
func (l *Log) key(r Record) uint64 {
	if r.Thread != 0 {
		return r.Thread
	}
	if thread, ok := l.threadOf[r.TID]; ok {
		return thread
	}
	return uint64(r.TID)
}

// Waits sums up the waits for the GVL between two instants.
type Waits struct {
	// LongestNS is the longest wait, in ns. If a wait began before the first instant or ended after the second one,
	// only the part between them counts.
	LongestNS int64
	// TotalNS is the sum of the waits of all threads, in ns. ByHolder has the parts of this sum. Its keys are the
	// native thread ids of the threads that held the GVL during the waits. The key 0 is for time in which no thread
	// held the GVL.
	TotalNS  int64
	ByHolder map[uint32]int64
}

// Waits sums up the waits for the GVL between two instants (CLOCK_MONOTONIC in ns), in total and by holder.
func (l *Log) Waits(from, to int64) Waits {
	type thread struct {
		tid   uint32
		state state
		since int64
		held  int64 // for how long other threads waited while this thread held the GVL
	}
	threads := make(map[uint64]*thread)
	for _, r := range l.Records {
		if threads[l.key(r)] == nil {
			threads[l.key(r)] = &thread{state: before(r.Event), since: from}
		}
		if r.bySelf() {
			threads[l.key(r)].tid = r.TID
		}
	}
	w := Waits{ByHolder: make(map[uint32]int64)}
	last := from
	pass := func(at int64) {
		var waiters int64
		var holder *thread
		for _, t := range threads {
			switch t.state {
			case waiting:
				waiters++
			case running, collecting:
				holder = t
			}
		}
		ns := waiters * (at - last)
		w.TotalNS += ns
		if holder != nil {
			holder.held += ns
		} else {
			w.ByHolder[0] += ns
		}
		last = at
	}
	for _, r := range l.Records {
		if r.NS >= to {
			break
		}
		pass(max(r.NS, from))
		if t, next := threads[l.key(r)], after(r.Event); t.state != next {
			if t.state == waiting {
				w.LongestNS = max(w.LongestNS, last-t.since)
			}
			t.state, t.since = next, last
		}
	}
	pass(to)
	for _, t := range threads {
		if t.state == waiting {
			w.LongestNS = max(w.LongestNS, to-t.since)
		}
		if t.held > 0 {
			w.ByHolder[t.tid] += t.held
		}
	}
	return w
}

// after returns the state that a thread has after an event, such as Running.
func after(e Event) state {
	switch e {
	case Started, Ready:
		return waiting
	case Resumed, GCExit:
		return running
	case Suspended:
		return released
	case GCEnter:
		return collecting
	}
	return none
}

// before returns the state that a thread had before its first event in the log. If this event is not Started, the
// thread began before the log.
func before(e Event) state {
	switch e {
	case Ready:
		return released
	case Resumed:
		return waiting
	case Suspended, GCEnter:
		return running
	case GCExit:
		return collecting
	}
	return none
}
