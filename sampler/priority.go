package sampler

// Priority is how urgently the kernel runs ddtop's sampling thread. If all CPUs are busy, a thread of normal priority
// gets a CPU just when another thread blocks. Its samples would then show too many hand-overs of the GVL
// (docs/internals/threads.md#rubys-thread-events).
type Priority uint8

// The priorities of the sampling thread.
const (
	// PriorityUnknown means that the priority was not read, or that the recording is too old to have it.
	PriorityUnknown Priority = iota
	// PriorityNormal is the normal priority, which other programs have, too.
	PriorityNormal
	// PriorityRaised is a negative nice value.
	PriorityRaised
	// PriorityRealTime is SCHED_FIFO, which precedes all threads that are not real-time. ddtop does not ask for it.
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

// Words describes the priority to the user. It is empty for PriorityUnknown, and for PriorityRaised.
func (p Priority) Words() string {
	return wordOf(p, "", "", "normal priority", "", "real-time", "real-time given up: too busy",
		"real-time given up: a tick took too long", "normal priority, short time slice")
}
