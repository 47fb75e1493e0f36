package sampler

// Note is what the user wrote at a moment of the sampling: "deploy rolled back".
type Note struct {
	// AtNS is CLOCK_MONOTONIC in ns, as Sample.TimeNS.
	AtNS int64
	// Text is one line of any characters; what shows it has to make it printable.
	Text string
}
