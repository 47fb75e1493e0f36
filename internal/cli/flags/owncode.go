package flags

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/sampler/own"
)

// OwnCode is the value of --own-code.
type OwnCode struct {
	globs []string
	code  *own.Code // nil if no pattern was given
}

const (
	OwnCodeName = "own-code"
	ownCodeHelp = "count more code as the program's own: a `GLOB` of files or gems; repeatable"
)

// AddTo adds the flag to a command.
func (o *OwnCode) AddTo(cmd *cobra.Command) { cmd.Flags().Var(o, OwnCodeName, ownCodeHelp) }

// String lists the patterns.
func (o *OwnCode) String() string {
	if o == nil {
		return ""
	}
	return strings.Join(o.globs, ",")
}

// Type returns the word that stands for the flag's value in help texts.
func (o *OwnCode) Type() string { return "GLOB" }

// Set adds a pattern.
func (o *OwnCode) Set(glob string) error {
	globs := append(o.globs, glob)
	code, err := own.New(globs)
	if err != nil {
		return err
	}
	o.globs, o.code = globs, code
	return nil
}

// SetAll sets the flag's value from the settings file, which has a pattern or a list of patterns.
func (o *OwnCode) SetAll(value any) error {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, v := range list {
		glob, ok := v.(string)
		if !ok {
			return fmt.Errorf("%s takes patterns in quotes: [\"/srv/shared\", \"acme-*\"]", OwnCodeName)
		}
		if err := o.Set(glob); err != nil {
			return err
		}
	}
	return nil
}

// Rules returns the rules that say which code is the program's own. It returns nil if the user gave no pattern.
func (o *OwnCode) Rules() *own.Code {
	if o == nil {
		return nil
	}
	return o.code
}
