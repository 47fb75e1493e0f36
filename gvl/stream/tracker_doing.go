package stream

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxPeers limits the descriptors whose peers are remembered. peerNS is how long a remembered peer is used, in ns.
	// After this time, the program may have closed the descriptor and opened it for another peer.
	maxPeers, peerNS = 1024, 2e9
)

// lastPeer is the peer of a descriptor, from the last sample that showed it.
type lastPeer struct {
	peer sampler.PeerID
	atNS int64
}

// leaves has the last times at which a thread ended a request or job. next is the index of the oldest time.
type leaves struct {
	at   [64]int64
	next int
	// fromNS is the time since which all ends of work are known. It is zero if no end was ever missed.
	fromNS int64
}

// kernelNotes is what a Stream remembers in order to interpret the kernel's reports of what threads do (sampler.Doing).
type kernelNotes struct {
	class *gvl.Classifier
	peers map[int32]lastPeer
	// left has the last times at which each thread ended a request or job, for at most maxPeers threads.
	left map[sampler.ThreadID]*leaves
}

func newKernelNotes(p sampler.Process) kernelNotes {
	return kernelNotes{class: gvl.NewClassifier(p, nil), peers: make(map[int32]lastPeer),
		left: make(map[sampler.ThreadID]*leaves)}
}

func (k *kernelNotes) notePeer(d *gvl.Detail, atNS int64) {
	if d.FD < 0 || d.Peer == 0 {
		return
	}
	if len(k.peers) >= maxPeers {
		clear(k.peers)
	}
	k.peers[d.FD] = lastPeer{d.Peer, atNS}
}

// does applies a report of the kernel: from the time at on, the thread does something else. It has neither got nor
// released the GVL.
func (e *exact) does(d *sampler.Doing, at int64) {
	if d.Kind == sampler.DoingWorks {
		e.works(d.Work, at)
		return
	}
	switch placeOf(e.state) {
	case gvl.PlaceHeld:
		if e.main.holder == e {
			e.main.holderDoes(e, d, at)
		}
	case gvl.PlaceReleased:
		e.doesReleased(d, at)
	}
}

// works begins a period in which the thread works for the request id. If id is zero, it works for no request.
func (e *exact) works(id sampler.WorkID, at int64) {
	if e.work == id && id != 0 {
		return
	}
	e.s.notes.leave(e.id, at, id != 0 && e.work == 0)
	e.cut(at)
	e.work = id
	if l := e.main.lane(); id != 0 && e.main.holder == e && l.now.Serving.Work != id {
		e.s.settleLock(l, at)
		l.now.Serving = sampler.Serving{Work: id}
	}
}

// leave notes that a thread has ended its work (a request or job) at the time at or earlier. begins is true if the
// thread begins its next work at this time. It may have been idle before, so the exact end of the last work is not
// known.
func (k *kernelNotes) leave(id sampler.ThreadID, at int64, begins bool) {
	l := k.left[id]
	if l == nil {
		if len(k.left) >= maxPeers {
			clear(k.left)
		}
		l = new(leaves)
		k.left[id] = l
		if begins {
			l.fromNS = at
		}
	}
	if lost := l.at[l.next]; lost != 0 {
		l.fromNS = lost + 1
	}
	l.at[l.next] = at
	l.next = (l.next + 1) % len(l.at)
}

func (m *mainGVL) holderDoes(h *exact, d *sampler.Doing, at int64) {
	to, detail := gvl.Running, gvl.Detail{FD: -1}
	switch d.Kind {
	case sampler.DoingCollects:
		to = gvl.GC
	case sampler.DoingSleeps:
		to = gvl.Stalled
		detail.Syscall, detail.FD, detail.FDs = d.Syscall, d.FD, d.FDs
	}
	h.told = true
	if h.state == to {
		return
	}
	now := m.lane().now
	now.State, now.GCReason, now.Stopped = to, 0, false
	m.goesOn(h, &now, to, &detail, at)
}

func (e *exact) doesReleased(d *sampler.Doing, at int64) {
	notes := &e.s.notes
	if d.Left {
		e.works(0, at)
	}
	to, detail := notes.class.Doing(d, at)
	switch of := &e.releasedDetail; {
	case to == gvl.Unknown:
		return
	case to == gvl.Sleeping && (e.releasedFor == gvl.Sleeping || e.releasedFor == gvl.Parked):
		// The report does not distinguish a sleep from a wait for other threads with a time limit. Only the thread's
		// frames do.
		to, detail = e.releasedFor, *of
	case to == gvl.IO && e.releasedFor == gvl.IO && of.Syscall == detail.Syscall && (of.FD == detail.FD || detail.FD < 0):
		detail = *of
	case to == gvl.IO:
		if p, ok := notes.peers[detail.FD]; ok && at-p.atNS <= peerNS {
			detail.Peer = p.peer
		}
	}
	if e.unseen && !e.open {
		e.tellSegments(to, &detail)
	}
	if e.open {
		e.detail = detail
		e.tell(to)
	}
	if e.state != to || e.detail != detail {
		e.cut(at)
		e.runNS, e.sinceNS = at, at
		if e.state != to {
			e.stateNS = at
		}
		e.stepNS = 0
	}
	e.state, e.detail, e.open = to, detail, false
	e.told, e.seen = true, false
}

// refutes reports whether the kernel's report is right and the sample wrong. It returns true in three cases: the sample
// shows Unknown, the two disagree on whether the thread is on a CPU, or only the report shows a wait for a Mutex. The
// sample can be wrong because its frames were read earlier.
func (e *exact) refutes(ts *gvl.ThreadState) bool {
	return e.told && !e.open && (ts.State == gvl.Unknown || (ts.State == gvl.Native) != (e.state == gvl.Native) || e.state == gvl.Lock && ts.State != gvl.Lock)
}

// Working returns the request that a thread works for, as the last changes of the GVL show. It is zero if they show no
// request.
func (s *Stream) Working(id sampler.ThreadID) sampler.WorkID {
	if rec := s.table.Get(id); rec != nil {
		return rec.V.work
	}
	return 0
}

// LeftWork returns the first time from fromNS on at which a thread is known to have ended its work (a request or job).
// It is zero if no such time is known. exact is false if the thread may have ended work even earlier, without a report.
func (s *Stream) LeftWork(id sampler.ThreadID, fromNS int64) (atNS int64, exact bool) {
	l := s.notes.left[id]
	if l == nil {
		return 0, false
	}
	for i := range l.at {
		if at := l.at[(l.next+i)%len(l.at)]; at != 0 && at >= fromNS {
			return at, fromNS >= l.fromNS
		}
	}
	return 0, false
}
