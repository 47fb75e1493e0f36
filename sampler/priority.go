package sampler

// Priority is how urgently the kernel runs the sampling thread. On a full machine, a thread of normal priority gets a
// CPU just when another thread blocks. So it sees too many hand-overs of the GVL
// (docs/internals/threads.md#rubys-thread-events).
type Priority uint8

// The priorities of the sampling thread.
const (
	// PriorityUnknown: not asked, or a recording of before it was kept.
	PriorityUnknown Priority = iota
	// PriorityNormal: like any other program.
	PriorityNormal
	// PriorityRaised: a negative nice value.
	PriorityRaised
	// PriorityRealTime: SCHED_FIFO, before all that is not real-time. ddtop does not ask for it.
	PriorityRealTime
	// PriorityDroppedBusy and PriorityDroppedSilent occur in recordings of earlier releases. The sampling thread was
	// real-time at first. It got normal priority because it took too much of a CPU (Busy), or because no tick came for
	// too long (Silent).
	PriorityDroppedBusy
	PriorityDroppedSilent
	// PriorityShortSlice is normal priority with a time slice of 0.1 ms (Linux 6.12 and later). When the thread wakes
	// up, it may take the CPU of a thread with a longer time slice.
	PriorityShortSlice
)

// String is the word used in JSON: unknown, normal, raised, realtime, dropped_busy, dropped_silent, short_slice.
func (p Priority) String() string {
	return wordOf(p, "unknown", "unknown", "normal", "raised", "realtime", "dropped_busy", "dropped_silent", "short_slice")
}

// Words describes it to the user. It is empty for PriorityRaised, which is as it should be, and for PriorityUnknown.
func (p Priority) Words() string {
	return wordOf(p, "", "", "normal priority", "", "real-time", "real-time given up: too busy",
		"real-time given up: a tick took too long", "normal priority, short time slice")
}
