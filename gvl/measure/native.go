package measure

import (
	"cmp"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// nativeNS is the interval at which ddtop requests the native stacks of blocked threads, in ns.
	nativeNS = 250_000_000
	// maxNativeWaits limits how many waits of threads are remembered. maxNativePlaces limits the places that a Stat
	// lists.
	maxNativeWaits, maxNativePlaces = 4096, 100
)

// nativeWaits collects where in C code blocked threads wait.
type nativeWaits struct {
	on             bool
	firstNS, askNS int64
	stays          map[stayOf]*nativeWait
	watch          *sampler.NativeWatch
}

type stayOf struct {
	thread sampler.ThreadID
	turns  int64
}

type nativeWait struct {
	place, chain string
	// sinceNS and toNS are the first and the last time at which the thread was known to wait at this place. ns is the
	// part of this time after the Measure began.
	sinceNS, ns, toNS int64
	// native is the native stack from which chain and frames were made. If a later sample finds a stack with more
	// names, chain and frames are made again.
	native sampler.StackID
	frames []sampler.NativeFrame
}

// WatchNative makes the Measure collect the C functions in which blocked threads wait, for Stat.
func (m *Measure) WatchNative() {
	m.native = nativeWaits{on: true, stays: make(map[stayOf]*nativeWait)}
}

func (w *nativeWaits) feed(s *sampler.Sample, states []gvl.ThreadState, dict *sampler.Dictionary) {
	if !w.on || s.TimeNS-w.askNS < nativeNS {
		return
	}
	w.watch, w.askNS = s.Native, s.TimeNS
	w.firstNS = cmp.Or(w.firstNS, s.TimeNS)
	for i := range states {
		if !states[i].State.InNative() {
			continue
		}
		th := &s.Threads[i]
		s.Native.Want(th.ID, s.TimeNS)
		if th.Native == 0 {
			continue
		}
		key := stayOf{th.ID, th.Kernel.Turns}
		x := w.stays[key]
		if x == nil {
			if len(w.stays) >= maxNativeWaits || dict.NativeStack(th).Empty() {
				continue
			}
			x = &nativeWait{sinceNS: s.TimeNS}
			if stay, ok := s.Native.Of(th); ok {
				x.sinceNS = stay.SinceNS
			}
			if ids := dict.Frames(th.Stack, nil); len(ids) > 0 {
				f := dict.Frame(ids[0])
				if x.place = f.Label; f.C {
					x.place += " [C]"
				}
			}
			w.stays[key] = x
		}
		if x.native != th.Native {
			stack := dict.NativeStack(th)
			x.native, x.frames, x.chain = th.Native, stack.Frames, gvl.NativePlace(&stack)
		}
		x.ns, x.toNS = s.TimeNS-max(x.sinceNS, w.firstNS), s.TimeNS
	}
}

// explain adds to each active finding the C functions in which the finding's first thread waits.
func (w *nativeWaits) explain(list []report.StatFinding) {
	at := make(map[sampler.ThreadID]string)
	for key, x := range w.stays {
		if x.toNS == w.askNS {
			at[key.thread] = x.chain
		}
	}
	for i := range list {
		if f := &list[i]; f.UntilNS == nil && len(f.Threads) > 0 {
			f.Evidence.Native = report.TextOrNil(at[f.Threads[0]])
		}
	}
}

// stat returns the places where threads waited in C code, and how often native stacks were read. The place with the
// most time comes first.
func (w *nativeWaits) stat() ([]report.StatNativeWait, *report.StatNativeReads) {
	out := []report.StatNativeWait{}
	type place struct{ ruby, chain string }
	at := make(map[place]int)
	threads := make(map[place]map[sampler.ThreadID]bool)
	for _, key := range sortedStays(w.stays) {
		x := w.stays[key]
		p := place{x.place, x.chain}
		i, ok := at[p]
		if !ok {
			i = len(out)
			at[p], threads[p] = i, make(map[sampler.ThreadID]bool)
			out = append(out, report.StatNativeWait{Place: report.TextOrNil(x.place), Chain: x.chain,
				Frames: report.NewNativeFrames(x.frames)})
		}
		threads[p][key.thread] = true
		out[i].NS, out[i].Stays, out[i].Threads = out[i].NS+x.ns, out[i].Stays+1, len(threads[p])
	}
	sorting.StableBy(out, func(a, b report.StatNativeWait) int { return cmp.Compare(b.NS, a.NS) })
	if w.watch == nil { // a recording has no counts of reads
		return out[:min(len(out), maxNativePlaces)], nil
	}
	counts, failed := w.watch.Counts()
	reads := &report.StatNativeReads{Read: counts.Read, Cut: counts.Cut, Moved: counts.Moved, Refused: counts.Refused,
		Missing: report.TextOrNil(failed)}
	if r, failed := w.watch.Running(); r != (sampler.RunningCounts{}) || failed != "" {
		reads.Running = &report.StatRunningReads{Read: r.Read, Refused: r.Refused, Short: r.Short, Lost: r.Lost,
			BusyNS: r.BusyNS, Missing: report.TextOrNil(failed)}
	}
	return out[:min(len(out), maxNativePlaces)], reads
}

func sortedStays(stays map[stayOf]*nativeWait) []stayOf {
	keys := make([]stayOf, 0, len(stays))
	for key := range stays {
		keys = append(keys, key)
	}
	sorting.By(keys, func(a, b stayOf) int {
		return cmp.Or(cmp.Compare(a.thread, b.thread), cmp.Compare(a.turns, b.turns))
	})
	return keys
}
