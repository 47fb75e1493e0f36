package run

import (
	"context"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// nativeThreads finds native threads that Ruby does not know because C code started them. Samples have only Ruby's
// threads. So nativeThreads lists all native threads of the process, before and after a measurement.
type nativeThreads struct {
	src    *live.Source
	before map[int32]int64 // CPU time in ns
}

// WatchNative reads the CPU times of a process's native threads at the start of a measurement. Others later subtracts
// them. If the source is not a live process, WatchNative reads nothing.
func WatchNative(src sampler.Source) nativeThreads {
	s, ok := src.(*live.Source)
	if !ok {
		return nativeThreads{}
	}
	n := nativeThreads{src: s, before: make(map[int32]int64)}
	list, err := s.NativeThreads()
	if err != nil {
		return nativeThreads{} // not an error of the measurement: the figures of Ruby's threads do not need this list
	}
	for _, t := range list {
		n.before[t.TID] = t.CPUNS
	}
	return n
}

// Others returns the threads that Ruby does not know, with their CPU time since WatchNative. The parameter known has
// the tids of Ruby's threads in the measurement. Ruby may have started a thread after the last sample, so Others takes
// one more sample after it has listed the threads.
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

// maxAlone limits how many C stacks a Stat lists for each running thread that Ruby does not know.
const maxAlone = 10

// UnknownOf returns the threads of list that Ruby does not know. They are neither in known nor in s, which is a sample
// taken after list was made. The map before has each thread's CPU time at the beginning of the measurement, in ns.
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

// NativeSource is a process or a core file from which native stacks can be read.
type NativeSource interface {
	Dictionary() *sampler.Dictionary
	Once(context.Context) (*sampler.Sample, error)
	NativeThreads() ([]live.NativeThread, error)
	NativeStacks(context.Context, *sampler.Sample, []int32) (live.NativeStacks, error)
}

// RubyTIDs returns the native thread ids of the Ruby threads in a Stat.
func RubyTIDs(s *report.Stat) map[int32]bool {
	known := make(map[int32]bool, len(s.Threads))
	for i := range s.Threads {
		if tid := s.Threads[i].TID; tid != nil {
			known[*tid] = true
		}
	}
	return known
}
