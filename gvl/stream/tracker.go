package stream

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// tracker finds out what a thread does, and since when. When the thread does something else, the tracker ends the
// thread's interval.
type tracker interface {
	// sample adds a sample of the thread. The sample lies at the end of Stream.step.
	sample(ts *gvl.ThreadState, t *sampler.Thread)
	// goneNS returns when the thread ended. It is called if the last sample listed the thread and this one does not.
	goneNS() int64
	// wait adds to w what the tracker knows about the thread's present wait for the GVL.
	wait(w *gvl.Wait)
	// room reports whether the thread may keep more than maxSegments segments between two readings of its stack.
	room() bool
	// leave ends the tracking of a thread. If the thread was waiting for the GVL, the end of this wait was not seen.
	leave()
}

// sampled tracks a thread only by samples. The thread's state changes in the middle between two samples.
type sampled struct{ *thread }

func (sampled) wait(*gvl.Wait) {}
func (sampled) room() bool     { return false }
func (sampled) leave()         {}

func (d sampled) goneNS() int64 { return d.s.step.endNS() }

func (d sampled) sample(ts *gvl.ThreadState, t *sampler.Thread) {
	r, st := d.thread, &d.s.step
	switch {
	case r.fresh:
		r.fresh = false
		r.begin(ts, t, st.beginNS())
	case st.gap:
		r.end(st.endNS(), true)
		r.notSampled()
		r.ractor = ts.Ractor
		r.begin(ts, t, st.beginNS())
	default:
		r.advance(ts)
		if r.s.readsStack(t) {
			r.read(lookAt(t), st.toNS)
		}
	}
	if ts.State == gvl.Waiting || ts.State.Held() {
		r.s.seeLock(ts, t)
	}
}

func (s *Stream) readsStack(t *sampler.Thread) bool {
	return s.sample.Depth == sampler.StackTick || t.Quality&sampler.StackFresh != 0
}

// advance sets a thread's state to the state in a sample. A new state begins in the middle of the step.
func (r *thread) advance(ts *gvl.ThreadState) {
	st := &r.s.step
	if r.open && st.fromNS-r.runNS > r.s.steps.reach.BackNS {
		r.tell(r.state)
	}
	if r.state == gvl.Waiting && ts.State == gvl.Waiting && !ts.Unchanged {
		r.waitsAgain(ts)
	}
	switch {
	case r.open && r.s.steps.reach.tells(ts, r.sinceNS, st.midNS):
		r.detail, r.stateNS = ts.Detail, r.runNS
		r.tell(ts.State)
	case ts.State == r.state && ts.State != gvl.Unknown && ts.SinceNS > r.sinceNS && !r.detail.Specific():
		// The last samples did not show what the thread waits for, and this sample does.
		r.detail, r.sinceNS = ts.Detail, ts.SinceNS
	case ts.State != r.state, ts.SinceNS > r.sinceNS, ts.State == gvl.Waiting && ts.Detail.Wait != r.kind:
		r.cut(st.midNS)
		r.tell(r.state)
		if r.state != ts.State {
			r.change(ts.State, st.midNS, st.toNS)
		}
		r.run(ts, st.midNS)
	case !ts.Unchanged:
		r.detail = ts.Detail
	}
}

// waitsAgain adds a sample of a thread that waits for the GVL, as in the last sample. If the thread certainly had the
// GVL in between, a new wait begins.
func (r *thread) waitsAgain(ts *gvl.ThreadState) {
	if ts.Span.ByNS > r.span.ByNS && r.span.ByNS != 0 {
		at := min(max(ts.SinceNS, r.fromNS, r.waitNS), r.s.step.toNS)
		r.cut(at)
		r.waited(at, ts.Span.ByNS, false)
		r.waitNS, r.stateNS = at, at
		r.before = waitBefore{sinceNS: at, atNS: at}
		r.run(ts, at)
		return
	}
	r.span = ts.Span
}
