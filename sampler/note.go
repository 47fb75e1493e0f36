package sampler

// Note is what the user wrote at a moment of the sampling: "deploy rolled back".
type Note struct {
	// AtNS is this moment, CLOCK_MONOTONIC in ns like Sample.TimeNS.
	AtNS int64
	// Text is one line of any characters. Code that shows the text must make it printable first.
	Text string
}
