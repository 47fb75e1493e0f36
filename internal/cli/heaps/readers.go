package heaps

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/growth"
	"github.com/ddtop/ddtop/sampler/heapgraph"
	"github.com/ddtop/ddtop/sampler/live"
)

// Readers reads the heaps of processes that ddtop samples at the same time. It reads each heap with a separate source,
// because a count of objects takes seconds and samples must not wait for it.
type Readers struct {
	attach func(ctx context.Context, pid int) (*live.Source, error)
	ctx    context.Context
	end    context.CancelFunc
	// turn is locked while a heap is read. So only one heap is read at a time, and the reads together use no more CPU
	// time than besideShare allows.
	turn sync.Mutex
	mu   sync.Mutex
	of   map[int]*Reader
}

// besideShare is the part of ddtop's CPU budget that counting objects may use while ddtop also samples the process. The
// samples may use the other part.
const besideShare = 0.5

// NewReaders returns Readers that attach to processes with the given options.
func NewReaders(o live.Options) *Readers {
	o.Overhead *= besideShare
	o.OverheadMost, o.Pause, o.Running, o.Dictionary = 0, false, false, nil
	r := &Readers{of: make(map[int]*Reader), attach: func(ctx context.Context, pid int) (*live.Source, error) { return live.Open(ctx, pid, o) }}
	r.ctx, r.end = context.WithCancel(context.Background())
	return r
}

// Of returns the reader of a process. The reader attaches to the process when one of its methods is first called.
func (r *Readers) Of(pid int) *Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.of[pid]
	if x == nil {
		x = &Reader{all: r, pid: pid, asks: asker{open: func(ctx context.Context) (*live.Source, error) { return r.attach(ctx, pid) }}}
		r.of[pid] = x
	}
	return x
}

// During counts the objects of p repeatedly for the length of time, or until ctx ends. The function that it returns
// ends the counting, and returns the last count, with the classes that grew. If no count is complete yet, this function
// waits for the first one. If counting fails, it returns nil and calls say with the reason. If r is nil, During counts
// nothing.
func (r *Readers) During(ctx context.Context, p sampler.Process, length time.Duration, say func(format string, args ...any)) (end func() *export.Heap) {
	if r == nil {
		return func() *export.Heap { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	first, done := make(chan struct{}), make(chan struct{})
	var last *sampler.HeapCount
	var failed error
	watch := new(growth.Watch)
	count := func(time.Time) {
		c, _, err := r.Of(p.PID).Count(ctx, false)
		if err != nil {
			failed = err
			return
		}
		last = c
		watch.Add(c)
	}
	go func() {
		defer close(done)
		count(time.Time{})
		close(first)
		run.Every(ctx, countEvery(length), count)
	}()
	return func() *export.Heap {
		<-first
		cancel()
		<-done
		if last == nil {
			say("process %d: the page has no table of objects: %v", p.PID, failed)
			return nil
		}
		return export.NewHeap(p, last, watch)
	}
}

// Forget closes the source of a process that has ended, because its heap cannot be read again.
func (r *Readers) Forget(pid int) error {
	r.mu.Lock()
	x := r.of[pid]
	delete(r.of, pid)
	r.mu.Unlock()
	if x == nil {
		return nil
	}
	return x.close()
}

// Close ends all reading of heaps, and closes the sources.
func (r *Readers) Close() error {
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, x := range r.of {
		errs = append(errs, x.close())
	}
	return errors.Join(errs...)
}

// Reader reads the heap of one process. Only one Reader reads at a time.
type Reader struct {
	all *Readers
	pid int
	src *live.Source // nil before the first call
	// asks finds the code that asks the kernel for memory. It follows the system calls that do this, but only while the
	// memory outside of Ruby's objects grows. It learns this from the counts that also measure the process's memory.
	asks asker
}

func (r *Reader) close() error {
	r.all.turn.Lock()
	defer r.all.turn.Unlock()
	r.asks.close()
	if r.src == nil {
		return nil
	}
	return r.src.Close()
}

// with calls f with the process's source. The context of f ends when ctx ends or when the Readers are closed.
func (r *Reader) with(ctx context.Context, f func(ctx context.Context, src *live.Source) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.all.ctx, cancel)()
	r.all.turn.Lock()
	defer r.all.turn.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r.src == nil {
		src, err := r.all.attach(ctx, r.pid)
		if err != nil {
			return err
		}
		r.src = src
	}
	return f(ctx, r.src)
}

// Count counts the objects of the process. If memory is true, it also reads how the resident memory is used, and
// returns this as m. m is nil if it cannot be read.
func (r *Reader) Count(ctx context.Context, memory bool) (count *sampler.HeapCount, m *sampler.MemoryParts, err error) {
	err = r.with(ctx, func(ctx context.Context, src *live.Source) error {
		if count, err = src.CountHeap(ctx); err == nil && memory {
			if m, _ = live.ReadMemory(ctx, src); m != nil {
				r.asks.look(ctx, export.Before{Memory: m, Count: count})
				m.Asked = r.asks.text()
			}
		}
		return err
	})
	return count, m, err
}

// Explain returns a text about which objects keep the objects of a class alive. If class is empty, the text is about
// the largest objects. hurry and progress are as in sampler.HolderOptions.
func (r *Reader) Explain(ctx context.Context, class string, hurry func() bool, progress func(done, total int)) (text string, err error) {
	var b strings.Builder
	err = r.with(ctx, func(ctx context.Context, src *live.Source) error {
		f := Flags{Holders: class, Biggest: class == ""}
		g, info, err := live.HeapGraph(ctx, src, sampler.HolderOptions{MaxObjects: sampler.DefaultHolderObjects, MaxBytes: sampler.DefaultHolderBytes,
			Contents: f.Biggest, Hurry: hurry, Progress: func(_ string, done, total int) { progress(done, total) }})
		if err != nil {
			return err
		}
		return f.write(&b, src.Process(), g, &info)
	})
	return b.String(), err
}

// write writes to b, as text, the answers to --holders and --biggest.
func (f *Flags) write(b *strings.Builder, p sampler.Process, g *heapgraph.Graph, info *sampler.HolderInfo) error {
	h := export.NewHeapGraph(p, g, info)
	if err := f.Answer(h, g); err != nil {
		return err
	}
	return h.WriteText(b)
}
