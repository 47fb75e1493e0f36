package export

import (
	"fmt"
	"io"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
)

// WriteWatchEvent writes an event of `ddtop watch` as a line for people.
func WriteWatchEvent(w io.Writer, e report.WatchEvent) error {
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

// WriteWatchEventJSON writes an event of `ddtop watch` as JSON in one line.
func WriteWatchEventJSON(w io.Writer, e report.WatchEvent) error { return WriteCompactJSON(w, e) }
