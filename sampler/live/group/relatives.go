package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

const (
	// lookEvery is the interval at which ddtop searches for processes that have started, ended or called exec. After a
	// long search, the pause is lookRest times the length of the search, but at most longestRest. A search takes long
	// if ddtop must ask the kernel for the children of each thread of each process (kernel.Births).
	lookEvery   = 250 * time.Millisecond
	longestRest = time.Second
	lookRest    = 200
	// findEvery is the interval between calls of Options.Find, which finds processes that the caller did not name.
	findEvery = time.Second
	// findRest is a multiple. After a call of Find, the pause is at least findRest times the length of the call, but at
	// most longestFindRest. So calls of Find take about a hundredth of the time.
	findRest        = 100
	longestFindRest = 10 * time.Second
	// maxTries limits how often ddtop tries to attach to a process. Early tries can fail because Ruby is still booting.
	maxTries = 20
	// silentRest is the pause after a read of a process hung. ddtop pauses because each read that hangs blocks a thread
	// of ddtop.
	silentRest = 10 * time.Second
	// maxTracked is the largest number of living processes that a Group follows, Ruby or not. maxEnded is the largest
	// number of ended processes in its list.
	maxTracked = 1024
	maxEnded   = 256
)

func restAfter(took time.Duration) time.Duration {
	return min(max(lookEvery, lookRest*took), longestRest)
}

// relative is a process that a Group has found: one that the caller named, or a process related to it.
type relative struct {
	sampler.Relative
	src *live.Source
	// exe is the last known program file. tries counts failed tries to attach, and err is the last try's error.
	exe   string
	tries int
	err   error
	// doubted is true if the last read of the process failed. The reason is then in the field Why of sampler.Relative.
	doubted bool
	// user is the process's user, if userRead is true.
	user     int
	userRead bool
	// silentAt is the last time at which a read of the process hung.
	silentAt time.Time
	// walked is true if ddtop has asked the kernel for the process's children. ddtop finds later children with
	// kernel.Births.
	walked bool
	// named is true if the caller of Open named the process. makeWay never takes the place of such a process.
	named bool
	// heldSince is when sampling began. leaving is true if the process's Source must end to make way for another
	// process. yielded is true if the process has made way for a process of another user.
	heldSince        time.Time
	leaving, yielded bool
	// done is true if the process's Source is closed. With Options.LetGo, the Source is then dropped. The fields ending
	// and ended keep how the process ended.
	done   bool
	ending sampler.End
	ended  bool
}

func newRelative(pid int) (*relative, error) {
	id, err := kernel.Identify(pid)
	if err != nil {
		return nil, err
	}
	return relativeOf(id), nil
}

func relativeOf(id kernel.Identity) *relative {
	r := &relative{exe: id.Exe}
	r.PID, r.Parent, r.StartTicks, r.Title = id.PID, id.Parent, id.StartTicks, id.Comm
	r.StartedAt = time.Now().Add(-id.Age())
	return r
}

func (r *relative) refused(err error) {
	if !kernel.Exhausted(err) { // only an error that the process causes counts as a try
		r.tries++
	}
	r.err = err
	if errors.Is(err, attach.ErrNoAnswer) {
		r.silentAt = time.Now()
	}
	r.say()
}

func (r *relative) say() {
	err := r.err
	r.Why = "not sampled: " + err.Error()
	r.NotRuby = errors.Is(err, attach.ErrNotRuby)
	if r.NotRuby {
		r.Why = fmt.Sprintf("no Ruby (%s)", cmp.Or(r.exe, r.Title))
	}
}

// belowMayBeRuby reports whether a process may have Ruby processes as descendants, although reading the process itself
// failed with err.
func belowMayBeRuby(err error) bool {
	return errors.Is(err, attach.ErrNotRuby) || errors.Is(err, attach.ErrNotLoaded) || errors.Is(err, layout.ErrUnknownRelease)
}

// look makes one search. It searches for processes that have ended or called exec, and then for new processes. Then it
// attaches to processes.
func (g *Group) look(ctx context.Context) {
	living := g.lookForEnds()
	living = g.lookForNew(living)
	n := len(g.sources())
	g.makeWay(living, n)
	for _, r := range g.inTurns(living, n) {
		if ctx.Err() != nil {
			return
		}
		if g.sampled(r) || r.tries >= maxTries || time.Since(r.silentAt) < silentRest {
			continue
		}
		if n >= g.places {
			g.note(r, g.noPlace(r))
			continue
		}
		id, err := kernel.Identify(r.PID)
		if err != nil || id.StartTicks != r.StartTicks {
			continue // the next search notes that the process has ended
		}
		src, err := g.open(ctx, r.PID, time.Millisecond)
		switch {
		case err != nil:
			g.mu.Lock()
			r.refused(err)
			g.mu.Unlock()
		case src.Process().StartTicks != r.StartTicks: // the PID was reused
			src.Close()
		default:
			g.adopt(r, src)
			n++
		}
	}
	g.share()
}

func (g *Group) note(r *relative, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.Why = why
}

// lookForEnds finds the processes that have ended or run another program now. It returns the processes that live.
func (g *Group) lookForEnds() []*relative {
	var living []*relative
	for _, r := range g.alive() {
		// Ask the Source before the kernel. If the Source has ended but the process still lives, the process has called
		// exec.
		end, ended := g.endOf(r)
		if !ended && g.lives(r) {
			g.doubt(r, nil)
			living = append(living, r)
			continue
		}
		id, err := kernel.Identify(r.PID)
		gone := errors.Is(err, kernel.ErrGone) || err == nil && (id.Ended || id.StartTicks != r.StartTicks)
		g.doubt(r, err)
		switch {
		case err != nil && !gone:
			living = append(living, r) // the process may still live
		case gone:
			why := "exited"
			if ended {
				why = end.Reason
			}
			if !g.sampled(r) && r.err != nil {
				why += "; it was never sampled"
			}
			g.end(r, why)
		case ended: // only the Source has ended
			g.end(r, end.Reason)
			next := relativeOf(id)
			next.Root, next.named = r.Root, r.named
			g.add(next)
			living = append(living, next)
		case !g.sampled(r) && id.Exe != r.exe && id.Exe != "": // a process without a Source has called exec
			g.mu.Lock()
			r.exe, r.Title, r.tries = id.Exe, id.Comm, 0
			g.mu.Unlock()
			living = append(living, r)
		default:
			living = append(living, r)
		}
	}
	return living
}

// doubt notes whether the last read of a process worked. err is nil, or the reason why the read failed.
func (g *Group) doubt(r *relative, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var since int64
	var failed error
	if r.src != nil && !r.done {
		since, failed = r.src.Failing()
	}
	switch {
	case failed != nil:
		r.doubted = true
		r.Why = fmt.Sprintf("could not be read since %s: %s", r.src.Process().WallTime(since).Format(time.TimeOnly), g.opts.Redactor.Error(failed))
	case err != nil && !errors.Is(err, kernel.ErrGone):
		r.doubted = true
		r.Why = "could not be looked at: " + err.Error()
	case r.doubted:
		r.doubted, r.Why = false, ""
		if r.err != nil {
			r.say()
		}
	}
}

// sampled reports whether a process has a Source, or had one.
func (g *Group) sampled(r *relative) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.src != nil || r.done
}

// endOf returns how the process of a Source ended. It returns false if the process has not ended.
func (g *Group) endOf(r *relative) (sampler.End, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.src != nil {
		return r.src.End()
	}
	return r.ending, r.ended
}

// lives reports whether a process has a Source and has not ended. It does not see an exec, which the Source sees. It
// makes one short system call, while reading the files of /proc would take six.
func (g *Group) lives(r *relative) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.src != nil && !r.done && r.src.Alive()
}

// alive returns the processes that are not known to have ended.
func (g *Group) alive() []*relative {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]*relative, 0, len(g.list))
	for _, r := range g.list {
		if r.EndedAt.IsZero() {
			out = append(out, r)
		}
	}
	return out
}

// end notes that a process has ended. If more than maxEnded ended processes are listed, it forgets the oldest.
func (g *Group) end(r *relative, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.EndedAt, r.Why = time.Now(), why
	n := 0
	for _, x := range g.list {
		if x.forgettable() {
			n++
		}
	}
	for i := 0; i < len(g.list) && n > maxEnded; {
		if g.list[i].forgettable() {
			g.list = slices.Delete(g.list, i, i+1)
			g.forgotten++
			n--
			continue
		}
		i++
	}
}

// forgettable reports whether the process can be forgotten: it has ended, and its Source is not used.
func (r *relative) forgettable() bool { return !r.EndedAt.IsZero() && (r.src == nil || r.done) }

func (g *Group) add(r *relative) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(g.list, r)
}

// lookForNew adds the children of living processes. It skips children younger than kernel.SettleTime, and sets
// g.unsettled so that they are found soon.
func (g *Group) lookForNew(living []*relative) []*relative {
	g.unsettled = 0
	known := make(map[int]bool, len(living))
	for _, r := range living {
		known[r.PID] = true
	}
	unseen := false
	for _, pid := range g.roots {
		if g.opts.Pending && !known[pid] && !g.met(pid) {
			r, err := newRelative(pid)
			if err == nil {
				r.Root, r.named = true, true
				g.add(r)
				living = append(living, r)
				known[pid] = true
			}
			unseen = unseen || err != nil && !errors.Is(err, kernel.ErrGone)
		}
	}
	g.unseen = unseen
	if g.opts.Find != nil && time.Since(g.foundAt) >= g.findAfter {
		begun := time.Now()
		living = g.findMore(living, known)
		g.foundAt = time.Now()
		g.findAfter = min(max(findEvery, findRest*g.foundAt.Sub(begun)), longestFindRest)
	}
	if !g.opts.Children {
		return living
	}
	born, all := g.births.Since(pace.Monotonic())
	for i := 0; i < len(living); i++ { // the list grows in the loop
		below := childrenAmong(born, living[i].PID)
		if all || !living[i].walked {
			var err error
			if below, err = kernel.Children(living[i].PID); err != nil {
				continue // the process has ended since
			}
			living[i].walked = true
		}
		var fresh []*relative
		for _, pid := range below {
			if known[pid] || len(living)+len(fresh) >= maxTracked {
				continue
			}
			id, err := kernel.Identify(pid)
			if err != nil || id.Ended {
				continue
			}
			if left := kernel.SettleTime - id.Age(); left > 0 { // too young; a later search adds the process
				g.unsettled = max(g.unsettled, left)
				continue
			}
			known[pid] = true
			fresh = append(fresh, relativeOf(id))
		}
		sorting.By(fresh, byPID)
		for _, r := range fresh {
			g.add(r)
		}
		living = append(living, fresh...)
	}
	return living
}

// childrenAmong returns the PIDs of those processes in born that are children of pid.
func childrenAmong(born []kernel.Born, pid int) (below []int) {
	for _, b := range born {
		if b.Parent == pid {
			below = append(below, b.PID)
		}
	}
	return below
}

// findMore adds the processes that Find finds.
func (g *Group) findMore(living []*relative, known map[int]bool) []*relative {
	for _, pid := range g.opts.Find(func(pid int) bool { return known[pid] }) {
		if known[pid] {
			continue
		}
		id, err := kernel.Identify(pid)
		if err != nil || id.Ended || id.Age() < kernel.SettleTime {
			// The process has ended, or is too young. Because it is not added now, a later call of Find can find it
			// again.
			continue
		}
		r := relativeOf(id)
		r.Root = true
		if len(living) >= maxTracked {
			if living = g.forgetFor(r, living); len(living) >= maxTracked {
				continue
			}
		}
		g.add(r)
		living = append(living, r)
		known[pid] = true
	}
	return living
}

// met reports whether a process that the caller named was found before. If so, lookForNew does not add it again after
// it has ended.
func (g *Group) met(pid int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.list, func(r *relative) bool { return r.PID == pid && r.Root })
}
