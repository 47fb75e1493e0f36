package ruby

import (
	"github.com/ddtop/ddtop/attach"
)

// readDeep reads a stack whose size is known by now with reads of its own, as often as any other that runs, and cut in the
// middle when it is deeper than the limit.
func (r *Reader) readDeep(t *thread, running bool) bool {
	s := &t.stack
	fs := r.o.frameSize
	area := stackArea{low: s.low, end: s.end, cfp: s.cfp, inner: int(s.end-s.cfp) / fs}
	if area.inner > r.maxDepth+1 {
		area.inner = r.maxDepth * 3 / 4
		area.outer = r.maxDepth - area.inner + 1 // and the dummy frame at the bottom
	}
	s.made = s.copiesFor(true)
	batch := r.planArea(r.scratch[:0], s.ec, &area, s.copies[:s.made])
	batch = append(batch, attach.Range{Addr: t.addr + attach.Address(r.o.thEC), Buf: s.th2[:]})
	r.scratch = batch
	if err := r.readAll(batch); err != nil {
		return false
	}
	frames := s.copies[0].frames
	dropJIT, tornJIT := 0, false
	if r.vm.ZJITFrames {
		s.jit.learn(r.dec, frames, len(frames))
		first := 1
		if area.outer > 0 {
			first = 2
		}
		around, err := s.jit.readAround(r, batch[first:])
		if err != nil {
			return false
		}
		dropJIT, tornJIT = s.jit.take(r, around, frames)
	}
	if !r.stillRuns(s) {
		return false
	}
	drop := r.settle(s, &area, dropJIT, tornJIT)
	if drop == area.size() {
		return false
	}
	how := wayDeep
	if area.outer > 0 {
		how = wayCut
	}
	s.noteSP(frames)
	s.valuesAt = 0
	return r.decodeStack(t, &area, drop, how, running, true)
}

// planArea adds copies of an area's frames to a batch, each behind the execution context at ec but the first, whose context is
// the one that the area is known from.
func (r *Reader) planArea(batch []attach.Range, ec attach.Address, area *stackArea, copies []stackCopy) []attach.Range {
	fs := r.o.frameSize
	n, cut := area.size()*fs, area.inner*fs
	for i := range copies {
		c := &copies[i]
		c.frames = r.grow(c.frames, n)
		if i > 0 {
			batch = append(batch, attach.Range{Addr: ec, Buf: c.ec[:]})
		}
		batch = append(batch, attach.Range{Addr: area.cfp, Buf: c.frames[:cut]})
		if area.outer > 0 {
			batch = append(batch, attach.Range{Addr: area.at(area.inner, fs), Buf: c.frames[cut:]})
		}
	}
	return batch
}
