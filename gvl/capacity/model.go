package capacity

import "math"

// load is what a request or a job takes, in any unit of time.
type load struct {
	// held is its time with the GVL, outside its time without the GVL in which it does not wait for it.
	held, outside float64
	// variance is the squared coefficient of variation of the lengths of holds.
	variance float64
	// handover is the time that no thread has the GVL between two holders, by request, if threads wait at every hold.
	handover float64
	// others is the share of the time in which a thread without a request has the GVL, 0 to 1.
	others float64
}

// point is the state of the network with some number of threads.
type point struct {
	// throughput is in requests by the unit of time, waiting the share of a request's time that it waits.
	throughput, waiting float64
}

// with returns the points for 0 to n threads.
func (l load) with(n int) []point {
	out := make([]point, 1, n+1)
	queue, used := 0., 0.
	for k := 1; k <= n; k++ {
		// The GVL is slower for requests by the time that others have it, and that handing it over takes.
		service := (l.held + l.handover*used) / (1 - l.others)
		// queue threads are there before it. One of them has the GVL with the probability used, and a rest to go.
		stay := service * (1 + max(queue-used, 0) + used*(1+l.variance)/2)
		rate := min(float64(k)/(stay+l.outside), 1/service)
		stay = float64(k)/rate - l.outside
		queue, used = rate*stay, min(rate*service, 1)
		out = append(out, point{rate, max(stay-l.held, 0) / (stay + l.outside)})
	}
	return out
}

// at returns the point for a mean number of threads, between two whole numbers.
func (l load) at(threads float64) point {
	list := l.with(int(math.Ceil(threads)))
	low := list[int(threads)]
	high, part := list[len(list)-1], threads-math.Floor(threads)
	return point{low.throughput + part*(high.throughput-low.throughput), low.waiting + part*(high.waiting-low.waiting)}
}

// maxUnexplained is the part of the requests' time for which the waiting may exceed what maxVariance explains.
const maxUnexplained = .05

// maxVariance limits how much the lengths of holds may vary, as computed from the waiting. If one hold in twenty takes
// a hundred times the time of the others, the variance is 17.
const maxVariance = 20.

// fit returns the load that would cause the measured waiting with this number of threads. ok is false if no plausible
// lengths of holds explain it.
func (l load) fit(threads, waiting float64) (load, bool) {
	low, high := 0., maxVariance
	for range 50 {
		l.variance = (low + high) / 2
		if l.at(threads).waiting < waiting {
			low = l.variance
		} else {
			high = l.variance
		}
	}
	if threads <= 1 { // no thread waits for another
		l.variance = 1
	}
	explained := waiting-l.at(threads).waiting < maxUnexplained
	// While the GVL is mostly free, requests that begin together wait as if holds varied. With more threads that
	// counts less.
	if used := l.at(threads).throughput * l.held; l.variance > 1 {
		l.variance = 1 + (l.variance-1)*used
	}
	return l, explained
}
