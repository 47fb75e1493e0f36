package recording

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// encoder writes the samples of one block after the other. What a sample and the one before it have in common costs
// next to nothing; the tables of a block are made later, from the IDs it has collected.
type encoder struct {
	state
	out     streams
	samples uint32
	// listed is how many threads the samples list in all.
	listed  int
	firstNS int64
	strings map[string]uint32
	// local gives the block's own IDs; nil where a block keeps those of the Dictionary.
	local *localIDs
	mids  []sampler.ThreadID
	rids  []sampler.RactorID
}

// localIDs numbers what the samples of a block refer to, in the order of first use from 1.
type localIDs struct {
	stackIDs     map[sampler.StackID]uint32
	peerIDs      map[sampler.PeerID]uint32
	workIDs      map[sampler.WorkID]uint32
	statementIDs map[sampler.TextID]uint32
	exceptionIDs map[sampler.TextID]uint32
	blockIDs
}

// blockIDs are the Dictionary's IDs of what the samples of a block refer to, in the order of the block's own.
type blockIDs struct {
	stacks                 []sampler.StackID
	peers                  []sampler.PeerID
	works                  []sampler.WorkID
	statements, exceptions []sampler.TextID
	threads                map[sampler.ThreadID]struct{}
}

// full reports whether one of the lists is so long that a block should end.
func (b *blockIDs) full() bool {
	return len(b.stacks) >= maxStacks/enough || len(b.peers) >= maxPeers/enough || len(b.threads) >= maxBlockThreads/enough ||
		len(b.works) >= maxWorks/enough || len(b.statements) >= maxTold/enough || len(b.exceptions) >= maxTold/enough
}

func newLocalIDs() *localIDs {
	return &localIDs{
		stackIDs:     make(map[sampler.StackID]uint32),
		peerIDs:      make(map[sampler.PeerID]uint32),
		workIDs:      make(map[sampler.WorkID]uint32),
		statementIDs: make(map[sampler.TextID]uint32),
		exceptionIDs: make(map[sampler.TextID]uint32),
		blockIDs:     blockIDs{threads: make(map[sampler.ThreadID]struct{})},
	}
}

func newEncoder(local *localIDs) *encoder {
	return &encoder{state: newState(), strings: make(map[string]uint32), local: local}
}

// begin starts a block that is written to bufs.
func (e *encoder) begin(bufs streams) {
	e.reset()
	e.out, e.samples, e.listed, e.firstNS = bufs.empty(), 0, 0, 0
	clear(e.strings)
	if l := e.local; l != nil {
		clear(l.stackIDs)
		clear(l.peerIDs)
		clear(l.workIDs)
		clear(l.statementIDs)
		clear(l.exceptionIDs)
		clear(l.threads)
		l.blockIDs = blockIDs{threads: l.threads} // the tables are made from the lists while the next block begins
	}
}

// full reports whether a sample belongs into a new block.
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
		len(e.strings) >= maxTexts/enough {
		return true
	}
	l := e.local
	return l != nil && l.full()
}

func (e *encoder) stack(id sampler.StackID) uint64 {
	if e.local == nil {
		return uint64(id)
	}
	return localID(e.local.stackIDs, &e.local.stacks, id)
}

func (e *encoder) peer(id sampler.PeerID) uint64 {
	if e.local == nil {
		return uint64(id)
	}
	return localID(e.local.peerIDs, &e.local.peers, id)
}

func (e *encoder) work(id sampler.WorkID) uint64 {
	if e.local == nil {
		return uint64(id)
	}
	return localID(e.local.workIDs, &e.local.works, id)
}

func (e *encoder) statement(id sampler.TextID) uint64 {
	if e.local == nil {
		return uint64(id)
	}
	return localID(e.local.statementIDs, &e.local.statements, id)
}

func (e *encoder) exception(id sampler.TextID) uint64 {
	if e.local == nil {
		return uint64(id)
	}
	return localID(e.local.exceptionIDs, &e.local.exceptions, id)
}

// localID returns an ID's number in the block, giving it the next one at its first use; 0 stays 0.
func localID[ID ~uint32](numbers map[ID]uint32, list *[]ID, id ID) uint64 {
	if id == 0 {
		return 0
	}
	n, ok := numbers[id]
	if !ok {
		*list = append(*list, id)
		n = uint32(len(*list))
		numbers[id] = n
	}
	return uint64(n)
}

func (e *encoder) uint(v uint64) {
	e.out[streamStructure] = binary.AppendUvarint(e.out[streamStructure], v)
}
func (e *encoder) int(v int64)   { e.out[streamStructure] = appendInt(e.out[streamStructure], v) }
func (e *encoder) time(v int64)  { e.out[streamTimes] = appendInt(e.out[streamTimes], v) }
func (e *encoder) count(v int64) { e.out[streamCounters] = appendInt(e.out[streamCounters], v) }

// text writes a string as its number in the block, with the string itself the first time.
func (e *encoder) text(s string) {
	if n, ok := e.strings[s]; ok {
		e.uint(uint64(n))
		return
	}
	n := uint32(len(e.strings))
	e.strings[s] = n
	e.uint(uint64(n))
	e.uint(uint64(len(s)))
	e.out[streamStructure] = append(e.out[streamStructure], s...)
}

// add appends a sample. The error is for what the format can't hold (errLimit, errChanges); the sample is left out then.
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
	if err := cmp.Or(checkClasses(s.Classes), checkFibers(s.Fibers), checkChanges(&s.Changes)); err != nil {
		return err
	}
	if e.samples == 0 {
		e.firstNS = s.TimeNS
	}
	e.samples++
	e.listed += len(s.Threads)
	p := &e.sample
	flags := e.flags(s)
	e.uint(flags)
	if step := s.TimeNS - p.TimeNS; flags&sampleFineTime != 0 {
		e.time(step)
	} else {
		e.time(step / unit)
	}
	e.time(units(s.ReadNS) - units(p.ReadNS))
	if flags&samplePause != 0 {
		e.time(s.PauseNS)
	}
	p.TimeNS, p.ReadNS, p.PauseNS, p.Depth, p.Slow = s.TimeNS, s.ReadNS, s.PauseNS, s.Depth, s.Slow
	e.startTimes()
	e.reads(s, flags)
	if flags&sampleRactorList != 0 {
		e.rids = e.rids[:0]
		e.uint(uint64(len(s.Ractors)))
		for i := range s.Ractors {
			e.uint(uint64(s.Ractors[i].ID))
			e.rids = append(e.rids, s.Ractors[i].ID)
		}
		e.editRactors(e.rids)
	}
	if flags&sampleRactors != 0 {
		for i := range s.Ractors {
			e.ractor(&p.Ractors[i], &s.Ractors[i])
		}
	}
	if flags&sampleThreadList != 0 {
		e.threadList(s)
	}
	e.threads(s)
	if flags&sampleGC != 0 {
		e.gc(&p.GC, &s.GC)
	}
	if flags&sampleGCDetail != 0 {
		e.gcDetail(&p.GCDetail, &s.GCDetail)
	}
	if flags&sampleProc != 0 {
		e.proc(&p.Proc, &s.Proc)
	}
	if flags&sampleSelf != 0 {
		e.count(s.Self.CPUNS - p.Self.CPUNS)
		e.count(s.Self.MaxRSSBytes - p.Self.MaxRSSBytes)
		e.uint(uint64(s.Self.Priority))
		p.Self = s.Self
	}
	if flags&sampleClasses != 0 {
		e.allocClasses(s.Classes)
	}
	if flags&sampleFibers != 0 {
		e.waiting(s.Fibers)
	}
	if flags&sampleChanges != 0 {
		e.changes(&s.Changes)
	} else {
		e.changed.noChanges()
	}
	return nil
}

func (e *encoder) flags(s *sampler.Sample) uint64 {
	p := &e.sample
	var f uint64
	set := func(bit uint64, on bool) {
		if on {
			f |= bit
		}
	}
	set(sampleStackTick, s.Depth == sampler.StackTick)
	set(sampleSlow, s.Slow)
	set(sampleFineTime, (s.TimeNS-p.TimeNS)%unit != 0)
	set(sampleHalved, s.Self.Halved)
	set(sampleLowered, s.Self.Lowered)
	set(samplePause, s.PauseNS != 0)
	set(sampleReads, s.Reads != e.predictReads(s.Depth))
	// predictPair needs the new owners, which are not in the state yet: a GC that can have changed is written.
	set(sampleGC, s.GC != p.GC || s.GC.Pair != (sampler.AllocPair{}) || e.pairs)
	set(sampleGCDetail, s.GCDetail.AtNS != p.GCDetail.AtNS || s.GCDetail != p.GCDetail)
	set(sampleProc, s.Proc != p.Proc)
	set(sampleSelf, s.Self != p.Self)
	set(sampleClasses, s.Classes != p.Classes)
	set(sampleFibers, s.Fibers != p.Fibers)
	set(sampleChanges, s.Changes.ToNS != 0 || s.Changes.FromNS != 0 || s.Changes.Fresh || len(s.Changes.List) > 0)
	set(sampleThreadList, !sameThreads(p.Threads, s.Threads))
	newRactors := !slices.EqualFunc(p.Ractors, s.Ractors, func(a, b sampler.Ractor) bool { return a.ID == b.ID })
	set(sampleRactorList, newRactors)
	set(sampleRactors, newRactors || !slices.EqualFunc(p.Ractors, s.Ractors, sameRactor))
	return f
}

// sameThreads reports whether two samples list the same threads in the same order. It is asked a thousand times a second: the
// threads are not copied, as they would be as arguments of a function.
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

// reads writes the counters that are not as predicted, as a mask and their differences to the prediction.
func (e *encoder) reads(s *sampler.Sample, flags uint64) {
	if flags&sampleReads != 0 {
		want := e.predictReads(s.Depth)
		var mask uint64
		a, b := readsFields(&s.Reads), readsFields(&want)
		for i := range a {
			if *a[i] != *b[i] {
				mask |= 1 << i
			}
		}
		e.uint(mask)
		for i := range a {
			if mask&(1<<i) != 0 {
				e.int(int64(*a[i] - *b[i]))
			}
		}
	}
	e.callsStep = s.Reads.Calls - e.sample.Reads.Calls
	e.sample.Reads = s.Reads
}

// readsFields lists the counters of Reads in the order of the mask's bits.
func readsFields(r *sampler.Reads) [14]*uint64 {
	return [14]*uint64{&r.Ticks, &r.StackTicks, &r.Late, &r.Torn, &r.Retried, &r.Partial, &r.Failed, &r.Uncertain,
		&r.Truncated, &r.Calls, &r.Pauses, &r.PausesCut, &r.PausedNS, &r.Lost}
}

// threadList writes how many threads stay at the beginning and at the end of the list, and the IDs between.
func (e *encoder) threadList(s *sampler.Sample) {
	old, list := e.sample.Threads, s.Threads
	prefix := 0
	for prefix < len(old) && prefix < len(list) && old[prefix].ID == list[prefix].ID {
		prefix++
	}
	suffix := 0
	for suffix < len(old)-prefix && suffix < len(list)-prefix && old[len(old)-1-suffix].ID == list[len(list)-1-suffix].ID {
		suffix++
	}
	e.uint(uint64(prefix))
	e.uint(uint64(suffix))
	e.mids = e.mids[:0]
	e.uint(uint64(len(list) - prefix - suffix))
	last := int64(0)
	for i := prefix; i < len(list)-suffix; i++ {
		id := list[i].ID
		e.int(int64(id) - last)
		last = int64(id)
		e.mids = append(e.mids, id)
		if e.local != nil {
			e.local.threads[id] = struct{}{}
		}
	}
	e.editThreads(prefix, suffix, e.mids)
}

func (e *encoder) ractor(p, r *sampler.Ractor) {
	var mask uint64
	set := func(bit uint64, on bool) {
		if on {
			mask |= bit
		}
	}
	set(ractorOwnerStart, p.OwnerStart != r.OwnerStart)
	set(ractorOwnerEnd, r.OwnerEnd != r.OwnerStart)
	set(ractorQueue, !slices.Equal(p.Queue, r.Queue))
	set(ractorWaiting, int(r.Waiting) != len(r.Queue))
	set(ractorTorn, r.Torn)
	e.uint(mask)
	if mask&ractorOwnerStart != 0 {
		e.uint(uint64(r.OwnerStart))
	}
	if mask&ractorOwnerEnd != 0 {
		e.uint(uint64(r.OwnerEnd))
	}
	if mask&ractorQueue != 0 {
		kept := overlap(p.Queue, r.Queue)
		e.uint(uint64(kept))
		e.uint(uint64(len(r.Queue) - kept))
		for _, id := range r.Queue[kept:] {
			e.uint(uint64(id))
		}
	}
	if mask&ractorWaiting != 0 {
		e.int(int64(r.Waiting))
	}
	setRactor(p, r)
}

// overlap is how many of the new queue's first entries are the old one's last: the front has left and others have
// joined.
func overlap(old, list []sampler.ThreadID) int {
	if len(list) == 0 {
		return 0
	}
	i := slices.Index(old, list[0])
	if i < 0 {
		return 0
	}
	kept := old[i:]
	if len(kept) > len(list) || !slices.Equal(kept, list[:len(kept)]) {
		return 0
	}
	return len(kept)
}

func (e *encoder) gc(p, g *sampler.GC) {
	var mask uint64
	set := func(bit uint64, on bool) {
		if on {
			mask |= bit
		}
	}
	set(gcValid, g.Valid)
	set(gcDuring, g.During)
	set(gcMinor, g.Minor)
	set(gcAllocated, p.Allocated != g.Allocated)
	set(gcMode, p.Mode != g.Mode)
	set(gcCounts, p.Count != g.Count || p.MinorCount != g.MinorCount || p.MajorCount != g.MajorCount)
	set(gcReason, p.Reason != g.Reason)
	set(gcTime, p.TimeNS != g.TimeNS)
	want := e.predictPair()
	set(gcPairThread, g.Pair.Thread != want.Thread)
	set(gcPairObjects, g.Pair.Objects != 0)
	e.uint(mask)
	if mask&gcAllocated != 0 {
		e.count(int64(g.Allocated - p.Allocated))
	}
	if mask&gcMode != 0 {
		e.uint(uint64(g.Mode))
	}
	if mask&gcCounts != 0 {
		e.int(int64(g.Count - p.Count))
		e.int(int64(g.MinorCount - p.MinorCount))
		e.int(int64(g.MajorCount - p.MajorCount))
	}
	if mask&gcReason != 0 {
		e.uint(uint64(g.Reason))
	}
	if mask&gcTime != 0 {
		e.count(int64(g.TimeNS - p.TimeNS))
	}
	if mask&gcPairThread != 0 {
		e.uint(uint64(g.Pair.Thread))
	}
	if mask&gcPairObjects != 0 {
		e.uint(uint64(g.Pair.Objects))
	}
	e.notePair(g.Pair)
	*p = *g
}

func (e *encoder) proc(p, n *sampler.Proc) {
	a, b := procFields(p), procFields(n)
	for i := range a {
		e.count(*b[i] - *a[i])
	}
	flags := uint64(n.Pressure.Source)
	if n.Stopped {
		flags |= procStopped
	}
	if n.Frozen {
		flags |= procFrozen
	}
	e.uint(flags)
	*p = *n
}

// procStopped and procFrozen are the bits beside PressureSource that say Proc.Stopped and Proc.Frozen.
const (
	procStopped = 1 << 4
	procFrozen  = 1 << 5
)

// procFields lists the counters of Proc in the order they are written.
func procFields(p *sampler.Proc) [16]*int64 {
	return [...]*int64{&p.AtNS, &p.UserNS, &p.SystemNS, &p.RSSBytes, &p.MajorFaults, &p.ThrottledNS, &p.ThrottledPeriods,
		&p.Periods, &p.SwapBytes, &p.Pressure.CPUSomeNS, &p.Pressure.MemorySomeNS, &p.Pressure.MemoryFullNS,
		&p.Pressure.IOSomeNS, &p.Pressure.IOFullNS, &p.PSSBytes, &p.Switches}
}
