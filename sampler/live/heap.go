package live

import (
	"context"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/heapgraph"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// countLimit is the longest time that CountHeap may take. With 3 % of a CPU, ddtop can count a hundred million objects
// in this time.
const countLimit = 5 * time.Minute

// CountHeap counts the objects of Ruby's heap by type and class (ruby.Reader.CountHeap). It uses at most the share of a
// CPU in Options.Overhead, which is divided among the followed processes. Do not call it during Run. The error is
// sampler.ErrEnded if the process has ended, or an error of ctx. Any other error says why the heap cannot be read.
func (s *Source) CountHeap(ctx context.Context) (*sampler.HeapCount, error) {
	var cpu int64
	count, err := paced(ctx, s, &cpu, func(ctx context.Context, rest func()) (*sampler.HeapCount, error) {
		return s.reader.CountHeap(ctx, rest)
	})
	if err == nil {
		count.CPUNS, count.Traced = cpu, s.names.Traced(count.Traced)
		if z := s.heapPause; z != nil {
			count.Pause, count.BeganNS, count.EndedNS = z, z.BeganNS, z.EndedNS
		}
	}
	return count, err
}

// HeapGraph copies the objects of a process's heap with their references (ruby.Reader.HeapGraph). Its limits and
// errors are the same as CountHeap's.
func HeapGraph(ctx context.Context, s *Source, o sampler.HolderOptions) (*heapgraph.Graph, sampler.HolderInfo, error) {
	var cpu int64
	var info sampler.HolderInfo
	o.ThreadName, o.Values = s.names.ThreadName, s.values
	g, err := paced(ctx, s, &cpu, func(ctx context.Context, rest func()) (g *heapgraph.Graph, err error) {
		g, info, err = s.reader.HeapGraph(ctx, o, func() {
			if o.Hurry == nil || !o.Hurry() {
				rest()
			}
		})
		return g, err
	})
	if err != nil {
		return nil, sampler.HolderInfo{}, err // the work may not have ended yet
	}
	info.CPUNS = cpu
	if z := s.heapPause; z != nil {
		info.Pause, info.BeganNS, info.EndedNS = z, z.BeganNS, z.EndedNS
	}
	return g, info, nil
}

// ReadMemory divides the resident memory of a process by what it is used for (kernel.ReadMemory). Its limits and errors
// are the same as CountHeap's.
func ReadMemory(ctx context.Context, s *Source) (*sampler.MemoryParts, error) {
	var cpu int64
	return paced(ctx, s, &cpu, func(ctx context.Context, rest func()) (*sampler.MemoryParts, error) {
		spans, err := s.reader.HeapSpans(ctx, rest)
		if err != nil {
			return nil, err
		}
		parent := 0
		if s.proc.Forked() {
			parent = s.proc.Parent()
		}
		return kernel.ReadMemory(s.info.PID, s.proc, spans, parent, rest)
	})
}

// paced calls f, and keeps f within the limit on ddtop's CPU time. For this, f must call rest often, which sleeps if
// necessary. paced stores f's CPU time in cpu, in ns.
func paced[T any](ctx context.Context, s *Source, cpu *int64, f func(ctx context.Context, rest func()) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	out, err := apart.Result(ctx, &s.reading, func() (T, error) {
		r := rests{ctx: ctx, share: s.info.Overhead / float64(max(s.sharers.Load(), 1)), meter: pace.NewMeter(nil)}
		out, err := f(ctx, r.rest)
		*cpu = r.spent + r.meter.Since()
		return out, err
	}, nil)
	if err != nil {
		if end := s.gone(err); end != nil {
			err = end
		}
	}
	return out, err
}

// rests adds pauses to work, so that it takes at most a share of a CPU. A share of zero means no limit.
type rests struct {
	ctx   context.Context
	share float64
	meter *pace.Meter
	spent int64
}

// rest sleeps until the work since the last call is within the permitted share of a CPU, or until ctx ends.
func (r *rests) rest() {
	ns := r.meter.Since()
	r.spent += ns
	if r.share <= 0 || r.share >= 1 || ns <= 0 {
		return
	}
	timer := time.NewTimer(time.Duration(float64(ns) * (1/r.share - 1)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ctx.Done():
	}
}
