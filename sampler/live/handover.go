package live

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
)

const (
	// maxWaiting bounds the samples that wait to be taken from the clock: 4 s at 1 kHz. maxWaitingThreads bounds the
	// threads in them, about 30 MB. Further samples are lost, and counted.
	maxWaiting        = 4096
	maxWaitingThreads = 1 << 17
	// maxFree bounds the samples whose memory is kept for the next ones.
	maxFree = 256
	// batchNS is how long samples are collected at least before those who take them are woken up: each time costs as
	// much as some ticks. batchSamples of them are collected too, unless that takes longBatchNS.
	batchNS      = 25_000_000
	batchSamples = 8
	longBatchNS  = 200_000_000
	// manySharers is how many processes have samples collected for longer, up to mostBatches times longBatchNS.
	manySharers, mostBatches = 8, 3
	// slowBatchNS is how long they are collected while nothing runs.
	slowBatchNS = 400_000_000
)

// handover passes samples from the clock on to the goroutine that folds and writes them. The clock never waits for it,
// not even for a lock: on a full machine who holds that may have no CPU.
type handover struct {
	waiting queue
	free    queue // samples that were taken, for the next ones
	wake    chan struct{}
	// threads is the number of threads in the samples that wait.
	threads atomic.Int64
	// sharers is how many processes are read at once.
	sharers *atomic.Int32
	// lost, wokenNS and newest are the clock's. newest was lost last; holding: none was handed over since.
	lost    uint64
	wokenNS int64
	newest  handed
	holding bool
}

// handed is a sample on its way. list says which threads it has, by their addresses. It is nil if no reader asks.
type handed struct {
	sampler.Sample
	list *exact.List
}

// queue passes samples from one goroutine on to one other, in their order, without a lock.
type queue struct {
	ring []*handed
	// in and out count what was ever put in and taken out.
	in, out atomic.Uint64
}

func (q *queue) full() bool { return q.in.Load()-q.out.Load() == uint64(len(q.ring)) }

// put must not be called when the queue is full.
func (q *queue) put(s *handed) {
	in := q.in.Load()
	q.ring[in%uint64(len(q.ring))] = s
	q.in.Store(in + 1)
}

func (q *queue) next() *handed {
	out := q.out.Load()
	if out == q.in.Load() {
		return nil
	}
	return q.ring[out%uint64(len(q.ring))]
}

// take returns nil when there is none.
func (q *queue) take() *handed {
	out := q.out.Load()
	if out == q.in.Load() {
		return nil
	}
	at := &q.ring[out%uint64(len(q.ring))]
	s := *at
	*at = nil
	q.out.Store(out + 1)
	return s
}

func newHandover() *handover {
	return &handover{
		waiting: queue{ring: make([]*handed, maxWaiting)},
		free:    queue{ring: make([]*handed, maxFree)},
		wake:    make(chan struct{}, 1),
		sharers: new(atomic.Int32),
	}
}

// put hands a copy of a sample over, or counts it as lost. It is the clock's.
func (h *handover) put(s *sampler.Sample, list *exact.List) {
	n, most := int64(len(s.Threads)), int64(sampler.Share(maxWaitingThreads, int(h.sharers.Load())))
	// There is no other writer, so what there is room for now there is room for below.
	if h.waiting.full() || h.threads.Load() > 0 && h.threads.Load()+n > most {
		h.lost++
		h.newest.CopyFrom(s)
		h.newest.list = list
		h.holding = true
		return
	}
	h.holding = false
	c := h.free.take()
	if c == nil {
		c = new(handed)
	}
	c.CopyFrom(s)
	c.list = list
	c.Reads.Lost = h.lost
	h.threads.Add(n)
	h.waiting.put(c)
	batch := int64(batchNS)
	switch {
	case s.Slow:
		batch = slowBatchNS
	case h.waiting.in.Load()-h.waiting.out.Load() < batchSamples:
		batch = longBatchNS * min(max(int64(h.sharers.Load())/manySharers, 1), mostBatches)
	}
	if h.wokenNS == 0 || s.TimeNS-h.wokenNS >= batch {
		h.wokenNS = s.TimeNS
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

// take calls emit with the samples that wait, up to the first one that is not ready.
func (h *handover) take(ready func(timeNS int64) bool, emit func(*handed)) {
	for s := h.waiting.next(); s != nil && ready(s.TimeNS); s = h.waiting.next() {
		h.waiting.take()
		emit(s)
		h.threads.Add(-int64(len(s.Threads)))
		s.list, s.Changes = nil, sampler.Changes{} // which are not its own
		if !h.free.full() {
			h.free.put(s)
		}
	}
}

// end is take after the clock has ended. wait makes all samples ready. If the last samples were lost, no later sample
// can report the loss. So the newest one is kept, and reports how many are missing before it.
func (h *handover) end(wait func(timeNS int64), emit func(*handed)) {
	h.take(func(timeNS int64) bool { wait(timeNS); return true }, emit)
	if h.holding {
		h.newest.Reads.Lost = h.lost - 1
		wait(h.newest.TimeNS)
		emit(&h.newest)
	}
}

// Run samples until ctx or the target ends. The clock has a goroutine and a thread of its own. Run calls emit in the
// caller's goroutine, some hundredths of a second later, with many samples in a row. If emit takes too long, samples
// are lost and counted (sampler.Reads.Lost).
func (s *Source) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	end := func() {}
	defer func() { end() }()
	ctx, stop := context.WithCancel(ctx)
	gaveWay := false
	left := s.left
	h, ended := newHandover(), make(chan error, 1)
	h.sharers = &s.sharers
	var failed any
	go func() {
		defer func() {
			if r := recover(); r != nil {
				failed = fmt.Sprintf("%v\n%s", r, debug.Stack())
				ended <- nil
			}
		}()
		ended <- s.clocked(ctx, func(x *sampler.Sample) { h.put(x, s.listing.list) })
	}()
	over := false
	defer func() {
		if stop(); !over { // emit has panicked
			<-ended
		}
	}()
	d := delivery{mode: &s.exact, switched: &s.switches, emit: emit, first: func() {
		endSwitches, endRunning := s.startSwitches(ctx), s.Running.begins(ctx)
		end = func() { endRunning(); endSwitches() }
	}}
	for {
		select {
		case <-h.wake:
			d.fetch()
			h.take(d.ready, d.deliver)
		case <-left:
			left, gaveWay = nil, ctx.Err() == nil
			stop()
		case err := <-ended:
			over = true
			h.end(d.wait, d.deliver)
			if failed != nil {
				panic(failed)
			}
			if err == nil && gaveWay {
				return sampler.ErrGaveWay
			}
			return err
		}
	}
}
