package stream

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxPeers bounds the descriptors with remembered peers. peerNS is how long a peer is believed, in ns. Later the
	// descriptor can lead elsewhere.
	maxPeers, peerNS = 1024, 2e9
)

// lastPeer is the peer of a descriptor in the last sample that had it.
type lastPeer struct {
	peer sampler.PeerID
	atNS int64
}

// kernelNotes is the data that a Stream needs to use sampler.Doing.
type kernelNotes struct {
	class *gvl.Classifier
	peers map[int32]lastPeer
	// left is when threads came back to the place where they wait for work, for at most maxPeers threads.
	left map[sampler.ThreadID]int64
}

func newKernelNotes(p sampler.Process) kernelNotes {
	return kernelNotes{class: gvl.NewClassifier(p, nil), peers: make(map[int32]lastPeer), left: make(map[sampler.ThreadID]int64)}
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

// does applies what a thread does from a time on, in its place at the GVL.
func (e *exact) does(d *sampler.Doing, at int64) {
	switch placeOf(e.state) {
	case gvl.PlaceHeld:
		if e.main.holder == e {
			e.main.holderDoes(e, d, at)
		}
	case gvl.PlaceReleased:
		e.doesReleased(d, at)
	}
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
		if len(notes.left) >= maxPeers {
			clear(notes.left)
		}
		notes.left[e.id] = at
	}
	to, detail := notes.class.Doing(d, at)
	switch of := &e.releasedDetail; {
	case to == gvl.Unknown:
		return
	case to == gvl.Sleeping && (e.releasedFor == gvl.Sleeping || e.releasedFor == gvl.Parked):
		// A thread can sleep, or wait for others with a time limit. Only its frames show which.
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

// refutes reports whether the kernel's note contradicts a sample: the thread is on a CPU, or is not, or waits for a
// Mutex. A sample can rest on frames that were read before.
func (e *exact) refutes(ts *gvl.ThreadState) bool {
	return e.told && !e.open && (ts.State == gvl.Unknown || (ts.State == gvl.Native) != (e.state == gvl.Native) || e.state == gvl.Lock && ts.State != gvl.Lock)
}

// LeftWork returns when a thread came back to the place where it waits for work. It is zero if that is not known.
func (s *Stream) LeftWork(id sampler.ThreadID) int64 {
	return s.notes.left[id]
}
