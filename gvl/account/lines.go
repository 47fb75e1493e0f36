package account

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// MaxLineLagNS limits how long after its end a line is reported, in ns. If the states of some threads become known even
// later, their time is added to the next line.
const MaxLineLagNS = 5_000_000_000

// maxOpenLines limits the number of unfinished lines. If there are more, the oldest line is reported although its
// figures are not final.
const maxOpenLines = 1000

const maxLineRactors = 256

// LineSums has the sums for one line of `ddtop stat --interval`. Lines divides the time into equal periods, and each
// line covers one of them.
type LineSums struct {
	startNS, endNS int64
	NS             [gvl.NumStates]int64
	GCNS           int64
	// HeldNS is, for each ractor, how long a thread held its GVL, in ns.
	HeldNS  []RactorNS
	Waits   gvl.Lengths
	samples uint64
	// MissingNS is the time without samples.
	MissingNS int64
	// exactNS is the time in which every change of the GVL is known.
	exactNS int64
	Quality sampler.Quality
	last    *lineEnd // the counters at the line's last sample; nil if the line has no sample
}

type RactorNS struct {
	ID sampler.RactorID
	NS int64
}

func AddRactor(list []RactorNS, id sampler.RactorID, ns int64) []RactorNS {
	i := slices.IndexFunc(list, func(r RactorNS) bool { return r.ID == id })
	if i < 0 {
		if len(list) >= maxLineRactors {
			return list
		}
		i, list = len(list), append(list, RactorNS{ID: id})
	}
	list[i].NS += ns
	return list
}

// lineEnd has the figures of counters at the last sample of a line. The difference between two consecutive lineEnds is
// a line's collections and CPU time.
type lineEnd struct {
	threads      int
	gc           sampler.GC
	cpuAt, cpuNS int64
	rss          int64
	backlog      *int64
}

// Lines divides the time of a Stream into equal intervals and reports what happened in each. It reports an interval
// when its figures are final. This can be up to a second after the end of the interval, because the kernel's answers
// arrive late. Lines is not safe for concurrent use.
type Lines struct {
	gvl.Ignore
	proc   sampler.Process
	length int64
	out    func(report.StatLine, *LineSums)
	open   []LineSums // in the order of time, without a gap
	// settled[i] is the time up to which the states of the thread with the slot i are known. It is zero if no thread
	// has the slot.
	settled []int64
	before  *lineEnd   // the counters at the end of the last reported line; nil if there was none
	gc      sampler.GC // the collector at its last reading; some samples have no reading
	lastNS  int64
}

// NewLines returns the Lines of a stream of the target p. It calls the function out for each period of the given
// length in ns.
func NewLines(s *stream.Stream, p sampler.Process, length int64, out func(report.StatLine)) *Lines {
	return NewLinesWithSums(s, p, length, func(l report.StatLine, _ *LineSums) { out(l) })
}

// NewLinesWithSums is like NewLines, but also passes the sums of each line to the function out. out may keep the sums
// after it returns.
func NewLinesWithSums(s *stream.Stream, p sampler.Process, length int64, out func(report.StatLine, *LineSums)) *Lines {
	l := &Lines{proc: p, length: length, out: out}
	s.Attach(l)
	return l
}

// eachLine calls visit with each line that overlaps a period, and the length of the overlap. Time before the first open
// line is added to the first open line, because earlier lines are already reported.
func (l *Lines) eachLine(fromNS, toNS int64, visit func(s *LineSums, ns int64)) {
	if len(l.open) == 0 || toNS <= fromNS {
		return
	}
	if first := l.open[0].startNS; fromNS < first {
		visit(&l.open[0], min(first, toNS)-fromNS)
		fromNS = first
	}
	for i := range l.open {
		s := &l.open[i]
		if from, to := max(fromNS, s.startNS), min(toNS, s.endNS); to > from {
			visit(s, to-from)
		}
	}
}

// reach opens new lines, one after the other, until the last one covers the time ns.
func (l *Lines) reach(ns int64) {
	for len(l.open) > 0 && l.open[len(l.open)-1].endNS < ns {
		if len(l.open) >= maxOpenLines {
			l.tell(ns)
		}
		from := l.open[len(l.open)-1].endNS
		l.open = append(l.open, LineSums{startNS: from, endNS: from + l.length})
	}
}

func (l *Lines) Interval(i *gvl.Interval) {
	l.reach(i.ToNS)
	l.eachLine(i.FromNS, i.ToNS, func(s *LineSums, ns int64) {
		s.NS[i.State] += ns
		if i.State.Held() {
			s.HeldNS = AddRactor(s.HeldNS, i.Ractor, ns)
		}
	})
	l.settle(i.Slot, i.ToNS)
}

func (l *Lines) settle(slot int, ns int64) {
	for slot >= len(l.settled) {
		l.settled = append(l.settled, 0)
	}
	l.settled[slot] = ns
}

// Waited adds a wait for the GVL to the line (period) in which the wait ended.
func (l *Lines) Waited(w *gvl.Wait) {
	l.reach(w.ToNS)
	for i := range l.open {
		if w.ToNS <= l.open[i].endNS {
			l.open[i].Waits.Add(w)
			return
		}
	}
}

// Lock adds the holds and waits of threads that no sample listed. Such threads have no intervals, so the method
// Interval does not add them. Lock ignores all other threads.
func (l *Lines) Lock(i *gvl.LockInterval) {
	if i.Unlisted == (gvl.Unlisted{}) {
		return
	}
	l.reach(i.ToNS)
	l.eachLine(i.FromNS, i.ToNS, func(s *LineSums, ns int64) {
		s.NS[gvl.Waiting] += i.Unlisted.Waiters * ns
		if i.Unlisted.Holds {
			s.NS[gvl.Running] += ns
			s.HeldNS = AddRactor(s.HeldNS, i.Ractor, ns)
		}
	})
}

func (l *Lines) Collecting(i *gvl.GCInterval) {
	l.reach(i.ToNS)
	l.eachLine(i.FromNS, i.ToNS, func(s *LineSums, ns int64) { s.GCNS += ns })
}

func (l *Lines) Ended(slot int, _ int64) { l.settle(slot, 0) }

func (l *Lines) Tick(t *gvl.Tick) {
	if t.First {
		l.open = append(l.open, LineSums{startNS: t.ToNS, endNS: t.ToNS + l.length})
	}
	l.reach(t.ToNS)
	l.lastNS = t.ToNS
	if t.Gap {
		l.eachLine(t.FromNS, t.ToNS, func(s *LineSums, ns int64) { s.MissingNS += ns })
	}
	if c := &t.Changes; c.Known() && !t.First {
		l.eachLine(c.FromNS, c.ToNS, func(s *LineSums, ns int64) { s.exactNS += ns })
	}
	for _, i := range t.Begun {
		if slot := t.Slots[i]; slot >= 0 && (slot >= len(l.settled) || l.settled[slot] == 0) {
			l.settle(slot, t.MidNS)
		}
	}
	if t.GC.Valid || !l.gc.Valid {
		l.gc = t.GC
	}
	end := lineEnd{threads: len(t.Threads), gc: l.gc, cpuAt: t.Proc.AtNS, cpuNS: t.Proc.UserNS + t.Proc.SystemNS, rss: t.Proc.RSSBytes,
		backlog: report.BacklogOf(t.Sample.Queues)}
	if t.First {
		before := end
		l.before = &before
	}
	at := slices.IndexFunc(l.open, func(s LineSums) bool { return t.ToNS <= s.endNS })
	s := &l.open[at]
	if s.samples++; s.last == nil {
		s.last = &end
	} else {
		*s.last = end
	}
	q := t.Quality()
	s.Quality.Add(&q)
	for len(l.open) > 1 && (l.open[0].endNS <= l.settledNS() || t.ToNS > l.open[0].endNS+MaxLineLagNS) {
		l.tell(l.lastNS)
	}
}

// settledNS returns the time up to which the states of all threads are known.
func (l *Lines) settledNS() int64 {
	least := l.lastNS
	for _, ns := range l.settled {
		if ns != 0 {
			least = min(least, ns)
		}
	}
	return least
}

// Finish reports the lines that were not reported yet, after the stream has finished. The last line ends with the last
// sample.
func (l *Lines) Finish() {
	for len(l.open) > 0 && l.open[0].startNS < l.lastNS {
		l.tell(l.lastNS)
	}
	l.open = nil
}

// tell reports the first open line. If nowNS is before the end of this line, the line ends at nowNS.
func (l *Lines) tell(nowNS int64) {
	s := &l.open[0]
	endNS := min(s.endNS, nowNS)
	ratioOf := func(ns int64) float64 { return gvl.Ratio(ns, endNS-s.startNS) }
	line := report.StatLine{
		PID: l.proc.PID, StartNS: s.startNS, EndNS: endNS, DurationNS: endNS - s.startNS, Samples: s.samples,
		NS: report.StatesOf(s.NS), HeldShare: report.OrNull(ratioOf(s.NS[gvl.Running] + s.NS[gvl.Stalled] + s.NS[gvl.GC])), WaitingMean: report.OrNull(ratioOf(s.NS[gvl.Waiting])),
		ExactNS: s.exactNS,
	}
	told := s.Waits.Told(.5, .99, 1)
	line.Waits = report.LineWaits{
		Count: s.Waits.Count(), P50NS: told[0].NS, P99NS: told[1].NS, MaxNS: told[2].NS, Bounds: report.LineBounds{P50: told[0].Bound, P99: told[1].Bound, Max: told[2].Bound},
	}
	line.GC.NS, line.GC.Share = s.GCNS, ratioOf(s.GCNS)
	if s.last == nil { // without a sample, the counters have not changed
		s.last = l.before
	}
	now, before := s.last, l.before
	line.Threads, line.RSSBytes, line.Backlog = now.threads, now.rss, now.backlog
	line.GC.Unread = !now.gc.Valid || !before.gc.Valid
	if now.gc.Valid && before.gc.Valid {
		line.GC.Count, line.GC.Minor, line.GC.Major = now.gc.Count-before.gc.Count, now.gc.MinorCount-before.gc.MinorCount, now.gc.MajorCount-before.gc.MajorCount
		allocated := now.gc.Allocated - min(now.gc.Allocated, before.gc.Allocated)
		line.Allocated = &allocated
	}
	if span := now.cpuAt - before.cpuAt; before.cpuAt != 0 && span > 0 {
		share := gvl.Ratio(now.cpuNS-before.cpuNS, span)
		line.CPUShare = &share
	}
	l.before = now
	lacks := report.LacksOf(&s.Quality)
	line.Lacks = report.LineLacks{States: lacks.States, Waits: lacks.Waits}
	line.LeaveOut()
	sums := *s
	l.open = slices.Delete(l.open, 0, 1)
	l.out(line, &sums)
}
