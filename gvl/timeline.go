package gvl

import (
	"math"
	"reflect"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// Default sizes of a Timeline.
const (
	// DefaultColumnNS is the length of one kept column.
	DefaultColumnNS = 100e6
	// DefaultColumns is how many are kept: ten minutes.
	DefaultColumns = 6000
	// MaxColumnNS and MaxColumns are the largest that NewTimeline takes.
	MaxColumnNS = 3600e9
	MaxColumns  = 1 << 20
	// MaxTimelineRactors is how many ractors have lanes of their own; later ones share the lane of ractor 0.
	MaxTimelineRactors = 128
	// MaxTimelineThreads is how many threads a Timeline keeps rows of, those that ended within its time included;
	// others are counted by Dropped and missing in the rows, but not in the lanes.
	MaxTimelineThreads = 4096
	// MaxTimelineBytes bounds the memory of all columns together: those of 500 threads that change their states all the time,
	// for ten minutes. Past it the oldest columns are given up, and Range says from when on all are there.
	MaxTimelineBytes = 64 << 20
)

// Timeline keeps the recent past of every thread in columns of a fixed length, aligned to multiples of it, and merges
// them for display. It is not safe for concurrent use.
//
// Memory: 20 bytes a column of a thread that changes its state, next to nothing for one that does not; at the defaults
// at most 120 kB a thread.
type Timeline struct {
	columnNS int64
	columns  int64
	steps    stepper
	table    table[*row]
	rows     map[sampler.ThreadID]*row
	// active are the rows with an open column: listed threads, and those that ended within it.
	active  []*row
	dropped int

	startNS, lastNS int64
	col             int64 // the open column
	proc            procLane
	ractors         []*ractorLane
	stretches       []stretch // of AppendRows
}

// NewTimeline returns a Timeline that keeps columns columns of columnNS each, up to MaxColumns and MaxColumnNS; 0 means
// the default.
func NewTimeline(p sampler.Process, columnNS int64, columns int) *Timeline {
	if columnNS <= 0 {
		columnNS = DefaultColumnNS
	}
	if columns <= 0 {
		columns = DefaultColumns
	}
	columnNS, columns = min(columnNS, MaxColumnNS), min(columns, MaxColumns)
	return &Timeline{
		columnNS: columnNS, columns: int64(columns), steps: newStepper(p), table: newTable[*row](),
		rows: make(map[sampler.ThreadID]*row), proc: procLane{ring: make([]procColumn, columns)},
	}
}

// Feed adds one sample with its states (parallel to s.Threads). Samples must come in order of time. In the steady
// state nothing is allocated.
func (t *Timeline) Feed(s *sampler.Sample, states []ThreadState) {
	st := t.steps.next(s)
	if st.first {
		t.startNS, t.lastNS, t.col = st.toNS, st.toNS, st.toNS/t.columnNS
		t.proc.segNS = st.toNS
	}
	if st.gap {
		t.gap(states, st)
		t.apply(states, st.toNS, st.toNS)
		t.proc.sampled = true
	} else {
		t.proc.sampled = true
		t.advance(st.midNS)
		t.flushLanes(st.midNS)
		t.apply(states, st.midNS, st.midNS)
	}
	t.proc.gc = s.GC.Valid && s.GC.During
	t.advance(st.toNS)
	t.lastNS = st.toNS
	t.counters(s)
}

// gap closes everything at the last sample and lets the threads that are still there be Unknown through the gap.
func (t *Timeline) gap(states []ThreadState, st step) {
	t.flushLanes(st.fromNS)
	for _, r := range t.active {
		if r.listed {
			r.flush(st.fromNS)
		}
	}
	t.table.begin(len(states))
	for i := range states {
		rec, fresh := t.table.at(i, states[i].Thread)
		if rec == nil {
			continue
		}
		if fresh {
			rec.v = t.row(states[i].Thread, st.toNS)
		}
		t.set(rec.v, Unknown, states[i].Ractor, false)
		rec.v.pending, rec.v.runNS = false, -1
	}
	t.table.end(func(rec *record[*row]) { t.leave(rec.v, st.fromNS) })
	for _, r := range t.ractors {
		r.waiters, r.held, r.gc = 0, 0, 0
	}
	t.proc.sampled, t.proc.gc = false, false
	if end := st.toNS/t.columnNS - t.columns; end > t.col+1 {
		// Longer than all that is kept: the columns in between are not walked.
		t.advance((t.col + 1) * t.columnNS)
		for _, r := range t.active {
			r.segNS = end * t.columnNS
		}
		for _, l := range t.ractors {
			l.segNS = end * t.columnNS
		}
		t.proc.segNS, t.col = end*t.columnNS, end
	}
	t.advance(st.toNS)
	t.flushLanes(st.toNS)
}

// apply takes the states of a sample over at the time at; threads that are gone ended at goneNS.
func (t *Timeline) apply(states []ThreadState, at, goneNS int64) {
	t.table.begin(len(states))
	for i := range states {
		ts := &states[i]
		rec, fresh := t.table.at(i, ts.Thread)
		if rec == nil {
			continue
		}
		if fresh {
			rec.v = t.row(ts.Thread, at)
		}
		r := rec.v
		if r.state == ts.State && !fresh && (ts.State != Unknown || ts.SinceNS <= r.runNS) {
			continue
		}
		if r.pending && t.steps.reach.tells(ts, r.runNS, at) {
			r.tell(ts.State, r.runNS, t.col, t.columnNS)
			r.state, r.pending = ts.State, false
			continue
		}
		r.flush(at)
		t.set(r, ts.State, ts.Ractor, true)
		r.segNS, r.runNS = at, at
		r.pending = ts.Open()
	}
	t.table.end(func(rec *record[*row]) { t.leave(rec.v, goneNS) })
}

// set changes a row's state and, with count, its ractor's counts.
func (t *Timeline) set(r *row, st State, ractor sampler.RactorID, count bool) {
	if count && r.listed {
		r.lane.count(r.state, -1)
	}
	if r.lane == nil || r.ractor != ractor {
		if r.listed {
			r.lane.listed--
			r.listed = false
		}
		r.lane, r.ractor = t.ractor(ractor), ractor
	}
	if !r.listed {
		r.lane.listed++
		r.listed = true
	}
	r.state = st
	if count {
		r.lane.count(st, 1)
	}
}

func (t *Timeline) leave(r *row, at int64) {
	r.flush(at)
	r.lane.count(r.state, -1)
	r.lane.listed--
	r.listed, r.state, r.pending = false, Unknown, false
}

// row returns the row of a thread that appears at the time at.
func (t *Timeline) row(id sampler.ThreadID, at int64) *row {
	r := t.rows[id]
	switch {
	case r == nil && len(t.rows) >= MaxTimelineThreads:
		t.dropped++
		r = newRow(id, 0)
	case r == nil:
		r = newRow(id, int(t.columns))
		t.rows[id] = r
	}
	r.segNS = at
	if !r.listed {
		r.lane = nil // it may have been evicted
	}
	if !r.active {
		r.active = true
		t.active = append(t.active, r)
	}
	return r
}

// advance closes the columns that end by to.
func (t *Timeline) advance(to int64) {
	for (t.col+1)*t.columnNS <= to {
		t.closeColumn((t.col + 1) * t.columnNS)
	}
}

func (t *Timeline) closeColumn(end int64) {
	t.flushLanes(end)
	for _, l := range t.ractors {
		l.bestNS, l.best = 0, 0
	}
	keep := t.active[:0]
	for _, r := range t.active {
		if r.listed {
			r.flush(end)
		}
		if held := r.open[Running] + r.open[Stalled] + r.open[GC]; held > 0 {
			r.lane.offer(r.id, held)
		}
		r.close(t.col, t.columnNS)
		if r.active = r.listed; r.active {
			keep = append(keep, r)
		}
	}
	clear(t.active[len(keep):])
	t.active = keep
	for _, l := range t.ractors {
		l.close(t.col)
	}
	t.proc.close(t.col)
	t.col++
	if t.col%chunkColumns == 0 {
		t.evict()
	}
}

// evict drops the rows of threads and the lanes of ractors that ended before the kept time.
func (t *Timeline) evict() {
	t.ractors = slices.DeleteFunc(t.ractors, func(l *ractorLane) bool {
		return l.lastCol < t.col-t.columns && l.listed == 0
	})
	for id, r := range t.rows {
		if !r.listed && r.lastCol < t.col-t.columns {
			delete(t.rows, id)
		}
	}
	for t.giveUp() {
	}
}

// giveUp gives the columns of the oldest chunk up when all of them together take too much; it is false when they don't.
func (t *Timeline) giveUp() bool {
	held, oldest := 0, int64(math.MaxInt64)
	for _, r := range t.rows {
		for i := range r.chunks {
			if c := &r.chunks[i]; c.cells != nil {
				held++
				oldest = min(oldest, c.index)
			}
		}
	}
	if held <= MaxTimelineBytes/int(reflect.TypeFor[cells]().Size()) {
		return false
	}
	for _, r := range t.rows {
		for i := range r.chunks {
			if c := &r.chunks[i]; c.index <= oldest {
				*c = chunk{index: -1}
			}
		}
	}
	t.startNS = max(t.startNS, (oldest+1)*chunkColumns*t.columnNS)
	return true
}

// Dropped returns how many threads have no row because of MaxTimelineThreads.
func (t *Timeline) Dropped() int { return t.dropped }

// ColumnNS returns the length of one kept column.
func (t *Timeline) ColumnNS() int64 { return t.columnNS }

// Range returns the stretch of time that is kept; both 0 before the first sample.
func (t *Timeline) Range() (fromNS, toNS int64) {
	if !t.steps.started {
		return 0, 0
	}
	return max(t.startNS, t.oldest()*t.columnNS), t.lastNS
}

// oldest is the first column still kept.
func (t *Timeline) oldest() int64 { return t.col - t.columns + 1 }
