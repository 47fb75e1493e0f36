package report

// StatCapacity predicts what another number of threads would give a server or a worker for jobs. It holds at full load:
// all threads have a request or a job. The prediction is the closed queueing model of package gvl/capacity.
type StatCapacity struct {
	// Work is what the pool's threads serve: "request" or "job".
	Work string `json:"work"`
	// Threads is how many threads the pool has. BusyMean is how many of them had a request or a job, on average.
	Threads  int     `json:"threads"`
	BusyMean float64 `json:"busy_mean"`
	// Load is the present throughput in relation to that at full load, 0 to 1.
	Load float64 `json:"load"`
	// Why is the reason why there is no prediction. Then Curve is empty. It is null if there is one.
	Why *string `json:"why"`
	// Requests is how many requests and jobs it is made of.
	Requests int `json:"requests"`
	// HeldShare and OutsideShare are the parts of a request's time with the GVL and outside it. Time in which the
	// request waited for the GVL, a lock or a CPU is left out, so their sum is 1. WaitingShare is the part of the
	// request's whole time in which it waited for the GVL.
	HeldShare    float64 `json:"held_share"`
	OutsideShare float64 `json:"outside_share"`
	WaitingShare float64 `json:"waiting_share"`
	// Variance is the squared coefficient of variation of the times for which the GVL is held, derived from the
	// measured waiting. It is 1 for exponentially distributed times, and 0 for equal ones.
	Variance float64 `json:"variance"`
	// Curve has a point for each number of threads, from one on.
	Curve []CapacityPoint `json:"curve"`
}

// CapacityPoint is the prediction for a number of threads.
type CapacityPoint struct {
	Threads int `json:"threads"`
	// Throughput is in relation to the throughput of the present number of threads: 1 is the same.
	Throughput float64 `json:"throughput"`
	// WaitingShare is the part of a request's time that it waits for the GVL.
	WaitingShare float64 `json:"waiting_share"`
}

// At returns the prediction for n threads. ok is false if there is none.
func (c *StatCapacity) At(n int) (p CapacityPoint, ok bool) {
	if n < 1 || n > len(c.Curve) {
		return CapacityPoint{}, false
	}
	return c.Curve[n-1], true
}

// StatWorkers predicts what one process more would give a server of several processes, at full load.
type StatWorkers struct {
	// Workers is the number of processes that serve. CPUs is how many CPUs they may use, and UsedCPUs how many they
	// would use at full load.
	Workers  int     `json:"workers"`
	CPUs     int     `json:"cpus"`
	UsedCPUs float64 `json:"used_cpus"`
	// OneMore is by how much the throughput of all would grow, as a part of it. It is zero if they fill the CPUs.
	OneMore float64 `json:"one_more"`
}
