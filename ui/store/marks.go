package store

import (
	"sort"
	"time"

	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/style"
)

// Mark holds the data for the first lines of the screen at one instant: counters, and the findings of this instant. The
// counters only grow, so the difference of two marks describes the time between them.
type Mark struct {
	TimeNS int64
	GC     sampler.GC
	// Heap and Classes are the figures of the collector and of allocations. In the newest mark they are always from the
	// mark's own time. In other marks they can be up to detailNS older. In a mark from a ring buffer (marks), Heap is
	// never nil.
	Heap    *sampler.GCDetail
	Classes *sampler.AllocClasses
	// Live is the number of live slots on the heap, as in GCDetail.
	Live     int64
	Proc     sampler.Proc
	Meters   meters
	Self     sampler.Self
	Reads    sampler.Reads
	Slow     bool
	Queues   *sampler.Queues
	Findings []findings.Finding
	Unjudged unjudged
	Growing  findings.Growing
	Stacks   StackReads
	// Quality counts the samples and the changes of the GVL since the attach. The difference of two marks shows on how
	// many samples and changes a figure is based.
	Quality sampler.Quality
}

// meters hold counters that are read less often than samples are taken. They measure ddtop's own CPU time, and how
// often threads of the process got a CPU.
type meters struct{ Self, Switches account.Meter }

func (m *meters) feed(s *sampler.Sample) {
	m.Self.Feed(s.Self.CPUNS, s.TimeNS)
	m.Switches.Feed(s.Proc.Switches, s.TimeNS)
}

// unjudged is the reason why it is too early to say that all is well. While there is a reason, the absence of findings
// means nothing.
type unjudged uint8

const (
	judged   unjudged = iota
	starting          // most rules ignore the start of a program
	settling          // ddtop has measured for too short a time
)

// settleNS is how long ddtop measures before the screen says that nothing stands out, in ns. It must be longer than 3
// s, because a rule raises a finding only after its condition was true for 3 s.
const settleNS = int64(5 * time.Second)

// MemoryWatchNS is how long ddtop must have watched a process, in ns, before the screen may say that it found nothing
// wrong with its memory.
const MemoryWatchNS = int64(time.Minute)

// WhyUnjudged returns why it is too early to say whether all is well at the newest instant. If it is not too early, it
// returns judged. measuredNS is how long ddtop has measured, in ns.
func WhyUnjudged(f *findings.Findings, measuredNS int64) unjudged {
	switch {
	case f.Early():
		return starting
	case measuredNS < settleNS:
		return settling
	}
	return judged
}

// Note returns the reason as a text for the user. If over is true, the text is about an instant in the past, and
// otherwise about the present.
func (u unjudged) Note(over bool) string {
	switch {
	case u == starting && over:
		return "too early to judge: the program had just started"
	case u == starting:
		return "the program has just started: findings come after some seconds of its work"
	case u == settling && over:
		return "too early to judge: only a few seconds had been measured"
	case u == settling:
		return "measuring for a few seconds before judging"
	}
	return ""
}

// StackReads says how many stacks were read (Read), and how many of them are incomplete (Lost).
type StackReads struct {
	Read, Lost uint64
}

// count adds the stacks of a sample.
func (n *StackReads) count(s *sampler.Sample) {
	const lost = sampler.StackPartial | sampler.StackFailed
	for i := range s.Threads {
		q := s.Threads[i].Quality
		if q&(sampler.StackFresh|lost) == 0 {
			continue
		}
		n.Read++
		if q&lost != 0 {
			n.Lost++
		}
	}
}

// MarkEachNS is the time between two marks of a Store, in ns.
const MarkEachNS = int64(500 * time.Millisecond)

// detailNS is the interval between two marks that have a Heap and Classes of their own, in ns. These two take 6 kB, and
// all other fields of a mark take 600 bytes. The marks in between share the Heap and the Classes of an older mark.
const detailNS = int64(2 * time.Second)

// marks is a ring buffer with the marks of the history. It grows until it has its full size. With a history of an hour
// and many processes, most of the marks are never made. So their memory is not reserved at the start.
type marks struct {
	ring []Mark
	next int // the index for the next mark, once the ring is full
	most int // the largest number of marks
	// kept is a copy of a mark that has a Heap and Classes of its own. It is the last such mark, not including the
	// newest mark of all.
	kept Mark
}

func newMarks(history time.Duration) marks {
	return marks{most: int(int64(history)/MarkEachNS) + 2}
}

// due reports whether enough time has passed to make another mark.
func (m *marks) due(nowNS int64) bool {
	return len(m.ring) == 0 || nowNS-m.last().TimeNS >= MarkEachNS
}

func (m *marks) add(s *sampler.Sample, f []findings.Finding, g findings.Growing, u unjudged, n StackReads, own meters, q sampler.Quality) {
	m.shareDetail()
	heap := s.GCDetail
	x := Mark{TimeNS: s.TimeNS, GC: s.GC, Heap: &heap, Live: heap.Live, Proc: s.Proc, Meters: own, Self: s.Self, Reads: s.Reads,
		Slow: s.Slow, Queues: s.Queues, Classes: s.Classes, Findings: f, Growing: g, Unjudged: u, Stacks: n, Quality: q}
	if len(m.ring) < m.most {
		m.ring = append(m.ring, x)
		return
	}
	m.ring[m.next] = x
	m.next = (m.next + 1) % len(m.ring)
}

// shareDetail prepares for a new mark. The newest mark so far has a Heap and Classes of its own. To save memory,
// shareDetail replaces them by the Heap and Classes of an older mark.
func (m *marks) shareDetail() {
	if len(m.ring) == 0 {
		return
	}
	x := m.last()
	if m.kept.Heap == nil || x.TimeNS-m.kept.TimeNS >= detailNS {
		m.kept = *x
		return
	}
	x.Heap, x.Classes = m.kept.Heap, m.kept.Classes
}

// Mark returns the i-th oldest mark.
func (m *marks) Mark(i int) *Mark {
	return &m.ring[(m.next+i)%len(m.ring)]
}

func (m *marks) last() *Mark { return m.Mark(len(m.ring) - 1) }

// LastBefore returns the newest mark that is not later than ns. If all marks are later, it returns the oldest mark. It
// returns nil only if there are no marks.
func (m *marks) LastBefore(ns int64) *Mark {
	if len(m.ring) == 0 {
		return nil
	}
	i := sort.Search(len(m.ring), func(i int) bool { return m.Mark(i).TimeNS > ns })
	return m.Mark(max(i-1, 0))
}

// Span returns the marks at the beginning and at the end of a time span. ok is false if they are the same mark, or if
// there are no marks.
func (m *marks) Span(fromNS, toNS int64) (a, b *Mark, ok bool) {
	a, b = m.LastBefore(fromNS), m.LastBefore(toNS)
	return a, b, a != nil && b != nil && b.TimeNS > a.TimeNS
}

// maxExactSpans limits how many time spans an ExactSpans has. Once it has so many, each new span replaces the oldest.
const maxExactSpans = 1 << 10

// ExactSpans are the time spans in which every change of the GVL is known. A span has its beginning and its end, in ns.
// The oldest comes first.
type ExactSpans [][2]int64

// add adds a time span in which every change of the GVL is known: the time for which the sample has these changes.
func (x *ExactSpans) add(c *sampler.Changes) {
	if !c.Known() {
		return
	}
	if n := len(*x); n > 0 && !c.Fresh && (*x)[n-1][1] == c.FromNS {
		(*x)[n-1][1] = c.ToNS
		return
	}
	if *x = append(*x, [2]int64{c.FromNS, c.ToNS}); len(*x) > maxExactSpans {
		*x = append((*x)[:0], (*x)[1:]...)
	}
}

// Any reports whether every change of the GVL is known for at least a part of a time span.
func (x ExactSpans) Any(fromNS, toNS int64) bool { return x.share(fromNS, toNS) > 0 }

// share returns for which part of a time span every change of the GVL is known, from 0 to 1.
func (x ExactSpans) share(fromNS, toNS int64) float64 {
	var sum int64
	for _, s := range x {
		sum += max(min(s[1], toNS)-max(s[0], fromNS), 0)
	}
	return style.Share(sum, toNS-fromNS)
}

// NearlyAll reports whether every change of the GVL is known for at least 99 % of a time span.
func (x ExactSpans) NearlyAll(fromNS, toNS int64) bool { return x.share(fromNS, toNS) >= 0.99 }

// Words returns a text that says for how much of a time span every change of the GVL is known. Words returns "" if
// there is no part for which this is true.
func (x ExactSpans) Words(fromNS, toNS int64) string {
	switch {
	case x.NearlyAll(fromNS, toNS):
		return "exact"
	case x.Any(fromNS, toNS):
		return "exact in part"
	}
	return ""
}
