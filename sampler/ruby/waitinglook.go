package ruby

import (
	"bytes"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/stackmem"
	"github.com/ddtop/ddtop/sampler/ruby/internal/work"
)

// lookAt reads up to waitingBatch fibers. One call reads all of them, if their stacks are where they were before.
// sinceNS is a time before the first of these reads.
func (w *waitingFibers) lookAt(list []*waitingFiber, sinceNS int64) {
	p := &w.plan
	p.reset()
	for i, f := range list {
		if f.gone {
			continue
		}
		s := &w.slots[i]
		s.from = len(p.ranges)
		p.add(f.addr, s.heads[0])
		if s.planned = len(f.kept) > 0 && f.generation == w.generation; s.planned {
			s.frames = stackmem.Grow(s.frames, len(f.kept))
			p.add(attach.Address(f.head.cfp), s.frames[:len(f.kept)])
			p.ranges = f.state.Plan(p.ranges)
			p.add(attach.Address(f.head.self), s.object[:])
		}
		p.add(f.addr, s.heads[1])
		s.to = len(p.ranges)
	}
	err := w.readPlan(p)
	w.missed = w.missed || err != nil
	for i, f := range list {
		if f.gone {
			continue
		}
		s := &w.slots[i]
		if err != nil || p.failed(s.from, s.to) {
			f.state.Unplan()
			s.planned = false
		}
		if err == nil {
			w.take(f, s, sinceNS)
		}
		f.state.Unplan() // undo Plan if take has not used the memory that Plan added
	}
}

// take evaluates what was read about a fiber, and reads more if necessary.
func (w *waitingFibers) take(f *waitingFiber, s *waitingSlot, sinceNS int64) {
	if w.plan.ranges[s.from].Failed {
		w.drop(f)
		return
	}
	h := w.headOf(s.heads[0])
	t := w.list.threads[attach.Address(h.thread)]
	switch {
	case t == nil, attach.Address(h.fiber) != f.addr:
		w.drop(f)
		return
	case f.thread == nil:
		f.thread, f.head.self = t, h.self
	case f.thread != t || f.head.self != h.self: // another fiber has got this memory
		w.drop(f)
		w.add(f.addr, f.seenNS)
		return
	}
	f.seenNS = sinceNS
	if w.firstFiber(t) == f.addr {
		return // the fiber is the thread's root fiber, which runs the other fibers
	}
	if h.status != w.finder.suspended {
		if h.status != w.finder.created && w.hasEnded(t, f, &h) {
			w.drop(f)
		}
		return
	}
	if again := w.headOf(s.heads[1]); again != h || h.prev != 0 && w.active(t, f.addr) {
		return // either the fiber runs, or it has resumed the running fiber
	}
	if s.planned && f.head == h && !w.isOf(&h, s.object[:]) {
		w.drop(f)
		return
	}
	if !s.planned || f.head != h || !bytes.Equal(f.kept, s.frames[:len(f.kept)]) {
		f.state.Unplan()
		if !w.readStack(f, &h) {
			w.missed = w.missed || !f.gone
			return
		}
	}
	w.serve(f, sinceNS)
}

// isOf reports whether a fiber's Ruby object still points to the fiber's struct. If it does not, the struct may have
// been freed. The struct's own content cannot show this, because freed memory keeps its content for a while.
func (w *waitingFibers) isOf(h *fiberHead, object []byte) bool {
	objects := &w.o.Objects
	_, ok := objects.DataType(object)
	return ok && uint64(objects.Data(attach.Address(h.self), object)) == h.fiber
}

// hasEnded reports whether a fiber has ended. The caller knows that the fiber is neither suspended nor new. So only two
// cases are left: the fiber has ended, or a thread runs it.
func (w *waitingFibers) hasEnded(t *thread, f *waitingFiber, h *fiberHead) bool {
	// If the fiber runs, its thread points to the fiber's context.
	ec, ok := w.readWord(t.addr + attach.Address(w.o.ThEC))
	return ok && attach.Address(ec) != w.contextOf(f.addr) && h.cfp == 0
}

// active reports whether thread t runs the fiber at addr, or a fiber that this fiber has resumed, directly or through
// other fibers. It also returns true if ddtop cannot find this out.
func (w *waitingFibers) active(t *thread, addr attach.Address) bool {
	ec, ok := w.readWord(t.addr + attach.Address(w.o.ThEC))
	if !ok {
		return true
	}
	fibers, whole := w.activeFibers(attach.Address(ec))
	return !whole || slices.Contains(fibers, addr)
}

// readStack reads and decodes the stack of a waiting fiber. One call reads two copies of the stack, and the fiber's
// head before and after them. readStack returns false if the stack could not be read, or if the fiber has begun to run
// again.
func (w *waitingFibers) readStack(f *waitingFiber, h *fiberHead) bool {
	w.keep(f, nil)
	end := attach.Address(h.low) + attach.Address(h.size)*8
	cfp := attach.Address(h.cfp)
	fs := attach.Address(w.o.Code.FrameSize)
	if h.low == 0 || h.size == 0 || h.size > maxStackWords || cfp < attach.Address(h.low) || cfp >= end || (end-cfp)%fs != 0 ||
		int((end-cfp)/fs) > w.stacks.maxDepth+1 {
		return false
	}
	n := int(end - cfp)
	own := &w.own
	for i := range own.heads {
		own.heads[i] = stackmem.Grow(own.heads[i], w.headSize())
		w.copies[i] = stackmem.Grow(w.copies[i], n)
	}
	p := &w.stacks.exact
	p.reset()
	p.add(f.addr, own.heads[0])
	p.add(cfp, w.copies[0][:n])
	p.add(cfp, w.copies[1][:n])
	p.add(attach.Address(h.self), own.object[:])
	p.add(f.addr, own.heads[1])
	if w.readAll(p.ranges) != nil {
		return false
	}
	frames := w.copies[0][:n]
	if w.headOf(own.heads[0]) == *h && !w.isOf(h, own.object[:]) {
		w.drop(f)
		return false
	}
	if w.headOf(own.heads[0]) != *h || w.headOf(own.heads[1]) != *h || !bytes.Equal(frames, w.copies[1][:n]) {
		w.reads.Torn++
		return false
	}
	id, info, err := w.dec.Decode(&code.Stack{End: end, CFP: cfp, Frames: frames})
	if err != nil {
		w.stacks.lastDecodeError = err
		return false
	}
	f.head, f.stack, f.handlers, f.generation = *h, id, info.Handlers, w.generation
	f.version++
	w.keep(f, frames)
	f.enumerates = w.enumerates(id)
	return true
}

// enumerates reports whether a stack is from an Enumerator's fiber. Its outermost frame is Enumerator#each or similar.
func (w *waitingFibers) enumerates(id sampler.StackID) bool {
	frames := w.dict.Frames(id, nil)
	if len(frames) == 0 {
		return false
	}
	f := w.dict.Frame(frames[len(frames)-1])
	return f.C && strings.HasPrefix(f.Label, "Enumerator") && strings.HasSuffix(f.Label, "#each")
}

// serve finds the request or job of a waiting fiber, and adds the fiber to the round's result. It uses the frames that
// were kept.
func (w *waitingFibers) serve(f *waitingFiber, sinceNS int64) {
	frames := f.kept
	if len(frames) == 0 { // there was not enough memory to keep the frames
		frames = w.copies[0][:(f.head.low+f.head.size*8)-f.head.cfp]
	}
	now := w.now()
	now -= now % 1000
	ec := w.contextOf(f.addr)
	w.serving.leads = append(w.serving.leads[:0], work.Lead{At: ec + attach.Address(w.o.ECFiber), Says: f.addr},
		// These words show whether the fiber is still the same. Otherwise a fiber of another thread may have got this
		// memory, and wait at the same place in the code.
		work.Lead{At: ec + attach.Address(w.o.ECThread), Says: attach.Address(f.head.thread)},
		work.Lead{At: f.addr + attach.Address(w.self), Says: attach.Address(f.head.self)},
		work.Lead{At: f.addr + attach.Address(w.finder.status.Offset), Says: attach.Address(f.head.statusWord)})
	fr := work.Frames{EC: ec, InnermostAt: ec + ecCFP, Leads: w.serving.leads, CFP: attach.Address(f.head.cfp),
		End: attach.Address(f.head.low + f.head.size*8), Raw: frames, Size: w.o.Code.FrameSize, Stack: f.stack, Handlers: f.handlers,
		Version: f.version, NowNS: max(now, sinceNS), SinceNS: sinceNS, BornNS: recent(f.bornNS, now)}
	calls, err := w.serving.finder.Look(&f.state, &fr)
	w.reads.Calls += uint64(calls)
	if err != nil {
		w.missed = true
		return // the next tick reports the error of the target
	}
	out := sampler.Fiber{Number: f.number, Thread: f.thread.id, Stack: f.stack, AtNS: fr.NowNS, Serving: f.state.Serving()}
	if id, ok := f.state.Task(); ok && w.isHelper(f, &id) {
		out.Serving.Work = 0
	}
	w.out = append(w.out, out)
}

// isHelper reports whether a fiber only helps with the request or job of another fiber or thread, as an Enumerator's
// fiber does.
func (w *waitingFibers) isHelper(f *waitingFiber, id *work.TaskID) bool {
	if f.enumerates || f.helps.Hash() == id.Hash() && f.helps.Alike(id) {
		return true
	}
	if of, ok := w.rootTasks[id.Hash()]; ok && of.Alike(id) {
		f.helps = *id
		return true
	}
	other := w.byHash[id.Hash()]
	if other != nil && other != f && !other.gone {
		if of, ok := other.state.Task(); ok && of.Alike(id) {
			if other.number < f.number {
				f.helps = *id
				return true
			}
			other.helps = of
		}
	}
	if len(w.byHash) >= 2*maxWaiting {
		clear(w.byHash)
	}
	w.byHash[id.Hash()] = f
	return false
}
