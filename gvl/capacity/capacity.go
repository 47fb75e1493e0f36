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
	// leastRequests is the number of ended requests that a prediction needs. The mean of fewer requests is not
	// reliable.
	leastRequests = 20
	// leastSeen is a share of the time in which the pool's threads held the GVL. If requests that ddtop saw have less
	// than this share, ddtop has missed too many requests, and there is no prediction.
	leastSeen = .25
	// oneThreadHeld is for pools of one thread. If the requests hold the GVL for a larger share of their time, there is
	// no prediction. With more threads, such requests would soon wait for each other. The cost of handing over the GVL
	// would then matter, and this cost cannot be measured with one thread.
	oneThreadHeld = .3
	// maxForeign is a limit for effects that the model does not include, such as waits for locks. If one of them takes
	// a larger share of the requests' time, or of the time with the GVL, there is no prediction.
	maxForeign = .15
	// slowRoute and fewRequests are shares. There is no prediction if one route takes at least slowRoute of all
	// requests' time, but has less than fewRequests of their number.
	slowRoute, fewRequests = .5, .1
	// leastCurve, saturatedCurve and maxThreads limit the predicted curve, in threads. The curve ends at twice the
	// present number of threads, but not below leastCurve and not above maxThreads. If the share of the time in which
	// the GVL is in use is larger than saturated, more threads change little. To show this, the curve then ends at
	// saturatedCurve or later.
	leastCurve, saturatedCurve, maxThreads = 8, 16, 64
	saturated                              = .8
)

// Of returns the prediction for a measured process. It returns nil unless the process has exactly one pool of threads,
// whose size is known, and requests or jobs were followed.
func Of(s *report.Stat) *report.StatCapacity {
	threads := poolSize(s)
	if threads == 0 || s.Quality.Lacks.States != nil || s.DurationNS <= 0 || len(s.GVL) != 1 {
		return nil
	}
	sum := sumOf(s)
	work, others := poolTimes(s)
	if sum.ns.Sum() == 0 || work.held() == 0 { // the pool's threads were not found by their names
		return nil
	}
	part := work.of(&sum, s.GVL[0].UnheldNS)
	// A thread can have a name that fits the pool but serve no requests, such as Puma's reactor. Its time must not be
	// included. So limit the time to what the given number of threads can have in total.
	rest := int64(threads)*s.DurationNS - part.held - part.waiting - part.contended
	part.outside = min(part.outside, max(rest, 0))
	total := part.held + part.outside + part.waiting
	out := &report.StatCapacity{Work: workOf(s), Threads: threads, Requests: sum.ended, Curve: []report.CapacityPoint{},
		BusyMean: gvl.Ratio(total+part.contended, s.DurationNS), WaitingShare: gvl.Ratio(part.waiting, total+part.contended)}
	alone := part.held + part.outside
	out.HeldShare, out.OutsideShare = gvl.Ratio(part.held, alone), gvl.Ratio(part.outside, alone)
	l := load{held: out.HeldShare, outside: out.OutsideShare, others: gvl.Ratio(others, s.DurationNS)}
	used := s.GVL[0].HeldShare + gvl.Ratio(s.GVL[0].UnheldNS, s.DurationNS)
	if used > 0 {
		l.handover = gvl.Ratio(s.GVL[0].UnheldNS, alone) / min(used, 1)
	}
	if why := obstacle(s, &sum, &part, l.others); why != "" {
		out.Why = &why
		return out
	}
	busy := min(gvl.Ratio(total, s.DurationNS), float64(threads))
	l, ok := l.fit(busy, gvl.Ratio(part.waiting, total))
	if !ok {
		why := "they wait for the GVL longer than its holders explain"
		out.Why = &why
		return out
	}
	out.Variance = l.variance
	points := max(2*threads, leastCurve)
	if used > saturated {
		points = max(points, saturatedCurve)
	}
	curve := l.with(min(points, max(maxThreads, threads)))
	out.Load = l.at(min(out.BusyMean, float64(threads))).throughput / curve[threads].throughput
	for n, p := range curve[1:] {
		gain := p.throughput / curve[threads].throughput
		out.Curve = append(out.Curve, report.CapacityPoint{Threads: n + 1, Throughput: gain, WaitingShare: p.waiting})
	}
	return out
}

// serverThreads has, for each kind of pool, a word that the names of its threads contain. Puma 4 to 8 has "puma srv tp
// 001" and "puma reactor" (lib/puma/thread_pool.rb and reactor.rb). Sidekiq 5 to 8 has "processor"
// (lib/sidekiq/processor.rb). GoodJob 2 to 4 has "GoodJob::Scheduler(queues=* max_threads=5)-thread-1"
// (lib/good_job/scheduler.rb). Solid Queue's pool has no name, so concurrent-ruby names its threads "worker-1". Que is
// not in the list, because the size of its pool is not known.
var serverThreads = map[string]string{sampler.PoolPuma.String(): "puma", sampler.PoolSidekiq.String(): "processor",
	sampler.PoolGoodJob.String(): "GoodJob::Scheduler", sampler.PoolSolidQueue.String(): "worker-"}

// poolTime is the time of a server's threads by state, in ns. It includes the time in which a thread has no request.
type poolTime struct {
	ns report.StatStates
	// delay is the time in which the threads were ready to run but had no CPU. noCPU is the part of delay in which a
	// thread held the GVL.
	delay, noCPU int64
}

func (p *poolTime) held() int64 { return p.ns.Running + p.ns.Stalled + p.ns.GC }

// poolTimes returns two times. pool is the time of the server's threads. It includes the server's own work before and
// after the application's part of a request. others is the time in which all other threads held the GVL.
func poolTimes(s *report.Stat) (pool poolTime, others int64) {
	word := serverThreads[s.Queues.Pools[0].Kind]
	ns := pool.ns.Array()
	for i := range s.Threads {
		t := &s.Threads[i]
		if t.Name == nil || word == "" || !strings.Contains(*t.Name, word) {
			others += t.NS.Running + t.NS.Stalled + t.NS.GC
			continue
		}
		for state, x := range t.NS.Array() {
			ns[state] += x
		}
		if t.RunDelayNS != nil {
			pool.delay += *t.RunDelayNS
		}
		pool.noCPU += t.NoCPU.Running + t.NoCPU.GC
	}
	pool.ns = report.StatesOf(ns)
	return pool, others
}

// parts divides the time of all requests of the measurement into the kinds of time that the model distinguishes, in ns.
type parts struct {
	// held is time with the GVL, including the server's own work for a request. waiting is the time of waits for the
	// GVL.
	held, waiting int64
	// outside is the time that requests need without the GVL. It does not depend on what other requests do.
	outside int64
	// contended is the time in which requests waited for a lock, or were ready to run without the GVL but had no CPU.
	// They wait because other requests use the lock or the CPU. So a pool of one thread has almost no such time.
	contended int64
}

// of estimates the time of all requests, including the requests that ddtop did not see. r is the time of the requests
// that ddtop saw. unheld is the time in which threads waited for the GVL and no thread held it, in ns.
func (p *poolTime) of(r *requests, unheld int64) parts {
	// Scale the times of the seen requests up to all requests. The factor is the time for which all threads held the
	// GVL, divided by the time for which seen requests held it. This works because threads without a request almost
	// never hold the GVL. Other states would give a wrong factor, because a thread in them may just wait for a request.
	missed := max(gvl.Ratio(p.held(), r.held()), 1)
	all, seen := p.ns.Array(), r.ns.Array()
	ns := func(state gvl.State) int64 { return min(int64(float64(seen[state])*missed), all[state]) }
	native := ns(gvl.Native)
	// delay also includes the time in which a thread was woken to take the GVL but got no CPU. This time is not a
	// request's time outside the GVL, so subtract it. No thread holds the GVL in this time, so it is a part of unheld.
	starved := min(native, max(p.delay-p.noCPU-unheld, 0))
	return parts{
		held: p.held(), waiting: p.ns.Waiting,
		outside:   native - starved + ns(gvl.IO) + ns(gvl.Sleeping) + ns(gvl.Parked),
		contended: starved + ns(gvl.Lock),
	}
}

// workOf returns the word for what the only pool of threads serves: "request" or "job".
func workOf(s *report.Stat) string {
	if s.Queues.Pools[0].Kind == sampler.PoolPuma.String() {
		return "request"
	}
	return "job"
}

// poolSize returns the number of threads of the only pool. It is 0 if this number is not known, or if there are several
// pools.
func poolSize(s *report.Stat) (threads int) {
	if s.Queues == nil {
		return 0
	}
	for _, p := range s.Queues.Pools {
		size := p.Max
		if p.Kind == sampler.PoolSidekiq.String() {
			// Sidekiq starts all its threads at once. If a thread dies, Sidekiq starts a new one (Sidekiq 5 to 8,
			// lib/sidekiq/manager.rb). So the number of threads is the size of the pool.
			size = p.Threads
		}
		if threads != 0 || size == nil || *size < 1 || *size > 1<<10 {
			return 0
		}
		threads = int(*size)
	}
	return threads
}

// requests is the time of all requests and jobs that were seen, by state.
type requests struct {
	ns    report.StatStates
	ended int
	// work is "request" or "job".
	work string
	// slowest is the endpoint with the most time.
	slowest *report.StatEndpoint
}

func sumOf(s *report.Stat) (r requests) {
	r.work = workOf(s)
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

// held returns how long the requests held the GVL, in ns.
func (r *requests) held() int64 { return r.ns.Running + r.ns.Stalled + r.ns.GC }

// blocked returns the time in which requests waited for other threads of the program, in ns.
func (r *requests) blocked() int64 { return r.ns.Lock + r.ns.Parked }

// obstacle returns why the model does not fit the process, or "" if it fits. others is the share of the time in which
// threads without a request held the GVL.
func obstacle(s *report.Stat, r *requests, part *parts, others float64) string {
	total := r.ns.Sum()
	short := shortOfCPU(s)
	switch {
	case r.ended < leastRequests:
		return fmt.Sprintf("only %s ended in this time", units.Plural(r.ended, r.work, r.work+"s"))
	case r.held() == 0:
		return "no " + r.work + " was seen with the GVL"
	case gvl.Ratio(r.held(), part.held) < leastSeen:
		return "only " + units.Percent(gvl.Ratio(r.held(), part.held)) + " of the " + r.work + "s' time with the GVL was seen"
	case poolSize(s) == 1 && gvl.Ratio(part.held, part.held+part.outside) > oneThreadHeld:
		return "one thread does not show what it costs to hand the GVL over"
	case s.Requests.Fibers != nil && s.Requests.Fibers.Requests > 0:
		return r.work + "s run on fibers, whose number the threads do not limit"
	case gvl.Ratio(r.blocked(), total) > maxForeign:
		return units.Percent(gvl.Ratio(r.blocked(), total)) + " of the " + r.work + "s' time waits for locks and other threads"
	case gvl.Ratio(r.ns.Unknown, total) > maxForeign:
		return units.Percent(gvl.Ratio(r.ns.Unknown, total)) + " of the " + r.work + "s' time is in no known state"
	case short > maxForeign:
		return "the machine is short of CPU: holders of the GVL have none for " + units.Percent(short) + " of their time"
	case s.Process.SwapBytes > 0 && swaps(s):
		return "the process waits for memory that is swapped out"
	case others > maxForeign:
		return "threads without a " + r.work + " have the GVL for " + units.Percent(others) + " of the time"
	}
	return slowAlone(r)
}

// slowAlone checks whether one route has most of the time but few of the requests. If so, it returns a text that gives
// this as the reason why there is no prediction. Otherwise it returns "".
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
		units.Plural(e.Ended, r.work, r.work+"s"), r.ended)
}

// shortOfCPU returns the share of the time with the GVL in which the holder had no CPU. The share is a lower bound.
func shortOfCPU(s *report.Stat) float64 {
	var without, held int64
	for i := range s.Threads {
		t := &s.Threads[i]
		without += t.NoCPU.Running + t.NoCPU.GC
		held += t.NS.Running + t.NS.GC
	}
	if s.Process.SpanNS > 0 { // a holder of the GVL that runs uses CPU time of its process
		used := gvl.Ratio(s.Process.CPUNS, s.Process.SpanNS) * float64(s.DurationNS)
		without = max(without, held-int64(used))
	}
	return gvl.Ratio(without, held)
}

// majorFaultsPerSecond is a threshold for the rate of major page faults (pages read from the disk). Above it, the
// process mainly waits for its memory.
const majorFaultsPerSecond = 50

func swaps(s *report.Stat) bool {
	return float64(s.Process.MajorFaults) > majorFaultsPerSecond*float64(s.Process.SpanNS)/1e9
}
