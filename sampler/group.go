package sampler

import (
	"context"
	"sync"
	"time"
)

// Relative is a process that a Group has found, whether ddtop samples it or not. PID and StartTicks together identify
// it, even after it ended. When a process calls exec, a new Relative begins for the new program.
type Relative struct {
	PID, Parent int
	StartTicks  uint64
	StartedAt   time.Time
	// Title is the program's name without its arguments.
	Title string
	// Part is the same as Process.Part. It is empty if the process is not sampled.
	Part string
	// Root is true if the user asked for this process. A process without Root is a descendant of such a process.
	Root bool
	// Source samples the process. It is nil if the process is not sampled. In that case Why gives the reason.
	Source Source
	// NotRuby is true if the process is not sampled because its program does not run Ruby.
	NotRuby bool
	// EndedAt is when ddtop saw that the process had ended, or that exec had replaced its program. It is zero while the
	// process lives.
	EndedAt time.Time
	// Why is a sentence for the user. It says how the process ended, or why ddtop does not sample it. It is "" for a
	// process that is sampled.
	Why string
}

// Group is a set of processes that are sampled together, each with its Source. It may grow while ddtop follows it.
type Group interface {
	// Follow calls join once for each process, with the process's Source. It begins with the processes that exist at
	// the start. It returns nil when ctx ends, and ErrEnded when no process is left. The Sources belong to the Group.
	// The caller runs each Source that join gets, and calls Done when it is finished with it. join must return at once,
	// and not wait until the Source ends.
	Follow(ctx context.Context, join func(Source)) error
	// Done closes a Source. The samples that the Source has already taken are kept.
	Done(Source)
	// Relatives returns the processes found until now, in the order in which they were found. Of the ended processes
	// only the latest are kept. forgotten is the number of ended processes that were dropped.
	Relatives() (list []Relative, forgotten int)
}

// FollowEach calls join for each process of a group, one process at a time. For each process, it starts a goroutine,
// which runs the function that join returned. When this function ends, FollowEach calls Done for the process. The
// channel all is closed when all these functions have ended. FollowEach returns nil when ctx ends, and ErrEnded when no
// process is left.
func FollowEach(ctx context.Context, g Group, join func(Source) func()) (all <-chan struct{}, err error) {
	var processes sync.WaitGroup
	err = g.Follow(ctx, func(src Source) {
		work := join(src)
		processes.Go(func() {
			defer g.Done(src)
			work()
		})
	})
	done := make(chan struct{})
	go func() { processes.Wait(); close(done) }()
	return done, err
}
