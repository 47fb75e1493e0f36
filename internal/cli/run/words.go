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

// maxName limits a printed process name, in columns, because a process can give itself a name of 64 KB.
const maxName = 64

// ShortName returns a process's name for a sentence: without control characters, and not too long.
func ShortName(name string) string { return ansi.Truncate(flamegraph.Printable(name), maxName, "…") }

// IsAny reports whether an error is one of several.
func IsAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
