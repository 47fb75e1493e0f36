package ruby

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// sampleMaker makes Samples from what the parts of a Reader have read.
type sampleMaker struct {
	*target
	list     *threadList
	stacks   *stackReader
	names    *threadNamer
	fibers   *fiberReader
	blocking *blockReader
	serving  *workReader
	// filled are the threads of the Sample that the last tick filled. fresh are the threads whose stacks a lock tick
	// has marked as fresh. After a tick that reads stacks, allFresh is true instead.
	filled   []sampler.Thread
	fresh    []*thread
	allFresh bool
}

// forget drops the threads of the last Sample. It is called after the list of threads was read again.
func (r *sampleMaker) forget() { r.filled, r.fresh, r.allFresh = nil, r.fresh[:0], true }

func (r *sampleMaker) fill(depth sampler.Depth, s *sampler.Sample) {
	s.Depth = depth
	s.Ractors = s.Ractors[:0]
	for _, rc := range r.list.ractors {
		s.Ractors = appendRactor(s.Ractors)
		r.fillRactor(rc, &s.Ractors[len(s.Ractors)-1])
	}
	if depth == sampler.LockTick && r.filledBefore(s) {
		r.fillRead(s)
	} else {
		s.Threads = slices.Grow(s.Threads[:0], len(r.list.order))[:len(r.list.order)]
		for i, t := range r.list.order {
			r.fillThread(depth, t, &s.Threads[i])
		}
	}
	r.filled = s.Threads
	r.noteFresh(depth)
	r.reads.Ticks++
	if depth == sampler.StackTick {
		r.reads.StackTicks++
	}
	s.Reads = r.reads
}

// appendRactor adds an element to the slice. If the slice has room, appendRactor reuses the field Queue of the old
// element at this place.
func appendRactor(list []sampler.Ractor) []sampler.Ractor {
	if len(list) < cap(list) {
		list = list[:len(list)+1]
		e := &list[len(list)-1]
		*e = sampler.Ractor{Queue: e.Queue[:0]}
		return list
	}
	return append(list, sampler.Ractor{})
}

func (r *sampleMaker) fillRactor(rc *ractor, out *sampler.Ractor) {
	out.ID = rc.id
	if t := rc.owners[0]; t != nil {
		out.OwnerStart = t.id
	}
	if t := rc.owners[1]; t != nil {
		out.OwnerEnd = t.id
	}
	if r.era == sampler.EraFlag {
		out.Waiting = int32(le64(rc.buf[r.o.GVLWaiting:]))
		return
	}
	if !rc.queue.known {
		out.Torn = true
		r.reads.Torn++
		for _, t := range rc.threads {
			if r.queued(t) {
				out.Waiting++
			}
		}
		return
	}
	for _, t := range rc.queue.members {
		out.Queue = append(out.Queue, t.id)
	}
	out.Waiting = int32(len(out.Queue))
}

// filledBefore reports whether s still has the threads that the last tick has filled in. If so, the caller needs to
// fill in only the threads that were just read.
func (r *sampleMaker) filledBefore(s *sampler.Sample) bool {
	n := len(s.Threads)
	return n > 0 && n == len(r.list.order) && n == len(r.filled) && &s.Threads[0] == &r.filled[0]
}

// fillRead fills in the threads that a tick for locks and few stacks has read. All other threads only lose the mark
// StackFresh.
func (r *sampleMaker) fillRead(s *sampler.Sample) {
	if r.allFresh {
		for i := range s.Threads {
			s.Threads[i].Quality &^= sampler.StackFresh
		}
	}
	for _, t := range r.fresh {
		s.Threads[t.index].Quality &^= sampler.StackFresh
	}
	for _, t := range r.list.read {
		r.fillThread(sampler.LockTick, t, &s.Threads[t.index])
	}
}

func (r *sampleMaker) noteFresh(depth sampler.Depth) {
	r.fresh, r.allFresh = r.fresh[:0], depth == sampler.StackTick
	if r.allFresh {
		return
	}
	for _, t := range r.list.read {
		if t.stack.quality&sampler.StackFresh != 0 {
			r.fresh = append(r.fresh, t)
		}
	}
}

// age removes the marks StackFresh that the last tick has set. A tick that reads stacks also marks some stacks as fresh
// without reading them again. These stacks are younger than maxStackAgeNS, and since they were read, the scheduler has
// done nothing with their threads (selective.go).
func (r *sampleMaker) age(depth sampler.Depth) {
	switch {
	case depth == sampler.StackTick:
		for _, t := range r.list.order {
			if t.readIn == r.list.ticks {
				t.stack.quality &^= sampler.StackFresh
			} else {
				t.stack.quality |= sampler.StackFresh
			}
		}
	case r.allFresh:
		for _, t := range r.list.order {
			t.stack.quality &^= sampler.StackFresh
		}
	default:
		for _, t := range r.fresh {
			t.stack.quality &^= sampler.StackFresh
		}
	}
}

func (r *sampleMaker) fillThread(depth sampler.Depth, t *thread, out *sampler.Thread) {
	fresh := t.stack.quality&sampler.StackFresh != 0
	late := (fresh || depth == sampler.StackTick) && r.over()
	if depth == sampler.StackTick && !late || t.info.ID == 0 {
		r.names.identify(t)
	}
	st := &t.stack
	*out = sampler.Thread{}
	out.ID, out.Ractor, out.TID = t.id, t.ractor.id, t.tid
	out.Status = sampler.Status(r.o.ThStatus.In(t.buf))
	out.Stack, out.Quality, out.Omitted, out.Serving = st.id, st.quality, st.omitted, t.serves.serving()
	if r.queued(t) {
		out.Bits |= sampler.BitQueued
	}
	owns := t.owns()
	if r.era == sampler.EraSched && linked(t, r.o.ThRunningNode) || r.era != sampler.EraSched && owns {
		out.Bits |= sampler.BitLinked
	}
	if owns && r.gc != nil {
		out.Bits |= r.gc.LockBits(t.ractor.addr)
	}
	if le64(t.buf[r.o.ThRegion:]) != 0 {
		out.Bits |= sampler.BitBlockingRegion
	}
	if r.o.ThNT >= 0 && le64(t.buf[r.o.ThNT:]) == 0 {
		out.Bits |= sampler.BitUnmounted
	}
	if t.main {
		out.Bits |= sampler.BitMain
		if r.runsRoot(t) {
			out.Bits |= sampler.BitRootFiber
		}
	}
	out.Bits |= r.loopBits(t)
	if st.ec == 0 || st.end == 0 && st.id == 0 {
		out.Bits |= sampler.BitStarting
	}
	if r.era == sampler.EraFlag {
		out.Bits |= sampler.BitInferred
	}
	if fresh && t.readIn == r.list.ticks {
		r.count(st.quality)
		if !late {
			r.fibers.readResumers(t)
			out.Serving = t.serves.serving() // the stack of a resuming fiber can show what the thread works for, too
		}
	}
	if st.fibersOf != st.version {
		st.fibers = st.fibers[:0] // the fibers in this list belong to an older version of the stack
	}
	out.Resumers = st.fibers
	if t.serves.work.Unread() && out.Serving.Work == 0 {
		out.Quality |= sampler.WorkUnknown
	}
	if owns || out.Bits&sampler.BitQueued != 0 || out.Status == sampler.Killed ||
		out.Status == sampler.Runnable && out.Bits&sampler.BitBlockingRegion == 0 || late && t.blocked.stack != st.version {
		t.blocked.forget()
	} else if fresh && !late {
		r.blocking.describeBlocked(t)
	}
	if r.blocking.hasItems(t, late) {
		out.Bits |= sampler.BitItems
	}
	out.Blocked = t.blocked.value
	out.Kernel = sampler.Kernel{FD: -1}
}

func (r *sampleMaker) count(q sampler.StackQuality) {
	if q&sampler.StackPartial != 0 {
		r.reads.Partial++
	}
	if q&sampler.StackFailed != 0 {
		r.reads.Failed++
	}
	if q&sampler.StackUncertainTop != 0 {
		r.reads.Uncertain++
	}
	if q&sampler.StackTruncated != 0 {
		r.reads.Truncated++
	}
}
