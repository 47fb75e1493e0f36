package recording

import (
	"encoding/binary"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// threads writes each thread that is not as predicted: how many threads lie between it and the one written before, and
// its values. A gap that reaches the end ends the list.
func (e *encoder) threads(s *sampler.Sample) {
	gap := uint64(0)
	for i := range s.Threads {
		p, t := &e.sample.Threads[i], &s.Threads[i]
		p.Quality = e.predictQuality(p)
		mask := threadMask(p, t)
		if mask == 0 {
			gap++
			continue
		}
		e.uint(gap)
		gap = 0
		e.thread(p, t, &e.memories[i], mask)
		setThread(p, t)
	}
	e.uint(gap)
}

func threadMask(p, t *sampler.Thread) uint64 {
	var m uint64
	if p.Status != t.Status {
		m |= threadStatus
	}
	if p.Bits != t.Bits {
		m |= threadBits
	}
	if p.Stack != t.Stack {
		m |= threadStack
	}
	pk, k := &p.Kernel, &t.Kernel
	if pk.CPUAtNS != k.CPUAtNS || pk.CPUNS != k.CPUNS || pk.RunDelayNS != k.RunDelayNS {
		m |= threadCPU
	}
	if pk.Turns != k.Turns {
		m |= threadTurns
	}
	if pk.StateAtNS != k.StateAtNS {
		m |= threadStateAt
		if k.StateAtNS == 0 {
			m ^= threadStateAt | threadNoStateAt
		}
	}
	if callOf(pk) != callOf(k) {
		m |= threadCall
	}
	if p.Blocked != t.Blocked {
		if blockedOf(p) != blockedOf(t) {
			m |= threadBlocked
		}
		if p.Blocked.DeadlineNS != t.Blocked.DeadlineNS {
			m |= threadDeadline
			if t.Blocked.DeadlineNS == 0 {
				m ^= threadDeadline | threadNoDeadline
			}
		}
	}
	if p.Quality != t.Quality {
		m |= threadQuality
	}
	if p.TID != t.TID {
		m |= threadTID
	}
	if p.Ractor != t.Ractor {
		m |= threadRactor
	}
	if (len(p.Resumers) != 0 || len(t.Resumers) != 0) && !slices.Equal(p.Resumers, t.Resumers) {
		m |= threadResumers
	}
	if p.Omitted != t.Omitted {
		m |= threadOmitted
	}
	if pk.Rechecked != k.Rechecked {
		m |= threadRechecked
	}
	if pk.Listens != k.Listens {
		m |= threadListens
	}
	if p.Serving != t.Serving {
		m |= servingMask(&p.Serving, &t.Serving)
	}
	return m
}

func servingMask(p, s *sampler.Serving) uint64 {
	return bit(p.Work != s.Work, threadWork) | bit(p.Statement != s.Statement, threadStatement) |
		bit(p.Exception != s.Exception, threadException) | bit(p.Span != s.Span || p.RootSpan != s.RootSpan, threadSpans) |
		bit(p.Trace != s.Trace, threadTrace)
}

func (e *encoder) thread(p, t *sampler.Thread, m *memory, mask uint64) {
	e.uint(mask)
	pk, k := &p.Kernel, &t.Kernel
	if mask&threadStatus != 0 {
		e.uint(uint64(t.Status))
	}
	if mask&threadBits != 0 {
		e.uint(uint64(t.Bits))
	}
	if mask&threadStack != 0 {
		e.uint(e.stack(t.Stack))
	}
	if mask&threadCPU != 0 {
		e.kernelTime(k.CPUAtNS)
		e.count(units(k.CPUNS) - units(pk.CPUNS))
		e.count(units(k.RunDelayNS) - units(pk.RunDelayNS))
	}
	if mask&threadStateAt != 0 {
		e.kernelTime(k.StateAtNS)
	}
	if mask&threadCall != 0 {
		e.call(callOf(k), m)
		m.call = callOf(pk)
	}
	if mask&threadBlocked != 0 {
		e.blocked(blockedOf(t), m)
		m.blocked = blockedOf(p)
	}
	if mask&threadQuality != 0 {
		e.uint(uint64(t.Quality))
	}
	if mask&threadDeadline != 0 {
		e.time(t.Blocked.DeadlineNS - e.sample.TimeNS)
	}
	if mask&threadTID != 0 {
		e.int(int64(t.TID))
	}
	if mask&threadRactor != 0 {
		e.uint(uint64(t.Ractor))
	}
	if mask&threadResumers != 0 {
		e.uint(uint64(len(t.Resumers)))
		for _, s := range t.Resumers {
			e.uint(e.stack(s))
		}
	}
	if mask&threadOmitted != 0 {
		e.uint(uint64(t.Omitted))
	}
	if mask&threadTurns != 0 {
		e.count(k.Turns - pk.Turns)
	}
	if mask&threadWork != 0 {
		e.uint(e.work(t.Serving.Work))
	}
	if mask&threadStatement != 0 {
		e.uint(e.statement(t.Serving.Statement))
	}
	if mask&threadException != 0 {
		e.uint(e.exception(t.Serving.Exception))
	}
	if mask&threadSpans != 0 {
		e.count(int64(t.Serving.Span))
		e.count(int64(t.Serving.RootSpan))
	}
	if mask&threadTrace != 0 {
		e.trace(&t.Serving.Trace)
	}
	// Rechecked and Listens have two values only: that they changed says all. So do threadNoDeadline and threadNoStateAt.
}

// trace writes the id of a trace.
func (e *encoder) trace(id *[16]byte) {
	e.count(int64(binary.LittleEndian.Uint64(id[:])))
	e.count(int64(binary.LittleEndian.Uint64(id[8:])))
}

// kernelTime writes when the kernel was asked.
func (e *encoder) kernelTime(ns int64) {
	at := units(ns)
	e.time(at - e.at)
	e.atTime(at)
}

func (e *encoder) call(c call, m *memory) {
	if c == m.call {
		e.uint(changeBack)
		return
	}
	e.uint(changeOther)
	e.text(c.syscall)
	e.int(int64(c.fd))
	e.int(int64(c.fds))
	e.uint(e.peer(c.peer))
	e.int(int64(c.child))
}

func (e *encoder) blocked(b sampler.Blocked, m *memory) {
	if b == m.blocked {
		e.uint(changeBack)
		return
	}
	e.uint(changeOther)
	e.uint(uint64(b.Kind))
	e.count(int64(b.Object))
	e.uint(uint64(b.Holder))
	e.int(int64(b.FD))
	e.int(int64(b.Child))
}
