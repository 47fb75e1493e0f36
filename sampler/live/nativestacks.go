package live

import (
	"context"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/cstacks"
	"github.com/ddtop/ddtop/sampler/native"
)

// maxNativeStacks bounds the threads whose native stacks are read at once.
const maxNativeStacks = 4096

// standNS is the interval at which the places of threads are noted, in ns, if their native stacks are wanted.
const standNS = 500_000_000

// NativeStacks are native stacks of a process's threads.
type NativeStacks struct {
	// Ruby has the native stacks below the innermost Ruby frames of Ruby's threads. Others has the native stacks of
	// other threads, by TID.
	Ruby   map[sampler.ThreadID]sampler.NativeStack
	Others map[int32]sampler.NativeStack
	// Locks are the locks of C code that threads wait for. It is nil if none do.
	Locks *sampler.NativeLocks
}

// NativeStacks reads the native stacks of the threads of a sample that Once took, and of others. Threads that run are
// left out. The error says why there are none at all.
func (s *Source) NativeStacks(ctx context.Context, sample *sampler.Sample, others []int32) (NativeStacks, error) {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	return result(ctx, &s.reading, func() (NativeStacks, error) { return s.nativeStacks(ctx, sample, others) }, nil)
}

func (s *sampling) nativeStacks(ctx context.Context, sample *sampler.Sample, others []int32) (NativeStacks, error) {
	out := NativeStacks{Ruby: make(map[sampler.ThreadID]sampler.NativeStack),
		Others: make(map[int32]sampler.NativeStack)}
	var err error
	if out.Locks, err = s.nativeLocks(ctx, sample); err != nil {
		return out, err
	}
	if err := s.native.Prepare(s.nativeSubject()); err != nil {
		return out, err
	}
	left := maxNativeStacks
	for i := range sample.Threads {
		t := &sample.Threads[i]
		if t.TID == 0 || left == 0 || ctx.Err() != nil {
			continue
		}
		left--
		x, ok, err := s.native.Ruby(t.ID, t.TID, 0)
		if err != nil {
			return out, err
		}
		if ok {
			out.Ruby[t.ID] = x
		}
	}
	for _, tid := range others {
		if left == 0 || ctx.Err() != nil {
			break
		}
		left--
		x, ok, err := s.native.Whole(tid)
		if err != nil {
			return out, err
		}
		if ok {
			out.Others[tid] = x
		}
	}
	return out, nil
}

// nativeSubject is the process for readers of native stacks.
func (s *sampling) nativeSubject() cstacks.Subject {
	return cstacks.Subject{Process: s.proc, VMPath: s.vmPath, Machine: s.info.Machine, JIT: s.info.JIT != "",
		Names: s.names, Controls: func(id sampler.ThreadID) ([]native.Control, bool, bool) {
			s.ticking.Lock()
			frames, whole, same := s.reader.Controls(id)
			s.ticking.Unlock()
			control := make([]native.Control, len(frames))
			for i, f := range frames {
				control[i] = native.Control(f)
			}
			return control, whole, same
		}}
}

// tellPlaces keeps the places of the threads whose native stacks are wanted.
func (s *sampling) tellPlaces(sample *sampler.Sample) {
	if sample.TimeNS-s.lastPlaces < standNS {
		return
	}
	s.lastPlaces = sample.TimeNS
	s.wanted = s.watch.AppendWanted(s.wanted[:0], sample.TimeNS)
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

// readNative reads the native stacks of wanted threads that stay at one place.
func (s *sampling) readNative(ctx context.Context, w *cstacks.Watch, now int64) {
	var places map[sampler.ThreadID]cstacks.Place
	if now := s.places.Load(); now != nil {
		places = *now
	}
	w.Round(ctx, s.nativeSubject(), places, now, s.watch)
}
