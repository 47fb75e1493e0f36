package sampler

// Note is a remark that the user wrote at one moment of the sampling, such as "deploy rolled back".
type Note struct {
	// AtNS is the moment of the note, CLOCK_MONOTONIC in ns like Sample.TimeNS.
	AtNS int64
	// Text is one line of any characters. Code that shows the text must make it printable first.
	Text string
}
