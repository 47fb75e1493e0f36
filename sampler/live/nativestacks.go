package live

import (
	"context"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
	"github.com/ddtop/ddtop/sampler/live/internal/cstacks"
	"github.com/ddtop/ddtop/sampler/native"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// maxNativeStacks limits how many threads' native stacks ddtop reads in one go.
const maxNativeStacks = 4096

// standNS is the interval at which tellPlaces notes where the threads are whose native stacks are wanted, in ns.
const standNS = 500_000_000

// NativeStacks has the native stacks of a process's threads: for each thread, the C functions that are active in it.
type NativeStacks struct {
	// The field Ruby has, for each Ruby thread, the C functions that its innermost Ruby frame called. Others has the
	// native stacks of other threads, by TID.
	Ruby   map[sampler.ThreadID]sampler.NativeStack
	Others map[int32]sampler.NativeStack
	// Locks are the locks of C code for which threads wait. It is nil if no thread waits for one.
	Locks *sampler.NativeLocks
}

// NativeStacks reads the native stacks of a sample's threads, and of other threads by TID. The sample must come from
// Once. Threads that run are left out. The error says why there are no native stacks at all.
func (s *Source) NativeStacks(ctx context.Context, sample *sampler.Sample, others []int32) (NativeStacks, error) {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	return apart.Result(ctx, &s.reading, func() (NativeStacks, error) { return s.nativeStacks(ctx, sample, others) }, nil)
}

func (s *sampling) nativeStacks(ctx context.Context, sample *sampler.Sample, others []int32) (NativeStacks, error) {
	locks, err := s.nativeLocks(ctx, sample)
	if err != nil {
		return NativeStacks{Locks: locks}, err
	}
	out, err := nativeStacksOf(ctx, &s.native, s.nativeSubject(), sample, others)
	out.Locks = locks
	return out, err
}

// nativeStacksOf reads native stacks as NativeStacks does, for a process or a core file.
func nativeStacksOf(ctx context.Context, r *cstacks.Reader, of cstacks.Subject, sample *sampler.Sample,
	others []int32) (NativeStacks, error) {
	out := NativeStacks{Ruby: make(map[sampler.ThreadID]sampler.NativeStack),
		Others: make(map[int32]sampler.NativeStack)}
	if err := r.Prepare(of); err != nil {
		return out, err
	}
	var threads []*sampler.Thread
	for i := range sample.Threads[:min(len(sample.Threads), maxNativeStacks)] {
		if t := &sample.Threads[i]; t.TID != 0 {
			threads = append(threads, t)
		}
	}
	left := maxNativeStacks - len(threads)
	for range 2 {
		var err error
		if threads, err = rubyStacks(ctx, r, threads, out.Ruby); err != nil {
			return out, err
		}
	}
	for _, tid := range others {
		if left == 0 || ctx.Err() != nil {
			break
		}
		left--
		x, ok, err := r.Whole(tid)
		if err != nil {
			return out, err
		}
		if ok {
			out.Others[tid] = x
		}
	}
	return out, nil
}

// rubyStacks reads the native stacks of Ruby's threads. It returns the threads to retry later, after all others.
func rubyStacks(ctx context.Context, r *cstacks.Reader, threads []*sampler.Thread,
	to map[sampler.ThreadID]sampler.NativeStack) (again []*sampler.Thread, err error) {
	for _, t := range threads {
		if ctx.Err() != nil {
			break
		}
		x, ok, err := r.Ruby(t.ID, t.TID, 0)
		if err != nil {
			return nil, err
		}
		if ok {
			to[t.ID] = x
		}
		if x.Missing == native.ErrUnconfirmed.Error() {
			again = append(again, t)
		}
	}
	return again, nil
}

// nativeSubject describes the process for readers of native stacks.
func (s *sampling) nativeSubject() cstacks.Subject {
	return cstacks.Subject{Process: s.proc, PID: s.proc.PID(), VMPath: s.vmPath, Machine: s.info.Machine,
		JIT: s.info.JIT != "", Names: s.names, Debug: s.debug,
		Controls: func(id sampler.ThreadID) ([]native.Control, bool, bool) {
			s.ticking.Lock()
			defer s.ticking.Unlock()
			return controlsOf(s.reader, id)
		}}
}

// controlsOf reads the Ruby frames (control frames) of a thread again (ruby.Reader.Controls).
func controlsOf(r *ruby.Reader, id sampler.ThreadID) (control []native.Control, whole, same bool) {
	frames, whole, same := r.Controls(id)
	control = make([]native.Control, len(frames))
	for i, f := range frames {
		control[i] = native.Control(f)
	}
	return control, whole, same
}

// tellPlaces notes for readNative where the threads are whose native stacks are wanted, except running threads.
func (s *sampling) tellPlaces(sample *sampler.Sample) {
	if sample.TimeNS-s.lastPlaces < standNS {
		return
	}
	s.lastPlaces = sample.TimeNS
	s.wanted = s.watch.AppendWanted(s.wanted[:0], sample.TimeNS)
	if s.watch.WantsAll(sample.TimeNS) {
		for i := range sample.Threads[:min(len(sample.Threads), sampler.MaxNativeStays)] {
			s.wanted = append(s.wanted, sample.Threads[i].ID)
		}
	}
	if len(s.wanted) == 0 {
		s.places.Store(nil)
		return
	}
	wanted := make(map[sampler.ThreadID]bool, len(s.wanted))
	for _, id := range s.wanted {
		wanted[id] = true
	}
	places := make(map[sampler.ThreadID]cstacks.Place, len(wanted))
	for i := range sample.Threads {
		if t := &sample.Threads[i]; wanted[t.ID] && t.Kernel.Syscall != sampler.SyscallRunning {
			places[t.ID] = cstacks.Place{TID: t.TID, Stack: t.Stack, Turns: t.Kernel.Turns}
		}
	}
	s.places.Store(&places)
}

// nativeStays adds C functions to the Ruby stacks in samples. It adds them while a thread has not run since they were
// read. Only the clock uses it.
type nativeStays struct {
	changes uint64
	at      map[sampler.ThreadID]nativeStay
	// order has an entry for each thread of the last sample, in its order: the thread's stack with C functions.
	order []nativeStay
	// filled is true if C functions were added to a stack of the last sample.
	filled bool
}

// nativeStay has a thread's Ruby stack. native is the stack that also has C functions, or zero if there is none.
type nativeStay struct {
	id            sampler.ThreadID
	stack, native sampler.StackID
	turns         int64
	readNS        int64 // when native was read
}

// nativeFrames adds C functions to the stacks of threads that have not run since their C functions were read.
func (s *sampling) nativeFrames(sample *sampler.Sample) {
	x := &s.stays
	if n := s.watch.Changes(); n != x.changes {
		x.changes = n
		x.read(s.watch, s.dict)
	}
	if len(x.at) == 0 && !x.filled {
		return
	}
	x.filled = false
	for len(x.order) < len(sample.Threads) {
		x.order = append(x.order, nativeStay{})
	}
	for i := range sample.Threads {
		t, at := &sample.Threads[i], &x.order[i]
		if at.id != t.ID {
			if *at = x.at[t.ID]; at.id == 0 {
				at.id = t.ID
			}
		}
		// A lock tick does not fill Native, which still has the last sample's value. So set it for each thread.
		if t.Native = 0; at.native != 0 && at.stack == t.Stack && at.turns == t.Kernel.Turns {
			t.Native, x.filled = at.native, true
		}
	}
}

// read takes the native stacks that watch has read, and combines each with the thread's Ruby stack.
func (x *nativeStays) read(watch *sampler.NativeWatch, dict *sampler.Dictionary) {
	was := x.at
	x.at, x.order = make(map[sampler.ThreadID]nativeStay), x.order[:0]
	watch.Stays(func(id sampler.ThreadID, stay *sampler.NativeStay) {
		now := nativeStay{id: id, stack: stay.Stack, turns: stay.Turns, readNS: stay.AtNS}
		if old := was[id]; old.stack == now.stack && old.turns == now.turns && old.readNS == now.readNS {
			now.native = old.native
		} else {
			now.native = dict.InternNative(stay.Stack, &stay.NativeStack)
		}
		x.at[id] = now
	})
}

// readNative reads the native stacks of wanted threads that stay in one place (tellPlaces notes the places).
func (s *sampling) readNative(ctx context.Context, w *cstacks.Watch, now int64) {
	var places map[sampler.ThreadID]cstacks.Place
	if now := s.places.Load(); now != nil {
		places = *now
	}
	w.Round(ctx, s.nativeSubject(), places, now, s.watch)
}
