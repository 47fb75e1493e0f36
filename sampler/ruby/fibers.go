package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/stackmem"
)

// fiberReader reads the stacks of fibers that do not run. It also reads the requests and jobs for which these fibers
// work.
type fiberReader struct {
	*target
	list    *threadList
	stacks  *stackReader
	serving *workReader
	fiber   fiberRead
	links   []link // the buffer of readResumers
}

// fiberRead is the memory into which the stacks of fibers that do not run are read (docs/internals/stacks.md#fibers).
type fiberRead struct {
	owner  [8]byte
	copies [2]stackCopy
	links  [2][]byte
	// handlers is how many frames of the last stack belong to a rescue or an ensure.
	handlers int
}

// link is a word of memory that refers to a fiber: the word's address, and its value. While the value stays the same,
// the fiber does not run.
type link struct{ addr, says attach.Address }

// readResumers reads the stacks of the fibers that resumed the running fiber: its resumer, the resumer's resumer and so
// on. They cannot run while the running fiber runs. If one of them ran before its stack was read, its stack is left out
// and counted as torn.
func (r *fiberReader) readResumers(t *thread) {
	st := &t.stack
	st.fibers, st.fibersOf = st.fibers[:0], st.version
	root, fiber := r.firstFiber(t), r.fiberOf(st.ec)
	if st.ec == 0 || st.quality&sampler.StackFailed != 0 || root == 0 || fiber == root {
		return
	}
	links := append(r.links[:0], link{t.addr + attach.Address(r.o.ThEC), st.ec})
	for range maxFibers {
		at := fiber + attach.Address(r.o.FiberPrev)
		prev := r.addressAt(at)
		if prev == 0 {
			break
		}
		links = append(links, link{at, prev})
		id, ok := r.fiberStack(t, r.contextOf(prev), links)
		if !ok {
			break
		}
		st.fibers = append(st.fibers, id)
		r.findOuterWork(t, r.contextOf(prev), links)
		if prev == root {
			break
		}
		fiber = prev
	}
	r.links = links
}

// runsRoot reports whether a thread now runs its root fiber, the fiber with which the thread began.
func (r *target) runsRoot(t *thread) bool {
	if t.stack.ec == 0 || r.o.ThRootFiber < 0 {
		return false
	}
	root := r.firstFiber(t)
	return root == 0 || r.fiberOf(t.stack.ec) == root
}

// fiberStack reads and decodes the stack of a fiber that does not run. It checks that the fiber did not run during the
// reading. For this purpose, one call reads the links to the fiber, two copies of the stack, and the links again.
func (r *fiberReader) fiberStack(t *thread, ec attach.Address, links []link) (sampler.StackID, bool) {
	f := &r.fiber
	c := &f.copies
	batch := append(r.scratch[:0], attach.Range{Addr: ec, Buf: c[0].ec[:]},
		attach.Range{Addr: ec + attach.Address(r.o.ECThread), Buf: f.owner[:]})
	r.scratch = batch
	if r.readAll(batch) != nil || attach.Address(le64(f.owner[:])) != t.addr {
		return 0, false
	}
	low, end, cfp, ok := r.window(c[0].ec[:])
	if !ok {
		return 0, false
	}
	area := stackArea{low: low, end: end, cfp: cfp, inner: int(end-cfp) / r.o.Code.FrameSize}
	if area.inner > r.stacks.maxDepth+1 {
		return 0, false
	}
	p := &r.stacks.exact
	p.reset()
	f.planLinks(p, 0, links)
	r.stacks.addCopies(p, &stackPlan{kind: stackExact, area: area}, ec, c[:], nil, 0)
	f.planLinks(p, 1, links)
	if r.readAll(p.ranges) != nil {
		return 0, false
	}
	if !alike(&c[0], &c[1]) || !f.leads(links) {
		r.reads.Torn++
		return 0, false
	}
	id, info, err := r.dec.Decode(&code.Stack{End: end, CFP: cfp, Frames: c[0].frames})
	f.handlers = info.Handlers
	if err != nil {
		r.stacks.lastDecodeError = err
		return 0, false
	}
	r.stacks.ways[wayFiber]++
	return id, true
}

func (f *fiberRead) planLinks(p *plan, k int, links []link) {
	f.links[k] = stackmem.Grow(f.links[k], 8*len(links))
	for i, l := range links {
		p.add(l.addr, f.links[k][8*i:8*i+8])
	}
}

// leads reports whether all links still have their values. If they do, the fiber did not run while its stack was read.
func (f *fiberRead) leads(links []link) bool {
	for _, b := range f.links {
		for i, l := range links {
			if attach.Address(le64(b[8*i:])) != l.says {
				return false
			}
		}
	}
	return true
}
