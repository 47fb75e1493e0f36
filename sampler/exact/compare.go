package exact

import "github.com/ddtop/ddtop/sampler"

// SlackNS is the possible error of a sample's time, in ns. It takes time to read a sample, and the sample's time is the
// middle of this time. So a sample can show a hold of the GVL, although its time is up to SlackNS before or after the
// hold.
const SlackNS = 1_000_000

// staleNS is how long samples may mistake a new thread for an ended one, in ns. This can happen if both have the same
// address.
const staleNS = 1_000_000_000

// sameHoldNS is the time in which several samples of a thread are treated as samples of the same hold, in ns. If their
// results are the same, they count as one comparison.
const sameHoldNS = 1_000_000_000

// maxPast limits the ended holds that are kept for comparison. The busiest of all measured loads makes this number of
// holds in half a second.
const maxPast = 1 << 15

// hold is the time in which a thread held the GVL, CLOCK_MONOTONIC in ns.
type hold struct {
	tid          int32
	fromNS, toNS int64
}

// past keeps the latest holds that have ended, in the order of their ends. When it is full, a new hold overwrites the
// oldest one.
type past struct {
	holds []hold
	next  int // index of the oldest hold, once the list is full
}

func (p *past) add(t hold) {
	if len(p.holds) < maxPast {
		p.holds = append(p.holds, t)
		return
	}
	p.holds[p.next] = t
	p.next = (p.next + 1) % maxPast
}

// nth returns the hold number n. Number 0 is the oldest one.
func (p *past) nth(n int) *hold { return &p.holds[(p.next+n)%len(p.holds)] }

// Compare checks whether the records agree with a sample, in which the thread tid held the GVL at atNS. The caller must
// have fed all records up to SlackNS after atNS. Compare ignores a time that is too long ago, or at which records are
// missing. It also ignores a thread that has just ended.
func (m *Machine) Compare(tid int32, atNS int64) {
	from, to := atNS-SlackNS, atNS+SlackNS
	if from < m.doubt || len(m.past.holds) == maxPast && m.past.nth(0).toNS > from {
		return
	}
	if t := m.threads[tid]; t != nil && t.state == sampler.GVLHeld && t.since <= to {
		m.count(tid, atNS, true)
		return
	}
	low, high := 0, len(m.past.holds)
	for low < high {
		if mid := (low + high) / 2; m.past.nth(mid).toNS < from {
			low = mid + 1
		} else {
			high = mid
		}
	}
	for ; low < len(m.past.holds) && m.past.nth(low).fromNS <= to; low++ {
		if m.past.nth(low).tid == tid {
			m.count(tid, atNS, true)
			return
		}
	}
	if m.threads[tid] == nil && m.endedNS != 0 && m.endedNS >= atNS-staleNS {
		return // the thread has ended, and the sample may have seen a new thread at its address
	}
	m.count(tid, atNS, false)
}

// comparison is the result of Compare: whether records and sample agree about a thread at a time.
type comparison struct {
	tid    int32
	atNS   int64
	agreed bool
}

// count counts a comparison of a sample with the records. Several samples of the same hold with the same result count
// only once, because one cause can make all of them disagree. For example, a thread loses its CPU just before its
// record is made. Then all samples until the record disagree with the records.
func (m *Machine) count(tid int32, atNS int64, agreed bool) {
	if l := &m.compared; l.tid == tid && l.agreed == agreed && atNS-l.atNS < sameHoldNS {
		return
	}
	m.compared = comparison{tid, atNS, agreed}
	if agreed {
		m.checks.Agreed++
	} else {
		m.checks.Disagreed++
	}
}
