package ruby

import (
	"bytes"

	"github.com/ddtop/ddtop/attach"
)

// readDeep reads a stack whose size is known by now with reads of its own: twice, and cut in the middle when it is deeper
// than the limit.
func (r *Reader) readDeep(t *thread, running bool) bool {
	s := &t.stack
	fs := r.o.frameSize
	depth := int(s.end-s.cfp) / fs
	inner, outer := depth, 0
	if depth > r.maxDepth+1 {
		inner = r.maxDepth * 3 / 4
		outer = r.maxDepth - inner + 1 // and the dummy frame at the bottom
	}
	n := (inner + outer) * fs
	s.frames1, s.frames2 = grow(s.frames1, n), grow(s.frames2, n)
	cut := inner * fs
	var ec [24]byte
	batch := append(r.scratch[:0], attach.Range{Addr: s.cfp, Buf: s.frames1[:cut]})
	if outer > 0 {
		batch = append(batch, attach.Range{Addr: s.end - attach.Address(outer*fs), Buf: s.frames1[cut:]})
	}
	batch = append(batch, attach.Range{Addr: s.ec, Buf: ec[:]}, attach.Range{Addr: s.cfp, Buf: s.frames2[:cut]})
	if outer > 0 {
		batch = append(batch, attach.Range{Addr: s.end - attach.Address(outer*fs), Buf: s.frames2[cut:]})
	}
	r.scratch = batch
	if err := r.readAll(batch); err != nil {
		return false
	}
	dropJIT := 0
	if r.vm.ZJITFrames {
		s.jit.learn(r.dec, s.frames1, n)
		first := 1
		if outer > 0 {
			first = 2
		}
		around, err := s.jit.readAround(r, batch[first:])
		if err != nil {
			return false
		}
		dropJIT, _ = s.jit.take(r, around, s.frames1)
	}
	low, end, cfp, ok := r.window(ec[:])
	if !ok || low != s.low || end != s.end {
		return false
	}
	// Only the outer part that both copies share is kept.
	drop := 0
	if cfp != s.cfp || !bytes.Equal(s.frames1[frameISeq:], s.frames2[frameISeq:]) {
		for i := n/fs - 1; i >= 0; i-- {
			if !bytes.Equal(s.frames1[i*fs:(i+1)*fs], s.frames2[i*fs:(i+1)*fs]) {
				drop = i + 1
				break
			}
		}
	}
	if drop = max(drop, dropJIT); drop*fs >= n {
		return false
	}
	raw := RawStack{End: s.end, CFP: s.cfp + attach.Address(drop*fs), Frames: s.frames1[drop*fs:], Running: running && drop == 0, Settled: r.collecting}
	if outer > 0 && drop < inner {
		raw.Cut = inner - drop
	}
	if r.vm.ZJITFrames {
		raw.JIT = s.jit.values[drop:]
	}
	s.valuesAt = 0
	if !r.accept(t, &raw, drop > 0) {
		return false
	}
	s.sp = attach.Address(le64(s.frames1[frameSP:]))
	if s.sp < s.low || s.sp > s.cfp {
		s.sp = s.low + valueSlack
	}
	return true
}
