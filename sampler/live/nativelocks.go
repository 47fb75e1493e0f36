package live

import (
	"context"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/nativelock"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

const (
	// lockWaitNS is how long ddtop continues to read locks of C code after it last saw a thread wait for one, in ns.
	lockWaitNS = 3_000_000_000
	// maxLockRounds limits how often ddtop reads all threads for one dump, to find the holders of locks.
	maxLockRounds = 32
	// lockRoundGap is the pause after ddtop has read all threads once, before it reads them again.
	lockRoundGap = 10 * time.Millisecond
)

// lockWatch reads locks of C code while threads wait for one. Only the goroutine of the method beside uses it.
type lockWatch struct {
	reader *nativelock.Reader
	failed bool
}

// readLocks reads the locks of C code, if a thread was seen to wait for such a lock within the last lockWaitNS.
func (s *sampling) readLocks(ctx context.Context, w *lockWatch, now int64) {
	if at := s.view.LockWaitNS.Load(); at == 0 || now-at > lockWaitNS || w.failed {
		if s.locksNow.Load() != nil {
			s.locksNow.Store(nil)
		}
		return
	}
	if w.reader == nil {
		reader, err := nativelock.New(s.proc, s.vmPath, s.info.Machine)
		if w.failed = err != nil; w.failed {
			return
		}
		w.reader = reader
	}
	if w.reader.Round(ctx) != nil || ctx.Err() != nil {
		return
	}
	ids := make(map[int32]sampler.ThreadID)
	if list := s.rubyTIDs.Load(); list != nil {
		ids = *list
	}
	s.publish(w.reader, now, func(tid int32) sampler.ThreadID { return ids[tid] })
}

// tellTIDs passes the IDs of Ruby's threads, by TID, to readLocks while threads wait for locks of C code.
func (s *sampling) tellTIDs(sample *sampler.Sample) {
	if at := s.view.LockWaitNS.Load(); at == 0 || sample.TimeNS-at > lockWaitNS ||
		sample.TimeNS-s.lastTIDs < lockWaitNS/6 {
		return
	}
	s.lastTIDs = sample.TimeNS
	ids := idsByTID(sample)
	s.rubyTIDs.Store(&ids)
}

func idsByTID(sample *sampler.Sample) map[int32]sampler.ThreadID {
	ids := make(map[int32]sampler.ThreadID, len(sample.Threads))
	for i := range sample.Threads {
		if t := &sample.Threads[i]; t.TID != 0 {
			ids[t.TID] = t.ID
		}
	}
	return ids
}

// nativeLocks reads the locks of C code for which threads wait now. If the holder of a lock is not known, it tries
// again for a moment.
func (s *sampling) nativeLocks(ctx context.Context, sample *sampler.Sample) (*sampler.NativeLocks, error) {
	r, err := nativelock.New(s.proc, s.vmPath, s.info.Machine)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	ids := idsByTID(sample)
	for range maxLockRounds {
		if err := r.Round(ctx); err != nil {
			return nil, err
		}
		if !s.publish(r, pace.Monotonic(), func(tid int32) sampler.ThreadID { return ids[tid] }) || ctx.Err() != nil {
			break
		}
		time.Sleep(lockRoundGap)
	}
	return s.locksNow.Load(), nil
}

// publish stores the locks that a round has found, for samples. undecided is true if a lock's holder is not known yet.
func (s *sampling) publish(r *nativelock.Reader, now int64, id func(int32) sampler.ThreadID) (undecided bool) {
	list, undecided := r.Judge(id)
	var lost []uint64
	for i := range list {
		if list[i].Lost() {
			lost = append(lost, list[i].Address)
		}
	}
	s.view.LostLocks.Store(&lost)
	if len(list) == 0 {
		s.locksNow.Store(nil)
		return false
	}
	s.locksNow.Store(s.names.NativeLocks(&sampler.NativeLocks{AtNS: now, List: list}))
	return undecided
}

func (w *lockWatch) close() {
	if w.reader != nil {
		w.reader.Close()
	}
}
