package report

// StatAlloc estimates how many objects of each class the process allocated in the measured time (sampler.AllocClasses).
// The exact number for all classes together is in StatGC.Allocated.
type StatAlloc struct {
	// Instants is the number of times that ddtop looked for new objects. If it is small, the shares are unreliable.
	Instants uint64 `json:"instants"`
	// Classes are the classes of the new objects, the one with the most objects first.
	Classes []StatAllocClass `json:"classes"`
}

// StatAllocClass is one class of allocated objects. A name in parentheses is not the name of a class, but of a group
// such as Ruby's internal objects (sampler.AllocInternal and others).
type StatAllocClass struct {
	Name string `json:"name"`
	// Objects is the estimated number of new objects of this class. Share (0 to 1) is their part of all new objects.
	// Error is half the width of the 95 % confidence interval of Share. Error is null if the class was seen too rarely.
	Objects float64  `json:"objects"`
	Share   float64  `json:"share"`
	Error   *float64 `json:"error"`
}

// StatPauses describes the pauses (--pause) in the measured time, in which ddtop stopped the process to take samples.
// All fields are zero if ddtop never stopped the process.
type StatPauses struct {
	Count int64 `json:"count"`
	// Cut counts pauses whose samples do not show all threads at the same instant. In such a pause, a thread could not
	// be stopped, or the time for the pause ran out.
	Cut int64 `json:"cut"`
	// These are quantiles of the lengths of pauses. They come from a histogram with a resolution of 3 %.
	P50NS   int64 `json:"p50_ns"`
	P99NS   int64 `json:"p99_ns"`
	MaxNS   int64 `json:"max_ns"`
	TotalNS int64 `json:"total_ns"`
}
