package live

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/kernel/moves"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/ruby"
	"github.com/ddtop/ddtop/sampler/switches"
	"github.com/ddtop/ddtop/sampler/switches/tracer"
)

const (
	// glanceLateNS is how old the clock's last glance may be, in ns. A glance is a short read of the states of threads,
	// without their stacks. If the last glance is older, Drain makes one itself.
	glanceLateNS = 60_000_000
	// wholeGlance is the largest number of threads for which a glance reads every thread. With more threads, a thread
	// that had no CPU since the last glance is read in only one of glanceTurns glances. Such a thread must still be
	// read, because from Ruby 3.3 on other threads can queue it for the GVL.
	wholeGlance, glanceTurns = 64, 8
	// delaysPerLook is the largest number of threads whose time without a CPU a glance reads, because each read takes 2
	// µs. The next glance reads this time for other threads.
	delaysPerLook = 8
	// maxMovedRecords is the largest number of records that are kept until Drain takes them. So many records take about
	// 20 MB.
	maxMovedRecords = 1 << 17
	// followsAtOnce limits how many threads a glance begins to follow, because each takes about 20 µs.
	followsAtOnce = 256
)

// movedFeed makes records of GVL changes, from glances and the kernel's reports of threads that get or lose a CPU.
type movedFeed struct {
	source    *Source
	scheduler ruby.Scheduler

	// atNS is the time of the last glance (a short read of threads' states), and beforeNS the time of the glance before
	// it.
	atNS, beforeNS atomic.Int64

	mu     sync.Mutex
	moves  *moves.Moves
	rules  *switches.Movements
	list   []movedThread
	listed uint64 // the version of the Reader's list of threads from which list was made
	place  map[int32]int
	// started has the TIDs of new threads that ddtop does not follow yet.
	started []int32
	from    int // offset of the first word that a glance reads in an rb_thread_t
	ranges  []attach.Range
	words   [2][8]byte
	asked   []int
	turn    int
	glance  switches.Glance
	records []switches.Record
	counts  tracer.Counts
	lost    uint64
	failed  error
	closed  bool
}

// movedThread is a thread of the reader's list. A glance reads some words of its memory into buf.
type movedThread struct {
	addr attach.Address
	tid  int32
	buf  []byte
}

// openMoved asks the kernel to report when the process's threads get or lose a CPU.
func (s *Source) openMoved(ctx context.Context, scheduler *ruby.Scheduler) (*movedFeed, error) {
	if bpf.ClockMoved() {
		return nil, fmt.Errorf("process %d: %w: ddtop runs in a time namespace, in which the times of the kernel's events would be wrong",
			s.proc.PID(), moves.Err)
	}
	f := &movedFeed{source: s, scheduler: *scheduler, moves: moves.Open(s.proc.PID()), rules: switches.NewMovements()}
	err := s.readThreads(ctx, func() error { return f.take(math.MaxInt) })
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	now := pace.Monotonic()
	f.atNS.Store(now)
	f.beforeNS.Store(now)
	return f, nil
}

// take updates the list of threads. It begins to follow at most as many new threads as most. Only the clock calls it.
func (f *movedFeed) take(most int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.takeList(most)
}

func (f *movedFeed) takeList(most int) error {
	r := f.source.reader
	began := false
	from, to := f.scheduler.Span()
	number := r.Listed(f.listed, func(n int, addr attach.Address, _ sampler.ThreadID, tid int32) {
		if !began {
			began = true
			f.from, f.list, f.place = from, make([]movedThread, 0, n), make(map[int32]int, n)
		}
		if tid != 0 {
			f.place[tid] = len(f.list)
			f.list = append(f.list, movedThread{addr, tid, make([]byte, to)})
		}
	})
	f.listed = number
	n := 0
	for i := range f.list {
		if tid := f.list[i].tid; !f.moves.Follows(tid) {
			if n++; n > most {
				break
			}
			if err := f.follow(tid); err != nil {
				return err
			}
		}
	}
	for _, tid := range f.started {
		if err := f.follow(tid); err != nil {
			return err
		}
	}
	f.started = f.started[:0]
	return nil
}

// follow begins to follow a thread. If the thread has ended, it does nothing.
func (f *movedFeed) follow(tid int32) error {
	if f.moves.Follows(tid) {
		return nil
	}
	switch err := f.moves.Follow(tid); {
	case errors.Is(err, kernel.ErrGone):
		return nil
	case err != nil:
		return err
	}
	state, err := f.source.tasks.State(tid)
	if err == nil {
		f.rules.Begin(tid, state == 'R')
	}
	return nil
}

// moveLateNS is how much later than other events of the same time the kernel may deliver an event, in ns.
const moveLateNS = 1_000_000

// catchUp takes the events that the kernel has reported since the last call.
func (f *movedFeed) catchUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		now := pace.Monotonic()
		f.read()
		f.rules.Pass(now-moveLateNS, f.keep)
	}
}

// keep stores a record until Drain takes it.
func (f *movedFeed) keep(r *switches.Record) {
	if len(f.records) >= maxMovedRecords {
		f.records = f.records[:0]
		f.counts.Lost++
	}
	f.counts.Records++
	f.records = append(f.records, *r)
}

// look makes a glance at the threads: it reads their states. It reports whether any thread runs or waits for the GVL.
// Only the clock calls it, because only the clock may begin to follow threads and read their counters.
func (f *movedFeed) look() (busy bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	if err := f.takeList(followsAtOnce); err != nil && f.failed == nil {
		f.failed = err
	}
	return f.looked(true)
}

func (f *movedFeed) looked(clock bool) (busy bool) {
	f.read()
	g := &f.glance
	*g = switches.Glance{Before33: f.scheduler.Before33, Threads: g.Threads[:0]}
	if !f.rules.Any() {
		g.FromNS = pace.Monotonic()
		g.ToNS, g.Sure = g.FromNS, true
	} else if !f.readWords(g, clock) {
		return false // the process is ending, which the clock finds out
	}
	f.read() // reads the events of threads that got or lost a CPU in the meantime
	dropped := f.rules.Look(g, f.keep)
	if dropped {
		f.counts.Lost++
	}
	f.beforeNS.Store(f.atNS.Load())
	f.atNS.Store(g.FromNS)
	return f.rules.Busy()
}

// read takes the kernel's events.
func (f *movedFeed) read() {
	lost := f.moves.Read(func(tid int32, e *moves.Move) {
		switch e.Kind {
		case moves.Started:
			if len(f.started) < followsAtOnce {
				f.started = append(f.started, e.Child)
			}
		case moves.In:
			f.rules.Moved(switches.Move{NS: e.NS, TID: tid, Kind: switches.Got})
		case moves.Out:
			f.rules.Moved(switches.Move{NS: e.NS, TID: tid, Kind: switches.Slept})
		case moves.Preempted:
			f.rules.Moved(switches.Move{NS: e.NS, TID: tid, Kind: switches.Preempted})
		case moves.Ended:
			f.rules.Moved(switches.Move{NS: e.NS, TID: tid, Kind: switches.Ended})
			if i, ok := f.place[tid]; ok {
				f.list[i].tid = 0 // the thread's rb_thread_t may be reused
				delete(f.place, tid)
			}
		}
	})
	f.counts.Lost += lost - f.lost
	f.lost = lost
}

// readWords reads the GVL's owner. For each thread that may have changed, it reads the scheduler's words in memory.
func (f *movedFeed) readWords(g *switches.Glance, clock bool) bool {
	f.rules.Note()
	f.turn++
	f.asked = f.asked[:0]
	f.ranges = append(f.ranges[:0], attach.Range{Addr: f.scheduler.Owner, Buf: f.words[0][:]})
	for i := range f.list {
		t := &f.list[i]
		switch {
		case t.tid == 0:
			continue
		case f.rules.Wanted(t.tid):
		case f.scheduler.Before33, len(f.list) > wholeGlance && (i+f.turn)%glanceTurns != 0:
			continue
		}
		f.asked = append(f.asked, i)
		f.ranges = append(f.ranges, attach.Range{Addr: t.addr + attach.Address(f.from), Buf: t.buf[f.from:]})
	}
	f.ranges = append(f.ranges, attach.Range{Addr: f.scheduler.Owner, Buf: f.words[1][:]})
	g.FromNS = pace.Monotonic()
	_, err := f.source.proc.ReadBatch(f.ranges)
	g.ToNS = pace.Monotonic()
	if err != nil || f.ranges[0].Failed || f.ranges[len(f.ranges)-1].Failed {
		return false
	}
	owner := binary.LittleEndian.Uint64(f.words[1][:])
	g.Owner, g.Sure = owner, f.words[0] == f.words[1]
	delays := delaysPerLook
	for n, i := range f.asked {
		t := &f.list[i]
		if f.ranges[n+1].Failed {
			f.counts.Failed++
			continue
		}
		is := f.scheduler.Of(t.buf, t.addr, t.tid, attach.Address(owner))
		w := switches.Words{TID: t.tid, Thread: uint64(t.addr), Queued: is.Queued, Linked: is.Linked, Region: true}
		if clock && delays > 0 && (n+f.turn)%max(len(f.asked)/delaysPerLook, 1) == 0 {
			delays--
			if cpu, err := f.source.tasks.CPU(t.tid); err == nil {
				w.DelayNS = cpu.DelayNS
			}
		}
		g.Threads = append(g.Threads, w)
	}
	return true
}

// glances reports whether the clock must read the threads' states between two samples, too.
func (x *switchRun) glances() bool { return x.moved != nil }

// catchUp takes the events that the kernel has reported since the last call. The clock calls it.
func (x *switchRun) catchUp() { x.moved.catchUp() }

// glance reads the states of threads, and reports whether any thread runs or waits for the GVL. The clock calls it.
func (x *switchRun) glance() (busy bool) { return x.moved.look() }

// knownNS returns the time up to which all changes of the GVL are known.
func (f *movedFeed) knownNS() int64 { return f.beforeNS.Load() }

// Drain passes the records to emit.
func (f *movedFeed) Drain(emit func(*switches.Record)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	if pace.Monotonic()-f.atNS.Load() > glanceLateNS {
		f.looked(false)
	}
	for i := range f.records {
		emit(&f.records[i])
	}
	f.records = f.records[:0]
	return f.failed
}

// DrainStacks does nothing, because in this mode stacks come only from samples.
func (f *movedFeed) DrainStacks(func(*bpf.Stack)) error { return nil }

// Counts returns how many records were made.
func (f *movedFeed) Counts() (tracer.Counts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := f.counts
	counts.Room = maxMovedRecords
	return counts, nil
}

// Close stops following the process.
func (f *movedFeed) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.moves.Close()
	return nil
}
