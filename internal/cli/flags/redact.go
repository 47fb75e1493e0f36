package flags

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/sampler/redact"
)

// Redaction is the value of --redact. A command uses only one Redactor for everything that it reads, prints and writes.
// So a name has the same pseudonym everywhere.
type Redaction struct {
	names *redact.Redactor // nil if nothing is left out
	// typed are the paths that the user typed on the command line.
	typed []string
}

// redactHelp is the help text of --redact, the same in all commands with this flag.
const redactHelp = "replace names, paths and other identifying data, for output that you share"

// NewRedaction returns the redaction for a command line with the arguments args.
func NewRedaction(args []string) *Redaction {
	r := new(Redaction)
	for _, a := range args {
		_, value, _ := strings.Cut(a, "=")
		r.typed = append(r.typed, a, value)
		if len(a) > 2 && a[0] == '-' && a[1] != '-' { // a flag and its value in one word, such as -oFILE
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

// String returns "true" or "false".
func (r *Redaction) String() string { return strconv.FormatBool(r.Redactor() != nil) }

// Type returns "bool", because the flag needs no value.
func (r *Redaction) Type() string { return "bool" }

// Set parses "true", "false" and the other forms that strconv.ParseBool accepts.
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

// Redactor returns the redactor, or nil if the user does not want to redact.
func (r *Redaction) Redactor() *redact.Redactor {
	if r == nil {
		return nil
	}
	return r.names
}

// Text returns a sentence in which the names of files are replaced, if --redact is on.
func (r *Redaction) Text(s string) string { return r.Redactor().Text(s) }

// Program returns the name of the program at a path. With --redact it returns a pseudonym instead.
func (r *Redaction) Program(path string) string { return r.Redactor().Program(filepath.Base(path)) }
