package cli

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/flamegraph"
)

// sentence puts an error's text on one line, without control characters: names from a target may hold anything.
func (s Streams) sentence(err error) string {
	return flamegraph.Printable(oneLine(s.redact.Redactor().Error(err)))
}

// sayErr says on standard error what went wrong, and what to do if ddtop can open no more files.
func (s Streams) sayErr(err error) {
	help := ""
	if errors.Is(err, syscall.EMFILE) && !errors.Is(err, attach.ErrExhausted) {
		help = ". Raise ddtop's limit of open files: `ulimit -n 4096`"
	}
	fmt.Fprintf(s.Err, "ddtop: %s%s\n", s.sentence(err), help)
}

// say says a sentence on standard error.
func (s Streams) say(format string, args ...any) {
	fmt.Fprintf(s.Err, "ddtop: %s\n", s.redact.Text(fmt.Sprintf(format, args...)))
}
