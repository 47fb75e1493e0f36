package ruby

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
	"github.com/ddtop/ddtop/sampler/ruby/internal/trace"
	"github.com/ddtop/ddtop/sampler/ruby/internal/work"
)

// Options of a Reader. The zero value of a field takes the default.
type Options struct {
	// MaxDepth is the number of frames kept of a stack; deeper ones lose their middle.
	MaxDepth int
	// TIDs translates a native thread id as the target stores it (its own PID namespace) into ddtop's, and refuses one
	// that is not a task of the process. nil: identity.
	TIDs func(stored int32) (host int32, ok bool)
	// InnerPID is the process's id in its own PID namespace; 0: the same as PID.
	InnerPID int32
	// Whole has every stack tick read every thread, those too that have not taken part in the scheduling for a while (see
	// selective.go): for stops, whose samples are one instant of all threads.
	Whole bool
	// Values has what threads work for read with paths, arguments and literals (sampler.Work.Values).
	Values bool
	// NoRequests leaves out for whom threads work.
	NoRequests bool
	// Now is CLOCK_MONOTONIC in ns; nil takes the time package's.
	Now func() int64
	// Frugal bounds what looking for requests and jobs takes (see serve.go): with a budget for all that ddtop takes.
	Frugal bool
}

// walkNumber counts the walks over the lists of threads, tickNumber the reads of memory, and readNumber the calls of Read, each
// of which may take several of both.
type (
	walkNumber uint64
	tickNumber uint64
	readNumber uint64
)

// Reader reads the threads, the scheduler and the stacks of one Ruby VM into Samples. It is used by one goroutine.
type Reader struct {
	pid  int
	vm   *VM
	mem  attach.Memory
	dec  *code.Decoder
	dict *sampler.Dictionary
	o    *offsets
	era  sampler.Era
	now  func() int64
	tids func(int32) (int32, bool)

	innerPID          int32
	pthreadTID        int
	pthreadTriedNS    int64          // when it was searched for last
	currentEC         attach.Address // 2.5: ruby_current_execution_context_ptr
	mProcess, cRactor uint64
	gc                *gc.Reader // nil: the collector can't be read
	// around is the thread whose frames the counters of objects were read around in this tick's first call; nil: none's.
	around     *thread
	maxDepth   int
	maxThreads int
	maxRactors int
	// stackBytes is what copies of stacks take, up to maxStackBytes; past cutAt maxDepth, which fullDepth is as long as there is
	// room, is halved. shrink: it was, and what is deeper is to be given back.
	stackBytes, maxStackBytes, cutAt, fullDepth int
	shrink                                      bool
	// sharers is how many processes are read at once, as Share was told, and shared by how many the limits are divided now.
	sharers atomic.Int32
	shared  int
	// collecting: a thread collects garbage in the tick under way.
	collecting bool

	ractors []*ractor
	threads map[attach.Address]*thread
	order   []*thread
	// pieces are the structs of all threads, by their addresses.
	pieces []piece
	// open is the piece that the range under way in addPieces begins with, and openUntil its end; few are the places in
	// pieces of a tick that reads few.
	open      *piece
	openUntil int
	few       []int
	walks     walkNumber
	ticks     tickNumber
	sample    readNumber
	// tickNS is when the last tick's memory was read.
	tickNS int64
	// beganNS is when the reading of the tick under way began. moves says when threads had a CPU last. It is nil if that is not known.
	beganNS int64
	moves   Moves
	// entered are for the next Read, and lookAt: the one under way has some.
	entered []Entered
	lookAt  bool
	// read are the threads whose words the tick under way has read.
	read []*thread
	// rest is for readRest.
	rest []*thread
	// filled are the threads of the Sample that the last tick filled, fresh those it called fresh in a lock tick; allFresh: it
	// was a stack tick.
	filled   []sampler.Thread
	fresh    []*thread
	allFresh bool
	// turn counts stack ticks.
	turn uint
	// allRead: every thread was read since the segments were laid out.
	allRead bool
	// whole: stack ticks read every thread.
	whole  bool
	lastID sampler.ThreadID

	// vmHead is the head of the list of ractors, and their number, as a tick reads it; walkedHead as the last walk did.
	vmHead, walkedHead [20]byte
	// ractorsCut: the list goes on beyond maxRactors.
	ractorsCut bool
	// currentECBuf receives what currentEC points to.
	currentECBuf [8]byte
	// plan is that of the tick's call under way, or of the last one; exact that of readExact.
	plan, exact plan
	scratch     []attach.Range
	retry       []*thread
	// fiber receives the frames of fibers that don't run, fiberLinks is for readResumers.
	fiber      fiberRead
	fiberLinks []link
	// leads is for findWork. lookNS and lookSinceNS are when what findWork looks at was read, as in work.Frames.
	leads               []work.Lead
	lookNS, lookSinceNS int64
	reads               sampler.Reads
	budget              budget
	// ways counts the stacks read in each way.
	ways [ways]uint64

	// tracer finds the active spans of threads; published says where threads publish theirs, nil where they don't.
	tracer    *trace.Finder
	published atomic.Pointer[trace.Published]
	// finder finds for whom threads work; with frugal it looks for new requests no longer than it is allowed to, last at workedNS.
	finder *work.Finder
	frugal bool
	// noRequests: it does not.
	noRequests bool
	workedNS   int64
	// waiting are the fibers that wait.
	waiting waitingFibers

	lastDecodeError error
	// decode, in tests alone, decodes in place of dec.Decode.
	decode func(raw *code.Stack) (sampler.StackID, code.Info, error)
}

// Exports finds exported variables: an *attach.Module does.
type Exports interface {
	Exported(name string) (attach.Symbol, bool)
}

// NewReader prepares the reading of a located VM, whose frames, stacks and threads are interned in dict. Errors name the fields
// that the layout table lacks.
func NewReader(vm *VM, module Exports, pid int, dict *sampler.Dictionary, opts Options) (*Reader, error) {
	o, dec := vm.o, newDecoder(vm, dict)
	r := &Reader{
		pid: pid, vm: vm, mem: vm.Mem, dec: dec, dict: dict, o: o,
		now: opts.Now, tids: opts.TIDs, innerPID: opts.InnerPID, pthreadTID: -1,
		threads: make(map[attach.Address]*thread), maxDepth: opts.MaxDepth, maxThreads: maxThreads, maxRactors: maxRactors, whole: opts.Whole,
	}
	if r.maxDepth <= 0 {
		r.maxDepth = defaultMaxDepth
	}
	r.fullDepth, r.maxStackBytes, r.cutAt = r.maxDepth, maxStackBytes, maxStackBytes
	if r.now == nil {
		start := time.Now()
		base := start.UnixNano()
		r.now = func() int64 { return base + int64(time.Since(start)) }
	}
	if r.tids == nil {
		r.tids = func(v int32) (int32, bool) { return v, true }
	}
	if r.innerPID == 0 {
		r.innerPID = int32(pid)
	}
	switch {
	case o.gvlAcquired >= 0:
		r.era = sampler.EraFlag
	case o.thRunningNode >= 0:
		r.era = sampler.EraSched
	default:
		r.era = sampler.EraOwner
	}
	dec.Objects.View.Stopped = &r.budget.stopped
	word := func(symbol string) uint64 {
		var b [8]byte
		if sym, ok := module.Exported(symbol); ok && r.mem.Read(sym.Addr, b[:]) == nil {
			return le64(b[:])
		}
		return 0
	}
	r.tracer = trace.NewFinder(vm.Mem, dec.Objects, word("rb_cObject"), int(r.innerPID))
	r.finder = work.NewFinder(vm.Mem, dec, dict, opts.Values, r.now)
	r.frugal, r.noRequests = opts.Frugal, opts.NoRequests
	r.mProcess, r.cRactor = word("rb_mProcess"), word("rb_cRactor")
	if r.era == sampler.EraFlag {
		sym, ok := module.Exported("ruby_current_execution_context_ptr")
		if !ok {
			return nil, fmt.Errorf("process %d: ruby %s does not export ruby_current_execution_context_ptr: the GVL's owner can't be read", pid, vm.Version)
		}
		r.currentEC = sym.Addr
	}
	var b [8]byte
	if r.mem.Read(vm.Addr+attach.Address(o.vmObjspace), b[:]) == nil {
		r.gc = newGCReader(vm, attach.Address(le64(b[:])), r.dec.Objects, r.now, &r.reads)
	}
	return r, nil
}

// Share says that n processes are read at once, which divide the limits on threads, on copies of stacks and on what is decoded
// (sampler.Share). It may be called from any goroutine; the next tick keeps to it.
func (r *Reader) Share(n int) { r.sharers.Store(int32(n)) }

// keepShare divides the limits when the number of processes has changed.
func (r *Reader) keepShare() {
	n := int(r.sharers.Load())
	if n == r.shared {
		return
	}
	r.shared = n
	r.maxThreads = sampler.Share(maxThreads, n)
	r.maxStackBytes = sampler.Share(maxStackBytes, n)
	r.dec.Share(n)
	r.order = nil // the threads are listed again, and with them the stacks counted
}

// Era says which generation of scheduler the target has.
func (r *Reader) Era() sampler.Era { return r.era }

// Reads counts what happened to reads so far.
func (r *Reader) Reads() *sampler.Reads { return &r.reads }

// live reports whether the innermost frame's pc of a thread that may hold the GVL (running) may be old in this tick, in compiled
// code (code.Stack.Live).
func (r *Reader) live(running bool) bool { return running && !r.collecting }
