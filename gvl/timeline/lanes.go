package timeline

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// procColumn has the process's figures in one stored column of the timeline. col is the column's number.
type procColumn struct {
	col                          int64
	sampledNS, gcNS              int64
	cpuNS, throttledNS, rssBytes int64
}

type procLane struct {
	ring []procColumn
	last sampler.Proc
}

// column returns the process's column with number col, to which the caller adds time. The ring has room only for the
// newest columns. If a newer column has already replaced col, the result is an empty column that is not stored.
func (p *procLane) column(col int64) *procColumn {
	c := &p.ring[col%int64(len(p.ring))]
	switch {
	case c.col > col:
		return new(procColumn)
	case c.col < col:
		*c = procColumn{col: col}
	}
	return c
}

// add calls the function to for each column that a period overlaps. ns is the length of the overlap.
func (p *procLane) add(columnNS, fromNS, toNS int64, to func(c *procColumn, ns int64)) {
	for from := fromNS; from < toNS; {
		col := from / columnNS
		end := min(toNS, (col+1)*columnNS)
		to(p.column(col), end-from)
		from = end
	}
}

// ownerColumn has the figures of a ractor's GVL in one stored column of the timeline. col is the column's number.
type ownerColumn struct {
	col                           int64
	owner                         sampler.ThreadID
	ownerNS, heldNS, gcNS, waitNS int64
}

// ownerNS has a thread and how long it held a ractor's GVL in one column.
type ownerNS struct {
	Thread sampler.ThreadID
	NS     int64
}

type ractorLane struct {
	id      sampler.RactorID
	ring    []ownerColumn
	holders []ownerNS // the holders in the newest column
	newest  int64
	listed  int // number of listed threads
	// lastCol is the last column in which the ractor was seen.
	lastCol int64
}

// add adds a period of the ractor's GVL to its columns.
func (l *ractorLane) add(columnNS int64, i *gvl.LockInterval) {
	for from := max(i.FromNS, (i.ToNS/columnNS-int64(len(l.ring)))*columnNS); from < i.ToNS; {
		col := from / columnNS
		end := min(i.ToNS, (col+1)*columnNS)
		l.addColumn(col, end-from, i)
		from = end
	}
}

func (l *ractorLane) addColumn(col, d int64, i *gvl.LockInterval) {
	c := &l.ring[col%int64(len(l.ring))]
	switch {
	case c.col > col:
		return
	case c.col < col:
		*c = ownerColumn{col: col}
	}
	c.waitNS += i.Waiters * d
	if i.Unlisted.Holds {
		c.heldNS += d
	}
	if i.Thread == 0 {
		if i.Waiters > 0 || i.Unlisted.Holds {
			l.lastCol = max(l.lastCol, col)
		}
		return
	}
	l.lastCol = max(l.lastCol, col)
	c.heldNS += d
	if i.State == gvl.GC {
		c.gcNS += d
	}
	if col > l.newest {
		l.newest, l.holders = col, l.holders[:0]
	}
	if col < l.newest {
		return // late time of another ractor that shares this lane
	}
	l.holders = addShare(l.holders, i.Thread, d)
	for _, h := range l.holders {
		if h.Thread == i.Thread && h.NS > c.ownerNS {
			c.owner, c.ownerNS = h.Thread, h.NS
		}
	}
}

func (t *Timeline) ractor(id sampler.RactorID) *ractorLane {
	for _, l := range t.ractors {
		if l.id == id {
			l.lastCol = t.col
			return l
		}
	}
	if len(t.ractors) >= maxTimelineRactors && id != 0 {
		return t.ractor(0)
	}
	l := &ractorLane{id: id, ring: make([]ownerColumn, t.columns), lastCol: t.col}
	for i := range l.ring {
		l.ring[i].col = -1
	}
	t.ractors = append(t.ractors, l)
	return l
}

// counters spreads the growth of the process's counters over the columns since their last reading.
func (t *Timeline) counters(s *sampler.Sample) {
	p, now := &t.proc, s.Proc
	if now.AtNS == 0 || now.AtNS == p.last.AtNS {
		return
	}
	last := p.last
	p.last = now
	p.column(t.col).rssBytes = now.RSSBytes
	cpu := now.UserNS + now.SystemNS - last.UserNS - last.SystemNS
	throttled := now.ThrottledNS - last.ThrottledNS
	if last.AtNS == 0 || now.AtNS < last.AtNS || cpu < 0 || throttled < 0 {
		return
	}
	span := now.AtNS - last.AtNS
	end := min(now.AtNS/t.columnNS, t.col+1)
	for col := max(last.AtNS/t.columnNS, t.oldest(), 0); col <= end; col++ {
		d := min(now.AtNS, (col+1)*t.columnNS) - max(last.AtNS, col*t.columnNS)
		c := p.column(col)
		c.cpuNS += scale(cpu, d, span)
		c.throttledNS += scale(throttled, d, span)
	}
}

// scale returns v*num/den without overflow of the product. It returns v if den is not positive.
func scale(v, num, den int64) int64 {
	if num == den || den <= 0 {
		return v
	}
	return int64(float64(v) * float64(num) / float64(den))
}
