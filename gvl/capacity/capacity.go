package capacity

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// leastRequests is the number of ended requests from which on their mean says something.
	leastRequests = 20
	// maxForeign is the share of a request's time, or of the GVL's, that may belong to what the model does not know.
	maxForeign = .15
	// slowRoute is the share of all time from which on a route with few requests is alone the load.
	slowRoute, fewRequests = .5, .1
	// The curve goes to twice the number of threads, and at least to leastCurve. maxThreads bounds it.
	leastCurve, maxThreads = 8, 64
)

// Of returns the prediction for a measured process. It returns nil unless the process has one pool of threads of a
// known size, and requests or jobs were followed.
func Of(s *report.Stat) *report.StatCapacity {
	threads := poolSize(s)
	lacks := &s.Quality.Lacks
	if threads == 0 || lacks.States != nil || lacks.Requests != nil || s.DurationNS <= 0 || len(s.GVL) != 1 {
		return nil
	}
	sum := sumOf(s)
	work, others := poolTimes(s)
	outside := sum.outside()
	total := work.held + outside + work.waiting
	if sum.ns.Sum() == 0 || work.held == 0 { // the names of its threads are not known
		return nil
	}
	out := &report.StatCapacity{Threads: threads, Requests: sum.ended, Curve: []report.CapacityPoint{},
		BusyMean: gvl.Ratio(total, s.DurationNS), WaitingShare: gvl.Ratio(work.waiting, total)}
	out.HeldShare, out.OutsideShare = gvl.Ratio(work.held, work.held+outside), gvl.Ratio(outside, work.held+outside)
	l := load{held: out.HeldShare, outside: out.OutsideShare, others: gvl.Ratio(others, s.DurationNS)}
	if used := s.GVL[0].HeldShare + gvl.Ratio(s.GVL[0].Waits.HandoverNS, s.DurationNS); used > 0 {
		l.handover = gvl.Ratio(s.GVL[0].Waits.HandoverNS, work.held+outside) / min(used, 1)
	}
	if why := obstacle(s, &sum, l.others); why != "" {
		out.Why = &why
		return out
	}
	busy := min(out.BusyMean, float64(threads))
	l, ok := l.fit(busy, out.WaitingShare)
	if !ok {
		why := "they wait for the GVL longer than its holders explain"
		out.Why = &why
		return out
	}
	out.Variance = l.variance
	curve := l.with(min(max(2*threads, leastCurve), max(maxThreads, threads)))
	out.Load = l.at(busy).throughput / curve[threads].throughput
	for n, p := range curve[1:] {
		gain := p.throughput / curve[threads].throughput
		out.Curve = append(out.Curve, report.CapacityPoint{Threads: n + 1, Throughput: gain, WaitingShare: p.waiting})
	}
	return out
}

// serverThreads are words in the names of threads that serve, by the kind of their pool: "puma srv tp 001" and "puma
// reactor" (Puma 4 to 8, lib/puma/thread_pool.rb and reactor.rb), "processor" (Sidekiq 5 to 8,
// lib/sidekiq/processor.rb). GoodJob 2 to 4 has "GoodJob::Scheduler(queues=* max_threads=5)-thread-1"
// (lib/good_job/scheduler.rb). The pool of Solid Queue has no name, and concurrent-ruby then names threads "worker-1".
// The size of Que's pool is not known.
var serverThreads = map[string]string{sampler.PoolPuma.String(): "puma", sampler.PoolSidekiq.String(): "processor",
	sampler.PoolGoodJob.String(): "GoodJob::Scheduler", sampler.PoolSolidQueue.String(): "worker-"}

// poolTime is the time of a server's threads, in ns.
type poolTime struct{ held, waiting int64 }

// poolTimes returns the time of the server's threads with the GVL and waiting for it, and the time in which all other
// threads had it. It includes the server's own work for a request, before and after the application's.
func poolTimes(s *report.Stat) (pool poolTime, others int64) {
	word := serverThreads[s.Queues.Pools[0].Kind]
	for i := range s.Threads {
		t := &s.Threads[i]
		held := t.NS.Running + t.NS.Stalled + t.NS.GC
		if t.Name == nil || word == "" || !strings.Contains(*t.Name, word) {
			others += held
			continue
		}
		pool.held += held
		pool.waiting += t.NS.Waiting
	}
	return pool, others
}

// poolSize returns the number of threads of the only pool. It is 0 if it is not known.
func poolSize(s *report.Stat) (threads int) {
	if s.Queues == nil {
		return 0
	}
	for _, p := range s.Queues.Pools {
		if threads != 0 || p.Max == nil || *p.Max < 1 || *p.Max > 1<<10 {
			return 0
		}
		threads = int(*p.Max)
	}
	return threads
}

// requests is the time of all requests and jobs of a window.
type requests struct {
	ns    report.StatStates
	ended int
	// slowest is the endpoint with the most time.
	slowest *report.StatEndpoint
}

func sumOf(s *report.Stat) (r requests) {
	ns := r.ns.Array()
	for i := range s.Requests.Endpoints {
		e := &s.Requests.Endpoints[i]
		for state, x := range e.NS.Array() {
			ns[state] += x
		}
		r.ended += e.Ended
		if r.slowest == nil || e.NS.Sum() > r.slowest.NS.Sum() {
			r.slowest = e
		}
	}
	r.ns = report.StatesOf(ns)
	return r
}

// held is the time with the GVL, outside the time without it in which it is not waited for, in ns.
func (r *requests) held() int64    { return r.ns.Running + r.ns.Stalled + r.ns.GC }
func (r *requests) outside() int64 { return r.ns.Native + r.ns.IO + r.ns.Sleeping + r.blocked() }

// blocked is the time in which other threads of the program are waited for, in ns.
func (r *requests) blocked() int64 { return r.ns.Lock + r.ns.Parked }

// obstacle describes an important fact that the model does not know. It is empty if there is none. others is the share
// of the time in which a thread without a request has the GVL.
func obstacle(s *report.Stat, r *requests, others float64) string {
	total := r.ns.Sum()
	short := shortOfCPU(s)
	switch {
	case r.ended < leastRequests:
		return fmt.Sprintf("only %s ended in this time", units.Plural(r.ended, "request", "requests"))
	case r.held() == 0:
		return "no request was seen with the GVL"
	case s.Requests.Fibers != nil && s.Requests.Fibers.Requests > 0:
		return "requests run on fibers, whose number the threads do not limit"
	case gvl.Ratio(r.blocked(), total) > maxForeign:
		return units.Percent(gvl.Ratio(r.blocked(), total)) + " of the requests' time waits for locks and other threads"
	case gvl.Ratio(r.ns.Unknown, total) > maxForeign:
		return units.Percent(gvl.Ratio(r.ns.Unknown, total)) + " of the requests' time is in no known state"
	case short > maxForeign:
		return "the machine is short of CPU: holders of the GVL have none for " + units.Percent(short) + " of their time"
	case s.Process.SwapBytes > 0 && swaps(s):
		return "the process waits for memory that is swapped out"
	case others > maxForeign:
		return "threads without a request have the GVL for " + units.Percent(others) + " of the time"
	}
	return slowAlone(r)
}

// slowAlone says that one route takes most of the time, in few requests.
func slowAlone(r *requests) string {
	e, share := r.slowest, gvl.Ratio(r.slowest.NS.Sum(), r.ns.Sum())
	if share < slowRoute || float64(e.Ended) >= fewRequests*float64(r.ended) {
		return ""
	}
	name := "one route"
	if e.Endpoint != nil {
		name = *e.Endpoint
	}
	return fmt.Sprintf("%s alone takes %s of the time, in %s of %d", name, units.Percent(share),
		units.Plural(e.Ended, "request", "requests"), r.ended)
}

// shortOfCPU returns the least share of the time with the GVL in which the holder had no CPU.
func shortOfCPU(s *report.Stat) float64 {
	var without, held int64
	for i := range s.Threads {
		t := &s.Threads[i]
		without += t.NoCPU.Running + t.NoCPU.GC
		held += t.NS.Running + t.NS.GC
	}
	return gvl.Ratio(without, held)
}

// majorFaultsPerSecond is the rate from which on a process waits for its memory.
const majorFaultsPerSecond = 50

func swaps(s *report.Stat) bool {
	return float64(s.Process.MajorFaults) > majorFaultsPerSecond*float64(s.Process.SpanNS)/1e9
}
