package run

import (
	"errors"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/flamegraph"
)

// OneLine puts a text on one line.
func OneLine(text string) string {
	return strings.NewReplacer("\n", "; ", "\t", "").Replace(strings.TrimSpace(text))
}

// maxName limits the printed length of a process's name, in columns. A process can give itself a name of 64 KB.
const maxName = 64

// ShortName returns a process's name in a form for messages: without control characters, and not too long.
func ShortName(name string) string { return ansi.Truncate(flamegraph.Printable(name), maxName, "…") }

// IsAny reports whether err is one of the errors in targets (errors.Is).
func IsAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
