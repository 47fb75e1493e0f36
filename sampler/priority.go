package sampler

// Priority is how urgently the kernel runs ddtop's sampling thread. While all CPUs are busy, a sampling thread of
// normal priority gets a CPU mostly at the moment when another thread blocks. Its samples would then show too many
// moments at which the GVL changes hands (docs/internals/threads.md#rubys-thread-events).
type Priority uint8

// These constants are the priorities of the sampling thread.
const (
	// PriorityUnknown means that ddtop has not read the priority, or that the recording is too old to store it.
	PriorityUnknown Priority = iota
	// PriorityNormal is the normal priority, which most other programs also have.
	PriorityNormal
	// PriorityRaised is a negative nice value.
	PriorityRaised
	// PriorityRealTime is the scheduling policy SCHED_FIFO. The kernel runs such a thread before all threads that are
	// not real-time. ddtop does not request this priority.
	PriorityRealTime
	// PriorityDroppedBusy and PriorityDroppedSilent occur only in recordings of earlier releases. In these releases,
	// the sampling thread began with real-time priority and later got normal priority. The reason was that it used too
	// much of a CPU (Busy), or that no tick came for too long (Silent).
	PriorityDroppedBusy
	PriorityDroppedSilent
	// PriorityShortSlice is normal priority with a time slice of 0.1 ms (Linux 6.12 and later). When the thread wakes
	// up, it may take the CPU of a thread with a longer time slice.
	PriorityShortSlice
)

// String returns the word for the priority in JSON: unknown, normal, raised, realtime, dropped_busy, dropped_silent,
// short_slice.
func (p Priority) String() string {
	return wordOf(p, "unknown", "unknown", "normal", "raised", "realtime", "dropped_busy", "dropped_silent", "short_slice")
}

// Words describes the priority in words for the user. It is empty for PriorityUnknown and for PriorityRaised.
func (p Priority) Words() string {
	return wordOf(p, "", "", "normal priority", "", "real-time", "real-time given up: too busy",
		"real-time given up: a tick took too long", "normal priority, short time slice")
}
