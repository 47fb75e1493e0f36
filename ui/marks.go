package ui

import (
	"sort"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// mark is what the head lines need of an instant: counters that only grow, so that any stretch of time is the
// difference of two marks, and what was found to be wrong then.
type mark struct {
	timeNS   int64
	gc       sampler.GC
	heap     sampler.GCDetail
	proc     sampler.Proc
	meters   meters
	ddtop    sampler.Self
	reads    sampler.Reads
	slow     bool
	classes  *sampler.AllocClasses
	findings []gvl.Finding
	unjudged unjudged
	stacks   stackReads
	// quality is what figures rest on since the attach.
	quality sampler.Quality
}

// meters are of counters that are read more rarely than samples are made: ddtop's own CPU time, and how often threads of
// the process were given a CPU.
type meters struct{ self, switches gvl.Meter }

func (m *meters) feed(s *sampler.Sample) {
	m.self.Feed(s.Self.CPUNS, s.TimeNS)
	m.switches.Feed(s.Proc.Switches, s.TimeNS)
}

// unjudged is why an instant without findings is not one at which nothing was wrong.
type unjudged uint8

const (
	judged   unjudged = iota
	starting          // most rules look at nothing of a program's start
	settling          // too little was measured
)

// settleNS is how long it is measured before it is said that nothing stands out: a rule's condition holds for 3 s before its
// finding is raised.
const settleNS = int64(5 * time.Second)

// memoryWatchNS is how long a process has to have been watched before that nothing was found says something of its memory too.
const memoryWatchNS = int64(time.Minute)

// whyUnjudged tells it of the newest instant, with what has been measured up to it.
func whyUnjudged(f *gvl.Findings, measuredNS int64) unjudged {
	switch {
	case f.Early():
		return starting
	case measuredNS < settleNS:
		return settling
	}
	return judged
}

// note says it, of an instant that is over or of now.
func (u unjudged) note(over bool) string {
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

// stackReads counts the stacks that were read, and those of them that are not there in full.
type stackReads struct {
	read, lost uint64
}

// count adds a sample's.
func (n *stackReads) count(s *sampler.Sample) {
	const lost = sampler.StackPartial | sampler.StackFailed
	for i := range s.Threads {
		q := s.Threads[i].Quality
		if q&(sampler.StackFresh|lost) == 0 {
			continue
		}
		n.read++
		if q&lost != 0 {
			n.lost++
		}
	}
}

// markEachNS is the distance of marks.
const markEachNS = int64(500 * time.Millisecond)

// marks is a ring of marks over the history. It grows until it is full: a mark takes some 2 kB, and with an hour's history of
// many processes most are never made.
type marks struct {
	ring []mark
	next int // where the next one goes, once the ring is full
	most int // marks kept
}

func newMarks(history time.Duration) marks {
	return marks{most: int(int64(history)/markEachNS) + 2}
}

// due reports whether it is time for another mark.
func (m *marks) due(nowNS int64) bool {
	return len(m.ring) == 0 || nowNS-m.newest().timeNS >= markEachNS
}

func (m *marks) add(s *sampler.Sample, f []gvl.Finding, u unjudged, n stackReads, own meters, q sampler.Quality) {
	x := mark{timeNS: s.TimeNS, gc: s.GC, heap: s.GCDetail, proc: s.Proc, meters: own, ddtop: s.Self, reads: s.Reads,
		slow: s.Slow, classes: s.Classes, findings: f, unjudged: u, stacks: n, quality: q}
	if len(m.ring) < m.most {
		m.ring = append(m.ring, x)
		return
	}
	m.ring[m.next] = x
	m.next = (m.next + 1) % len(m.ring)
}

// at returns the i-th oldest mark.
func (m *marks) at(i int) *mark {
	return &m.ring[(m.next+i)%len(m.ring)]
}

func (m *marks) newest() *mark { return m.at(len(m.ring) - 1) }

// before returns the newest mark that is not later than ns, or the oldest one; nil when there is none.
func (m *marks) before(ns int64) *mark {
	if len(m.ring) == 0 {
		return nil
	}
	i := sort.Search(len(m.ring), func(i int) bool { return m.at(i).timeNS > ns })
	return m.at(max(i-1, 0))
}

// span returns the two marks that a stretch of time lies between; ok is false while there are no two.
func (m *marks) span(fromNS, toNS int64) (a, b *mark, ok bool) {
	a, b = m.before(fromNS), m.before(toNS)
	return a, b, a != nil && b != nil && b.timeNS > a.timeNS
}
