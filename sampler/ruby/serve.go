package ruby

import (
	"slices"
	"sync/atomic"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/trace"
	"github.com/ddtop/ddtop/sampler/ruby/internal/work"
)

const (
	// workShare limits the time for searches for new requests and jobs to 1/workShare of the time for all reading. To
	// find one request or job takes 40 to 250 µs. On a server with hundreds of requests per second, searches without
	// this limit would use up a small budget of CPU time. Then ddtop could read stacks only half as often.
	workShare = 4
	// workFloor is an exception to workShare: the search for new requests may always take 1/workFloor of all time (0.15
	// % of a CPU). All processes together share this time.
	workFloor = 660
)

// ntPthread is the distance in bytes between two fields of an rb_native_thread: its pthread_t and the tid behind it
// (vm_core.h, 3.2 to 4.0).
const ntPthread = 8

// workReader finds the requests and jobs that threads work for.
type workReader struct {
	*target
	list *threadList
	// leads is a buffer of findWork. lookNS and lookSinceNS are the arguments nowNS and sinceNS of the last call of
	// findWork. A later search in the frames of fibers needs them.
	leads               []work.Lead
	lookNS, lookSinceNS int64
	// tracer finds the active spans of threads. published says where in memory threads publish their spans. It is nil
	// if they publish none.
	tracer    *trace.Finder
	published atomic.Pointer[trace.Published]
	// finder finds the request or job of a thread. If frugal is true, the time to search for new requests is limited.
	// The allowed time grows with the time that passes. workedNS is when findWork last added to the allowed time.
	finder *work.Finder
	frugal bool
	// noRequests is true if ddtop does not read what threads work for (Options.NoRequests).
	noRequests bool
	workedNS   int64
}

// servingState is what ddtop knows about the request or job that a thread works for. It is kept from tick to tick.
type servingState struct {
	work work.State
	span trace.State
	// outer has a work.State for each fiber that has resumed the thread's running fiber, directly or not. The fiber
	// that resumed another fiber latest comes first. Each fiber needs a State of its own. If several fibers shared a
	// State, they would overwrite it in every tick.
	outer []*work.State
	// looks counts the searches for the request or job since ddtop last read the thread's stack. It stops at
	// stillLooks.
	looks int
}

// stillLooks limits how often ddtop searches for a thread's request while the thread's stack is unchanged. One search
// is not enough, because it may have had too little time.
const stillLooks = 2

// maxOuter limits how many entries servingState.outer has. Each has 1 KB.
const maxOuter = 8

// outerOf returns the entry of the fiber with an execution context. It makes an entry if there is none.
func (s *servingState) outerOf(ec attach.Address) *work.State {
	i := slices.IndexFunc(s.outer, func(x *work.State) bool { return x.Of(ec) })
	switch {
	case i >= 0:
	case len(s.outer) < maxOuter:
		i = len(s.outer)
		s.outer = append(s.outer, &work.State{})
	default:
		i = len(s.outer) - 1
		s.outer[i] = &work.State{}
	}
	x := s.outer[i]
	copy(s.outer[1:], s.outer[:i])
	s.outer[0] = x
	return x
}

// serving returns the request or job, and the span, that ddtop last found for the thread.
func (s *servingState) serving() sampler.Serving {
	out := s.work.Serving()
	span := s.span.Span()
	out.Span, out.RootSpan, out.Trace = span.ID, span.Root, span.Trace
	return out
}

func (s *servingState) lost() {
	s.work.Lost()
	s.span.Lost()
}

// unplan records that the memory planned by planWork was not read. Either this tick has left it out, or it could not be
// read.
func (s *servingState) unplan() {
	s.work.Unplan()
	s.span.Unplan()
}

// planWork adds to the plan the memory in which the last search found the thread's request or job. This memory is read
// in the same call as the thread's stack, so that both are from the same time.
func (r *workReader) planWork(t *thread) {
	if r.noRequests {
		return
	}
	n := len(r.plan.ranges)
	if ranges := t.serves.span.Plan(t.serves.work.Plan(r.plan.ranges)); len(ranges) > n {
		r.plan.begin(forWork, t)
		r.plan.ranges = ranges
	}
}

// dropUnreadWork handles threads for which the memory planned by planWork was not read completely. For these threads,
// findWork must then search for the request or job from the beginning.
func (r *workReader) dropUnreadWork() {
	p := &r.plan
	for i, x := range p.parts {
		to := len(p.ranges)
		if i+1 < len(p.parts) {
			to = p.parts[i+1].from
		}
		if x.what == forWork && p.failed(x.from, to) {
			x.thread.serves.unplan()
		}
	}
}

// CopiedWork is a request that a BPF program in the kernel has copied from the process.
type CopiedWork = work.Copied

// Copies returns the data that is needed to find requests in memory that BPF programs have copied from the process.
// Only the goroutine that calls Read may use it, between two calls of Read.
func (r *Reader) Copies() work.Copies {
	return work.Copies{Finder: r.serving.finder, Collector: r.gc, Calls: &r.reads.Calls}
}

// SetPublished sets where threads publish their spans for other processes to read. variable is a thread-local pointer
// to a record. A record has numbers instead of the names of attributes, and keys has the names for these numbers. Any
// goroutine may call it.
func (r *Reader) SetPublished(variable attach.ThreadLocal, keys []string) {
	r.serving.published.Store(trace.NewPublished(variable, keys))
}

// native returns a thread's pthread_t, or the address at which it is stored. The result is empty if neither is known.
func (r *target) native(t *thread) trace.Native {
	if r.o.ThNT < 0 {
		if r.o.ThPthread < 0 {
			return trace.Native{}
		}
		return trace.Native{Pointer: attach.Address(le64(t.buf[r.o.ThPthread:]))}
	}
	nt := attach.Address(le64(t.buf[r.o.ThNT:]))
	if nt == 0 {
		return trace.Native{}
	}
	return trace.Native{At: nt + attach.Address(r.o.NTTID) - ntPthread}
}

// findWork finds the requests and jobs of the threads whose stacks this tick has read. For other threads, it keeps the
// earlier results. born returns when a fiber was first seen (waitingFibers.born).
func (r *workReader) findWork(nowNS, sinceNS int64, born func(t *thread, ec attach.Address) int64) {
	if r.noRequests {
		return
	}
	r.lookNS, r.lookSinceNS = nowNS, sinceNS
	if calls, err := r.tracer.Refresh(nowNS); err != nil {
		return
	} else if calls > 0 {
		r.reads.Calls += uint64(calls)
		r.budget.spent = true
	}
	if r.frugal {
		now := r.now()
		r.finder.Allow((now-sinceNS)/workShare + (sinceNS-r.workedNS)/int64(workFloor*max(r.shared, 1)))
		r.workedNS = sinceNS
	}
	published := r.published.Load()
	// The method Allow limits the time for all threads together. If the first thread used all of it, the others would
	// get none. So each tick begins with a different thread.
	first := int(r.list.turn) % max(len(r.list.read), 1)
	for i := range r.list.read {
		t := r.list.read[(first+i)%len(r.list.read)]
		st := &t.stack
		if st.quality&sampler.StackFresh == 0 {
			continue
		}
		if st.quality&sampler.StackFailed != 0 || len(st.kept) == 0 || r.over() {
			t.serves.lost()
			continue
		}
		if t.still && t.serves.looks >= stillLooks && !t.serves.work.Unread() {
			t.serves.work.StandsStill(st.keptEC, t.lookNS, sinceNS)
			continue
		}
		t.serves.looks++
		// The span is read first, because it changes more often than the request.
		calls, err := r.tracer.Look(&t.serves.span, st.keptEC)
		r.reads.Calls += uint64(calls)
		if err != nil {
			return // an error is ignored here, because the next tick will report it
		}
		if published != nil {
			calls, err = r.tracer.LookPublished(&t.serves.span, published, r.native(t))
			r.reads.Calls += uint64(calls)
			if err != nil {
				return
			}
		}
		r.leads = append(r.leads[:0], work.Lead{At: t.addr + attach.Address(r.o.ThEC), Says: st.keptEC})
		frames := work.Frames{EC: st.keptEC, InnermostAt: st.keptEC + ecCFP, Leads: r.leads, CFP: st.cfp, End: st.keptEnd,
			Raw: st.kept, Size: r.o.Code.FrameSize, Stack: st.id, Thread: t.id,
			Partial: st.quality&sampler.StackPartial != 0, Truncated: st.quality&sampler.StackTruncated != 0,
			Handlers: st.handlers, Version: uint64(st.version), NowNS: nowNS, SinceNS: sinceNS, BornNS: born(t, st.keptEC)}
		if t.asked() {
			frames.BornNS, frames.ByNS = max(frames.BornNS, t.entered.FromNS), t.entered.ByNS
			r.finder.Unbounded(func() { calls, err = r.finder.Look(&t.serves.work, &frames) })
		} else {
			calls, err = r.finder.Look(&t.serves.work, &frames)
		}
		r.reads.Calls += uint64(calls)
		r.budget.spent = true
		if err != nil {
			return
		}
		span := t.serves.span.Span()
		r.finder.Traced(&t.serves.work, span.Kind, span.Endpoint, span.Root, &frames)
	}
}

// findOuterWork searches for a thread's request or job in the stack of a fiber that has resumed the running fiber. It
// is called if the running fiber itself has neither. The caller has just read the stack of the resuming fiber. links
// are the words in memory that lead to this fiber.
func (r *fiberReader) findOuterWork(t *thread, ec attach.Address, links []link) {
	s := &t.serves
	if r.serving.noRequests || !s.work.Idle() || r.over() {
		return
	}
	if frames, ok := r.fiberFrames(ec, links); ok {
		calls, _ := r.serving.finder.LookOutward(&s.work, s.outerOf(ec), &frames)
		r.reads.Calls += uint64(calls) // an error is ignored here, because the next tick will report it
	}
}

// maxFiberLooks limits how often ddtop repeats a failed search for a fiber's request. On a full machine a search can
// fail because ddtop loses its CPU during the search. For a thread, the next sample would find the request. But
// suspended fibers are not in samples.
const maxFiberLooks = 5

// fiberServing finds the request or job of a waiting fiber whose stack was just read. links are the words in memory
// that lead to the fiber.
func (r *fiberReader) fiberServing(ec attach.Address, links []link) sampler.Serving {
	var s work.State
	frames, ok := r.fiberFrames(ec, links)
	if r.serving.noRequests || !ok {
		return sampler.Serving{}
	}
	for n := 0; n < maxFiberLooks && (n == 0 || s.Unread()); n++ {
		calls, err := r.serving.finder.Look(&s, &frames)
		r.reads.Calls += uint64(calls)
		if err != nil {
			return sampler.Serving{}
		}
	}
	return s.Serving()
}

// fiberFrames returns the frames of the fiber whose stack was read last.
func (r *fiberReader) fiberFrames(ec attach.Address, links []link) (frames work.Frames, ok bool) {
	c := &r.fiber.copies[0]
	_, end, cfp, ok := r.window(c.ec[:])
	r.serving.leads = r.serving.leads[:0]
	for _, l := range links {
		r.serving.leads = append(r.serving.leads, work.Lead{At: l.addr, Says: l.says})
	}
	return work.Frames{EC: ec, InnermostAt: ec + ecCFP, Leads: r.serving.leads, CFP: cfp, End: end, Raw: c.frames, Size: r.o.Code.FrameSize,
		Handlers: r.fiber.handlers, Version: 1, NowNS: r.serving.lookNS, SinceNS: r.serving.lookSinceNS}, ok
}
