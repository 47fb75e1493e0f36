package gvl

import "github.com/ddtop/ddtop/sampler"

// procColumn is one kept column of the process's lanes; col says whether it is still that column.
type procColumn struct {
	col                          int64
	sampledNS, gcNS              int64
	cpuNS, throttledNS, rssBytes int64
}

type procLane struct {
	ring        []procColumn
	open        procColumn
	segNS       int64
	sampled, gc bool
	last        sampler.Proc
}

func (p *procLane) flush(at int64) {
	d := at - p.segNS
	if d <= 0 {
		return
	}
	p.segNS = at
	if !p.sampled {
		return
	}
	p.open.sampledNS += d
	if p.gc {
		p.open.gcNS += d
	}
}

func (p *procLane) close(col int64) {
	c := &p.ring[col%int64(len(p.ring))]
	if c.col == col {
		// Counters read later may already have given it a share.
		p.open.cpuNS += c.cpuNS
		p.open.throttledNS += c.throttledNS
	}
	*c = p.open
	c.col = col
	p.open = procColumn{}
}

// ownerColumn is one kept column of a ractor's lane.
type ownerColumn struct {
	col                           int64
	owner                         sampler.ThreadID
	ownerNS, heldNS, gcNS, waitNS int64
}

type ractorLane struct {
	id                sampler.RactorID
	ring              []ownerColumn
	open              ownerColumn
	segNS             int64
	waiters, held, gc int64
	listed            int // threads
	best              sampler.ThreadID
	bestNS            int64
	// lastCol is the last column in which the ractor was mentioned.
	lastCol int64
}

func (l *ractorLane) count(s State, n int64) {
	switch {
	case s == Waiting:
		l.waiters += n
	case s.Held():
		l.held += n
		if s == GC {
			l.gc += n
		}
	}
}

func (l *ractorLane) flush(at int64) {
	d := at - l.segNS
	if d <= 0 {
		return
	}
	l.segNS = at
	l.open.waitNS += l.waiters * d
	l.open.heldNS += l.held * d
	l.open.gcNS += l.gc * d
}

// offer proposes a thread as the one that held the GVL longest in the open column.
func (l *ractorLane) offer(id sampler.ThreadID, ns int64) {
	if ns > l.bestNS {
		l.best, l.bestNS = id, ns
	}
}

func (l *ractorLane) close(col int64) {
	if l.open != (ownerColumn{}) {
		l.lastCol = col
	}
	l.open.col, l.open.owner, l.open.ownerNS = col, l.best, l.bestNS
	l.ring[col%int64(len(l.ring))] = l.open
	l.open = ownerColumn{}
}

func (t *Timeline) ractor(id sampler.RactorID) *ractorLane {
	for _, l := range t.ractors {
		if l.id == id {
			l.lastCol = t.col
			return l
		}
	}
	if len(t.ractors) >= MaxTimelineRactors && id != 0 {
		return t.ractor(0)
	}
	l := &ractorLane{id: id, ring: make([]ownerColumn, t.columns), segNS: t.proc.segNS, lastCol: t.col}
	for i := range l.ring {
		l.ring[i].col = -1
	}
	t.ractors = append(t.ractors, l)
	return l
}

func (t *Timeline) flushLanes(at int64) {
	t.proc.flush(at)
	for _, l := range t.ractors {
		l.flush(at)
	}
}

// counters spreads what the process's counters have grown by over the columns since they were read last.
func (t *Timeline) counters(s *sampler.Sample) {
	p, now := &t.proc, s.Proc
	if now.AtNS == 0 || now.AtNS == p.last.AtNS {
		return
	}
	last := p.last
	p.last = now
	p.open.rssBytes = now.RSSBytes
	cpu := now.UserNS + now.SystemNS - last.UserNS - last.SystemNS
	throttled := now.ThrottledNS - last.ThrottledNS
	if last.AtNS == 0 || now.AtNS < last.AtNS || cpu < 0 || throttled < 0 {
		return
	}
	span := now.AtNS - last.AtNS
	end := min(now.AtNS/t.columnNS, t.col+1)
	for col := max(last.AtNS/t.columnNS, t.oldest(), 0); col <= end; col++ {
		d := min(now.AtNS, (col+1)*t.columnNS) - max(last.AtNS, col*t.columnNS)
		c := &p.open
		if col != t.col {
			// A closed column, or one that opens soon: close adds what is in the ring already.
			c = &p.ring[col%int64(len(p.ring))]
			if c.col != col {
				*c = procColumn{col: col}
			}
		}
		c.cpuNS += scale(cpu, d, span)
		c.throttledNS += scale(throttled, d, span)
	}
}

// scale returns v*num/den for quantities of ns that could overflow as a product; v where den is not positive.
func scale(v, num, den int64) int64 {
	if num == den || den <= 0 {
		return v
	}
	return int64(float64(v) * float64(num) / float64(den))
}
