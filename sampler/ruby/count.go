package ruby

import (
	"context"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/heapgraph"
	"github.com/ddtop/ddtop/sampler/ruby/internal/census"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
	"github.com/ddtop/ddtop/sampler/ruby/internal/holders"
)

// CountHeap counts the objects of the heap by type and class, while the target runs. It calls the function rest after
// every 1 to 4 MB of pages, so that the caller can make pauses. The error comes from ctx or from the target, or means
// that this heap cannot be read.
func (r *Reader) CountHeap(ctx context.Context, rest func()) (*sampler.HeapCount, error) {
	if r.heap == nil {
		c, err := census.New(r.gc)
		if err != nil {
			return nil, err
		}
		r.heap = c
	}
	return r.heap.Count(ctx, rest)
}

// HeapGraph copies the objects of the heap with their references, within the limits of o. It calls the function rest in
// the same way as CountHeap.
func (r *Reader) HeapGraph(ctx context.Context, o sampler.HolderOptions, rest func()) (*heapgraph.Graph, sampler.HolderInfo, error) {
	return holders.Read(ctx, r.gc, o, rest)
}

// HeapSpans returns the address ranges of the heap's pages, in order. It calls the function rest after each part of the
// work.
func (r *Reader) HeapSpans(ctx context.Context, rest func()) ([]attach.Span, error) {
	if r.gc == nil {
		return nil, gc.ErrNoHeap
	}
	return r.gc.Spans(ctx, rest)
}
