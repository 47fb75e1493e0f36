package ruby

import (
	"hash/maphash"
	"math/rand/v2"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// believedReadings is how many readings in a row must show the same unlikely call before ddtop believes it. It is
// larger than the number of readings in one tick (maxStackTries). The readings can slow down a loop of the program, so
// that each reading of a tick finds the loop at the same place.
const believedReadings = 8

// outOfStepRanges limits how many ranges of memory ddtop reads between two copies of a stack only to let time pass.
// Each takes about 100 ns.
const outOfStepRanges = 10

// outOfStepNS is the longest pause before a reading, in ns. If an iteration of a loop in the program takes as much time
// as a reading, each copy finds the loop at the same place. A pause of random length prevents this. Most such
// iterations are shorter than outOfStepNS.
const outOfStepNS = 8000

var doubtSeed = maphash.MakeSeed()

// doubtfulStack is a stack with an unlikely call: a frame does not seem to have called the next frame inward. mark
// identifies these two frames and all frames outward of them. readings is how many readings in a row have shown them.
type doubtfulStack struct {
	mark     uint64
	readings int
}

// outOfStep returns how many ranges ddtop may read between two copies of a stack only to let time pass. It is zero
// unless the stack is doubtful. The reads change the time between the copies, as pauses change the time between the
// readings.
func (r *stackReader) outOfStep(s *stackState) int {
	if s.doubtful.readings == 0 {
		return 0
	}
	return outOfStepRanges
}

// doubt handles a stack in which the n innermost frames do not seem to be called by the frames outward of them. It
// requests another reading. If no further reading is possible, it keeps only the outward frames. But if several
// readings in a row agree, it keeps all frames.
func (r *stackReader) doubt(t *thread, raw *code.Stack, n int, how way) bool {
	s, fs := &t.stack, r.o.Code.FrameSize
	s.restless = restlessReads
	var h maphash.Hash
	h.SetSeed(doubtSeed)
	h.Write(raw.Frames[(n-1)*fs:][frameISeq:]) // without pc and sp of the frame that is called
	if mark := h.Sum64(); mark != s.doubtful.mark {
		s.doubtful = doubtfulStack{mark: mark}
	}
	s.doubtful.readings++
	switch {
	case s.doubtful.readings >= believedReadings:
		r.ways[wayBelieved]++
	case raw.Again:
		for until := r.now() + rand.Int64N(outOfStepNS); r.now() < until; {
		}
		return false
	default:
		raw.Frames, raw.Cut = raw.Frames[n*fs:], max(raw.Cut-n, 0)
		raw.CFP += attach.Address(n * fs)
		if raw.Cut == 0 {
			raw.CFP = raw.End - attach.Address(len(raw.Frames))
		}
		raw.Running, raw.Partial, raw.Again = false, true, false
		r.ways[wayDoubt]++
	}
	raw.Racing = false
	return r.accept(t, raw, how)
}
