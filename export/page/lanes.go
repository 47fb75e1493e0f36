package page

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxIncidentColumns limits how many columns of time a page has. maxIncidentCells limits how many cells all threads
	// together have. A cell takes 40 bytes and has a thread's time in one column. If either limit is exceeded, each
	// pair of columns is merged into one.
	maxIncidentColumns = 4096
	maxIncidentCells   = 1 << 18
	// minIncidentColumns limits the merging of columns. Columns are merged only while there are more columns than this,
	// even if there are too many cells.
	minIncidentColumns = 128
	// maxIncidentLanes limits how many threads get a lane (a row of cells in the timeline). If this many lanes have
	// minIncidentColumns columns each, they have half of maxIncidentCells cells.
	maxIncidentLanes = maxIncidentCells / minIncidentColumns / 2
	// incidentColumnNS is the length of a column in ns before any columns are merged.
	incidentColumnNS = int64(4e6)
)

// incidentLanes has the time of each thread by state, in columns of time. All columns have the same length, which
// doubles when there are too many columns.
type incidentLanes struct {
	gvl.Ignore
	startNS, lastNS int64
	columnNS        int64
	threads         map[sampler.ThreadID]*incidentLane
	cells           int
	// columns are the figures of the whole process, an element for each column of time.
	columns []incidentColumn
	// left is the number of threads that have no lane (a row in the timeline), because there were too many threads.
	left    int
	leftIDs map[sampler.ThreadID]bool
	proc    sampler.Proc
}

// incidentLane is a thread's row in the timeline: its time by state in each column, in ns. cells[0] belongs to the
// page's column whose index is first. The thread has no cells for the columns before it.
type incidentLane struct {
	id    sampler.ThreadID
	first int
	cells [][gvl.NumStates]float32
	sum   [gvl.NumStates]int64
}

// incidentColumn describes the whole process during one column. waitNS is the sum of all threads' waits. heldNS is the
// time in which a GVL was held, and gcNS is the time inside the collector. cpuNS is CPU time, and cpuSpanNS is the part
// of the column for which CPU time is known. rss is the last reading of memory, in bytes. sampledNS is the sampled part
// of the column.
type incidentColumn struct {
	waitNS, heldNS, gcNS, cpuNS, cpuSpanNS float32
	rss                                    int64
	sampledNS                              float32
}

func (l *incidentLanes) Interval(i *gvl.Interval) {
	if l.startNS == 0 || !i.Sampled() {
		return
	}
	lane := l.lane(i.Thread)
	if lane != nil {
		lane.sum[i.State] += i.NS()
	}
	l.split(i.FromNS, i.ToNS, func(col int, ns float32) {
		c := l.column(col)
		switch {
		case i.State == gvl.Waiting:
			c.waitNS += ns
		case i.State.Held():
			c.heldNS += ns
		}
		if lane == nil {
			return
		}
		if len(lane.cells) == 0 {
			lane.first = col
		}
		if at := col - lane.first; at >= 0 {
			for at >= len(lane.cells) {
				lane.cells = append(lane.cells, [gvl.NumStates]float32{})
				l.cells++
			}
			lane.cells[at][i.State] += ns
		}
	})
	for l.cells > maxIncidentCells && len(l.columns) > minIncidentColumns {
		l.double()
	}
}

// Collecting adds an interval of the collector.
func (l *incidentLanes) Collecting(i *gvl.GCInterval) {
	if l.startNS != 0 {
		l.split(i.FromNS, i.ToNS, func(col int, ns float32) { l.column(col).gcNS += ns })
	}
}

// Tick adds the counters of a sample.
func (l *incidentLanes) Tick(k *gvl.Tick) {
	if l.startNS == 0 {
		l.startNS, l.columnNS = k.ToNS, incidentColumnNS
	}
	l.lastNS = k.ToNS
	if !k.Gap && !k.First {
		l.split(k.FromNS, k.ToNS, func(col int, ns float32) { l.column(col).sampledNS += ns })
	}
	p := &k.Proc
	if p.AtNS == 0 || p.AtNS <= l.proc.AtNS {
		return
	}
	if was := l.proc; was.AtNS != 0 {
		used, span := float32(p.UserNS+p.SystemNS-was.UserNS-was.SystemNS), float32(p.AtNS-was.AtNS)
		l.split(was.AtNS, p.AtNS, func(col int, ns float32) {
			c := l.column(col)
			c.cpuNS += used * ns / span
			c.cpuSpanNS += ns
			c.rss = p.RSSBytes
		})
	}
	l.proc = *p
}

// split cuts an interval at the borders of columns, and calls add for the part in each column. It drops the part before
// the first sample.
func (l *incidentLanes) split(fromNS, toNS int64, add func(col int, ns float32)) {
	for from := max(fromNS, l.startNS); from < toNS; {
		for (toNS-1-l.startNS)/l.columnNS >= maxIncidentColumns {
			l.double()
		}
		col := (from - l.startNS) / l.columnNS
		to := min(toNS, l.startNS+(col+1)*l.columnNS)
		add(int(col), float32(to-from))
		from = to
	}
}

func (l *incidentLanes) column(col int) *incidentColumn {
	for col >= len(l.columns) {
		l.columns = append(l.columns, incidentColumn{})
	}
	return &l.columns[col]
}

// lane returns a thread's lane, which is its row in the timeline. It returns nil if maxIncidentLanes other threads
// already have lanes.
func (l *incidentLanes) lane(id sampler.ThreadID) *incidentLane {
	if lane, ok := l.threads[id]; ok {
		return lane
	}
	if len(l.threads) >= maxIncidentLanes {
		if l.leftIDs == nil {
			l.leftIDs = make(map[sampler.ThreadID]bool)
		}
		if len(l.leftIDs) < maxIncidentCells && !l.leftIDs[id] {
			l.leftIDs[id] = true
			l.left++
		}
		return nil
	}
	lane := &incidentLane{id: id}
	l.threads[id] = lane
	return lane
}

// double doubles the length of all columns: it merges each pair of columns into one.
func (l *incidentLanes) double() {
	l.columnNS *= 2
	n := (len(l.columns) + 1) / 2
	for i := range l.columns[:n] {
		c := l.columns[2*i]
		if 2*i+1 < len(l.columns) {
			d := l.columns[2*i+1]
			c.waitNS, c.heldNS, c.gcNS = c.waitNS+d.waitNS, c.heldNS+d.heldNS, c.gcNS+d.gcNS
			c.cpuNS, c.cpuSpanNS, c.sampledNS = c.cpuNS+d.cpuNS, c.cpuSpanNS+d.cpuSpanNS, c.sampledNS+d.sampledNS
			c.rss = cmp.Or(d.rss, c.rss)
		}
		l.columns[i] = c
	}
	l.columns = l.columns[:n]
	l.cells = 0
	for _, lane := range l.threads {
		if len(lane.cells) == 0 {
			continue
		}
		first := lane.first / 2
		n := (lane.first+len(lane.cells)-1)/2 - first + 1
		for i := range n { // merged cells only move to the front, so a cell is read before it is overwritten
			var sum [gvl.NumStates]float32
			for _, at := range [2]int{2*(first+i) - lane.first, 2*(first+i) + 1 - lane.first} {
				if at < 0 || at >= len(lane.cells) {
					continue
				}
				for st, ns := range lane.cells[at] {
					sum[st] += ns
				}
			}
			lane.cells[i] = sum
		}
		lane.first, lane.cells = first, lane.cells[:n]
		l.cells += n
	}
}

// ordered returns the lanes (rows of threads in the timeline), the busiest thread first. work has the time of each
// thread by state, and ordered uses it to find out how busy the thread is. In work, the time of a thread at rest is
// Parked, even if the thread waited for I/O (findings.Resting).
func (l *incidentLanes) ordered(work map[sampler.ThreadID]*[gvl.NumStates]int64) []*incidentLane {
	var out []*incidentLane
	for _, lane := range l.threads {
		if len(lane.cells) > 0 {
			out = append(out, lane)
		}
	}
	busy := func(x *incidentLane) (ns int64) {
		of := work[x.id]
		if of == nil {
			return 0
		}
		for st, v := range of {
			if s := gvl.State(st); s.Works() {
				ns += v
			} else if s == gvl.IO {
				ns += v / 4 // to find the busiest threads, waiting for I/O has a quarter of the weight of work
			}
		}
		return ns
	}
	slices.SortFunc(out, func(x, y *incidentLane) int { return cmp.Or(cmp.Compare(busy(y), busy(x)), cmp.Compare(x.id, y.id)) })
	return out
}

// text encodes a lane for the page's script. A column is "." if it is empty, or a letter "a" to "j" if the thread was
// in a single state. If the thread was in several states, a letter "A" to "J" is the state with the most time. The next
// character, one of cellMixes, is the second state and its share. A number after a column says how often the column
// repeats.
func (x *incidentLane) text() string {
	var b []byte
	last, n := [2]byte{}, 0
	flush := func() {
		if n == 0 {
			return
		}
		b = append(b, last[0])
		if last[1] != 0 {
			b = append(b, last[1])
		}
		if n > 1 {
			b = strconv.AppendInt(b, int64(n), 10)
		}
	}
	for i := range x.cells {
		c := cellCode(&x.cells[i])
		if c != last {
			flush()
			last, n = c, 0
		}
		n++
	}
	flush()
	return string(b)
}

// cellMixes are the characters that encode the second state of a cell and the share of this state. The index of a
// character in cellMixes is state·cellShares + share.
const (
	cellMixes  = "!#$%()*+,-/:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~"
	cellShares = 6
)

// cellCode encodes one cell (incidentLane.text).
func cellCode(c *[gvl.NumStates]float32) [2]byte {
	first, second, sum := 0, -1, float32(0)
	for st, ns := range c {
		sum += ns
		if ns > c[first] {
			first = st
		}
	}
	if sum == 0 {
		return [2]byte{'.'}
	}
	for st, ns := range c {
		if st != first && ns > 0 && (second < 0 || ns > c[second]) {
			second = st
		}
	}
	if second < 0 || c[second] < sum/50 {
		return [2]byte{'a' + byte(first)}
	}
	share := min(int(c[second]/(c[first]+c[second])*2*cellShares), cellShares-1)
	return [2]byte{'A' + byte(first), cellMixes[second*cellShares+share]}
}
