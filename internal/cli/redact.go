package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/redact"
)

// redaction is the value of --redact: one Redactor for all that a command reads, prints and writes, so that a name has the same
// pseudonym everywhere.
type redaction struct {
	names *redact.Redactor // nil: nothing is left out
	// typed are the paths on the command line.
	typed []string
}

// redactHelp is what --redact does, in the help of all commands that have it.
const redactHelp = "replace names, paths and other identifying data, for output that you share"

// newRedaction is that of a command line.
func newRedaction(args []string) *redaction {
	r := new(redaction)
	for _, a := range args {
		_, value, _ := strings.Cut(a, "=")
		r.typed = append(r.typed, a, value)
		if len(a) > 2 && a[0] == '-' && a[1] != '-' { // -oFILE
			r.typed = append(r.typed, a[2:])
		}
	}
	return r
}

// addTo adds the flag to a command.
func (r *redaction) addTo(cmd *cobra.Command) {
	cmd.Flags().Var(r, "redact", redactHelp)
	cmd.Flags().Lookup("redact").NoOptDefVal = "true"
}

// String is "true" or "false".
func (r *redaction) String() string { return strconv.FormatBool(r.redactor() != nil) }

// Type is the word of a switch.
func (r *redaction) Type() string { return "bool" }

// Set takes "true", "false" and what else stands for them.
func (r *redaction) Set(text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", text)
	}
	r.names = nil
	if on {
		r.names = redact.New()
		r.names.Know(r.typed...)
	}
	return nil
}

// redactor is nil where nothing is left out.
func (r *redaction) redactor() *redact.Redactor {
	if r == nil {
		return nil
	}
	return r.names
}

// text is a sentence that may name files.
func (r *redaction) text(s string) string { return r.redactor().Text(s) }

// program is the name of a program by its path, or what stands for it.
func (r *redaction) program(path string) string { return r.redactor().Program(filepath.Base(path)) }

// sentence puts an error's text on one line, without control characters: names from a target may hold anything.
func (s Streams) sentence(err error) string {
	return printable(oneLine(s.redact.redactor().Error(err)))
}

func oneLine(text string) string {
	return strings.NewReplacer("\n", "; ", "\t", "").Replace(strings.TrimSpace(text))
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
	fmt.Fprintf(s.Err, "ddtop: %s\n", s.redact.text(fmt.Sprintf(format, args...)))
}
