package live

import (
	"context"
	"errors"

	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
)

// NativeThread is what the kernel reports about a native thread of the process.
type NativeThread struct {
	// TID is the thread's ID in ddtop's own PID namespace.
	TID int32
	// Name is the kernel's name, at most 15 bytes (task/TID/comm). Options.Redactor may replace it.
	Name string
	// CPUNS is the thread's time on a CPU since it started, in ns. It is zero if the kernel was built without
	// schedstat.
	CPUNS int64
}

// NativeThreads lists all native threads of the process, Ruby's and others, oldest first. It leaves out threads that
// end meanwhile. It costs about 20 µs for each thread. It must not be called while Run or Once runs. The error is one
// of package kernel, or attach.ErrNoAnswer.
func (s *Source) NativeThreads() ([]NativeThread, error) {
	ctx, cancel := context.WithTimeout(context.Background(), onceLimit)
	defer cancel()
	return apart.Result(ctx, &s.reading, s.nativeThreads, nil)
}

func (s *sampling) nativeThreads() ([]NativeThread, error) {
	tids, err := s.tasks.List()
	if err != nil {
		return nil, err
	}
	out := make([]NativeThread, 0, len(tids))
	for _, tid := range tids {
		n := NativeThread{TID: tid}
		if n.Name, err = s.tasks.Comm(tid); err == nil {
			n.Name = s.names.ThreadName(n.Name)
			var cpu kernel.CPU
			cpu, err = s.tasks.CPU(tid)
			n.CPUNS = cpu.RanNS
		}
		switch {
		case errors.Is(err, kernel.ErrGone):
			continue
		case err != nil && !errors.Is(err, kernel.ErrUnsupported):
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}
