// Package handover passes samples on, from the clock (the goroutine that takes samples) to the goroutine that uses
// them.
package handover

import (
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
)

const (
	// maxWaiting is the largest number of samples that wait until the receiver takes them. At 1 kHz, they cover 4 s.
	// maxWaitingThreads limits the number of threads in these samples, which limits the memory to about 30 MB. Further
	// samples are lost, and counted.
	maxWaiting        = 4096
	maxWaitingThreads = 1 << 17
	// maxFree limits how many used samples are kept, so that new samples can reuse their memory.
	maxFree = 256
	// batchNS is the least time between two wake-ups of the goroutine that receives samples. A wake-up costs as much as
	// some ticks, so it should bring several samples. If fewer than batchSamples wait, the time is longBatchNS instead.
	batchNS      = 25_000_000
	batchSamples = 8
	longBatchNS  = 200_000_000
	// longBatchNS is multiplied if many processes are read at once. The factor is the number of processes divided by
	// manySharers, at least 1 and at most mostBatches.
	manySharers, mostBatches = 8, 3
	// slowBatchNS is the time between two wake-ups while no thread of the target runs.
	slowBatchNS = 400_000_000
)

// A Handover passes samples from the clock, which takes them, to the goroutine that sums them up and writes them. The
// clock never waits for that goroutine. It does not even wait for a lock, because on a full machine the goroutine with
// the lock may have no CPU.
type Handover struct {
	waiting queue
	free    queue // samples that were taken, whose memory can be used again
	// Wake receives a value when samples wait.
	Wake chan struct{}
	// threads is the number of threads in the samples that wait.
	threads atomic.Int64
	// Sharers is how many processes are read at once.
	Sharers *atomic.Int32
	// Only the clock, the goroutine that samples, uses lost, wokenNS, newest and holding. newest is the last lost
	// sample. holding is true if no later sample was handed over.
	lost    uint64
	wokenNS int64
	newest  Sample
	holding bool
}

// A Sample is a sampler.Sample with the data that its receiver needs in addition. List maps the addresses of the
// sample's threads to their IDs. It is nil if the samples get neither changes nor C stacks.
type Sample struct {
	sampler.Sample
	List *exact.List
}

// queue passes samples, in their order and without a lock, from the one goroutine that puts them in to the one that
// takes them out.
type queue struct {
	ring []*Sample
	// in and out count all samples that were ever put in and taken out.
	in, out atomic.Uint64
}

func (q *queue) full() bool { return q.in.Load()-q.out.Load() == uint64(len(q.ring)) }

// put adds a sample at the end. It must not be called when the queue is full.
func (q *queue) put(s *Sample) {
	in := q.in.Load()
	q.ring[in%uint64(len(q.ring))] = s
	q.in.Store(in + 1)
}

func (q *queue) next() *Sample {
	out := q.out.Load()
	if out == q.in.Load() {
		return nil
	}
	return q.ring[out%uint64(len(q.ring))]
}

// take removes the first sample and returns it. It returns nil if no sample waits.
func (q *queue) take() *Sample {
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

// New returns an empty Handover.
func New() *Handover {
	return &Handover{
		waiting: queue{ring: make([]*Sample, maxWaiting)},
		free:    queue{ring: make([]*Sample, maxFree)},
		Wake:    make(chan struct{}, 1),
		Sharers: new(atomic.Int32),
	}
}

// Put hands a copy of a sample over, or counts it as lost. Only the clock may call it.
func (h *Handover) Put(s *sampler.Sample, list *exact.List) {
	n, most := int64(len(s.Threads)), int64(sampler.Share(maxWaitingThreads, int(h.Sharers.Load())))
	// Only the clock puts samples in. So if there is room now, there is still room for the call of put below.
	if h.waiting.full() || h.threads.Load() > 0 && h.threads.Load()+n > most {
		h.lost++
		h.newest.CopyFrom(s)
		h.newest.List = list
		h.holding = true
		return
	}
	h.holding = false
	c := h.free.take()
	if c == nil {
		c = new(Sample)
	}
	c.CopyFrom(s)
	c.List = list
	c.Reads.Lost = h.lost
	h.threads.Add(n)
	h.waiting.put(c)
	batch := int64(batchNS)
	switch {
	case s.Slow:
		batch = slowBatchNS
	case h.waiting.in.Load()-h.waiting.out.Load() < batchSamples:
		batch = longBatchNS * min(max(int64(h.Sharers.Load())/manySharers, 1), mostBatches)
	}
	if h.wokenNS == 0 || s.TimeNS-h.wokenNS >= batch {
		h.wokenNS = s.TimeNS
		select {
		case h.Wake <- struct{}{}:
		default:
		}
	}
}

// Take calls emit with the samples that wait, in their order. It stops at the first one for which ready returns false.
func (h *Handover) Take(ready func(timeNS int64) bool, emit func(*Sample)) {
	for s := h.waiting.next(); s != nil && ready(s.TimeNS); s = h.waiting.next() {
		h.waiting.take()
		emit(s)
		h.threads.Add(-int64(len(s.Threads)))
		s.List, s.Changes = nil, sampler.Changes{} // the next sample that reuses this memory must not have them
		if !h.free.full() {
			h.free.put(s)
		}
	}
}

// End is like Take, but is called after the clock has ended. The function wait waits until a sample is ready. If the
// last samples were lost, no later sample can report the loss. So End also passes on the newest lost sample. This
// sample reports how many samples are missing before it.
func (h *Handover) End(wait func(timeNS int64), emit func(*Sample)) {
	h.Take(func(timeNS int64) bool { wait(timeNS); return true }, emit)
	if h.holding {
		h.newest.Reads.Lost = h.lost - 1
		wait(h.newest.TimeNS)
		emit(&h.newest)
	}
}
