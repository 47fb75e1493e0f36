package exact

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/push/status"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/group"
)

// Group is a group of processes that can be closed. It is a *group.Group, or a Probed if ddtop follows the processes in
// exact mode.
type Group interface {
	sampler.Group
	Close() error
}

// Told has the functions with which a command reports the state of exact mode. Refused reports that exact mode is not
// possible for a process, and why. Note reports a message about a process that is or was followed in exact mode.
type Told struct {
	Refused func(p sampler.Process, why error)
	Note    func(p sampler.Process, text, why string)
}

// Probed is a group whose processes are followed in exact mode. For each process, this begins when ddtop finds the
// process, and ends with the call of Done. If exact mode is not possible for a process, ddtop only samples it.
type Probed struct {
	*group.Group
	flags Flags
	told  Told
	// again is true if ddtop begins exact mode again after it has ended itself in a process.
	again bool

	mu sync.Mutex
	// begun are the processes in which ddtop has tried exact mode. The value is nil for a process in which exact mode
	// was not possible.
	begun map[sampler.Source]*exactAgain
}

// Group begins to follow the processes of a group in exact mode. If this fails for all of them, it closes the group and
// returns the error of the first process.
func (f *Flags) Group(ctx context.Context, g *group.Group, told Told, again bool) (Group, error) {
	if !f.On {
		return g, nil
	}
	x := &Probed{Group: g, flags: *f, told: told, again: again, begun: make(map[sampler.Source]*exactAgain)}
	var failed []error
	list, _ := g.Relatives()
	list = slices.DeleteFunc(list, func(r sampler.Relative) bool { return r.Source == nil })
	for i := range list {
		failed = append(failed, x.begin(ctx, list[i].Source))
	}
	if i := slices.IndexFunc(failed, func(err error) bool { return err != nil }); i >= 0 && !slices.Contains(failed, nil) {
		return nil, errors.Join(failed[i], g.Close())
	}
	for i, err := range failed {
		if err != nil {
			told.Refused(list[i].Source.Process(), err)
		}
	}
	return x, nil
}

func (g *Probed) begin(ctx context.Context, s sampler.Source) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.begun[s]; ok {
		return nil
	}
	g.begun[s] = nil
	src := s.(Source) // each process of a group.Group is a Source
	if err := g.flags.Begin(ctx, src); err != nil {
		return err
	}
	g.begun[s] = &exactAgain{src: src, flags: &g.flags, say: func(what, why string) { g.told.Note(src.Process(), what, why) }}
	return nil
}

// Follow calls join for each process of the group. It also follows new processes in exact mode.
func (g *Probed) Follow(ctx context.Context, join func(sampler.Source)) error {
	if g.again {
		done := make(chan struct{})
		following, stop := context.WithCancel(ctx)
		go func() {
			defer close(done)
			g.keep(following)
		}()
		defer func() { stop(); <-done }()
	}
	return g.Group.Follow(ctx, func(src sampler.Source) {
		if err := g.begin(ctx, src); err != nil && ctx.Err() == nil {
			g.told.Refused(src.Process(), err)
		}
		join(src)
	})
}

// keep begins exact mode again in processes in which exact mode has ended itself. It returns when ctx ends.
func (g *Probed) keep(ctx context.Context) {
	tick := time.NewTicker(exactLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, a := range g.followed() {
				a.step(ctx, now)
			}
		}
	}
}

// followed returns the processes of the group in which exact mode was possible.
func (g *Probed) followed() []*exactAgain {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*exactAgain
	for _, a := range g.begun {
		if a != nil {
			out = append(out, a)
		}
	}
	return out
}

// Figures returns the state of exact mode, for push's status page.
func (g *Probed) Figures() *status.Exact {
	out := new(status.Exact)
	for _, a := range g.followed() {
		if a.src.ExactStatus().On {
			out.Processes++
		} else if until, why := a.resting(); !until.IsZero() {
			out.Resting = append(out.Resting, status.Resting{PID: a.src.Process().PID, Until: until, Why: why})
		}
	}
	sorting.By(out.Resting, func(a, b status.Resting) int { return cmp.Compare(a.PID, b.PID) })
	return out
}

// Done removes the probes from a process.
func (g *Probed) Done(src sampler.Source) {
	g.mu.Lock()
	a := g.begun[src]
	delete(g.begun, src)
	g.mu.Unlock()
	if a != nil {
		a.leave()
		if err := End(src); err != nil {
			g.told.Note(src.Process(), "ending exact mode", err.Error())
		}
		if what, why := Note(src); what != "" && !g.again {
			g.told.Note(src.Process(), what, why)
		}
	}
	g.Group.Done(src)
}
