package export

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/streamtest"
	"github.com/ddtop/ddtop/sampler"
)

// traceOf makes all that exports need of a stream, as the commands do.
func traceOf(t testing.TB, p sampler.Process, d *sampler.Dictionary, n int, next func() *sampler.Sample) Measured {
	t.Helper()
	r, err := flamegraph.NewRolling(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	trace := NewTrace(d)
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
	m := Measured{Process: p, Dict: d, Weights: new(flamegraph.Snapshot), Trace: trace}
	r.Snapshot(m.Weights)
	return m
}

// shopStream is 60 ms of the shop in ticks of 5 ms, each second one with stacks: reports builds, http-1 reads from the
// database and then waits for the GVL, a collection runs, and thread 7, whose native thread had been thread 6's, begins late.
func shopStream(s shop) func() *sampler.Sample {
	x := s.sample.Clone()
	x.TimeNS -= 60e6
	x.GC = sampler.GC{Valid: true, Count: 7, Allocated: 1000}
	x.Ractors = []sampler.Ractor{{ID: 1, OwnerStart: 2, OwnerEnd: 2}}
	all := x.Threads
	for i := range all {
		t := &all[i]
		t.Bits, t.Status, t.Blocked, t.Kernel = sampler.BitBlockingRegion, sampler.StoppedForever, sampler.Blocked{FD: -1}, sampler.Kernel{FD: -1}
	}
	all[0].Blocked = sampler.Blocked{Kind: sampler.BlockJoin, Holder: 2, FD: -1}
	all[1].Bits, all[1].Status, all[1].Kernel.CPUAtNS = sampler.BitLinked, sampler.Runnable, x.TimeNS
	all[3].Kernel = sampler.Kernel{FD: 14, Syscall: sampler.SyscallNone}
	all[4].Blocked = sampler.Blocked{Kind: sampler.BlockMutex, Object: 0x7f2c000010a8, Holder: 6, FD: -1}
	tick := 0
	return func() *sampler.Sample {
		x.TimeNS += 5e6
		x.Depth = sampler.Depth(tick % 2)
		x.Threads = all[:6+min(tick/4, 1)]
		http := &all[2]
		if tick < 5 {
			http.Blocked = sampler.Blocked{Kind: sampler.BlockIO, FD: 14}
			http.Kernel = sampler.Kernel{FD: 14, Syscall: "read", Peer: s.states[3].Detail.Peer, StateAtNS: x.TimeNS}
			x.Ractors[0].Queue, x.Ractors[0].Waiting = nil, 0
		} else {
			http.Blocked, http.Status, http.Bits = sampler.Blocked{FD: -1}, sampler.Runnable, sampler.BitQueued
			x.Ractors[0].Queue, x.Ractors[0].Waiting = []sampler.ThreadID{3}, 1
		}
		if x.GC.During = tick == 8 || tick == 9; tick == 8 {
			x.GC.Count, x.GC.Reason, x.GC.Mode, x.GC.Minor = 8, sampler.GCByMalloc, sampler.GCMarking, true
		}
		x.GC.Allocated += 500
		k := &all[1].Kernel
		k.CPUAtNS, k.CPUNS = x.TimeNS, k.CPUNS+4_900_001
		x.Proc = sampler.Proc{AtNS: x.TimeNS, UserNS: k.CPUNS, RSSBytes: 50e6 + int64(tick)*1e6}
		tick++
		return x
	}
}

func shopMeasured(t testing.TB) Measured {
	s := newShop()
	m := traceOf(t, s.proc, s.dict, 12, shopStream(s))
	m.Trace.Notes = []sampler.Note{{AtNS: m.Trace.firstNS + 20e6, Text: "deploy <&>\" rolled back"}, {AtNS: 5, Text: "before all"}}
	return m
}

// randomMeasured is a stream of threads that do anything.
func randomMeasured(t testing.TB, seed uint64) Measured {
	rnd := rand.New(rand.NewPCG(seed, 12))
	p := streamtest.Process(1000, 100)
	p.PID, p.Title, p.AttachedAt, p.AttachedNS = 77, "random", time.Unix(1_700_000_000, 0).UTC(), 5e9
	d := sampler.NewDictionary()
	for i := range 6 {
		d.SetThread(sampler.ThreadInfo{ID: sampler.ThreadID(i + 1), TID: int32(100 + i/2), Ractor: 1, Main: i == 2})
	}
	stream := streamtest.New(seed, d)
	stream.Damaged = seed%2 == 1
	stream.Fixed = true
	return traceOf(t, p, d, 800, func() *sampler.Sample {
		s := stream.Next()
		for i := range s.Threads {
			if k := &s.Threads[i].Kernel; rnd.IntN(4) == 0 {
				k.CPUAtNS, k.CPUNS = s.TimeNS, k.CPUNS+rnd.Int64N(1e6)
			}
		}
		return s
	})
}

// TestTraceAgreesWithWeights: wall time by thread and state and CPU time by thread are those of pprof, to the ns, and a
// thread's spans neither overlap nor go back.
func TestTraceAgreesWithWeights(t *testing.T) {
	list := []Measured{shopMeasured(t)}
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

// TestTraceIsBounded: past the limit nothing is kept, and the files say from when on.
func TestTraceIsBounded(t *testing.T) {
	m := shopMeasured(t)
	trace := NewTrace(m.Dict)
	trace.firstNS, trace.entries = 1e9, maxTrace-100
	for i := range int64(105) {
		trace.Interval(&gvl.Interval{Thread: 2, State: gvl.Running, FromNS: 2e9 + i - 1, ToNS: 2e9 + i})
	}
	if len(trace.threads[2].spans) != 100 || trace.CutNS != 2e9+99 {
		t.Errorf("%d spans, cut at %d", len(trace.threads[2].spans), trace.CutNS)
	}
	if c := traceComments(Measured{Trace: trace}); len(c) != 1 || c[0] != "all from 1 s after the start on: there was too much to keep" {
		t.Errorf("%q", c)
	}
	m.Trace = nil
	for _, write := range []func() error{
		func() error { return WriteFirefox(new(bytes.Buffer), []Measured{m}) },
		func() error { return WriteChrome(new(bytes.Buffer), []Measured{m}) },
	} {
		if err := write(); !errors.Is(err, errNoTrace) {
			t.Errorf("without a trace: %v", err)
		}
	}
}
