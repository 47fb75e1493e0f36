package recording

import (
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// fibersState has the previous list of waiting fibers. The next list is written as the difference to the previous one.
type fibersState struct {
	list, spare  []sampler.Fiber
	atNS, readNS int64
	// listed is the number of fibers in all samples of the block together. It is limited (maxListedFibers).
	listed int
}

// fibersCut is a flag of the waiting fibers. It is the value of Fibers.Cut.
const fibersCut = 1

// Bits of a fiber's mask. A bit is set if a value of the fiber differs from the previous value. For a new fiber, the
// previous values are zero.
const (
	fiberCreated = 1 << iota // this bit is the value of Created
	fiberThread
	fiberStack
	fiberWork
	fiberStatement
	fiberException
	fiberSpans
	fiberTrace // since version 5
)

// checkFibers returns an error for fibers that a reader would refuse.
func checkFibers(f *sampler.Fibers) error {
	if f != nil && len(f.List) > sampler.MaxFibers {
		return fmt.Errorf("%w: %d fibers in a sample", errLimit, len(f.List))
	}
	return nil
}

// same returns the previous values of the fiber with number n, or zero values for a new fiber. It searches the previous
// list, beginning at the index from. next is the index at which the search for the next fiber can begin, because the
// list is sorted by number.
func (st *fibersState) same(n sampler.FiberNumber, from int) (was sampler.Fiber, next int) {
	for ; from < len(st.list); from++ {
		switch f := &st.list[from]; {
		case f.Number == n:
			return *f, from + 1
		case f.Number > n:
			return sampler.Fiber{}, from
		}
	}
	return sampler.Fiber{}, from
}

// waiting writes or reads the waiting fibers. First comes how many fibers there are, plus one, or zero if there are no
// Fibers. Then come flags, times and each fiber. A fiber consists of three parts: its number (FiberNumber) as the
// difference to the previous fiber's number, its changed values, and its time. When reading, waiting makes a new
// object, because callers may have kept the previous one.
func (w *wire) waiting(f *sampler.Fibers) *sampler.Fibers {
	c, st := &w.c, &w.fibers
	var next sampler.Fibers
	n := 0
	if f != nil {
		next, n = *f, len(f.List)+1
	}
	if n = w.length(n, sampler.MaxFibers+1, 1) - 1; n < 0 || c.err != nil {
		return nil
	}
	flags := w.uint(bit(next.Cut, fibersCut))
	if st.listed += n; st.listed > maxListedFibers {
		c.fail("too many fibers in all samples")
		return nil
	}
	st.atNS += w.time(next.AtNS - st.atNS)
	st.readNS += w.time(next.ReadNS - st.readNS)
	list, from, last, atNS := st.spare[:0], 0, int64(0), st.atNS
	for i := range n {
		x := at(next.List, i)
		last += w.int(int64(x.Number) - last)
		if last != int64(uint32(last)) {
			c.fail("a number too large")
		}
		var p sampler.Fiber
		p, from = st.same(sampler.FiberNumber(last), from)
		p.Number = sampler.FiberNumber(last)
		w.waitingFiber(&p, &x)
		atNS += w.time(x.AtNS - atNS)
		p.AtNS = atNS
		if w.err() != nil {
			return nil
		}
		list = append(list, p)
	}
	st.list, st.spare = list, st.list
	if !w.reading {
		return f
	}
	f = &sampler.Fibers{Cut: flags&fibersCut != 0, AtNS: st.atNS, ReadNS: st.readNS}
	if len(list) > 0 {
		f.List = slices.Clone(list)
	}
	return f
}

// fiberServing pairs each bit of a fiber's mask with the bit of a thread's mask that has the same meaning.
var fiberServing = [...][2]uint64{{fiberWork, threadWork}, {fiberStatement, threadStatement}, {fiberException, threadException},
	{fiberSpans, threadSpans}, {fiberTrace, threadTrace}}

func (w *wire) waitingFiber(p, x *sampler.Fiber) {
	mask := bit(x.Created, fiberCreated) | bit(p.Thread != x.Thread, fiberThread) | bit(p.Stack != x.Stack, fiberStack)
	of := servingMask(&p.Serving, &x.Serving)
	for _, b := range fiberServing {
		mask |= bit(of&b[1] != 0, b[0])
	}
	mask = w.uint(mask)
	p.Created = mask&fiberCreated != 0
	if mask&fiberThread != 0 {
		small(w, &p.Thread, x.Thread)
	}
	w.name(p.Thread)
	if mask&fiberStack != 0 {
		p.Stack = w.stacks.carry(w, x.Stack)
	}
	of = 0
	for _, b := range fiberServing {
		of |= bit(mask&b[0] != 0, b[1])
	}
	w.serving(&p.Serving, &x.Serving, of)
}
