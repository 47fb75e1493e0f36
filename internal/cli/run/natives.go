package run

import (
	"context"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// nativeThreads separates the native threads that Ruby does not know from the others. It reads them before and after a
// measurement, because samples do not contain them.
type nativeThreads struct {
	src    *live.Source
	before map[int32]int64 // CPU time in ns
}

// WatchNative notes the CPU time of a process's native threads. If the source is not a live process, it notes nothing.
func WatchNative(src sampler.Source) nativeThreads {
	s, ok := src.(*live.Source)
	if !ok {
		return nativeThreads{}
	}
	n := nativeThreads{src: s, before: make(map[int32]int64)}
	list, err := s.NativeThreads()
	if err != nil {
		return nativeThreads{} // the figures of Ruby's threads do not need them
	}
	for _, t := range list {
		n.before[t.TID] = t.CPUNS
	}
	return n
}

// Others returns the threads that Ruby does not know, with their CPU time since WatchNative. known are the tids of
// Ruby's threads in the measurement. A Ruby thread may have been started since its last sample. So Others takes one
// more sample after it has listed the threads.
func (n *nativeThreads) Others(ctx context.Context, known map[int32]bool) []report.StatNative {
	if n.src == nil {
		return nil
	}
	list, err := n.src.NativeThreads()
	if err != nil {
		return nil // the process has ended
	}
	ctx, cancel := Afterwards(ctx)
	defer cancel()
	s, err := n.src.Once(ctx)
	if err != nil {
		return nil
	}
	out := UnknownOf(list, s, known, n.before)
	for i := range out {
		runs := n.src.Running.Alone(out[i].TID)
		out[i].Taken = runs.Taken
		for _, r := range runs.Stacks[:min(len(runs.Stacks), maxAlone)] {
			out[i].Ran = append(out[i].Ran, report.StatAlone{Chain: gvl.NativePlace(&r.NativeStack),
				Frames: report.NewNativeFrames(r.Frames), Taken: r.Taken})
		}
	}
	return out
}

// maxAlone limits the C stacks that a Stat lists for each running thread that Ruby does not know.
const maxAlone = 10

// UnknownOf returns the threads of list that Ruby does not know: neither in known nor in s, a sample taken after list.
// The map before has the CPU time of each thread at the beginning of the measurement, in ns.
func UnknownOf(list []live.NativeThread, s *sampler.Sample, known map[int32]bool, before map[int32]int64) []report.StatNative {
	ruby := make(map[int32]bool, len(s.Threads))
	for i := range s.Threads {
		ruby[s.Threads[i].TID] = true
	}
	var out []report.StatNative
	for _, t := range list {
		if !ruby[t.TID] && !known[t.TID] {
			out = append(out, report.StatNative{TID: t.TID, Name: flamegraph.Printable(t.Name), CPUNS: t.CPUNS - before[t.TID]})
		}
	}
	return out
}

// NativeSource is a process or a core file.
type NativeSource interface {
	Dictionary() *sampler.Dictionary
	Once(context.Context) (*sampler.Sample, error)
	NativeThreads() ([]live.NativeThread, error)
	NativeStacks(context.Context, *sampler.Sample, []int32) (live.NativeStacks, error)
}

// RubyTIDs returns the tids of a Stat's threads.
func RubyTIDs(s *report.Stat) map[int32]bool {
	known := make(map[int32]bool, len(s.Threads))
	for i := range s.Threads {
		if tid := s.Threads[i].TID; tid != nil {
			known[*tid] = true
		}
	}
	return known
}
