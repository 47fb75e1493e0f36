package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// readResumers reads the stacks of the fibers that resumed the running one, outward (facts-stacks, section 1.4). They are
// suspended, so one read does; the chain is checked against the running fiber at the end.
func (r *Reader) readResumers(t *thread) {
	st := &t.stack
	st.fibers = st.fibers[:0]
	if st.ec == 0 || r.o.thRootFiber < 0 || st.quality&sampler.StackFailed != 0 {
		return
	}
	root := attach.Address(le64(t.buf[r.o.thRootFiber:]))
	saved := attach.Address(r.o.fiberSavedEC)
	fiber := st.ec - saved
	if root == 0 || fiber == root {
		return
	}
	for hops := 0; hops < maxFibers; hops++ {
		var w [8]byte
		if r.mem.Read(fiber+attach.Address(r.o.fiberPrev), w[:]) != nil {
			return
		}
		prev := attach.Address(le64(w[:]))
		if prev == 0 {
			return
		}
		id, ok := r.fiberStack(t, prev+saved)
		if !ok {
			return
		}
		st.fibers = append(st.fibers, id)
		if prev == root {
			return
		}
		fiber = prev
	}
}

// fiberStack reads and decodes the stack of a suspended fiber.
func (r *Reader) fiberStack(t *thread, ec attach.Address) (sampler.StackID, bool) {
	var head [24]byte
	if r.mem.Read(ec, head[:]) != nil {
		return 0, false
	}
	_, end, cfp, ok := r.window(head[:])
	if !ok {
		return 0, false
	}
	var owner [8]byte
	if r.mem.Read(ec+attach.Address(r.o.ecThread), owner[:]) != nil || attach.Address(le64(owner[:])) != t.addr {
		return 0, false
	}
	depth := int(end-cfp) / r.o.frameSize
	if depth > r.maxDepth+1 {
		return 0, false
	}
	r.fiberBuf = grow(r.fiberBuf, depth*r.o.frameSize)
	if r.mem.Read(cfp, r.fiberBuf) != nil {
		return 0, false
	}
	id, _, err := r.dec.Decode(&RawStack{End: end, CFP: cfp, Frames: r.fiberBuf})
	if err != nil {
		r.lastDecodeError = err
		return 0, false
	}
	return id, true
}
