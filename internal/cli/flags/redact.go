package flags

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/sampler/redact"
)

// Redaction is the value of --redact. It has a single Redactor for everything that a command reads, prints and writes,
// so that a name has the same pseudonym everywhere.
type Redaction struct {
	names *redact.Redactor // nil if nothing is left out
	// typed are the paths that the user typed on the command line.
	typed []string
}

// redactHelp is the help of --redact in all commands that have it.
const redactHelp = "replace names, paths and other identifying data, for output that you share"

// NewRedaction returns the redaction of a command line.
func NewRedaction(args []string) *Redaction {
	r := new(Redaction)
	for _, a := range args {
		_, value, _ := strings.Cut(a, "=")
		r.typed = append(r.typed, a, value)
		if len(a) > 2 && a[0] == '-' && a[1] != '-' { // -oFILE
			r.typed = append(r.typed, a[2:])
		}
	}
	return r
}

// AddTo adds the flag to a command.
func (r *Redaction) AddTo(cmd *cobra.Command) {
	cmd.Flags().Var(r, "redact", redactHelp)
	cmd.Flags().Lookup("redact").NoOptDefVal = "true"
}

// String is "true" or "false".
func (r *Redaction) String() string { return strconv.FormatBool(r.Redactor() != nil) }

// Type is the word of a switch.
func (r *Redaction) Type() string { return "bool" }

// Set parses "true", "false" and their other forms.
func (r *Redaction) Set(text string) error {
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

// Redactor returns the redactor. It is nil if nothing is left out.
func (r *Redaction) Redactor() *redact.Redactor {
	if r == nil {
		return nil
	}
	return r.names
}

// Text returns a sentence with the names of files replaced.
func (r *Redaction) Text(s string) string { return r.Redactor().Text(s) }

// Program returns the name of a program by its path, or its pseudonym.
func (r *Redaction) Program(path string) string { return r.Redactor().Program(filepath.Base(path)) }
