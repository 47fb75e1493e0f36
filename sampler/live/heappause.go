package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// These constants limit how long a process is stopped while its memory is copied.
const (
	// fastCopyMB and slowCopyMB are how long it takes to copy one MB. They were measured on a machine with two CPUs,
	// once idle and once fully used.
	fastCopyMB, slowCopyMB = 310 * time.Microsecond, 760 * time.Microsecond
	// lateCopy and lateCopyTimes limit a stop. It may take lateCopyTimes the time that slowCopyMB predicts, plus
	// lateCopy. lateCopy is the time to stop all threads. On a full machine, each thread must first get a CPU.
	lateCopy, lateCopyTimes = 500 * time.Millisecond, 3
)

// The target may get more memory before it stops, so the copy has spare room. This is one part in spareCopyPart of the
// memory, plus spareCopy bytes. If the room is too small, ddtop doubles it and tries again, up to copyTries times in
// all.
const (
	spareCopyPart = 8
	spareCopy     = 16 << 20
	copyTries     = 4
)

// PauseHeap stops a process and copies all of its writable memory. Until release is called, CountHeap and HeapGraph
// read this copy. Before the stop, PauseHeap calls the function before with the size and the expected shortest and
// longest time. The parameter most is the largest number of bytes to copy. If there are more, PauseHeap does not stop
// the process. If the memory does not fit into the copy, the process resumes at once, and another stop follows. The
// Source needs Options.Pause. The error says why there is no copy. After an error the process runs.
func PauseHeap(ctx context.Context, s *Source, most uint64, before func(bytes uint64, fast, slow time.Duration)) (z *sampler.HeapPause, release func(), err error) {
	if s.pauses == nil {
		return nil, nil, errors.New("the process was attached to without stops")
	}
	for try := range copyTries {
		z, err = pauseHeap(ctx, s, most, try, before)
		if err == nil {
			s.heapPause = z
			return z, func() { s.heapPause = nil; s.still.Release() }, nil
		}
		s.still.Release()
		if !errors.Is(err, attach.ErrStillGrown) {
			break
		}
	}
	if end := s.gone(err); end != nil {
		err = end
	}
	return nil, nil, err
}

func pauseHeap(ctx context.Context, s *Source, most uint64, try int, before func(bytes uint64, fast, slow time.Duration)) (*sampler.HeapPause, error) {
	pid := s.info.PID
	bytes, search, err := s.still.Measure()
	if err != nil {
		return nil, err
	}
	if bytes > most {
		return nil, fmt.Errorf("process %d has %d MB of writable memory, and a copy may have %d MB. Give a higher limit with --max-memory. The process was not stopped",
			pid, bytes/1e6, most/1e6)
	}
	spare := (bytes/spareCopyPart + spareCopy) << try
	if err := s.still.Reserve(min(bytes+spare, most)); err != nil {
		return nil, err
	}
	mb := time.Duration(bytes / 1e6)
	fast, slow := search+mb*fastCopyMB, search+mb*slowCopyMB
	before(bytes, fast, slow)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit := lateCopy + lateCopyTimes*slow
	s.pauses.pauser.Limit(limit)
	z := new(sampler.HeapPause)
	var pause attach.Pause
	var copyErr error
	done := make(chan struct{})
	attach.OnOwnThread(func() {
		defer close(done)
		pace.RaisePriority()
		pause, err = s.pauses.pauser.Pause(func() {
			z.BeganNS = pace.Monotonic()
			z.Bytes, copyErr = s.still.Copy(limit)
			z.EndedNS = pace.Monotonic()
		})
	})
	<-done
	switch z.NS = pause.NS; {
	case err != nil:
		return nil, err
	case copyErr != nil:
		return nil, fmt.Errorf("process %d was stopped for %d ms without a copy: %w. Try again", pid, time.Duration(z.NS).Milliseconds(), copyErr)
	case pause.Cut:
		return nil, fmt.Errorf("process %d did not stand still for the whole copy: a thread could not be stopped, or %d ms were not enough. Try again",
			pid, limit.Milliseconds())
	}
	return z, nil
}
