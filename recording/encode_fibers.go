package recording

import (
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// fibersState is the look at the fibers that wait which the next one is written as the difference to.
type fibersState struct {
	list, spare  []sampler.Fiber
	atNS, readNS int64
	// listed is how many fibers the looks of the block list in all.
	listed int
}

// fibersCut is the bit of a look's flags that says Fibers.Cut.
const fibersCut = 1

// Bits of a fiber's mask: what differs from the fiber of the same number in the look before, else from none.
const (
	fiberCreated = 1 << iota // the value
	fiberThread
	fiberStack
	fiberWork
	fiberStatement
	fiberException
	fiberSpans
	fiberTrace // since version 5
)

// checkFibers refuses what could not be read again.
func checkFibers(f *sampler.Fibers) error {
	if f != nil && len(f.List) > sampler.MaxFibers {
		return fmt.Errorf("%w: %d fibers in a sample", errLimit, len(f.List))
	}
	return nil
}

// same returns what is known of a fiber from the look before, from a place in it on, and the place behind it: looks are in the order of
// the fibers' numbers.
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

// waiting writes a look at the fibers that wait: how many there are, one added (0: there is no look); its flags and times; and
// each fiber: its number as the difference to the one before, what has changed of it, and when it was looked at.
func (e *encoder) waiting(f *sampler.Fibers) {
	e.sample.Fibers = f
	st := &e.fibers
	if f == nil {
		e.uint(0)
		return
	}
	e.uint(uint64(len(f.List)) + 1)
	e.uint(bit(f.Cut, fibersCut))
	e.time(f.AtNS - st.atNS)
	e.time(f.ReadNS - st.readNS)
	st.atNS, st.readNS = f.AtNS, f.ReadNS
	st.listed += len(f.List)
	list, from, last, at := st.spare[:0], 0, int64(0), f.AtNS
	var was sampler.Fiber
	for i := range f.List {
		x := &f.List[i]
		e.int(int64(x.Number) - last)
		last = int64(x.Number)
		was, from = st.same(x.Number, from)
		e.waitingFiber(&was, x)
		e.time(x.AtNS - at)
		at = x.AtNS
		list = append(list, *x)
	}
	st.list, st.spare = list, st.list
}

func (e *encoder) waitingFiber(was, x *sampler.Fiber) {
	var mask uint64
	set := func(b uint64, on bool) { mask |= bit(on, b) }
	a, b := &was.Serving, &x.Serving
	set(fiberCreated, x.Created)
	set(fiberThread, was.Thread != x.Thread)
	set(fiberStack, was.Stack != x.Stack)
	set(fiberWork, a.Work != b.Work)
	set(fiberStatement, a.Statement != b.Statement)
	set(fiberException, a.Exception != b.Exception)
	set(fiberSpans, a.Span != b.Span || a.RootSpan != b.RootSpan)
	set(fiberTrace, a.Trace != b.Trace)
	e.uint(mask)
	if mask&fiberThread != 0 {
		e.uint(uint64(x.Thread))
	}
	if e.local != nil && x.Thread != 0 {
		e.local.threads[x.Thread] = struct{}{}
	}
	if mask&fiberStack != 0 {
		e.uint(e.stack(x.Stack))
	}
	if mask&fiberWork != 0 {
		e.uint(e.work(b.Work))
	}
	if mask&fiberStatement != 0 {
		e.uint(e.statement(b.Statement))
	}
	if mask&fiberException != 0 {
		e.uint(e.exception(b.Exception))
	}
	if mask&fiberSpans != 0 {
		e.count(int64(b.Span))
		e.count(int64(b.RootSpan))
	}
	if mask&fiberTrace != 0 {
		e.trace(&b.Trace)
	}
}

// waiting reads a look. Each is a new one, because those before may have been kept.
func (d *decoder) waiting() *sampler.Fibers {
	c, st := &d.c, &d.fibers
	n := c.count(sampler.MaxFibers+1, 1)
	if n == 0 || c.err != nil {
		return nil
	}
	flags := c.uint()
	if st.listed += n - 1; st.listed > maxListedFibers {
		c.fail("too many fibers in all samples")
		return nil
	}
	st.atNS += d.times.int()
	st.readNS += d.times.int()
	out := &sampler.Fibers{Cut: flags&fibersCut != 0, AtNS: st.atNS, ReadNS: st.readNS}
	list, from, last, at := st.spare[:0], 0, int64(0), st.atNS
	for range n - 1 {
		last += c.int()
		if last != int64(uint32(last)) {
			c.fail("a number too large")
		}
		var x sampler.Fiber
		x, from = st.same(sampler.FiberNumber(last), from)
		x.Number = sampler.FiberNumber(last)
		d.waitingFiber(&x)
		at += d.times.int()
		x.AtNS = at
		if d.err() != nil {
			return nil
		}
		list = append(list, x)
	}
	if len(list) > 0 {
		out.List = slices.Clone(list)
	}
	st.list, st.spare = list, st.list
	return out
}

func (d *decoder) waitingFiber(x *sampler.Fiber) {
	c := &d.c
	mask := c.uint()
	x.Created = mask&fiberCreated != 0
	if mask&fiberThread != 0 {
		x.Thread = sampler.ThreadID(c.uint32())
	}
	if mask&fiberStack != 0 {
		x.Stack = d.stack()
	}
	var of uint64
	for _, b := range [...][2]uint64{{fiberWork, threadWork}, {fiberStatement, threadStatement}, {fiberException, threadException}, {fiberSpans, threadSpans}, {fiberTrace, threadTrace}} {
		if mask&b[0] != 0 {
			of |= b[1]
		}
	}
	d.serving(&x.Serving, of)
}
