package sampler

// Note is a remark that the user wrote down while ddtop sampled, such as "deploy rolled back". It belongs to one
// moment.
type Note struct {
	// AtNS is the moment of the note, CLOCK_MONOTONIC in ns like Sample.TimeNS.
	AtNS int64
	// Text is one line. It may have any characters, so code that shows it must make it printable first.
	Text string
}
