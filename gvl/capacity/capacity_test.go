package capacity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/report"
)

// server describes a server that the test simulates event by event. Its threads take one GVL in the order of arrival,
// and keep it for at most a time slice. All other time of a request is outside the GVL.
type server struct {
	threads int
	// hold returns a random length of one hold of the GVL. outside returns a random length of one period without the
	// GVL. Both are in ms. The field parts is the number of holds, and also of periods without the GVL, in a request.
	hold, outside func(*rand.Rand) float64
	parts         int
	// handover is the time after a hold in which no thread holds the GVL although a thread waits for it, in ms.
	handover float64
}

// outcome is what the simulation of a server measured. Times are in ms.
type outcome struct {
	requests                     int
	length, held, outside, waits float64
	unheld                       float64 // the time in which threads waited and no thread held the GVL
}

const sliceMS = 100

func (s server) run(seed uint64, requests int) (o outcome) {
	r := rand.New(rand.NewPCG(seed, 7))
	type thread struct {
		ready, left float64 // ready is when the thread wants the GVL, and left is the remaining length of its hold
		part        int
	}
	threads := make([]thread, s.threads)
	for i := range threads {
		threads[i] = thread{ready: s.outside(r), left: s.hold(r)}
	}
	var free float64 // the time from which on the GVL is free
	for o.requests < requests {
		next := 0
		for i := range threads {
			if threads[i].ready < threads[next].ready {
				next = i
			}
		}
		t := &threads[next]
		from := max(free, t.ready)
		if t.ready < free {
			from += s.handover
			o.unheld += s.handover
		}
		turn := min(t.left, sliceMS)
		o.waits += from - t.ready
		o.held += turn
		free = from + turn
		t.ready, t.left = free, t.left-turn
		if t.left > 0 {
			continue
		}
		if t.part++; t.part == s.parts {
			t.part = 0
			o.requests++
		}
		away := s.outside(r)
		o.outside += away
		t.ready, t.left = free+away, s.hold(r)
	}
	o.length = free
	return o
}

// stat returns the report that ddtop would make if it had measured this outcome.
func (o outcome) stat(threads int64) *report.Stat {
	ns := func(ms float64) int64 { return int64(ms * 1e6) }
	var states [gvl.NumStates]int64
	states[gvl.Running], states[gvl.IO], states[gvl.Waiting] = ns(o.held), ns(o.outside), ns(o.waits)
	name := "puma srv tp 001"
	return &report.Stat{
		Threads:    []report.StatThread{{Name: &name, NS: report.StatesOf(states)}},
		DurationNS: ns(o.length),
		GVL:        []report.StatGVL{{HeldShare: o.held / o.length, UnheldNS: ns(o.unheld)}},
		Queues:     &report.StatQueues{Pools: []report.StatPool{{Kind: "puma", Max: &threads}}},
		Requests:   report.StatRequests{Endpoints: []report.StatEndpoint{{Ended: o.requests, NS: report.StatesOf(states)}}},
	}
}

func always(ms float64) func(*rand.Rand) float64 { return func(*rand.Rand) float64 { return ms } }
func exponential(ms float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return ms * r.ExpFloat64() }
}
func uniform(ms float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return 2 * ms * r.Float64() }
}

// mixed returns random lengths: nine in ten are short, and one in ten is long.
func mixed(ms float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 {
		if r.IntN(10) == 0 {
			return 5.5 * ms * r.ExpFloat64()
		}
		return .5 * ms * r.ExpFloat64()
	}
}

// TestPredictionsOfSimulatedServers: from a measurement with one number of threads, ddtop predicts the throughput with
// other numbers, with an error of at most a tenth. The test uses a simulation, because it can then test many lengths of
// holds, and no other process on the machine disturbs it.
func TestPredictionsOfSimulatedServers(t *testing.T) {
	t.Parallel()
	const requests = 8_000
	lengths := map[string]func(float64) func(*rand.Rand) float64{
		"equal": always, "uniform": uniform, "exponential": exponential, "mixed": mixed,
	}
	for name, draw := range lengths {
		for _, held := range []float64{.9, .5, .3, .1, .03} {
			for i, measured := range []int{3, 8, 5} {
				s := server{threads: measured, hold: draw(10 * held), outside: exponential(10 * (1 - held)), parts: 3}
				if i == 2 {
					s.handover = 6 * held // more than half of a hold
				}
				o := s.run(1, requests)
				c := Of(o.stat(int64(measured)))
				label := fmt.Sprintf("%s, %.2f with the GVL, %d threads", name, held, measured)
				if c == nil || c.Why != nil {
					t.Errorf("%s: no prediction: %+v", label, c)
					continue
				}
				for _, n := range []int{1, 3, 5, 8, 16} {
					p, ok := c.At(n)
					if !ok {
						continue
					}
					s.threads = n
					other := s.run(2, requests)
					truth := o.length / other.length
					if math.Abs(p.Throughput/truth-1) > .1 {
						t.Errorf("%s: throughput of %d: predicted %.3f, simulated %.3f (variance %.2f)", label, n, p.Throughput,
							truth, c.Variance)
					}
					lost := other.waits / (other.waits + other.held + other.outside)
					if math.Abs(p.WaitingShare-lost) > .1 {
						t.Errorf("%s: lost with %d: predicted %.3f, simulated %.3f", label, n, p.WaitingShare, lost)
					}
				}
			}
		}
	}
}

// TestRefusesToPredict: if the model does not fit a case, there is no prediction, and the field Why has the reason.
func TestRefusesToPredict(t *testing.T) {
	t.Parallel()
	good := func() *report.Stat {
		return server{threads: 5, hold: exponential(3), outside: exponential(7), parts: 1}.run(1, 1000).stat(5)
	}
	if c := Of(good()); c == nil || c.Why != nil || len(c.Curve) != 16 || c.Curve[4].Throughput != 1 {
		t.Fatalf("the healthy one: %+v", c)
	}
	worker, processor := good(), "processor 1"
	pool := &worker.Queues.Pools[0]
	pool.Kind, pool.Threads, pool.Max = "sidekiq", pool.Max, nil
	worker.Threads[0].Name = &processor
	if c := Of(worker); c == nil || c.Why != nil || c.Threads != 5 || c.Work != "job" || len(c.Curve) != 16 {
		t.Errorf("Sidekiq, whose pool has no bound but its threads: %+v", c)
	}
	for want, spoil := range map[string]func(s *report.Stat){
		"only 3 requests ended": func(s *report.Stat) { s.Requests.Endpoints[0].Ended = 3 },
		"waits for locks":       func(s *report.Stat) { s.Requests.Endpoints[0].NS.Lock = s.Requests.Endpoints[0].NS.IO },
		"no known state":        func(s *report.Stat) { s.Requests.Endpoints[0].NS.Unknown = s.Requests.Endpoints[0].NS.IO },
		"with the GVL":          func(s *report.Stat) { s.Requests.Endpoints[0].NS.Running = 0 },
		"on fibers":             func(s *report.Stat) { s.Requests.Fibers = &report.StatFibers{Requests: 9} },
		"threads without a request have the GVL for": func(s *report.Stat) {
			s.Threads = append(s.Threads, report.StatThread{NS: report.StatStates{Running: s.DurationNS / 2}})
		},
		"longer than its holders explain": func(s *report.Stat) { s.Threads[0].NS.Running /= 30 },
		"short of CPU": func(s *report.Stat) {
			s.Threads[0].NoCPU.Running = s.Threads[0].NS.Running / 3
		},
		"swapped out": func(s *report.Stat) {
			s.Process.SwapBytes, s.Process.SpanNS, s.Process.CPUNS, s.Process.MajorFaults = 1, 1e9, 1e9, 1000
		},
		"GET /slow alone takes": func(s *report.Stat) {
			slow := s.Requests.Endpoints[0]
			name := "GET /slow"
			slow.Endpoint, slow.Ended = &name, 2
			slow.NS.IO *= 5
			s.Requests.Endpoints = append(s.Requests.Endpoints, slow)
		},
	} {
		s := good()
		spoil(s)
		if c := Of(s); c == nil || c.Why == nil || !strings.Contains(*c.Why, want) || len(c.Curve) != 0 {
			t.Errorf("%s: %+v", want, c)
		}
	}
	for name, spoil := range map[string]func(s *report.Stat){
		"two pools":     func(s *report.Stat) { s.Queues.Pools = append(s.Queues.Pools, s.Queues.Pools[0]) },
		"size unknown":  func(s *report.Stat) { s.Queues.Pools[0].Max = nil },
		"no names":      func(s *report.Stat) { s.Threads[0].Name = nil; s.Requests.Endpoints[0].NS.IO = 0 },
		"no pool":       func(s *report.Stat) { s.Queues = nil },
		"no requests":   func(s *report.Stat) { s.Requests.Endpoints = nil },
		"states lack":   func(s *report.Stat) { why := "no"; s.Quality.Lacks.States = &why },
		"several locks": func(s *report.Stat) { s.GVL = append(s.GVL, report.StatGVL{}) },
	} {
		s := good()
		spoil(s)
		if c := Of(s); c != nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestPartsOfRequestsNotSeen: if ddtop saw only some of the requests, the time of all requests is computed from the
// threads of the pool. Time in which requests wait for locks or a CPU is not part of the time outside the GVL.
func TestPartsOfRequestsNotSeen(t *testing.T) {
	t.Parallel()
	const ms = 1e6
	delay := int64(700 * ms)
	name, reactor := "puma srv tp 001", "puma reactor"
	threads := int64(5)
	s := report.Stat{
		DurationNS: 1000 * ms,
		GVL:        []report.StatGVL{{HeldShare: .5, UnheldNS: 100 * ms}},
		Queues:     &report.StatQueues{Pools: []report.StatPool{{Kind: "puma", Max: &threads}}},
		Threads: []report.StatThread{
			{Name: &name, RunDelayNS: &delay, NS: report.StatStates{
				Running: 500 * ms, Waiting: 400 * ms, Native: 800 * ms, IO: 1600 * ms, Lock: 200 * ms,
				Parked: 1500 * ms,
			}},
			{Name: &reactor, NS: report.StatStates{IO: 1000 * ms}},
		},
		Requests: report.StatRequests{Endpoints: []report.StatEndpoint{{Ended: 100, NS: report.StatStates{
			Running: 250 * ms, Waiting: 200 * ms, Native: 400 * ms, IO: 800 * ms, Lock: 100 * ms,
		}}}},
	}
	c := Of(&s)
	if c == nil || c.Why != nil {
		t.Fatalf("no prediction: %+v", c)
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	// The threads held the GVL for 500 ms, waited for it for 400 ms, did I/O for 1600 ms, and were native for 800 ms.
	// They had no CPU for 700 ms. For 100 ms of these 700 ms, no thread held the GVL. So 600 ms of the native time were
	// without a CPU.
	near("busy", c.BusyMean, 3.5)
	near("with the GVL", c.HeldShare, .5/(.5+1.6+.2))
	near("waiting", c.WaitingShare, .4/3.5)

	s.Requests.Endpoints[0].NS.Running = 100 * ms
	if c := Of(&s); c == nil || c.Why == nil || !strings.Contains(*c.Why, "only 20 % of the requests' time") {
		t.Errorf("a fifth was seen: %+v", c)
	}
	s.Requests.Endpoints[0].NS.Running = 250 * ms
	s.Process.SpanNS, s.Process.CPUNS = 500*ms, 150*ms // this is 300 ms of CPU time in the window of 1 s
	if c := Of(&s); c == nil || c.Why == nil || !strings.Contains(*c.Why, "holders of the GVL have none for 40 %") {
		t.Errorf("a process with less CPU time than the GVL was held: %+v", c)
	}
	one := int64(1)
	s.Process.SpanNS, s.Queues.Pools[0].Max = 0, &one
	s.Threads, s.Requests.Endpoints[0].NS = s.Threads[:1], report.StatStates{Running: 500 * ms}
	if c := Of(&s); c == nil || c.Why == nil || !strings.Contains(*c.Why, "one thread does not show") {
		t.Errorf("one thread: %+v", c)
	}
}
