package stream

import (
	"github.com/ddtop/ddtop/gvl"
)

const (
	// lookNS limits the age of a reading of the stack, in ns. A reading up to this age may be used for time in which
	// the stack was not read.
	lookNS = 5e9
	// keptSegments is the number of segments for which a thread always keeps memory. Memory for more segments is freed
	// if the last shrinkReadings readings have not needed it.
	keptSegments, shrinkReadings = 4 * maxSegments, 64
	numPlaces                    = gvl.PlaceReleased + 1
)

// pastLook is an earlier reading of the stack. atNS is zero if there is none.
type pastLook struct {
	look
	atNS int64
}

func placeOf(s gvl.State) gvl.Place {
	switch {
	case s.Held():
		return gvl.PlaceHeld
	case s == gvl.Waiting:
		return gvl.PlaceWaiting
	}
	return gvl.PlaceReleased
}

// read adds a reading of the stack. It divides the time since the last reading between the stacks of the last reading
// and of this one.
func (r *thread) read(now look, atNS int64) {
	r.cut(atNS)
	state := r.now()
	if len(r.segments) > 0 {
		first := r.segments[0].fromNS
		mid := first + (atNS-first)/2
		for i := range r.segments {
			switch g := &r.segments[i]; {
			case g.exact:
				r.share(g, now, state, mid)
			case now == r.look, g.state == state && g.state != r.stackState:
				r.settle(g, now, g.fromNS, g.toNS)
			case g.state == r.stackState && g.state != state:
				r.settle(g, r.look, g.fromNS, g.toNS)
			default:
				r.split(g, r.look, now, mid)
			}
		}
		r.clear()
	}
	r.look, r.stackState = now, state
}

// split divides a segment at the time mid. The part before mid gets the stack of the reading a. The part after mid gets
// the stack of the reading b.
func (r *thread) split(g *segment, a, b look, mid int64) {
	at := min(max(mid, g.fromNS), g.toNS)
	r.settle(g, a, g.fromNS, at)
	r.settle(g, b, at, g.toNS)
}

// share assigns a segment with exact ends to a reading of the stack: the last one or the new one (now). It chooses the
// reading that saw the thread in the same place: holding the GVL, waiting for it, or neither. If both readings saw it
// there, each gets a part of the segment.
func (r *thread) share(g *segment, now look, state gvl.State, mid int64) {
	p := placeOf(g.state)
	was, is := placeOf(r.stackState) == p, placeOf(state) == p
	if was && is && r.stackState != state {
		was, is = g.state != state, g.state != r.stackState
	}
	a, b := r.look, now
	switch {
	case was && !is:
		b = a
	case is && !was:
		a = b
	case !is:
		a, b = r.past(p, g, a), r.past(p, g, b)
	}
	if a == b {
		r.settle(g, a, g.fromNS, g.toNS)
		return
	}
	r.split(g, a, b, mid)
}

// past returns the last reading that saw the thread in place p: holding the GVL, waiting for it, or neither. It is
// called for a segment in p if the readings before and after it saw the thread in another place. If the last reading in
// p is too old, or was for another request, past returns its parameter of.
func (r *thread) past(p gvl.Place, g *segment, of look) look {
	if l := &r.looks[p]; l.atNS != 0 && g.fromNS-l.atNS <= lookNS && l.serving.Work == of.serving.Work {
		return l.look
	}
	return of
}

// release passes all segments of the thread to the consumers, with the last known stack.
func (r *thread) release() {
	for i := range r.segments {
		g, of := &r.segments[i], r.look
		if p := placeOf(g.state); g.exact && placeOf(r.stackState) != p {
			of = r.past(p, g, of)
		}
		r.settle(g, of, g.fromNS, g.toNS)
	}
	r.clear()
}

func (r *thread) clear() {
	r.s.kept -= len(r.segments)
	r.shrink()
	r.segments = r.segments[:0]
}

// shrink frees memory for segments that the thread has not needed in the last readings.
func (r *thread) shrink() {
	if cap(r.segments) <= keptSegments {
		return
	}
	r.most = max(r.most, len(r.segments))
	if r.readings++; r.readings < shrinkReadings {
		return
	}
	if r.most < cap(r.segments)/4 {
		r.segments = make([]segment, 0, max(2*r.most, maxSegments))
	}
	r.most, r.readings = 0, 0
}
