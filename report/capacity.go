package report

// StatCapacity predicts the throughput of a server or a job worker with other numbers of threads. It assumes full load:
// all threads have a request or a job. The prediction comes from a closed queueing model (package gvl/capacity).
type StatCapacity struct {
	// Work is what the pool's threads serve: "request" or "job".
	Work string `json:"work"`
	// Threads is the number of threads in the pool. BusyMean is how many of them had a request or a job, on average.
	Threads  int     `json:"threads"`
	BusyMean float64 `json:"busy_mean"`
	// Load is the present throughput divided by the possible throughput at full load, 0 to 1.
	Load float64 `json:"load"`
	// Why is the reason why there is no prediction. Curve is empty in this case. If there is a prediction, Why is null.
	Why *string `json:"why"`
	// Requests is the number of measured requests and jobs from which the prediction is computed.
	Requests int `json:"requests"`
	// HeldShare and OutsideShare split a request's time into two parts. HeldShare is the part that needs the GVL, and
	// OutsideShare is the part that does not. Their sum is 1, because time in which the request waited for the GVL, a
	// lock or a CPU is left out. WaitingShare is the part of the request's whole time in which it waited for the GVL.
	HeldShare    float64 `json:"held_share"`
	OutsideShare float64 `json:"outside_share"`
	WaitingShare float64 `json:"waiting_share"`
	// Variance says how much the lengths of holds of the GVL vary. It is the squared coefficient of variation of the
	// lengths, derived from the measured waits. It is 1 for exponentially distributed lengths, and 0 if all lengths are
	// equal.
	Variance float64 `json:"variance"`
	// Curve has a point for each number of threads, beginning with one thread.
	Curve []CapacityPoint `json:"curve"`
}

// CapacityPoint is the prediction for one number of threads.
type CapacityPoint struct {
	Threads int `json:"threads"`
	// Throughput is the predicted throughput divided by the throughput with the present number of threads.
	Throughput float64 `json:"throughput"`
	// WaitingShare is the part of a request's time in which it waits for the GVL.
	WaitingShare float64 `json:"waiting_share"`
}

// At returns the prediction for n threads. ok is false if there is no prediction for n.
func (c *StatCapacity) At(n int) (p CapacityPoint, ok bool) {
	if n < 1 || n > len(c.Curve) {
		return CapacityPoint{}, false
	}
	return c.Curve[n-1], true
}

// StatWorkers predicts how one more process would change a server of several processes, at full load.
type StatWorkers struct {
	// Workers is the number of processes that serve requests. CPUs is the number of CPUs that they may use. UsedCPUs is
	// the number of CPUs that they would use at full load.
	Workers  int     `json:"workers"`
	CPUs     int     `json:"cpus"`
	UsedCPUs float64 `json:"used_cpus"`
	// OneMore predicts how much the total throughput would grow with one more process, as a part of the present
	// throughput. It is zero if the processes would already use all CPUs at full load.
	OneMore float64 `json:"one_more"`
}
