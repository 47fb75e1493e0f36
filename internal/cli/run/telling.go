package run

import (
	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/sampler"
)

// TellExact tells it in sentences.
func TellExact(say func(format string, args ...any)) exact.Told {
	return exact.Told{
		Refused: func(p sampler.Process, why error) {
			say("process %d (%s) is sampled only: %v", p.PID, ShortName(p.Title), why)
		},
		Note: func(p sampler.Process, text, why string) {
			if why != "" {
				text += ": " + why
			}
			say("process %d (%s): %s", p.PID, ShortName(p.Title), text)
		},
	}
}

// SayNote prints why a measurement ended early.
func SayNote(std Streams, note string) {
	if note != "" {
		std.Say("%s", note)
	}
}

// SayNotes prints why the measurement of a process ended early, and what of its exact mode did not go as it should.
func SayNotes(std Streams, src sampler.Source, note string) {
	SayNote(std, note)
	if what, why := exact.Note(src); what != "" {
		TellExact(std.Say).Note(src.Process(), what, why)
	}
}
