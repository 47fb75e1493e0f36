package running

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/live/internal/asks"
	"github.com/ddtop/ddtop/sampler/live/internal/cstacks"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/live/internal/stacknames"
	"github.com/ddtop/ddtop/sampler/native"
	"github.com/ddtop/ddtop/sampler/native/clock"
	"github.com/ddtop/ddtop/sampler/ruby"
)

const (
	// lookEvery is the interval between two reads of the ring in which the kernel puts stacks. In this time, eight busy
	// CPUs fill half of the ring.
	lookEvery = 50 * time.Millisecond
	// mapsEvery is the usual interval between two readings of the process's mappings.
	mapsEvery = time.Second
	// changedEvery replaces mapsEvery after the process has mapped other code. It is not zero, because some programs
	// load libraries in a loop.
	changedEvery = 200 * time.Millisecond
	// silentEvery is the longest interval between two readings of the mappings while they cannot be read. The first
	// interval is mapsEvery, since one error is often due to a full machine. Each further error doubles the interval.
	silentEvery = 10 * time.Second
	// mostCPUs limits the stacks that are unwound per second to the number that eight busy CPUs produce. It limits the
	// cost, because unwinding a stack takes 10 to 35 µs.
	mostCPUs = 8
	// stackTime is how long unwinding and naming one stack should take. A stack that takes longer counts as several
	// stacks, so that fewer others are unwound. A file with a million symbols therefore costs at most 8 % of a CPU,
	// instead of a whole CPU.
	stackTime = 200 * time.Microsecond
	// letGoAfter limits how long Stop waits for a read of the process's memory. The read ends only when the kernel has
	// loaded the page, which may be never.
	letGoAfter = time.Second
	// maxRunning limits two lists: the stacks that wait for their names, and the named stacks that wait until the next
	// tick adds them to a sample.
	maxRunning = 1024
)

// Run takes stacks of the running threads of a process while the process is also sampled.
type Run struct {
	of         Options
	feed       *clock.Feed
	quit, done chan struct{}
	once       sync.Once
	err        error

	// The goroutine of run owns the following fields.
	reader  cstacks.Reader
	stacks  *stacknames.Stacks
	unnamed []stack
	counts  sampler.RunningCounts
	// looked is when the ring was last read. room is how many stacks may be unwound now without exceeding the limit per
	// second (mostCPUs).
	looked time.Time
	room   float64
	// mapsNS has the begin and the end of the last reading of the process's mappings. mapsAgain is when they may be
	// read again.
	mapsNS    span
	mapsAgain time.Time
	// silent is the interval until mapsAgain if the last reading failed. Otherwise it is zero.
	silent time.Duration
	// uncopied is how many stacks the kernel could not copy.
	uncopied uint64

	// ledger has the areas of memory that threads asked the kernel for. called has how often they asked.
	ledger asks.Ledger
	called atomic.Pointer[clock.Counts]
	began  int64
	// generation is the generation of the Dictionary at the last call of Account.
	generation sampler.Generation

	// lost counts the stacks that were copied but added to no sample.
	lost atomic.Uint64

	mu sync.Mutex // guards named
	// named are the stacks with names that the goroutine that samples (the clock) has not taken yet.
	named []stack
}

// errHangs means that a read of the process's memory has not returned.
var errHangs = errors.New("a read of the process's memory has not come back")

// span is a period with its begin and its end, in ns.
type span struct{ from, to int64 }

// stack is the stack of a thread that ran.
type stack struct {
	tid             int32
	ns              int64
	address         uint64
	holds, collects bool
	// alone is true for a thread that Ruby does not know. Its stack has no Ruby frames to be named.
	alone  bool
	native sampler.NativeStack
	taken  stacknames.Taken
	name   stacknames.Name
	// asked is the entry, in the ledger, of the memory that the thread asked the kernel for. It is set only if
	// Options.Asks is true.
	asked *asks.Owner
}

// Options name the process whose stacks are taken.
type Options struct {
	Target  clock.Target
	Subject cstacks.Subject
	// Alive reports whether the process still lives.
	Alive func() bool
	// Hz is how often the stack of each running thread is taken.
	Hz         int
	Reader     *ruby.Reader
	Dictionary *sampler.Dictionary
	// Counts receives how many stacks were taken and lost. When no more stacks can be taken, it also receives the
	// reason.
	Counts *sampler.NativeWatch
	// Asks means that stacks are taken of threads that ask the kernel for memory, not of all running threads. Clockless
	// is true if no sampling loop (clock) runs. In this case Run calls NameStacks and Account itself.
	Asks, Clockless bool
}

// Open makes the kernel take stacks of a process's running threads. Errors are bpf.ErrKernel, bpf.ErrRights, and errors
// of cstacks.
func Open(o Options) (*Run, error) {
	x := &Run{of: o, quit: make(chan struct{}), done: make(chan struct{}), stacks: stacknames.New()}
	err := x.readMaps(func() error { return x.reader.Prepare(o.Subject) })
	switch {
	case err != nil:
	case o.Asks:
		err = x.followAsks()
	default:
		x.feed, err = clock.Follow(o.Target, o.Hz)
	}
	if err != nil {
		x.reader.Close()
		return nil, err
	}
	go x.run()
	return x, nil
}

// On reports whether stacks are taken.
func (x *Run) On() bool {
	select {
	case <-x.quit:
		return false
	default:
		return true
	}
}

// End ends the Run. Further calls do nothing.
func (x *Run) End() { x.once.Do(func() { close(x.quit) }) }

// Stop ends the Run, and waits until its goroutine has finished. If a read of the process's memory hangs, Stop gives up
// after letGoAfter and returns errHangs.
func (x *Run) Stop() error {
	x.End()
	select {
	case <-x.done:
		return x.err
	case <-time.After(letGoAfter):
		return errHangs
	}
}

// run takes stacks until it is stopped.
func (x *Run) run() {
	defer close(x.done)
	defer x.reader.Close()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for x.err == nil {
		select {
		case <-x.quit:
			if x.of.Clockless {
				x.looked = time.Time{} // makes x.room large, so that look may unwind stacks
				x.err = x.look()
			}
			x.err = errors.Join(x.err, x.feed.Close())
			return
		case <-tick.C:
			x.err = x.look()
		}
	}
	x.err = errors.Join(x.err, x.feed.Close())
	if x.of.Alive() {
		x.of.Counts.CountRunning(x.counts, x.of.Subject.Names.Error(x.err))
	}
	x.End()
}

// look unwinds the native stacks that the kernel has copied. It gives the stacks whose Ruby frames have got their names
// to the goroutine that samples (the clock).
func (x *Run) look() error {
	second := float64(mostCPUs * x.of.Hz)
	x.room = min(x.room+second*time.Since(x.looked).Seconds(), second)
	x.looked = time.Now()
	now := pace.Monotonic()
	// If no stack may be unwound now (room), stacks of calls that ask for memory wait in the ring. Other stacks are
	// read from the ring at once. The ones that may not be unwound count as lost.
	if !x.of.Asks || x.room >= 1 {
		if err := x.feed.Drain(func(s *clock.Sample) { x.take(s, now) }); err != nil {
			return err
		}
	}
	x.handOn(now)
	if x.of.Clockless {
		x.Account()
	}
	if err := x.lookAtMaps(); err != nil {
		return err
	}
	x.counts.Lost = x.uncopied + x.lost.Load()
	x.of.Counts.CountRunning(x.counts, "")
	return nil
}

// lookAtMaps reads the mappings and the counters again, if enough time has passed. If the mappings cannot be read, Run
// uses the earlier ones until the process maps other code.
func (x *Run) lookAtMaps() error {
	steady, err := x.feed.Steady(x.mapsNS.from, pace.Monotonic())
	if err != nil {
		return err
	}
	if x.of.Asks {
		if err := x.readCounts(); err != nil {
			return err
		}
	}
	if left := time.Until(x.mapsAgain); left > mapsEvery-changedEvery && !steady || left > 0 && steady {
		return nil
	}
	x.mapsAgain = time.Now().Add(mapsEvery)
	if err := x.readMaps(func() error { return x.reader.Prepare(x.of.Subject) }); err == nil {
		x.silent = 0
	} else {
		x.silent = min(max(2*x.silent, mapsEvery), silentEvery)
		x.mapsAgain = time.Now().Add(x.silent)
	}
	return x.readCounts()
}

// readCounts reads the counts of the program in the kernel.
func (x *Run) readCounts() error {
	counted, err := x.feed.Counts()
	if err != nil {
		return err
	}
	x.counts.BusyNS = counted.BusyNS
	x.uncopied = counted.Ticks - counted.Copied
	x.called.Store(&counted)
	return nil
}

// readMaps calls the function read, which may read the mappings. If read has done so, readMaps notes the time.
func (x *Run) readMaps(read func() error) error {
	before, from := x.reader.Readings(), pace.Monotonic()
	err := read()
	if x.reader.Readings() != before {
		x.mapsNS = span{from, pace.Monotonic()}
	}
	return err
}

// errMapped means that the process mapped other code between the copy of a stack and the reading of the mappings.
var errMapped = fmt.Errorf("%w: the process has mapped other code", native.ErrMisfit)

// unwind calls the function read, which unwinds the copy of a stack. It returns errMapped if the mappings may have
// changed since the stack was copied.
func (x *Run) unwind(s *clock.Sample, read func() (sampler.NativeStack, error)) (out sampler.NativeStack, err error) {
	from := min(s.NS, x.mapsNS.from)
	err = x.readMaps(func() (err error) {
		out, err = read()
		return err
	})
	if err != nil {
		return out, err
	}
	steady, err := x.feed.Steady(from, max(s.NS, x.mapsNS.to))
	switch {
	case err != nil:
		return sampler.NativeStack{}, err
	case !steady:
		return sampler.NativeStack{}, errMapped
	}
	return out, nil
}

// spend reduces room, the number of stacks that may be unwound, after a stack was unwound: by one, or by more if the
// stack was slow. A very slow stack, for example one that waits for a disk, makes room negative. Then no stacks are
// unwound for a while. room has a lower limit, so that this does not last long.
func (x *Run) spend(took time.Duration) {
	most := float64(mostCPUs * x.of.Hz)
	x.room = max(x.room-max(1, float64(took)/float64(stackTime)), -most)
}

// takeAlone unwinds the stack of a thread that Ruby does not know.
func (x *Run) takeAlone(s *clock.Sample, owner *asks.Owner) {
	stack, err := x.unwind(s, func() (sampler.NativeStack, error) {
		return x.reader.CopiedWhole(s.Registers, s.NativeAt, s.Native), nil
	})
	if err != nil {
		x.counts.Refused++
		return
	}
	x.counts.Alone++
	if x.of.Asks {
		x.unnamed = append(x.unnamed, askedAlone(s, &stack, owner))
		return
	}
	x.of.Counts.KeepAlone(s.TID, &stack)
}

// take unwinds the copy of a native stack, and requests the names of the Ruby frames that belong to it.
func (x *Run) take(s *clock.Sample, now int64) {
	owner := x.ask(&s.Ask)
	if x.of.Asks && owner == nil {
		return
	}
	if len(x.unnamed) >= maxRunning || x.room < 1 && !x.of.Asks {
		x.lost.Add(1)
		return
	}
	defer func(began time.Time) { x.spend(time.Since(began)) }(time.Now())
	if s.Alone {
		x.takeAlone(s, owner)
		return
	}
	r := stack{tid: s.TID, ns: s.NS, address: s.Thread, holds: s.Holds, collects: s.Collects, asked: owner}
	frames, whole, ok := x.of.Reader.CopiedControls(x.of.Subject.Process,
		&ruby.CopiedStack{Low: s.Low, End: s.End, CFP: s.CFP, Frames: s.Frames, Values: s.Values})
	control := make([]native.Control, len(frames))
	for i, f := range frames {
		control[i] = native.Control(f)
	}
	err := native.ErrMisfit
	if ok {
		r.native, err = x.unwind(s, func() (sampler.NativeStack, error) {
			return x.reader.Copied(s.Registers, s.NativeAt, s.Native, control, whole)
		})
	}
	switch {
	case err == nil:
		x.counts.Read++
	case errors.Is(err, native.ErrMisfit), errors.Is(err, native.ErrUnconfirmed):
		x.counts.Refused++
	default:
		x.counts.Short++
	}
	if x.of.Clockless {
		now = pace.Monotonic() // read the time again, because the first stacks take long to unwind
	}
	x.stacks.Take(x.of.Reader, &s.Stack, !x.of.Asks, now)
	if x.of.Clockless {
		x.NameStacks()
	}
	x.stacks.Each(func(t *stacknames.Taken) { r.taken = *t })
	x.unnamed = append(x.unnamed, r)
}

// handOn gives the stacks whose Ruby frames have got their names to the goroutine that samples (the clock).
func (x *Run) handOn(now int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	left := x.unnamed[:0]
	for _, r := range x.unnamed {
		if r.name = r.taken.Name; r.taken.Unnamed != nil {
			if !x.stacks.Ready(r.taken.Unnamed, now) {
				left = append(left, r)
				continue
			}
			r.name = x.stacks.NameOf(r.taken.Unnamed)
		}
		if r.name.ID == 0 && !r.alone || len(x.named) >= maxRunning {
			x.lost.Add(1)
			continue
		}
		x.named = append(x.named, r)
	}
	clear(x.unnamed[len(left):])
	x.unnamed = left
}

// NameStacks names the Ruby frames of stacks. The sampling loop (clock) calls it between two reads of the process.
func (x *Run) NameStacks() { x.stacks.Give(x.of.Reader, x.of.Dictionary, pace.Monotonic()) }

// Fill adds to a sample the stacks that have got their names since the last call. The goroutine that samples (the
// clock) calls it. Fill never waits: if the lock is not free, it adds nothing.
func (x *Run) Fill(s *sampler.Sample, list *exact.List) {
	if !x.mu.TryLock() {
		return
	}
	defer x.mu.Unlock()
	for i := range x.named[:min(len(x.named), sampler.MaxNativeRuns)] {
		r := &x.named[i]
		id := list.Thread(r.address, r.tid)
		if id == 0 || !r.name.In(x.of.Dictionary.Generation()) {
			x.lost.Add(1) // the thread has ended, or the stack's name was evicted
			continue
		}
		stack := r.name.ID
		if with := x.of.Dictionary.InternNative(stack, &r.native); with != 0 {
			stack = with
		}
		s.Runs = append(s.Runs, sampler.NativeRun{AtNS: r.ns, Thread: id, Stack: stack, Holds: r.holds, Collects: r.collects})
	}
	clear(x.named)
	x.named = x.named[:0]
}
