package cstacks

import (
	"cmp"
	"context"
	"slices"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/native"
)

const (
	// stayNS is how long a thread must have been at one place before its native stack is read, in ns. It is a bit less
	// than the time between two rounds.
	stayNS = 900_000_000
	// maxRound is the largest number of stacks that one round reads. A round comes once a second.
	maxRound = 32
	// retryNS is how long ddtop reads no stacks after an error, in ns. Errors such as a lack of descriptors are
	// temporary.
	retryNS = 30_000_000_000
)

// Place is where a thread was in a sample.
type Place struct {
	TID   int32
	Stack sampler.StackID
	// Turns is how often the thread had got a CPU at the time of the sample. If the number is still the same later, the
	// thread has not run since.
	Turns int64
}

// Watch reads the native stacks of threads that stay at one place. It reads each thread only once while the thread
// stays there. Only one goroutine may use it.
type Watch struct {
	reader Reader
	known  map[sampler.ThreadID]stay
	counts sampler.NativeCounts
	// againNS is when stacks may be read again after an error. It is zero if there was no error.
	againNS int64
	// debugFiles is how many debug files had arrived by the last round.
	debugFiles int64
}

// stay is a period during which a thread did not move.
type stay struct {
	Place
	sinceNS int64
	read    bool
}

// Round notes where the wanted threads are now, and reads the native stacks of threads that have been at the same place
// for a while.
func (w *Watch) Round(ctx context.Context, of Subject, places map[sampler.ThreadID]Place, nowNS int64,
	to *sampler.NativeWatch) {
	if nowNS < w.againNS {
		return
	}
	var due []sampler.ThreadID
	more := of.Debug.Came() != w.debugFiles // if new debug files have come, read the stacks again to get more names
	w.debugFiles = of.Debug.Came()
	now := make(map[sampler.ThreadID]stay, len(places))
	for id, place := range places {
		x, ok := w.known[id]
		if !ok || x.Place != place {
			x = stay{Place: place, sinceNS: nowNS}
			to.Keep(id, nil)
		}
		x.read = x.read && !more
		if now[id] = x; !x.read && x.Turns != 0 && x.TID != 0 && nowNS-x.sinceNS >= stayNS {
			due = append(due, id)
		}
	}
	for id := range w.known {
		if _, ok := now[id]; !ok {
			to.Keep(id, nil)
		}
	}
	w.known = now
	if len(due) == 0 {
		return
	}
	// A round reads at most maxRound threads. Begin with the threads that have stayed longest, so that each gets its
	// turn.
	slices.SortFunc(due, func(a, b sampler.ThreadID) int { return cmp.Compare(now[a].sinceNS, now[b].sinceNS) })
	if err := w.reader.Prepare(of); err != nil {
		w.fail(nowNS, to, of.Names.Error(err))
		return
	}
	for _, id := range due[:min(len(due), maxRound)] {
		if ctx.Err() != nil {
			return
		}
		if err := w.read(id, nowNS, to); err != nil {
			w.fail(nowNS, to, of.Names.Error(err))
			return
		}
	}
	to.Count(w.counts, "")
}

// fail reports why no stack can be read, and stops reading for retryNS.
func (w *Watch) fail(nowNS int64, to *sampler.NativeWatch, why string) {
	w.againNS = nowNS + retryNS
	to.Count(w.counts, why)
}

// read reads the native stack of a thread, once for each period in which the thread does not move.
func (w *Watch) read(id sampler.ThreadID, nowNS int64, to *sampler.NativeWatch) error {
	x := w.known[id]
	stack, ok, err := w.reader.Ruby(id, x.TID, x.Turns)
	if err != nil {
		return err
	}
	switch {
	case !ok, stack.Missing == ErrMoves.Error(), stack.Missing == ErrRubyMoved.Error(), stack.Missing == native.ErrUnconfirmed.Error():
		w.counts.Moved++
		return nil // the next round tries again
	case stack.Missing == native.ErrMisfit.Error():
		w.counts.Refused++
	default:
		if w.counts.Read++; stack.Missing != "" {
			w.counts.Cut++
		}
		to.Keep(id, &sampler.NativeStay{NativeStack: stack, Stack: x.Stack, Turns: x.Turns, SinceNS: x.sinceNS, AtNS: nowNS})
	}
	x.read = true
	w.known[id] = x
	return nil
}

// Close closes what a Round has opened.
func (w *Watch) Close() { w.reader.Close() }
