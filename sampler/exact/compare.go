package exact

import "github.com/ddtop/ddtop/sampler"

// SlackNS is the tolerance in ns between the time of a sample and the time at which its thread held the GVL by the
// records. A sample is read over some time, and AtNS is the middle.
const SlackNS = 1_000_000

// staleNS is how long sampling may mistake a new thread for an ended one whose memory it has, in ns.
const staleNS = 1_000_000_000

// sameLookNS is the time in which repeated samples of one thread count as one, in ns.
const sameLookNS = 1_000_000_000

// maxPast is the number of holds kept for comparison. It is half a second of the busiest load that was measured.
const maxPast = 1 << 15

// turn is an interval in which a thread held the GVL, CLOCK_MONOTONIC in ns.
type turn struct {
	tid          int32
	fromNS, toNS int64
}

// past keeps the last ended holds, in order of their ends.
type past struct {
	turns []turn
	next  int // the oldest one, once the list is full
}

func (p *past) add(t turn) {
	if len(p.turns) < maxPast {
		p.turns = append(p.turns, t)
		return
	}
	p.turns[p.next] = t
	p.next = (p.next + 1) % maxPast
}

// at returns the turn of a number, the oldest one's is 0.
func (p *past) at(n int) *turn { return &p.turns[(p.next+n)%len(p.turns)] }

// Compare checks a sample: that a thread held the GVL at a time. All records up to SlackNS after it must have been
// fed. Compare skips times that are too long ago or doubtful. It also skips the number of a thread that has just
// ended.
func (m *Machine) Compare(tid int32, atNS int64) {
	from, to := atNS-SlackNS, atNS+SlackNS
	if from < m.doubt || len(m.past.turns) == maxPast && m.past.at(0).toNS > from {
		return
	}
	if t := m.threads[tid]; t != nil && t.state == sampler.GVLHeld && t.since <= to {
		m.count(tid, atNS, true)
		return
	}
	low, high := 0, len(m.past.turns)
	for low < high {
		if mid := (low + high) / 2; m.past.at(mid).toNS < from {
			low = mid + 1
		} else {
			high = mid
		}
	}
	for ; low < len(m.past.turns) && m.past.at(low).fromNS <= to; low++ {
		if m.past.at(low).tid == tid {
			m.count(tid, atNS, true)
			return
		}
	}
	if m.threads[tid] == nil && m.endedNS != 0 && m.endedNS >= atNS-staleNS {
		return // it has ended, and who has its memory now was seen
	}
	m.count(tid, atNS, false)
}

// look is a comparison: the thread, the time and the result.
type look struct {
	tid    int32
	atNS   int64
	agreed bool
}

// count counts a comparison. It counts all samples of the same hold once. A thread that lost its CPU just before
// its record is made is sampled many times.
func (m *Machine) count(tid int32, atNS int64, agreed bool) {
	if l := &m.looked; l.tid == tid && l.agreed == agreed && atNS-l.atNS < sameLookNS {
		return
	}
	m.looked = look{tid, atNS, agreed}
	if agreed {
		m.checks.Agreed++
	} else {
		m.checks.Disagreed++
	}
}
