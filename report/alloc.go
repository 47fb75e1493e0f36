package report

// StatAlloc estimates how many objects of each class were allocated in the window (sampler.AllocClasses).
// StatGC.Allocated is the exact number of objects of all classes.
type StatAlloc struct {
	// Instants is how often ddtop read which objects are new. If Instants is small, the shares are unreliable.
	Instants uint64 `json:"instants"`
	// Classes begins with the class that has the most new objects.
	Classes []StatAllocClass `json:"classes"`
}

// StatAllocClass is the share of one class. A name in parentheses is no class (sampler.AllocInternal and others).
type StatAllocClass struct {
	Name string `json:"name"`
	// Objects is the estimated number of objects of this class. Share (0 to 1) is their part of all objects. Error is
	// half the width of the 95 % confidence interval of Share. Error is null if the class was seen too rarely.
	Objects float64  `json:"objects"`
	Share   float64  `json:"share"`
	Error   *float64 `json:"error"`
}

// StatPauses counts how often and how long ddtop stopped the process for samples in the window (--pause). All fields
// are zero if ddtop never stopped it.
type StatPauses struct {
	Count int64 `json:"count"`
	// Cut counts pauses whose samples do not show one instant: a thread could not be stopped, or the time ran out.
	Cut int64 `json:"cut"`
	// These quantiles of the lengths of pauses come from a histogram with a resolution of 3 %.
	P50NS   int64 `json:"p50_ns"`
	P99NS   int64 `json:"p99_ns"`
	MaxNS   int64 `json:"max_ns"`
	TotalNS int64 `json:"total_ns"`
}
