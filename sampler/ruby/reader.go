package ruby

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/census"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
	"github.com/ddtop/ddtop/sampler/ruby/internal/trace"
	"github.com/ddtop/ddtop/sampler/ruby/internal/work"
)

// Options are the options of a Reader. If a field is zero, a default applies.
type Options struct {
	// MaxDepth is the greatest number of frames that are kept of a stack. If a stack is deeper, its middle is left out.
	MaxDepth int
	// TIDs translates a native thread id into ddtop's PID namespace. The target has stored the id as it is in the
	// target's own PID namespace. ok is false if the process has no such task. If TIDs is nil, both ids are the same.
	TIDs func(stored int32) (host int32, ok bool)
	// InnerPID is the process's id in its own PID namespace. It is zero if this id is the same as in ddtop's PID
	// namespace.
	InnerPID int32
	// Whole makes every tick that reads stacks read all threads. Otherwise such a tick may leave out threads that have
	// not run for a while (selective.go). Set Whole if the caller stops the target, so that a sample shows all threads
	// at one instant.
	Whole bool
	// Values makes a Reader read the values of requests, jobs and statements, too: paths, arguments and literals
	// (sampler.Work.Values).
	Values bool
	// NoRequests makes a Reader skip the search for the requests and jobs that threads work for.
	NoRequests bool
	// Now returns CLOCK_MONOTONIC in ns. If it is nil, the time package's clock is used.
	Now func() int64
	// Frugal limits the time that ddtop spends on searches for requests and jobs (serve.go). Set it if ddtop's CPU time
	// is limited.
	Frugal bool
}

// Reader reads the threads, the scheduler and the stacks of one Ruby VM into Samples. Only one goroutine may use it.
// Each of its parts reads one subject and keeps its results from tick to tick. Reader decides their order.
type Reader struct {
	*target
	*scheduling
	*copier
	list     *threadList
	gvl      *gvlReader
	choice   *selection
	stacks   *stackReader
	fibers   *fiberReader
	blocking *blockReader
	serving  *workReader
	waiting  *waitingFibers
	names    *threadNamer
	samples  *sampleMaker
	counting *collector
	retry    []*thread       // threads whose stacks must be read again
	heap     *census.Counter // nil until CountHeap is called
	// sharers is the number of processes that share the limits (see Share).
	sharers atomic.Int32
}

// Exports finds exported variables. *attach.Module implements it.
type Exports interface {
	Exported(name string) (attach.Symbol, bool)
}

// NewReader prepares to read a VM that ddtop has already found. The Reader stores the names of frames, stacks and
// threads in dict. If the layout table lacks fields, the error names them.
func NewReader(vm *VM, module Exports, pid int, dict *sampler.Dictionary, opts Options) (*Reader, error) {
	o, dec := vm.Places, vm.NewDecoder(dict)
	tg := &target{pid: pid, vm: vm, mem: vm.Mem, dec: dec, dict: dict, o: o, now: opts.Now}
	if tg.now == nil {
		start := time.Now()
		base := start.UnixNano()
		tg.now = func() int64 { return base + int64(time.Since(start)) }
	}
	innerPID := opts.InnerPID
	if innerPID == 0 {
		innerPID = int32(pid)
	}
	switch {
	case o.GVLAcquired >= 0:
		tg.era = sampler.EraFlag
	case o.ThRunningNode >= 0:
		tg.era = sampler.EraSched
	default:
		tg.era = sampler.EraOwner
	}
	dec.Objects.View.Stopped = &tg.budget.stopped
	word := func(symbol string) uint64 {
		if sym, ok := module.Exported(symbol); ok {
			return tg.wordAt(sym.Addr)
		}
		return 0
	}
	r := newReader(tg, opts)
	r.serving.tracer = trace.NewFinder(vm.Mem, dec.Objects, word("rb_cObject"), int(innerPID))
	r.serving.finder = work.NewFinder(vm.Mem, dec, dict, opts.Values, word("rb_cObject"), tg.now)
	r.blocking.mProcess, r.blocking.cRactor = word("rb_mProcess"), word("rb_cRactor")
	if r.era == sampler.EraFlag {
		sym, ok := module.Exported("ruby_current_execution_context_ptr")
		if !ok {
			return nil, fmt.Errorf("process %d: ruby %s does not export ruby_current_execution_context_ptr: the GVL's owner can't be read", pid, vm.Version)
		}
		r.gvl.currentEC = sym.Addr
	}
	if objspace := r.addressAt(vm.Addr + attach.Address(o.VMObjspace)); objspace != 0 {
		r.gc = gc.New(gc.Target{Mem: vm.Mem, Table: vm.Table, Release: vm.Release, VM: vm.Addr, Objspace: objspace,
			ZJITFrames: vm.ZJITFrames, Objects: r.dec.Objects, Now: r.now, Reads: &r.reads})
	}
	return r, nil
}

// newReader assembles the parts of a Reader. It reads nothing.
func newReader(tg *target, opts Options) *Reader {
	list := newThreadList(tg)
	gvl := &gvlReader{target: tg, list: list}
	stacks := newStackReader(tg, list, opts.MaxDepth)
	serving := &workReader{target: tg, list: list, frugal: opts.Frugal, noRequests: opts.NoRequests}
	fibers := &fiberReader{target: tg, list: list, stacks: stacks, serving: serving}
	names := newThreadNamer(tg, list, opts.TIDs)
	blocking := &blockReader{target: tg, list: list}
	return &Reader{
		target:     tg,
		scheduling: &scheduling{target: tg, list: list},
		copier:     &copier{target: tg, stacks: stacks},
		list:       list,
		gvl:        gvl,
		choice:     &selection{target: tg, list: list, gvl: gvl, whole: opts.Whole},
		stacks:     stacks,
		fibers:     fibers,
		blocking:   blocking,
		serving:    serving,
		waiting:    &waitingFibers{target: tg, list: list, stacks: stacks, serving: serving},
		names:      names,
		samples: &sampleMaker{target: tg, list: list, stacks: stacks, names: names, fibers: fibers, blocking: blocking,
			serving: serving},
		counting: &collector{target: tg, list: list},
	}
}

// Share sets the number of processes that ddtop reads at the same time. They share the limits on threads, on copies of
// stacks and on decoded code (sampler.Share), so each process gets a part of each limit. Any goroutine may call Share.
// The next tick applies it.
func (r *Reader) Share(n int) { r.sharers.Store(int32(n)) }

// keepShare computes this process's part of the shared limits again if Share has changed the number of processes.
func (r *Reader) keepShare() {
	n := int(r.sharers.Load())
	if n == r.shared {
		return
	}
	r.shared = n
	r.list.maxThreads = sampler.Share(maxThreads, n)
	r.stacks.maxStackBytes = sampler.Share(maxStackBytes, n)
	r.dec.Share(n)
	r.list.order = nil // so that the next Read lists the threads again and counts the memory of their stacks
}

// SuspendedFibers searches the heap for fibers to which no thread refers, because they are suspended or were never
// resumed. It returns both kinds, and reads the stacks of the suspended fibers. The search reads all small objects.
// This takes too long for a tick, so it is only for a dump. Call it after a Read. A fiber to which nothing refers is
// included until the collector has freed it.
//
// An error comes from ctx, or from reading the list of the heap's pages. It can also mean that fibers cannot be found
// with this release's layout table.
func (r *Reader) SuspendedFibers(ctx context.Context) (sampler.Fibers, error) {
	return r.fibers.suspended(ctx)
}

// Pools reads the pools of threads, the program's Queues, and the pools of connections. Call it after a Read.
func (r *Reader) Pools(q *sampler.Queues) {
	q.Pools, q.Lists = r.serving.finder.Pools(), r.serving.finder.Lists()
	for _, l := range r.serving.finder.Leases() {
		lease := sampler.Lease{Queue: l.Queue, Size: l.Size}
		for _, owner := range l.Owners {
			if t := r.list.threadOf(owner); t != nil {
				lease.Owners = append(lease.Owners, t.id)
			}
		}
		q.Leases = append(q.Leases, lease)
	}
}

// FollowFibers reads fibers that wait. One call reads only some of them, because the time for this work is limited.
// FollowFibers returns the last complete result, or nil if there is none yet. Call it after a Read of stacks. nowNS is
// CLOCK_MONOTONIC in ns. Fibers that cannot be read are left out.
func (r *Reader) FollowFibers(nowNS int64) *sampler.Fibers { return r.waiting.follow(nowNS) }
