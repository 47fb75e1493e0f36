package ruby

import (
	"bytes"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// maxControlFrames limits how many control frames are compared with a native stack, from the innermost one outward.
const maxControlFrames = 1024

// Controls reads the control frames of a thread again, innermost first. same is false if they differ from the frames of
// the last sample. whole is false if some frames of the stack were not read. Call Controls after a Read that reads
// stacks.
func (r *Reader) Controls(id sampler.ThreadID) (frames []code.Control, whole, same bool) {
	i := slices.IndexFunc(r.list.order, func(t *thread) bool { return t.id == id })
	if i < 0 {
		return nil, false, false
	}
	t := r.list.order[i]
	s, size := &t.stack, r.o.Code.FrameSize
	count := len(s.kept) / size
	if count == 0 || s.quality&(sampler.StackPartial|sampler.StackFailed) != 0 {
		return nil, false, false
	}
	cfp, whole := s.keptEnd-attach.Address(len(s.kept)), true
	if s.quality&sampler.StackTruncated != 0 {
		// More than half of the kept frames are innermost frames (see decide). So the first half of them has no gap.
		cfp, whole, count = s.cfp, false, count/2
	}
	if count > maxControlFrames {
		count, whole = maxControlFrames, false
	}
	kept, now := s.kept[:count*size], make([]byte, count*size)
	own := attach.Range{Addr: t.addr + attach.Address(r.o.ThEC), Buf: make([]byte, 8)}
	context := attach.Range{Addr: s.keptEC, Buf: make([]byte, ecSpan)}
	if !code.ReadAll(r.mem, own, context, attach.Range{Addr: cfp, Buf: now}) || !bytes.Equal(now, kept) ||
		attach.Address(le64(own.Buf)) != s.keptEC || attach.Address(le64(context.Buf[ecCFP:])) != cfp {
		return nil, false, false
	}
	frames, same = r.dec.Controls(r.mem, now)
	return frames, whole, same
}
