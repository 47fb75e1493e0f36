package recording

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// encoder writes the samples of one block, one after the other. If a value is the same as in the previous sample, it
// takes almost no bytes. The block's tables are made later, from the IDs that the encoder has collected.
type encoder struct {
	wire
	samples uint32
	firstNS int64
	// local is true if each block has its own numbers for IDs, as in a file. It is false if blocks use the Dictionary's
	// IDs, as in memory.
	local bool
}

// blockIDs has the Dictionary's IDs to which the samples of a block refer. In the block, an ID is written as its index
// in these lists. The first ID of each list is 0, which means none.
type blockIDs struct {
	stacks                 []sampler.StackID
	peers                  []sampler.PeerID
	works                  []sampler.WorkID
	statements, exceptions []sampler.TextID
	threads                map[sampler.ThreadID]struct{}
}

// ids returns the Dictionary's IDs to which the current block refers.
func (e *encoder) ids() blockIDs {
	return blockIDs{e.stacks.list, e.peers.list, e.works.list, e.statements.list, e.exceptions.list, e.named}
}

func (b *blockIDs) full() bool {
	return len(b.stacks) > maxStacks/enough || len(b.peers) > maxPeers/enough || len(b.threads) >= maxBlockThreads/enough ||
		len(b.works) > maxWorks/enough || len(b.statements) > maxTold/enough || len(b.exceptions) > maxTold/enough
}

func newEncoder(local bool) *encoder {
	e := &encoder{wire: wire{state: newState(), texts: make(map[string]uint32)}, local: local}
	if local {
		e.named = make(map[sampler.ThreadID]struct{})
	}
	return e
}

func (e *encoder) begin(bufs streams) {
	e.reset()
	e.out, e.samples, e.listed, e.firstNS = bufs.empty(), 0, 0, 0
	clear(e.texts)
	if e.local {
		e.stacks.begin()
		e.peers.begin()
		e.works.begin()
		e.statements.begin()
		e.exceptions.begin()
		clear(e.named)
	}
}

func (e *encoder) full(s *sampler.Sample) bool {
	if e.samples == 0 {
		return false
	}
	age := s.TimeNS - e.firstNS
	if s.Fibers != nil && s.Fibers != e.sample.Fibers && e.fibers.listed+len(s.Fibers.List) > maxListedFibers {
		return true
	}
	if e.changed.listed+len(s.Changes.List) > maxListedChanges {
		return true
	}
	if age >= blockNS || age < 0 || e.out.size() >= maxRawBlock || e.samples >= maxSamples || e.listed+len(s.Threads) > maxListed ||
		len(e.texts) >= maxTexts/enough {
		return true
	}
	ids := e.ids()
	return ids.full()
}

// add appends a sample. If the format cannot hold the sample, add does not write it, and returns errLimit or
// errChanges.
func (e *encoder) add(s *sampler.Sample) error {
	if len(s.Threads) > maxThreads || len(s.Ractors) > maxRactors {
		return fmt.Errorf("%w: %d threads and %d ractors", errLimit, len(s.Threads), len(s.Ractors))
	}
	resumers, queued := 0, 0
	for i := range s.Threads {
		n := len(s.Threads[i].Resumers)
		if resumers += n; n > maxResumers || resumers > maxAllResumers {
			return fmt.Errorf("%w: %d resuming fibers of a thread, %d of all up to it", errLimit, n, resumers)
		}
	}
	for i := range s.Ractors {
		n := len(s.Ractors[i].Queue)
		if queued += n; n > maxThreads || queued > maxQueued {
			return fmt.Errorf("%w: %d threads in a queue, %d in all up to it", errLimit, n, queued)
		}
	}
	if err := cmp.Or(checkClasses(s.Classes), checkFibers(s.Fibers), checkQueues(s.Queues), checkNativeLocks(s.NativeLocks),
		checkCPUUse(s.CPUUse), checkChanges(&s.Changes), checkRuns(s.Runs)); err != nil {
		return err
	}
	if e.samples == 0 {
		e.firstNS = s.TimeNS
	}
	e.samples++
	e.fields(s, e.flags(s))
	return nil
}

func (e *encoder) flags(s *sampler.Sample) uint64 {
	p := &e.sample
	newRactors := !slices.EqualFunc(p.Ractors, s.Ractors, func(a, b sampler.Ractor) bool { return a.ID == b.ID })
	return bit(s.Depth == sampler.StackTick, sampleStackTick) | bit(s.Slow, sampleSlow) | bit((s.TimeNS-p.TimeNS)%unit != 0, sampleFineTime) |
		bit(s.Self.Halved, sampleHalved) | bit(s.Self.Lowered, sampleLowered) | bit(s.Self.Extended, sampleExtended) | bit(s.PauseNS != 0, samplePause) |
		bit(s.Reads != e.predictReads(s.Depth), sampleReads) |
		// The prediction of GC.Pair cannot be used here. It needs the threads that hold a GVL in this sample, but e
		// still has the threads of the previous sample. So sampleGC is set whenever GC may differ from the prediction.
		bit(s.GC != p.GC || s.GC.Pair != (sampler.AllocPair{}) || e.pairs, sampleGC) |
		bit(s.GCDetail.AtNS != p.GCDetail.AtNS || s.GCDetail != p.GCDetail, sampleGCDetail) |
		bit(s.Proc != p.Proc, sampleProc) | bit(s.Self != p.Self, sampleSelf) |
		bit(s.Classes != p.Classes, sampleClasses) | bit(s.Fibers != p.Fibers, sampleFibers) |
		bit(s.Queues != p.Queues, sampleQueues) | bit(s.NativeLocks != p.NativeLocks, sampleNativeLocks) |
		bit(s.CPUUse != p.CPUUse, sampleCPUUse) |
		bit(s.Changes.ToNS != 0 || s.Changes.FromNS != 0 || s.Changes.Fresh || len(s.Changes.List) > 0, sampleChanges) |
		bit(len(s.Runs) > 0, sampleRuns) |
		bit(!sameThreads(p.Threads, s.Threads), sampleThreadList) | bit(newRactors, sampleRactorList) |
		bit(newRactors || !slices.EqualFunc(p.Ractors, s.Ractors, sameRactor), sampleRactors)
}

// sameThreads reports whether two samples list the same threads in the same order. It is called a thousand times per
// second. Its parameters are slices, so that the threads are not copied.
func sameThreads(a, b []sampler.Thread) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID {
			return false
		}
	}
	return true
}

func sameRactor(a, b sampler.Ractor) bool {
	return a.OwnerStart == b.OwnerStart && a.OwnerEnd == b.OwnerEnd && a.Waiting == b.Waiting && a.Torn == b.Torn &&
		slices.Equal(a.Queue, b.Queue)
}

func threadMask(p, t *sampler.Thread) uint64 {
	pk, k := &p.Kernel, &t.Kernel
	m := bit(p.Status != t.Status, threadStatus) | bit(p.Bits != t.Bits, threadBits) | bit(p.Stack != t.Stack, threadStack) |
		bit(pk.CPUAtNS != k.CPUAtNS || pk.CPUNS != k.CPUNS || pk.RunDelayNS != k.RunDelayNS, threadCPU) | bit(pk.Turns != k.Turns, threadTurns) |
		bit(callOf(pk) != callOf(k), threadCall) | bit(p.Quality != t.Quality, threadQuality) | bit(p.TID != t.TID, threadTID) |
		bit(p.Ractor != t.Ractor, threadRactor) | bit(p.Omitted != t.Omitted, threadOmitted) | bit(pk.Rechecked != k.Rechecked, threadRechecked) |
		bit(pk.Listens != k.Listens, threadListens) | bit(p.Native != t.Native, threadNative) |
		bit((len(p.Resumers) != 0 || len(t.Resumers) != 0) && !slices.Equal(p.Resumers, t.Resumers), threadResumers)
	switch {
	case pk.StateAtNS == k.StateAtNS:
	case k.StateAtNS == 0:
		m |= threadNoStateAt
	default:
		m |= threadStateAt
	}
	if p.Blocked != t.Blocked {
		m |= bit(blockedOf(p) != blockedOf(t), threadBlocked)
		switch {
		case p.Blocked.DeadlineNS == t.Blocked.DeadlineNS:
		case t.Blocked.DeadlineNS == 0:
			m |= threadNoDeadline
		default:
			m |= threadDeadline
		}
	}
	if p.Serving != t.Serving {
		m |= servingMask(&p.Serving, &t.Serving)
	}
	return m
}
