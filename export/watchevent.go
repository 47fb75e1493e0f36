package export

import (
	"fmt"
	"io"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
)

// WatchEvent is a line of `ddtop record --when`. The field names are a contract.
type WatchEvent struct {
	// Time is when it happened, Event what: "began", "wrote", "failed" or "removed" (the oldest recording, for the limits).
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	// PID and Program are the process; 0 and "" where a recording was removed.
	PID     int    `json:"pid"`
	Program string `json:"program"`
	// Condition is the one that came true, as it was given, Text with which figure, or the finding; "" where a recording was removed.
	// Of one that failed Text is why.
	Condition string `json:"condition"`
	Text      string `json:"text"`
	// Path is the recording; "" where it has none yet.
	Path string `json:"path"`
	// StartNS and EndNS are what it holds, CLOCK_MONOTONIC in ns (of one that begins: so far); Bytes is its size.
	StartNS int64 `json:"start_monotonic_ns"`
	EndNS   int64 `json:"end_monotonic_ns"`
	Bytes   int64 `json:"bytes"`
	// MissingNS is how much time between them it lacks, because the disk was slow.
	MissingNS int64 `json:"missing_ns"`
}

// WriteWatchEvent writes a line for people.
func WriteWatchEvent(w io.Writer, e WatchEvent) error {
	who := e.Time.Format("15:04:05") + " "
	if e.PID != 0 {
		who += fmt.Sprintf("%s %d: ", flamegraph.Printable(e.Program), e.PID)
	}
	text := ""
	span := units.ProseDuration(e.EndNS - e.StartNS)
	switch path := flamegraph.Printable(e.Path); e.Event {
	case "began":
		text = fmt.Sprintf("%s; recording, with %s before it", flamegraph.Printable(e.Text), span)
	case "wrote":
		text = fmt.Sprintf("wrote %s: %s, %s", path, span, units.Bytes(e.Bytes))
		if e.MissingNS > 0 {
			text += fmt.Sprintf(", of which %s are missing: the disk was too slow", units.ProseDuration(e.MissingNS))
		}
	case "removed":
		text = fmt.Sprintf("removed %s (%s), the oldest recording", path, units.Bytes(e.Bytes))
	default:
		text = flamegraph.Printable(e.Text)
	}
	_, err := fmt.Fprintf(w, "%s%s\n", who, text)
	return err
}

// WriteWatchEventJSON writes a line as JSON.
func WriteWatchEventJSON(w io.Writer, e WatchEvent) error { return WriteCompactJSON(w, e) }
