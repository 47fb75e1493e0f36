package store

import (
	"sort"
	"time"

	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/style"
)

// Mark has the data of the head lines at an instant: counters, and the findings of that instant. The counters only
// grow, so the difference of two marks describes the time between them.
type Mark struct {
	TimeNS   int64
	GC       sampler.GC
	Heap     sampler.GCDetail
	Proc     sampler.Proc
	Meters   meters
	Self     sampler.Self
	Reads    sampler.Reads
	Slow     bool
	Queues   *sampler.Queues
	Classes  *sampler.AllocClasses
	Findings []findings.Finding
	Unjudged unjudged
	Growing  findings.Growing
	Stacks   StackReads
	// Quality counts the samples and changes on which figures are based, since the attach.
	Quality sampler.Quality
}

// meters measure counters that are read more rarely than samples are made: ddtop's own CPU time, and how often threads
// of the process were given a CPU.
type meters struct{ Self, Switches account.Meter }

func (m *meters) feed(s *sampler.Sample) {
	m.Self.Feed(s.Self.CPUNS, s.TimeNS)
	m.Switches.Feed(s.Proc.Switches, s.TimeNS)
}

// unjudged is why ddtop cannot tell for an instant whether all is well. Then the absence of findings means nothing.
type unjudged uint8

const (
	judged   unjudged = iota
	starting          // most rules ignore the start of a program
	settling          // ddtop has measured for too short a time
)

// settleNS is how long ddtop measures before it reports that nothing stands out, in ns. A rule's condition must hold
// for 3 s before its finding is raised.
const settleNS = int64(5 * time.Second)

// MemoryWatchNS is how long a process must have been watched, in ns, until the text "nothing found" also refers to its
// memory.
const MemoryWatchNS = int64(time.Minute)

// WhyUnjudged returns why it is too early to judge by the newest instant. It returns judged if it is not too early.
// measuredNS is how long ddtop has measured, in ns.
func WhyUnjudged(f *findings.Findings, measuredNS int64) unjudged {
	switch {
	case f.Early():
		return starting
	case measuredNS < settleNS:
		return settling
	}
	return judged
}

// Note describes u in words. over is true for an instant in the past, and false for now.
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

// StackReads counts the stacks that were read, and how many of them are incomplete.
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

// MarkEachNS is the interval between marks, in ns.
const MarkEachNS = int64(500 * time.Millisecond)

// marks is a ring of marks over the history. It grows until it is full. A mark takes about 2 kB, and with an hour's
// history of many processes most marks are never made.
type marks struct {
	ring []Mark
	next int // the index for the next mark, once the ring is full
	most int // the largest number of marks
}

func newMarks(history time.Duration) marks {
	return marks{most: int(int64(history)/MarkEachNS) + 2}
}

// due reports whether it is time for another mark.
func (m *marks) due(nowNS int64) bool {
	return len(m.ring) == 0 || nowNS-m.last().TimeNS >= MarkEachNS
}

func (m *marks) add(s *sampler.Sample, f []findings.Finding, g findings.Growing, u unjudged, n StackReads, own meters, q sampler.Quality) {
	x := Mark{TimeNS: s.TimeNS, GC: s.GC, Heap: s.GCDetail, Proc: s.Proc, Meters: own, Self: s.Self, Reads: s.Reads,
		Slow: s.Slow, Queues: s.Queues, Classes: s.Classes, Findings: f, Growing: g, Unjudged: u, Stacks: n, Quality: q}
	if len(m.ring) < m.most {
		m.ring = append(m.ring, x)
		return
	}
	m.ring[m.next] = x
	m.next = (m.next + 1) % len(m.ring)
}

// Mark returns the i-th oldest mark.
func (m *marks) Mark(i int) *Mark {
	return &m.ring[(m.next+i)%len(m.ring)]
}

func (m *marks) last() *Mark { return m.Mark(len(m.ring) - 1) }

// LastBefore returns the newest mark that is not later than ns, or else the oldest mark. It is nil without marks.
func (m *marks) LastBefore(ns int64) *Mark {
	if len(m.ring) == 0 {
		return nil
	}
	i := sort.Search(len(m.ring), func(i int) bool { return m.Mark(i).TimeNS > ns })
	return m.Mark(max(i-1, 0))
}

// Span returns the marks at the two ends of a time span. ok is false if there are not two different marks.
func (m *marks) Span(fromNS, toNS int64) (a, b *Mark, ok bool) {
	a, b = m.LastBefore(fromNS), m.LastBefore(toNS)
	return a, b, a != nil && b != nil && b.TimeNS > a.TimeNS
}

// maxExactSpans limits the number of ExactSpans. The oldest are dropped first.
const maxExactSpans = 1 << 10

// ExactSpans are the time spans in which every change of the GVL is known, oldest first: from and to, in ns.
type ExactSpans [][2]int64

// add adds the time span of a sample's changes.
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

// Any reports whether a part of a time span is known exactly.
func (x ExactSpans) Any(fromNS, toNS int64) bool { return x.share(fromNS, toNS) > 0 }

// share returns the part of a time span that is known exactly.
func (x ExactSpans) share(fromNS, toNS int64) float64 {
	var sum int64
	for _, s := range x {
		sum += max(min(s[1], toNS)-max(s[0], fromNS), 0)
	}
	return style.Share(sum, toNS-fromNS)
}

// NearlyAll reports whether at least 99 % of a time span is known exactly.
func (x ExactSpans) NearlyAll(fromNS, toNS int64) bool { return x.share(fromNS, toNS) >= 0.99 }

// Words describes how much of a time span is known exactly. It returns "" if nothing is.
func (x ExactSpans) Words(fromNS, toNS int64) string {
	switch {
	case x.NearlyAll(fromNS, toNS):
		return "exact"
	case x.Any(fromNS, toNS):
		return "exact in part"
	}
	return ""
}
