// Package group samples several processes, each with a live.Source: named processes, those below them, and those that
// the caller finds. It notices new, ended and replaced processes, and divides ddtop's cost among them.
package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live"
)

const (
	// MaxProcesses limits how many processes of a Group are sampled at a time.
	MaxProcesses = 64
	// groupStackRate and groupLockRate are the rates of all processes of a Group together, in Hz. If the Group has more
	// than four processes, each is read less often than its options say. So ddtop's cost does not grow with the number
	// of processes. A single process may be read more often, if the user asks for it.
	groupStackRate = 4 * live.DefaultStackRate
	groupLockRate  = 4 * live.DefaultLockRate
)

// Options are the options of Open.
type Options struct {
	// Options apply to each process. The limit on ddtop's CPU time can make the rates lower than they say.
	live.Options
	// Children adds the processes below the named ones, at any depth: those that exist and those that start later.
	Children bool
	// Pending is for a program that has just been started. If it is true, Open returns no error if it finds no
	// Ruby at first.
	Pending bool
	// Find returns more processes to follow, in addition to the named ones. It leaves out processes for which known
	// returns true. One goroutine calls it every second. With Find, a Group may have no process at first, and never
	// ends by itself. If Find is nil, the Group follows only the named processes.
	Find func(known func(pid int) bool) []int
	// LetGo is true if Done drops the Source. This frees 300 KB of memory with facts about the Source's process.
	LetGo bool
}

// Group samples several processes, a Source each. It is a sampler.Group.
type Group struct {
	opts  Options
	roots []int
	// places limits how many processes are sampled at a time. It is MaxProcesses, except in tests.
	places int
	room   *sampler.Room

	mu        sync.Mutex // guards the following fields
	list      []*relative
	forgotten int
	closed    bool
	waiting   []*relative // processes whose Source was not passed to join yet
	// foundAt is when Find was last called. Only the searching goroutine uses foundAt, findAfter and unsettled.
	foundAt time.Time
	// findAfter is the shortest time from foundAt to the next call of Find.
	findAfter time.Duration
	// unsettled is for processes that the last search skipped as too young. It is how long until they are old enough,
	// or zero if there are none.
	unsettled time.Duration
	// births finds processes that have just started. Only the searching goroutine uses it.
	births kernel.Births
	// unseen is true if one of roots could not be read yet. Only the searching goroutine uses it.
	unseen bool
}

// Open attaches to processes, and with Children also to the processes below them. If a named process cannot be read,
// Open returns the error of live.Open. With Children, a named process need not be a Ruby if a Ruby runs below it.
func Open(ctx context.Context, pids []int, opts Options) (*Group, error) {
	if err := opts.Defaults(); err != nil {
		return nil, err
	}
	g := &Group{opts: opts, roots: pids, places: MaxProcesses, room: sampler.NewRoom(sampler.MaxDictionaryBytes, MaxProcesses)}
	if !opts.Pending {
		if err := g.openRoots(ctx); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	g.look(ctx)
	if g.unsettled > 0 && !opts.Pending {
		// The caller may begin to measure at once. So wait until workers that have just been forked are found, too.
		select {
		case <-ctx.Done():
		case <-time.After(g.unsettled):
			g.look(ctx)
		}
	}
	if opts.Pending || opts.Find != nil || len(g.sources()) > 0 {
		return g, nil
	}
	why := errNoRubyBelow
	for _, r := range g.list {
		if r.Root && r.err != nil {
			why = r.err
			break
		}
	}
	return nil, errors.Join(why, g.Close())
}

// errNoRubyBelow is returned if neither the named processes nor those below them are Ruby.
var errNoRubyBelow = errors.New("there is no Ruby among the processes")

// openRoots attaches to the processes that were named.
func (g *Group) openRoots(ctx context.Context) error {
	for _, pid := range g.roots {
		if slices.ContainsFunc(g.list, func(r *relative) bool { return r.PID == pid }) {
			continue
		}
		src, err := g.open(ctx, pid, g.opts.BootWait)
		if err != nil && !(g.opts.Children && belowMayBeRuby(err)) {
			return err
		}
		r, identErr := newRelative(pid)
		if err := errors.Join(identErr, err); identErr != nil {
			if src != nil {
				src.Close()
			}
			return fmt.Errorf("process %d: %w", pid, err)
		}
		r.Root, r.named = true, true
		if src != nil {
			g.adopt(r, src)
		} else {
			r.refused(err)
		}
		g.list = append(g.list, r)
	}
	return nil
}

func (g *Group) open(ctx context.Context, pid int, boot time.Duration) (*live.Source, error) {
	opts := g.opts.Options
	opts.BootWait = boot
	opts.Dictionary = g.room.NewDictionary() // each process has its own ids
	return live.Open(ctx, pid, opts)
}

// adopt gives a process the Source that samples it.
func (g *Group) adopt(r *relative, src *live.Source) {
	p := src.Process()
	g.mu.Lock()
	defer g.mu.Unlock()
	r.src, r.Source, r.Why, r.NotRuby, r.err = src, src, "", false, nil
	r.Title, r.Part, r.StartedAt = p.Title, p.Part, p.StartedAt
	r.heldSince, r.yielded = time.Now(), false
	g.waiting = append(g.waiting, r)
}

// Follow searches for new and ended processes, and passes the Source of each new one to join. See sampler.Group.
func (g *Group) Follow(ctx context.Context, join func(sampler.Source)) error {
	next := time.NewTimer(lookEvery)
	defer next.Stop()
	for {
		g.mu.Lock()
		fresh := g.waiting
		g.waiting = nil
		g.mu.Unlock()
		for _, r := range fresh {
			join(r.src)
		}
		if g.over() {
			return sampler.ErrEnded
		}
		select {
		case <-ctx.Done():
			return nil
		case began := <-next.C:
			g.look(ctx)
			next.Reset(restAfter(time.Since(began)))
		}
	}
}

// over reports whether all Sources have ended and no new one can come.
func (g *Group) over() bool {
	if g.opts.Find != nil || g.unseen {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.list {
		// A process that does not run Ruby may call exec to run Ruby. So the Group is not over while such a process
		// lives.
		if r.EndedAt.IsZero() && (r.src != nil || r.done || r.Root || g.opts.Children) {
			return false
		}
	}
	return len(g.waiting) == 0
}

// sources returns the Sources of living processes.
func (g *Group) sources() []*live.Source {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*live.Source
	for _, r := range g.list {
		if r.src != nil && r.EndedAt.IsZero() {
			out = append(out, r.src)
		}
	}
	return out
}

// share divides the Group's rates and memory limits among the sampled processes.
func (g *Group) share() {
	list := g.sources()
	n := float64(max(len(list), 1))
	stack := min(g.opts.StackRate, max(groupStackRate, g.opts.StackRate)/n)
	lock := min(g.opts.LockRate, max(groupLockRate, g.opts.LockRate)/n)
	g.opts.Share(list, stack, lock)
}

// Done closes a Source that the caller does not need. See sampler.Group.
func (g *Group) Done(src sampler.Source) {
	g.mu.Lock()
	var found *live.Source
	for _, r := range g.list {
		if r.src != nil && sampler.Source(r.src) == src && !r.done {
			found = r.src
			end, ended := found.End()
			if r.leaving && !ended {
				r.leaving, r.yielded = false, true
				r.src, r.Source, r.Why = nil, nil, g.noPlace(r)
				break
			}
			r.done, r.leaving = true, false
			if g.opts.LetGo {
				r.ending, r.ended = end, ended
				r.src, r.Source = nil, nil
			}
		}
	}
	g.mu.Unlock()
	if found != nil {
		// An error of Close is ignored: the Source only reads, so no data can be lost.
		_ = found.Close()
	}
}

// Relatives returns the processes found so far, and how many ended ones were forgotten. See sampler.Group.
func (g *Group) Relatives() ([]sampler.Relative, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]sampler.Relative, len(g.list))
	for i, r := range g.list {
		x, names := r.Relative, g.opts.Redactor
		if r.err != nil {
			x.Why = strings.ReplaceAll(x.Why, r.err.Error(), names.Error(r.err))
		}
		out[i] = names.Relative(x, r.exe)
	}
	return out, g.forgotten
}

// Close closes the Sources of all processes. No Source may be in use then.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	var errs []error
	for _, r := range g.list {
		if r.src != nil && !r.done {
			r.done = true
			errs = append(errs, r.src.Close())
		}
	}
	return errors.Join(errs...)
}

// byPID orders the results of a search, so that they do not depend on the order in which the kernel lists processes.
func byPID(a, b *relative) int { return cmp.Compare(a.PID, b.PID) }
