package timeline

import (
	"math"
	"reflect"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// Default sizes of a Timeline.
const (
	// defaultColumnNS is the default length of a stored column.
	defaultColumnNS = 100e6
	// defaultColumns is the default number of stored columns: ten minutes.
	defaultColumns = 6000
	// maxColumnNS and maxColumns are the largest values that New accepts.
	maxColumnNS = 3600e9
	maxColumns  = 1 << 20
	// maxTimelineRactors limits the ractors that have lanes (rows in a picture) of their own. Further ractors share the
	// lane of ractor 0.
	maxTimelineRactors = 128
	// maxTimelineThreads limits the threads that have rows, including ended threads. Further threads are only counted,
	// and have no row. Their time is still in the lanes of the ractors.
	maxTimelineThreads = 4096
	// MaxTimelineBytes limits the memory of all columns. It is enough for ten minutes of 500 threads that change their
	// states all the time. If more is needed, the oldest columns are dropped. Range returns the period that is still
	// complete.
	MaxTimelineBytes = 64 << 20
)

// Timeline stores the recent past of every thread in columns of a fixed length, and merges them for display. A column
// begins at a multiple of this length. A Timeline is a gvl.Consumer. It is not safe for concurrent use.
//
// A column of a thread that changes its state takes 20 bytes. With the defaults, a thread takes at most 120 kB.
type Timeline struct {
	gvl.Ignore
	stream   *stream.Stream
	columnNS int64
	columns  int64
	rows     map[sampler.ThreadID]*row
	bySlot   []*row
	// active has the rows of threads that are listed, or whose last column is not final yet.
	active  []*row
	dropped int

	startNS, lastNS int64
	col             int64 // number of the open column
	syncedNS        int64 // sync has been done up to this time
	proc            procLane
	ractors         []*ractorLane
	periods         []period // memory for appendCells
}

// New returns a Timeline of a stream. columns is how many columns it stores, and columnNS the length of each. Zero
// means the default.
func New(s *stream.Stream, columnNS int64, columns int) *Timeline {
	if columnNS <= 0 {
		columnNS = defaultColumnNS
	}
	if columns <= 0 {
		columns = defaultColumns
	}
	columnNS, columns = min(columnNS, maxColumnNS), min(columns, maxColumns)
	t := &Timeline{
		stream: s, columnNS: columnNS, columns: int64(columns), rows: make(map[sampler.ThreadID]*row),
		proc: procLane{ring: make([]procColumn, columns)},
	}
	s.Attach(t)
	return t
}

func (t *Timeline) Interval(i *gvl.Interval) {
	r := t.bySlot[i.Slot]
	t.add(r, &r.settled, i)
}

// add adds an interval's time to a row. c is one of the row's two open columns, settled or now. If the interval goes
// beyond the end of c, add stores c and continues with the next column.
func (t *Timeline) add(r *row, c *openColumn, i *gvl.Interval) {
	// Columns that are too old to be stored are skipped.
	from := max(i.FromNS, (i.ToNS/t.columnNS-t.columns)*t.columnNS)
	for from < i.ToNS {
		if col := from / t.columnNS; col != c.col {
			r.store(c, t.columnNS)
			*c = openColumn{col: col}
		}
		to := min(i.ToNS, (c.col+1)*t.columnNS)
		c.ns[i.State] += to - from
		from = to
	}
}

func (t *Timeline) Ended(slot int, _ int64) {
	r := t.bySlot[slot]
	t.bySlot[slot] = nil
	r.listed = false
	r.lane.listed--
}

// Tick advances the Timeline to the time of a sample. It usually allocates no memory.
func (t *Timeline) Tick(k *gvl.Tick) {
	if k.First {
		t.startNS, t.col = k.ToNS, k.ToNS/t.columnNS
	}
	t.lastNS = k.ToNS
	for _, i := range k.Begun {
		t.list(k.Slots[i], &k.States[i]) // before advance, because a thread that had ended may be listed again
	}
	t.advance()
	if !k.Gap {
		t.proc.add(t.columnNS, k.FromNS, k.ToNS, func(c *procColumn, ns int64) { c.sampledNS += ns })
	}
	t.counters(k.Sample)
}

func (t *Timeline) Collecting(i *gvl.GCInterval) {
	t.proc.add(t.columnNS, i.FromNS, i.ToNS, func(c *procColumn, ns int64) { c.gcNS += ns })
}

func (t *Timeline) Lock(i *gvl.LockInterval) { t.ractor(i.Ractor).add(t.columnNS, i) }

func (t *Timeline) list(slot int, ts *gvl.ThreadState) {
	for slot >= len(t.bySlot) {
		t.bySlot = append(t.bySlot, nil)
	}
	r := t.rows[ts.Thread]
	switch {
	case r == nil && len(t.rows) >= maxTimelineThreads:
		t.dropped++
		r = newRow(ts.Thread, 0)
	case r == nil:
		r = newRow(ts.Thread, int(t.columns))
		t.rows[ts.Thread] = r
	}
	t.bySlot[slot] = r
	r.lane, r.listed = t.ractor(ts.Ractor), true
	r.lane.listed++
	if !r.active {
		r.active = true
		t.active = append(t.active, r)
	}
}

// advance begins a new open column if the old one has ended, and stores the last columns of threads that have ended.
func (t *Timeline) advance() {
	was := t.col
	if t.col = t.lastNS / t.columnNS; t.col == was {
		return
	}
	t.active = slices.DeleteFunc(t.active, func(r *row) bool {
		if r.active = r.listed || r.settled.col >= t.col; !r.active {
			r.store(&r.settled, t.columnNS)
			r.settled.ns, r.now = [gvl.NumStates]int64{}, openColumn{}
		}
		return !r.active
	})
	if t.col/chunkColumns != was/chunkColumns {
		t.evict()
	}
}

// sync stores the time of all threads up to now. This includes time that is not final yet and is replaced later.
func (t *Timeline) sync() {
	t.stream.SettleLocks()
	if t.syncedNS == t.lastNS {
		return
	}
	t.syncedNS = t.lastNS
	for _, r := range t.active {
		r.now = r.settled
		if r.listed {
			t.stream.Pending(r.id, func(i *gvl.Interval) { t.add(r, &r.now, i) })
		}
		if r.now.col < t.col {
			r.store(&r.now, t.columnNS)
		}
	}
}

// evict drops the rows of threads, and the lanes of ractors, whose end is older than all stored columns.
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

// giveUp drops the oldest chunks if all columns together take more than MaxTimelineBytes. It returns false if it
// dropped nothing.
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

func (t *Timeline) ColumnNS() int64 { return t.columnNS }

// Range returns the period that is stored. Both ends are zero before the first sample.
func (t *Timeline) Range() (fromNS, toNS int64) {
	if t.lastNS == 0 {
		return 0, 0
	}
	return max(t.startNS, t.oldest()*t.columnNS), t.lastNS
}

func (t *Timeline) oldest() int64 { return t.col - t.columns + 1 }
