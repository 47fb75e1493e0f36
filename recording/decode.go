package recording

import (
	"cmp"
	"encoding/binary"
	"math"

	"github.com/ddtop/ddtop/sampler"
)

// decoder reads the samples of one block. What it reads is not trusted.
type decoder struct {
	state
	c       cursor // of the structure
	times   cursor
	counts  cursor
	strings []string
	// tables turn the block's IDs into the Dictionary's; a list is nil where they are the same.
	tables
	mids []sampler.ThreadID
	rids []sampler.RactorID
	// left is how many samples the block may still hold.
	left uint32
	// resumers and queued are how many elements the lists of all threads and all ractors have together.
	resumers, queued int
	// listed is how many threads the samples so far list in all.
	listed int
}

func newDecoder() *decoder { return &decoder{state: newState()} }

// peekTime returns the TimeNS of the sample that next would read; ok is false at the end of the block.
func (d *decoder) peekTime() (ns int64, ok bool) {
	if !d.c.more() {
		return 0, false
	}
	flags, ahead := d.c, d.times
	ns = d.sample.TimeNS + d.step(flags.uint(), &ahead)
	return ns, flags.err == nil && ahead.err == nil
}

// step reads by how much a sample's time differs from the one before.
func (d *decoder) step(flags uint64, times *cursor) int64 {
	ns := times.int()
	if flags&sampleFineTime == 0 {
		ns *= unit
	}
	return ns
}

// skipTo reads the samples up to the last one at or before t. ok is false when there is none.
func (d *decoder) skipTo(t int64) (ok bool) {
	for {
		ns, more := d.peekTime()
		if !more || ns > t || !d.next() {
			return ok && d.err() == nil
		}
		ok = true
	}
}

// inRange calls fn with the samples in [t0, t1) and stops at the first one past it. They follow on what j says.
func (d *decoder) inRange(t0, t1 int64, j *joint, fn func(*sampler.Sample)) error {
	for first := true; ; {
		if ns, ok := d.peekTime(); ok && ns >= t1 || !d.next() {
			return d.err()
		}
		if d.sample.TimeNS < t0 {
			continue
		}
		if first {
			d.join(*j)
		}
		first, j.toNS, j.begun = false, d.changed.toNS, true
		fn(&d.sample)
	}
}

// next reads one sample into d.sample. ok is false at the end of the block and on an error, which is d.err().
func (d *decoder) next() (ok bool) {
	if !d.c.more() {
		return false
	}
	s, c := &d.sample, &d.c
	if d.left == 0 {
		c.fail("more samples than the block's header says")
		return false
	}
	d.left--
	flags := c.uint()
	s.TimeNS += d.step(flags, &d.times)
	s.ReadNS += d.times.int() * unit
	s.PauseNS = 0
	if flags&samplePause != 0 {
		s.PauseNS = d.times.int()
	}
	s.Depth = sampler.LockTick
	if flags&sampleStackTick != 0 {
		s.Depth = sampler.StackTick
	}
	s.Slow = flags&sampleSlow != 0
	s.Self.Halved, s.Self.Lowered = flags&sampleHalved != 0, flags&sampleLowered != 0
	d.startTimes()
	d.reads(flags)
	if flags&sampleRactorList != 0 {
		d.rids = d.rids[:0]
		for range c.count(maxRactors, 1) {
			d.rids = append(d.rids, sampler.RactorID(c.uint32()))
		}
		d.editRactors(d.rids)
		d.queued = 0
		for i := range s.Ractors {
			d.queued += len(s.Ractors[i].Queue)
		}
	}
	if flags&sampleRactors != 0 {
		for i := range s.Ractors {
			d.ractor(&s.Ractors[i])
		}
	}
	if flags&sampleThreadList != 0 {
		d.threadList()
	}
	if d.listed += len(s.Threads); d.listed > maxListed {
		c.fail("too many threads in all samples")
		return false
	}
	d.threads()
	if flags&sampleGC != 0 {
		d.gc(&s.GC)
	}
	if flags&sampleGCDetail != 0 {
		d.gcDetail(&s.GCDetail)
	}
	if flags&sampleProc != 0 {
		d.proc(&s.Proc)
	}
	if flags&sampleSelf != 0 {
		s.Self.CPUNS += d.counts.int()
		s.Self.MaxRSSBytes += d.counts.int()
		s.Self.Priority = sampler.Priority(c.uint8())
	}
	if flags&sampleClasses != 0 {
		s.Classes = d.allocClasses()
	}
	if flags&sampleFibers != 0 {
		s.Fibers = d.waiting()
	}
	s.Changes = sampler.Changes{}
	if flags&sampleChanges != 0 {
		d.changes(s)
	} else {
		d.changed.noChanges()
	}
	return d.err() == nil
}

// err is the first error of the block; nil while there is none.
func (d *decoder) err() error {
	return cmp.Or(d.c.err, d.times.err, d.counts.err)
}

func (d *decoder) reads(flags uint64) {
	before := d.sample.Reads.Calls
	r := d.predictReads(d.sample.Depth)
	if flags&sampleReads != 0 {
		mask := d.c.uint()
		for i, f := range readsFields(&r) {
			if mask&(1<<i) != 0 {
				*f += uint64(d.c.int())
			}
		}
	}
	d.callsStep = r.Calls - before
	d.sample.Reads = r
}

func (d *decoder) threadList() {
	c, n := &d.c, len(d.sample.Threads)
	prefix := c.below(n + 1)
	suffix := c.below(n - prefix + 1)
	d.mids = d.mids[:0]
	last := int64(0)
	count := c.count(maxThreads, 1)
	if prefix+suffix+count > maxThreads {
		c.fail("a list too long")
	}
	for range count {
		last += c.int()
		if last != int64(uint32(last)) {
			c.fail("a number too large")
		}
		if c.err != nil {
			return
		}
		d.mids = append(d.mids, sampler.ThreadID(last))
	}
	if c.err != nil {
		return
	}
	d.editThreads(prefix, suffix, d.mids)
	d.resumers = 0
	for i := range d.sample.Threads {
		d.resumers += len(d.sample.Threads[i].Resumers)
	}
}

func (d *decoder) threads() {
	threads := d.sample.Threads
	for i := range threads {
		threads[i].Quality = d.predictQuality(&threads[i])
	}
	for i := 0; d.c.err == nil; i++ {
		i += d.c.below(len(threads) - i + 1)
		if i >= len(threads) {
			return
		}
		d.thread(&threads[i], &d.memories[i])
	}
}

func (d *decoder) stack() sampler.StackID {
	return idIn(&d.c, d.stacks, "a stack that the block does not have")
}

func (d *decoder) peer() sampler.PeerID {
	return idIn(&d.c, d.peers, "a peer that the block does not have")
}

// idIn reads an ID: one of the Dictionary where ids is nil, else the block's number of one of ids. The cursor fails with
// missing where there is none of that number.
func idIn[ID ~uint32](c *cursor, ids []ID, missing string) ID {
	n := c.uint32()
	if ids == nil {
		return ID(n)
	}
	if int64(n) >= int64(len(ids)) {
		c.fail(missing)
		return 0
	}
	return ids[n]
}

func (d *decoder) text() string {
	n := d.c.below(len(d.strings) + 1)
	if n == maxTexts {
		d.c.fail("too many strings")
	}
	if d.c.err == nil && n == len(d.strings) {
		d.strings = append(d.strings, d.c.text())
	}
	if d.c.err != nil {
		return ""
	}
	return d.strings[n]
}

func (d *decoder) thread(t *sampler.Thread, m *memory) {
	c, k := &d.c, &t.Kernel
	mask := c.uint()
	if mask&threadStatus != 0 {
		t.Status = sampler.Status(c.uint8())
	}
	if mask&threadBits != 0 {
		bits := c.uint()
		if bits > math.MaxUint16 {
			c.fail("a number too large")
		}
		t.Bits = sampler.ThreadBits(bits)
	}
	if mask&threadStack != 0 {
		t.Stack = d.stack()
	}
	if mask&threadCPU != 0 {
		k.CPUAtNS = d.kernelTime()
		k.CPUNS += d.counts.int() * unit
		k.RunDelayNS += d.counts.int() * unit
	}
	if mask&threadStateAt != 0 {
		k.StateAtNS = d.kernelTime()
	}
	if mask&threadNoStateAt != 0 {
		k.StateAtNS = 0
	}
	if mask&threadCall != 0 {
		before := callOf(k)
		d.call(m).set(k)
		m.call = before
	}
	if mask&threadBlocked != 0 {
		before, deadline := blockedOf(t), t.Blocked.DeadlineNS
		t.Blocked = d.blocked(m)
		t.Blocked.DeadlineNS = deadline
		m.blocked = before
	}
	if mask&threadQuality != 0 {
		t.Quality = sampler.StackQuality(c.uint8())
	}
	if mask&threadDeadline != 0 {
		t.Blocked.DeadlineNS = d.sample.TimeNS + d.times.int()
	}
	if mask&threadNoDeadline != 0 {
		t.Blocked.DeadlineNS = 0
	}
	if mask&threadTID != 0 {
		t.TID = c.int32()
	}
	if mask&threadRactor != 0 {
		t.Ractor = sampler.RactorID(c.uint32())
	}
	if mask&threadResumers != 0 {
		d.resumers -= len(t.Resumers)
		t.Resumers = t.Resumers[:0]
		count := c.count(min(maxResumers, maxAllResumers-d.resumers), 1)
		d.resumers += count
		for range count {
			t.Resumers = append(t.Resumers, d.stack())
		}
	}
	if mask&threadOmitted != 0 {
		t.Omitted = c.uint32()
	}
	if mask&threadRechecked != 0 {
		k.Rechecked = !k.Rechecked
	}
	if mask&threadListens != 0 {
		k.Listens = !k.Listens
	}
	if mask&threadTurns != 0 {
		k.Turns += d.counts.int()
	}
	d.serving(&t.Serving, mask)
}

func (d *decoder) serving(s *sampler.Serving, mask uint64) {
	if mask&threadWork != 0 {
		s.Work = idIn(&d.c, d.works, "a request that the block does not have")
	}
	if mask&threadStatement != 0 {
		s.Statement = idIn(&d.c, d.statements, "a statement that the block does not have")
	}
	if mask&threadException != 0 {
		s.Exception = idIn(&d.c, d.exceptions, "an exception that the block does not have")
	}
	if mask&threadSpans != 0 {
		s.Span, s.RootSpan = uint64(d.counts.int()), uint64(d.counts.int())
	}
	if mask&threadTrace != 0 {
		binary.LittleEndian.PutUint64(s.Trace[:], uint64(d.counts.int()))
		binary.LittleEndian.PutUint64(s.Trace[8:], uint64(d.counts.int()))
	}
}

// kernelTime reads when the kernel was asked.
func (d *decoder) kernelTime() int64 {
	d.atTime(d.at + d.times.int())
	return d.at * unit
}

func (d *decoder) call(m *memory) call {
	c := &d.c
	if c.uint() == changeBack {
		return m.call
	}
	return call{syscall: d.text(), fd: c.int32(), fds: c.int32(), peer: d.peer(), child: c.int32()}
}

func (d *decoder) blocked(m *memory) sampler.Blocked {
	c := &d.c
	if c.uint() == changeBack {
		return m.blocked
	}
	return sampler.Blocked{Kind: sampler.BlockKind(c.uint8()), Object: uint64(d.counts.int()), Holder: sampler.ThreadID(c.uint32()),
		FD: c.int32(), Child: c.int32()}
}

func (d *decoder) ractor(r *sampler.Ractor) {
	c := &d.c
	mask := c.uint()
	if mask&ractorOwnerStart != 0 {
		r.OwnerStart = sampler.ThreadID(c.uint32())
	}
	r.OwnerEnd = r.OwnerStart
	if mask&ractorOwnerEnd != 0 {
		r.OwnerEnd = sampler.ThreadID(c.uint32())
	}
	if mask&ractorQueue != 0 {
		d.queued -= len(r.Queue)
		kept := c.below(len(r.Queue) + 1)
		r.Queue = r.Queue[:copy(r.Queue, r.Queue[len(r.Queue)-kept:])]
		count := c.count(maxThreads, 1)
		if kept+count > maxThreads || d.queued+kept+count > maxQueued {
			c.fail("a list too long")
			count = 0
		}
		d.queued += kept + count
		for range count {
			r.Queue = append(r.Queue, sampler.ThreadID(c.uint32()))
		}
	}
	r.Waiting = int32(len(r.Queue))
	if mask&ractorWaiting != 0 {
		r.Waiting = c.int32()
	}
	r.Torn = mask&ractorTorn != 0
}

func (d *decoder) proc(p *sampler.Proc) {
	for _, f := range procFields(p) {
		*f += d.counts.int()
	}
	flags := d.c.uint8()
	p.Stopped, p.Frozen = flags&procStopped != 0, flags&procFrozen != 0
	source := sampler.PressureSource(flags &^ (procStopped | procFrozen))
	if source > sampler.PressureMachine {
		source = sampler.PressureNone // whose it is, a later version knows
	}
	p.Pressure.Source = source
}

func (d *decoder) gc(g *sampler.GC) {
	c := &d.c
	mask := c.uint()
	g.Pair = d.predictPair()
	g.Valid = mask&gcValid != 0
	g.During = mask&gcDuring != 0
	g.Minor = mask&gcMinor != 0
	if mask&gcAllocated != 0 {
		g.Allocated += uint64(d.counts.int())
	}
	if mask&gcMode != 0 {
		g.Mode = sampler.GCMode(c.uint8())
	}
	if mask&gcCounts != 0 {
		g.Count += uint64(c.int())
		g.MinorCount += uint64(c.int())
		g.MajorCount += uint64(c.int())
	}
	if mask&gcReason != 0 {
		g.Reason = c.uint32()
	}
	if mask&gcTime != 0 {
		g.TimeNS += uint64(d.counts.int())
	}
	if mask&gcPairThread != 0 {
		g.Pair.Thread = sampler.ThreadID(c.uint32())
	}
	if mask&gcPairObjects != 0 {
		g.Pair.Objects = c.uint32()
	}
	d.notePair(g.Pair)
}
