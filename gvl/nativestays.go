package gvl

import (
	"maps"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// nativeAskNS is the interval at which ddtop requests the native stacks of blocked threads, in ns.
const nativeAskNS = 250_000_000

// InNative reports whether C functions on a thread's stack can explain the state. They can in a state in which the
// thread waits or works in C code.
func (s State) InNative() bool {
	switch s {
	case IO, Lock, Native, Stalled:
		return true
	}
	return false
}

// NativeStay is a period in which a thread stays at one place in C code.
type NativeStay struct {
	// Stack is the thread's Ruby stack. Native is the stack of the same moment with the C functions included.
	Stack, Native sampler.StackID
	// FromNS is the time of the first sample with these stacks. The thread's counters show that the thread did not get
	// a CPU between FromNS and ToNS, so it stayed in place.
	FromNS, ToNS int64

	turns int64
	round uint64
}

// NativeStays follows threads that stay at one place in C code, and requests the C functions of blocked threads. The
// zero value is ready for use.
type NativeStays struct {
	at    map[sampler.ThreadID]*NativeStay
	askNS int64
	round uint64
}

// Of returns the period in which the thread has stayed at its present place in C code, or nil if there is none.
func (n *NativeStays) Of(id sampler.ThreadID) *NativeStay {
	if len(n.at) == 0 {
		return nil
	}
	return n.at[id]
}

// Feed adds a sample, and calls the function ended with each stay that has ended. The function may be nil.
func (n *NativeStays) Feed(t *Tick, ended func(sampler.ThreadID, *NativeStay)) {
	n.round++
	ask := t.Native != nil && t.ToNS-n.askNS >= nativeAskNS
	if ask {
		n.askNS = t.ToNS
	}
	found, had := 0, len(n.at)
	for i := range t.Threads {
		th := &t.Threads[i]
		if ask && t.States[i].State.InNative() {
			t.Native.Want(th.ID, t.ToNS)
		}
		if th.Native == 0 && had == 0 {
			continue
		}
		x := n.at[th.ID]
		if x != nil && x.Native == th.Native && x.Stack == th.Stack && x.turns == th.Kernel.Turns {
			x.ToNS, x.round = max(x.ToNS, min(th.Kernel.CPUAtNS, MaxTimeNS)), n.round
			found++
			continue
		}
		if x != nil {
			n.end(th.ID, x, ended)
			found++
		}
		if th.Native != 0 {
			if n.at == nil {
				n.at = make(map[sampler.ThreadID]*NativeStay)
			}
			n.at[th.ID] = &NativeStay{Stack: th.Stack, Native: th.Native, FromNS: t.ToNS,
				ToNS: min(th.Kernel.CPUAtNS, MaxTimeNS), turns: th.Kernel.Turns, round: n.round}
		}
	}
	if found >= had {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(n.at)) {
		if x := n.at[id]; x.round != n.round { // the thread has ended
			n.end(id, x, ended)
		}
	}
}

// Finish ends all stays after the last sample.
func (n *NativeStays) Finish(ended func(sampler.ThreadID, *NativeStay)) {
	for _, id := range slices.Sorted(maps.Keys(n.at)) {
		n.end(id, n.at[id], ended)
	}
}

func (n *NativeStays) end(id sampler.ThreadID, x *NativeStay, ended func(sampler.ThreadID, *NativeStay)) {
	delete(n.at, id)
	if ended != nil {
		ended(id, x)
	}
}
