package capacity

import "math"

// load describes a typical request or job. Times are in any unit.
type load struct {
	// held is how long the request holds the GVL. outside is its time without the GVL, except waits for the GVL.
	held, outside float64
	// variance says how much the lengths of holds of the GVL vary: it is their squared coefficient of variation. It is
	// zero if all holds take equally long.
	variance float64
	// handover is the total time per request in which no thread has the GVL, because it passes from one thread to the
	// next. The number is for the case that another thread waits at the end of every hold.
	handover float64
	// others is the share of the time in which threads without a request have the GVL, 0 to 1.
	others float64
}

// point is what the model predicts for one number of threads.
type point struct {
	// throughput is in requests per unit of time. waiting is the share of a request's time in which it waits for the
	// GVL.
	throughput, waiting float64
}

// with returns the predictions for 0 to n threads. It uses mean value analysis, a method of queueing theory, with the
// GVL as the only queue.
func (l load) with(n int) []point {
	out := make([]point, 1, n+1)
	queue, used := 0., 0.
	for k := 1; k <= n; k++ {
		// service is how long a request occupies the GVL. It includes the time in which the GVL passes to the next
		// thread (handover), and the time in which threads without a request hold it.
		service := (l.held + l.handover*used) / (1 - l.others)
		// queue is the mean number of threads that hold the GVL or wait for it when a request arrives. used is the
		// probability that a thread holds the GVL at this moment. The request waits for the remaining part of this
		// hold, which depends on the variance.
		stay := service * (1 + max(queue-used, 0) + used*(1+l.variance)/2)
		rate := min(float64(k)/(stay+l.outside), 1/service)
		stay = float64(k)/rate - l.outside
		queue, used = rate*stay, min(rate*service, 1)
		out = append(out, point{rate, max(stay-l.held, 0) / (stay + l.outside)})
	}
	return out
}

// at returns the model's result for a mean number of threads, which need not be whole. It interpolates between the
// results for the two nearest whole numbers.
func (l load) at(threads float64) point {
	list := l.with(int(math.Ceil(threads)))
	low := list[int(threads)]
	high, part := list[len(list)-1], threads-math.Floor(threads)
	return point{low.throughput + part*(high.throughput-low.throughput), low.waiting + part*(high.waiting-low.waiting)}
}

// maxUnexplained is a share of the requests' time. There is no prediction if the model, even with maxVariance, explains
// less waiting than was measured, and the difference exceeds this share.
const maxUnexplained = .05

// maxVariance limits the variance that fit computes from the measured waiting. For comparison: if one hold in twenty
// takes 100 times the time of the others, the variance is 17.
const maxVariance = 20.

// fit returns the load l with another variance. With this variance, the model predicts the measured waiting at this
// number of threads. ok is false if no plausible variance has this effect.
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
	// If the GVL is mostly free, there is another cause of waiting: requests that begin at the same time wait for each
	// other. fit explains this waiting by holds of different lengths, so its variance is too high. The effect is
	// smaller with more threads. So reduce the variance.
	if used := l.at(threads).throughput * l.held; l.variance > 1 {
		l.variance = 1 + (l.variance-1)*used
	}
	return l, explained
}
