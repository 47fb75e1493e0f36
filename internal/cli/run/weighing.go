package run

import (
	"context"
	"time"

	"github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/export/trace"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

type weighing struct {
	src       sampler.Source
	rolling   *flamegraph.Rolling
	stream    *stream.Stream
	collector *flamegraph.Collector
	trace     *trace.Trace
	stamps    *profile.Timeline
}

// Needs selects the data that an output format needs in addition to the sums by thread, stack and state.
type Needs struct {
	// Trace selects events in the order of time. Spans selects the spans of a distributed tracer. Stamps selects the
	// times at which weights were added to the sums.
	Trace, Spans, Stamps bool
	// Rest is true if the states must distinguish a thread that works from a thread that waits for work
	// (findings.Resting).
	Rest bool
}

// newWeighing returns a weighing that collects the data for a format.
func newWeighing(src sampler.Source, of Needs) (*weighing, error) {
	rolling, err := flamegraph.NewRolling(0, 0)
	if err != nil {
		return nil, err
	}
	rolling.DivideBy(src.Dictionary())
	w := &weighing{src: src, rolling: rolling, stream: stream.New(src.Process())}
	sinks := []flamegraph.Sink{rolling}
	if of.Trace {
		w.trace = trace.New(src.Process(), src.Dictionary())
		w.stream.Attach(w.trace)
		sinks = append(sinks, w.trace)
	}
	if of.Stamps {
		w.stamps = profile.NewTimeline()
		sinks = append(sinks, w.stamps)
	}
	var stateOf func(gvl.State, *gvl.Detail, sampler.StackID, sampler.WorkID) gvl.State
	resting := findings.NewResting(src.Dictionary())
	if of.Rest {
		stateOf = resting.State
	}
	w.collector = flamegraph.NewCollector(w.stream, stateOf, sinks...)
	switch {
	case of.Spans:
		w.collector.BySpan(src.Dictionary(), rolling.Crowded)
		w.collector.ByGC()
		w.collector.ByRest(resting.Rests)
	case !of.Trace:
		w.collector.ByEndpoint(src.Dictionary())
	}
	return w, nil
}

func (w *weighing) feed(s *sampler.Sample, states []gvl.ThreadState) { w.stream.Feed(s, states) }

func (w *weighing) finish() profile.Measured {
	w.stream.Finish()
	w.collector.Finish()
	weights := new(flamegraph.Snapshot)
	w.rolling.Snapshot(weights)
	return profile.Measured{Process: w.src.Process(), Dict: w.src.Dictionary(), Weights: weights, Served: w.collector.Served(), Trace: w.trace, Timeline: w.stamps}
}

// MeasureProfile sums up time and other weights by thread, stack and state. It also collects the other data that n
// selects.
func MeasureProfile(ctx context.Context, src sampler.Source, length time.Duration, n Needs) (profile.Measured, string, error) {
	w, err := newWeighing(src, n)
	if err != nil {
		return profile.Measured{}, "", err
	}
	class := gvl.NewClassifier(src.Process(), src.Dictionary())
	note, err := SampleFor(ctx, src, length, func(s *sampler.Sample) { w.feed(s, class.Classify(s)) })
	if err != nil {
		return profile.Measured{}, "", err
	}
	return w.finish(), note, nil
}
