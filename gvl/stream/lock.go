package stream

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// maxIdleLocks limits the number of GVLs (one per ractor) before the Stream forgets those that no thread holds or
// wants.
const maxIdleLocks = 64

// lockLane follows one ractor's GVL. The field now is the interval in progress: the holder and the number of waiting
// threads since now.FromNS.
type lockLane struct {
	now gvl.LockInterval
	// The field next is filled while a sample is fed: it has the holder and the waiting threads in this sample.
	next gvl.LockInterval
}

func (s *Stream) seeLock(ts *gvl.ThreadState, t *sampler.Thread) {
	l := s.lockOf(ts.Ractor, s.step.toNS)
	if s.byChanges(l) {
		return
	}
	if ts.State == gvl.Waiting {
		l.next.Waiters++
		return
	}
	l.next.Thread, l.next.Stack, l.next.State, l.next.Stopped = ts.Thread, ts.Stack, ts.State, ts.Stopped()
	l.next.Serving, l.next.GCReason = t.Serving, ts.Detail.GCReason
	s.stopped = s.stopped || l.next.Stopped
	if t.Quality&sampler.StackFailed != 0 {
		l.next.Stack = 0
	}
}

// lockOf returns the record (lane) of a ractor's GVL. If there is none yet, it makes one that begins at fromNS.
func (s *Stream) lockOf(id sampler.RactorID, fromNS int64) *lockLane {
	if s.lock < len(s.locks) && s.locks[s.lock].now.Ractor == id {
		return &s.locks[s.lock]
	}
	s.lock = slices.IndexFunc(s.locks, func(l lockLane) bool { return l.now.Ractor == id })
	if s.lock < 0 {
		s.lock = len(s.locks)
		s.locks = append(s.locks, lockLane{now: gvl.LockInterval{Ractor: id, FromNS: fromNS, ToNS: fromNS}, next: gvl.LockInterval{Ractor: id}})
	}
	return &s.locks[s.lock]
}

// byChanges reports whether changes (sampler.Change) show the holder and the waiters of a GVL. Samples of its holder
// and waiters are then ignored.
func (s *Stream) byChanges(l *lockLane) bool { return s.main.live && l.now.Ractor == MainRactor }

// moveLocks brings the records of all GVLs up to date with the owners and queues in the sample.
func (s *Stream) moveLocks(st step, depth sampler.Depth) {
	for i := range s.locks {
		l := &s.locks[i]
		if s.byChanges(l) {
			if depth == sampler.StackTick {
				s.settleLock(l, st.toNS)
			}
			continue
		}
		n := &l.next
		n.FromNS, n.ToNS = l.now.FromNS, l.now.ToNS
		if st.gap || *n != l.now {
			at := st.midNS
			if st.gap {
				at = st.fromNS
			}
			s.settleLock(l, at)
			if st.gap {
				at = st.toNS // no interval covers the gap, because nothing is known of it
			}
			l.now, l.now.FromNS, l.now.ToNS = *n, at, at
		}
		if depth == sampler.StackTick {
			s.settleLock(l, st.toNS)
		}
		*n = gvl.LockInterval{Ractor: n.Ractor}
	}
	if len(s.locks) > maxIdleLocks {
		s.locks = slices.DeleteFunc(s.locks, func(l lockLane) bool { return l.now.Thread == 0 && l.now.Waiters == 0 })
	}
}

// settleLock passes the GVL's present interval, up to atNS, to the consumers. The next interval begins there.
func (s *Stream) settleLock(l *lockLane, atNS int64) {
	if atNS <= l.now.FromNS {
		return
	}
	s.outLock = l.now
	s.outLock.ToNS = atNS
	l.now.FromNS, l.now.ToNS = atNS, atNS
	for _, c := range s.to {
		c.Lock(&s.outLock)
	}
}

// SettleLocks passes the present intervals of all GVLs to the consumers, up to the last sample. The consumers' sums
// about GVLs are then complete.
func (s *Stream) SettleLocks() {
	for i := range s.locks {
		s.settleLock(&s.locks[i], s.steps.lastNS)
	}
}
