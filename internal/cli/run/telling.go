package run

import (
	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// TellExact returns the functions that exact mode calls to report an event in a process. Each of them prints a
// sentence.
func TellExact(say func(format string, args ...any)) exact.Told {
	return exact.Told{
		Refused: func(p sampler.Process, why error) {
			say("process %d (%s) is sampled only: %v", p.PID, ShortName(p.Name()), why)
		},
		Note: func(p sampler.Process, text, why string) {
			if why != "" {
				text += ": " + why
			}
			say("process %d (%s): %s", p.PID, ShortName(p.Name()), text)
		},
	}
}

// SayNote prints why a measurement ended early.
func SayNote(std Streams, note string) {
	if note != "" {
		std.Say("%s", note)
	}
}

// SayNotes prints why the measurement of a process ended early, if it did. If exact mode or --native failed, it also
// prints why.
func SayNotes(std Streams, src sampler.Source, note string) {
	SayNote(std, note)
	if what, why := exact.Note(src); what != "" {
		TellExact(std.Say).Note(src.Process(), what, why)
	}
	if x, ok := src.(*live.Source); ok && x.Running.Failed() != "" {
		std.Say("no C functions of running threads: %s", x.Running.Failed())
	}
	SayBelow(std, src)
}

// SayBelow prints how many descendants of the measured process run the same program. They were not measured.
func SayBelow(std Streams, src sampler.Source) {
	family, ok := src.(interface {
		Family() (sampler.Family, error)
	})
	if !ok {
		return
	}
	if f, err := family.Family(); err == nil && f.Below > 0 {
		p := src.Process()
		std.Say("process %d (%s) runs the same program in %d more below it: --children measures them, too",
			p.PID, ShortName(p.Name()), f.Below)
	}
}
