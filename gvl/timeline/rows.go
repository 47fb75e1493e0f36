package timeline

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// Cell is one column of a thread's row in a picture.
type Cell struct {
	// NS is the thread's time by state. It is zero if the thread was not listed, or if the time is not stored.
	NS [gvl.NumStates]int64
	// SpanNS is the length of the cell, in ns.
	SpanNS int64
	// Dominant is the state with the most time. Share is its part of the time in which samples listed the thread, from
	// 0 to 1.
	Dominant gvl.State
	Share    float64
}

// Listed returns how long samples listed the thread during the cell, in ns.
func (c *Cell) Listed() int64 {
	var sum int64
	for _, v := range c.NS {
		sum += v
	}
	return sum
}

// OwnerCell is one column of a ractor's row in a picture (its GVL lane), which shows who held the GVL.
type OwnerCell struct {
	// Owner is the thread that held the GVL longest, or zero. HeldByOwnerNS is a lower bound of how long it held the
	// GVL, in ns. It leaves out stored columns in which another thread held the GVL longer.
	Owner         sampler.ThreadID
	HeldByOwnerNS int64
	// HeldNS is how long any thread held the GVL. GCNS is the part of HeldNS in which the holder collected garbage.
	// WaitNS is the sum of all threads' waits, so WaitNS/SampledNS is the mean number of waiting threads.
	HeldNS, GCNS, WaitNS int64
	// SpanNS is the length of the cell. SampledNS is the part that was sampled.
	SpanNS, SampledNS int64
}

// ProcCell is one column of the lanes in a picture that are about the whole process.
type ProcCell struct {
	SpanNS, SampledNS int64
	// WaitNS and HeldNS are sums over all threads of all ractors. GCNS is the time of garbage collections.
	WaitNS, HeldNS, GCNS int64
	// CPUNS and ThrottledNS come from counters that are read less often than once per cell. The growth between two
	// readings is distributed evenly over the cells in between.
	CPUNS, ThrottledNS int64
	// RSSBytes is the process's memory at the last reading in the cell, or zero.
	RSSBytes int64
}

// Waiters returns the mean number of waiting threads.
func (c ProcCell) Waiters() float64 { return gvl.Ratio(c.WaitNS, c.SampledNS) }

// CPU returns the mean number of used CPUs.
func (c ProcCell) CPU() float64 { return gvl.Ratio(c.CPUNS, c.SpanNS) }

// GC returns the share of the time inside the collector.
func (c ProcCell) GC() float64 { return gvl.Ratio(c.GCNS, c.SampledNS) }

// maxCells limits the cells of one row or lane.
const maxCells = 1 << 16

// Window returns a period of about spanNS that ends at toNS or just after, for a picture with cols cells. Each cell
// covers a whole number of stored columns, and begins at a multiple of its own length. So the picture moves by whole
// cells, and their colours do not flicker.
func (t *Timeline) Window(toNS, spanNS int64, cols int) (fromNS, endNS int64) {
	cols = max(cols, 1)
	width := max((spanNS/int64(cols)+t.columnNS-1)/t.columnNS, 1) * t.columnNS
	endNS = (toNS + width - 1) / width * width
	return endNS - width*int64(cols), endNS
}

// spans divides the time from fromNS to toNS into cols cells, and calls fn for each stored column that overlaps cell k.
// num/den is the part of the column that lies in the cell. num and den are in ns. den is columnNS, but less for the
// columns with the first and the newest sample, because these are not full.
func (t *Timeline) spans(fromNS, toNS int64, cols, k int, fn func(col, num, den int64)) (span int64) {
	width := toNS - fromNS
	a := fromNS + scale(width, int64(k), int64(cols))
	b := fromNS + scale(width, int64(k)+1, int64(cols))
	first := max(a/t.columnNS, t.oldest(), t.startNS/t.columnNS)
	for col := first; col <= t.col && col*t.columnNS < b; col++ {
		begin, end := max(col*t.columnNS, t.startNS), min((col+1)*t.columnNS, t.lastNS)
		if d := min(b, end) - max(a, begin); d > 0 {
			fn(col, d, end-begin)
		}
	}
	return b - a
}

// Row returns cols cells of a thread between fromNS and toNS, CLOCK_MONOTONIC in ns.
func (t *Timeline) Row(id sampler.ThreadID, fromNS, toNS int64, cols int) []Cell {
	return t.AppendRow(nil, id, fromNS, toNS, cols)
}

// AppendRow is like Row, but appends to buf.
func (t *Timeline) AppendRow(buf []Cell, id sampler.ThreadID, fromNS, toNS int64, cols int) []Cell {
	return t.AppendRows(buf, []sampler.ThreadID{id}, fromNS, toNS, cols)
}

// AppendRows is like AppendRow for the sum of several threads.
func (t *Timeline) AppendRows(buf []Cell, ids []sampler.ThreadID, fromNS, toNS int64, cols int) []Cell {
	t.sync()
	return t.appendCells(buf, ids, fromNS, toNS, min(cols, maxCells), 0)
}

// appendCells appends the cells from first to cols-1.
func (t *Timeline) appendCells(buf []Cell, ids []sampler.ThreadID, fromNS, toNS int64, cols, first int) []Cell {
	start, width := len(buf), toNS-fromNS
	t.periods = t.periods[:0]
	for k := first; k < cols; k++ {
		a, b := fromNS+scale(width, int64(k), int64(cols)), fromNS+scale(width, int64(k)+1, int64(cols))
		t.periods = append(t.periods, t.period(a, b))
		buf = append(buf, Cell{SpanNS: b - a})
	}
	out := buf[start:]
	for _, id := range ids {
		if r := t.rows[id]; r != nil {
			for k := range out {
				t.addPeriod(&out[k].NS, r, &t.periods[k])
			}
		}
	}
	for k := range out {
		out[k].finish()
	}
	return buf
}

// period is a period divided into stored columns: whole columns, and parts of the columns at its two ends.
type period struct {
	// The whole columns are first to end-1.
	first, end int64 // numbers of columns
	parts      [2]columnPart
	n          int // length of parts
}

// columnPart is a part of the column with number col. The part is num/den, both in ns.
type columnPart struct{ col, num, den int64 }

// period returns the columns between a and b. The column that is still growing always counts as a part, never as a
// whole column, because it is stored elsewhere.
func (t *Timeline) period(a, b int64) period {
	first, last := max(a/t.columnNS, t.oldest(), t.startNS/t.columnNS), min((b+t.columnNS-1)/t.columnNS-1, t.col)
	s := period{first: first, end: last + 1}
	part := func(col int64) bool {
		begin, end := max(col*t.columnNS, t.startNS), min((col+1)*t.columnNS, t.lastNS)
		d := min(b, end) - max(a, begin)
		if col < t.col && d == end-begin {
			return false
		}
		if d > 0 {
			s.parts[s.n] = columnPart{col, d, end - begin}
			s.n++
		}
		return true
	}
	if last < first {
		return period{}
	}
	if part(first) {
		s.first++
	}
	if last > first && part(last) {
		s.end--
	}
	return s
}

func (t *Timeline) addPeriod(ns *[gvl.NumStates]int64, r *row, s *period) {
	r.addWhole(ns, s.first, s.end, t.columnNS)
	for _, p := range s.parts[:s.n] {
		t.addCell(ns, r, p.col, p.num, p.den)
	}
}

// addCell adds a part of one column of a row to ns. The part is num/den. The column may be the open one, which is still
// growing.
func (t *Timeline) addCell(ns *[gvl.NumStates]int64, r *row, col, num, den int64) {
	if col < t.col {
		r.add(ns, col, num, den, t.columnNS)
		return
	}
	if r.now.col != col {
		return
	}
	for s, v := range r.now.ns {
		if v != 0 {
			ns[s] += scale(v, num, den)
		}
	}
}

func (c *Cell) finish() {
	sum := int64(0)
	for s, v := range c.NS {
		sum += v
		if v > c.NS[c.Dominant] {
			c.Dominant = gvl.State(s)
		}
	}
	c.Share = gvl.Ratio(c.NS[c.Dominant], sum)
}

// Totals returns the thread's time by state between fromNS and toNS, in ns.
func (t *Timeline) Totals(id sampler.ThreadID, fromNS, toNS int64) [gvl.NumStates]int64 {
	var ns [gvl.NumStates]int64
	t.sync()
	if r := t.rows[id]; r != nil {
		s := t.period(fromNS, toNS)
		t.addPeriod(&ns, r, &s)
	}
	return ns
}

// Since returns when a thread entered the state st, in which it was at the time ns. It searches the stored columns, but
// not before fromNS. A column does not show the order of its states, so Since assumes that st was the last one.
func (t *Timeline) Since(id sampler.ThreadID, st gvl.State, ns, fromNS int64) int64 {
	t.sync()
	r := t.rows[id]
	col := min((ns-1)/t.columnNS, t.col)
	begin := max(col*t.columnNS, t.startNS)
	if r == nil || ns <= begin || len(r.chunks) == 0 {
		return ns
	}
	var now [gvl.NumStates]int64
	s := t.period(begin, ns)
	t.addPeriod(&now, r, &s)
	if now[st] < ns-begin {
		return max(ns-now[st], fromNS)
	}
	oldest := max(fromNS/t.columnNS, t.oldest())
	first := r.steadyFrom(st, col-1, oldest, t.columnNS)
	at := first * t.columnNS
	if first > oldest { // the thread may have entered the state in the column before
		at -= r.spentIn(st, first-1, t.columnNS)
	}
	return max(min(at, begin), fromNS)
}

// Threads appends to buf the threads that were listed between fromNS and toNS, sorted by ID.
func (t *Timeline) Threads(buf []sampler.ThreadID, fromNS, toNS int64) []sampler.ThreadID {
	t.sync()
	start := len(buf)
	for id, r := range t.rows {
		first, last := r.firstCol, r.lastCol
		if first < 0 {
			first = t.col
		}
		if r.listed || last < 0 || r.active && r.now.col == t.col {
			last = t.col
		}
		if first*t.columnNS < toNS && (last+1)*t.columnNS > fromNS {
			buf = append(buf, id)
		}
	}
	slices.SortFunc(buf[start:], func(a, b sampler.ThreadID) int { return cmp.Compare(a, b) })
	return buf
}

// Ractors returns the ractors that have a row in a picture (a lane), sorted by ID.
func (t *Timeline) Ractors() []sampler.RactorID {
	ids := make([]sampler.RactorID, 0, len(t.ractors))
	for _, l := range t.ractors {
		ids = append(ids, l.id)
	}
	slices.Sort(ids)
	return ids
}

// column returns a column of a ractor's lane. It returns false if the column is not stored.
func (l *ractorLane) column(col int64) (ownerColumn, bool) {
	c := l.ring[col%int64(len(l.ring))]
	return c, c.col == col
}

// Owners returns cols cells of a ractor's lane, which shows who held its GVL, between fromNS and toNS.
func (t *Timeline) Owners(id sampler.RactorID, fromNS, toNS int64, cols int) []OwnerCell {
	t.sync()
	var lane *ractorLane
	for _, l := range t.ractors {
		if l.id == id {
			lane = l
		}
	}
	out := make([]OwnerCell, 0, min(cols, maxCells))
	var shares []ownerNS // how long each thread held the GVL in the current cell
	for k := range min(cols, maxCells) {
		var c OwnerCell
		shares = shares[:0]
		c.SpanNS = t.spans(fromNS, toNS, cols, k, func(col, num, den int64) {
			c.SampledNS += scale(t.procColumn(col).sampledNS, num, den)
			if lane == nil {
				return
			}
			o, ok := lane.column(col)
			if !ok {
				return
			}
			c.HeldNS += scale(o.heldNS, num, den)
			c.GCNS += scale(o.gcNS, num, den)
			c.WaitNS += scale(o.waitNS, num, den)
			if o.owner != 0 {
				shares = addShare(shares, o.owner, scale(o.ownerNS, num, den))
			}
		})
		for _, s := range shares {
			if s.NS > c.HeldByOwnerNS {
				c.Owner, c.HeldByOwnerNS = s.Thread, s.NS
			}
		}
		out = append(out, c)
	}
	return out
}

func addShare(shares []ownerNS, id sampler.ThreadID, ns int64) []ownerNS {
	for i := range shares {
		if shares[i].Thread == id {
			shares[i].NS += ns
			return shares
		}
	}
	return append(shares, ownerNS{id, ns})
}

// procColumn returns the column with the process's figures, or an empty one if it is not stored.
func (t *Timeline) procColumn(col int64) procColumn {
	if c := t.proc.ring[col%int64(len(t.proc.ring))]; c.col == col {
		return c
	}
	return procColumn{}
}

// Process returns cols cells with the process's figures between fromNS and toNS.
func (t *Timeline) Process(fromNS, toNS int64, cols int) []ProcCell {
	t.sync()
	out := make([]ProcCell, 0, min(cols, maxCells))
	for k := range min(cols, maxCells) {
		var c ProcCell
		c.SpanNS = t.spans(fromNS, toNS, cols, k, func(col, num, den int64) {
			p := t.procColumn(col)
			c.SampledNS += scale(p.sampledNS, num, den)
			c.GCNS += scale(p.gcNS, num, den)
			c.CPUNS += scale(p.cpuNS, num, den)
			c.ThrottledNS += scale(p.throttledNS, num, den)
			if p.rssBytes != 0 {
				c.RSSBytes = p.rssBytes
			}
			for _, l := range t.ractors {
				if o, ok := l.column(col); ok {
					c.WaitNS += scale(o.waitNS, num, den)
					c.HeldNS += scale(o.heldNS, num, den)
				}
			}
		})
		out = append(out, c)
	}
	return out
}
