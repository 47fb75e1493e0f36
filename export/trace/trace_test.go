package trace

import (
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/sampler"
)

// traceOf returns the weights and the trace of a stream of samples. It collects them in the same way as ddtop's
// commands.
func traceOf(t testing.TB, p sampler.Process, d *sampler.Dictionary, n int, next func() *sampler.Sample) measured {
	t.Helper()
	r, err := flamegraph.NewRolling(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	trace := New(p, d)
	class, stream := gvl.NewClassifier(p, d), stream.New(p)
	stream.Attach(trace)
	c := flamegraph.NewCollector(stream, nil, r, trace)
	for range n {
		s := next()
		states := class.Classify(s)
		stream.Feed(s, states)
	}
	stream.Finish()
	c.Finish()
	m := measured{new(flamegraph.Snapshot), trace}
	r.Snapshot(m.Weights)
	return m
}

// measured is a Trace and the weights of the same stream.
type measured struct {
	Weights *flamegraph.Snapshot
	*Trace
}

func tracesOf(list []measured) (out []*Trace) {
	for _, m := range list {
		out = append(out, m.Trace)
	}
	return out
}

func shopMeasured(t testing.TB) measured {
	s := exporttest.NewShop()
	m := traceOf(t, s.Proc, s.Dict, 12, s.Stream())
	m.Trace.Notes = []sampler.Note{{AtNS: m.Trace.firstNS + 20e6, Text: "deploy <&>\" rolled back"}, {AtNS: 5, Text: "before all"}}
	return m
}

func randomMeasured(t testing.TB, seed uint64) measured {
	p, d, next := exporttest.Random(seed)
	return traceOf(t, p, d, 800, next)
}

// TestTraceAgreesWithWeights: wall time by thread and state, and CPU time by thread, must equal the times in the pprof
// file, to the nanosecond. A thread's spans must not overlap and must not go back in time.
func TestTraceAgreesWithWeights(t *testing.T) {
	list := []measured{shopMeasured(t)}
	for seed := range uint64(10) {
		list = append(list, randomMeasured(t, seed))
	}
	for i, m := range list {
		type key struct {
			thread sampler.ThreadID
			state  gvl.State
		}
		wall, cpu := map[key]int64{}, map[sampler.ThreadID]int64{}
		for _, e := range m.Weights.Entries {
			if e.Weights.WallNS != 0 {
				wall[key{e.Key.Thread, e.Key.State}] += e.Weights.WallNS
			}
			cpu[e.Key.Thread] += e.Weights.CPUNS
		}
		if len(wall) < 6 {
			t.Errorf("stream %d: only %v occurred: it tests too little", i, wall)
		}
		for _, th := range m.Trace.ordered() {
			last := int64(0)
			for _, s := range th.spans {
				if s.fromNS < last || s.toNS < s.fromNS {
					t.Fatalf("stream %d thread %d: %+v after %d", i, th.id, s, last)
				}
				last = s.toNS
				wall[key{th.id, s.state}] -= s.toNS - s.fromNS
				cpu[th.id] -= s.cpuNS
			}
			for _, e := range th.stateSpans() {
				wall[key{th.id, e.state}] += e.toNS - e.fromNS
			}
			for _, s := range th.spans {
				wall[key{th.id, s.state}] -= s.toNS - s.fromNS
			}
		}
		for k, ns := range wall {
			if ns != 0 {
				t.Errorf("stream %d: %+v differs by %d ns", i, k, ns)
			}
		}
		for id, ns := range cpu {
			if ns != 0 {
				t.Errorf("stream %d: the CPU time of thread %d differs by %d ns", i, id, ns)
			}
		}
	}
}

// TestTraceIsBounded: when the trace has reached its limit, it keeps no further spans. A comment in the trace says from
// which time on spans are missing.
func TestTraceIsBounded(t *testing.T) {
	m := shopMeasured(t)
	trace := New(m.process, m.dict)
	trace.firstNS, trace.entries = 1e9, maxTrace-100
	for i := range int64(105) {
		trace.Interval(&gvl.Interval{Thread: 2, State: gvl.Running, FromNS: 2e9 + i - 1, ToNS: 2e9 + i})
	}
	if len(trace.threads[2].spans) != 100 || trace.CutNS != 2e9+99 {
		t.Errorf("%d spans, cut at %d", len(trace.threads[2].spans), trace.CutNS)
	}
	if c := trace.comments(); len(c) != 1 || c[0] != "all from 1 s after the start on: there was too much to keep" {
		t.Errorf("%q", c)
	}
}
