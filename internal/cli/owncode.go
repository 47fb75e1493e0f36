package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/sampler/own"
)

// ownCode is the value of --own-code.
type ownCode struct {
	globs []string
	code  *own.Code // nil: no pattern was given
}

const (
	ownCodeFlag = "own-code"
	ownCodeHelp = "count more code as the program's own: a `GLOB` of files or gems; repeatable"
)

// addTo adds the flag to a command.
func (o *ownCode) addTo(cmd *cobra.Command) { cmd.Flags().Var(o, ownCodeFlag, ownCodeHelp) }

// String lists the patterns.
func (o *ownCode) String() string {
	if o == nil {
		return ""
	}
	return strings.Join(o.globs, ",")
}

// Type is the word for the value in help texts.
func (o *ownCode) Type() string { return "GLOB" }

// Set adds a pattern.
func (o *ownCode) Set(glob string) error {
	globs := append(o.globs, glob)
	code, err := own.New(globs)
	if err != nil {
		return err
	}
	o.globs, o.code = globs, code
	return nil
}

// setAll takes the value of the file of settings: a pattern, or a list of them.
func (o *ownCode) setAll(value any) error {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, v := range list {
		glob, ok := v.(string)
		if !ok {
			return fmt.Errorf("%s takes patterns in quotes: [\"/srv/shared\", \"acme-*\"]", ownCodeFlag)
		}
		if err := o.Set(glob); err != nil {
			return err
		}
	}
	return nil
}

// ownFlag is --own: whether libraries are folded in what is written.
type ownFlag struct{ own bool }

func (f *ownFlag) addOwn(cmd *cobra.Command, of string) {
	cmd.Flags().BoolVar(&f.own, "own", false, "fold frames of gems and Ruby into one, in "+of)
}

// checkOwn refuses --own for a format that it says nothing of.
func (f *ownFlag) checkOwn(format string, formats ...string) error {
	if f.own && !slices.Contains(formats, format) {
		return usageErrorf("--own is of %s, not of %s", strings.Join(formats, " and "), format)
	}
	return nil
}

// rules are nil where no pattern was given.
func (o *ownCode) rules() *own.Code {
	if o == nil {
		return nil
	}
	return o.code
}
