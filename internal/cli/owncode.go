package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/flags"
)

// ownFlag is --own: whether libraries are folded in what is written.
type ownFlag struct{ own bool }

func (f *ownFlag) addOwn(cmd *cobra.Command, of string) {
	cmd.Flags().BoolVar(&f.own, "own", false, "fold frames of gems and Ruby into one, in "+of)
}

// checkOwn refuses --own for a format that it says nothing of.
func (f *ownFlag) checkOwn(format string, formats ...string) error {
	if f.own && !slices.Contains(formats, format) {
		return flags.Usagef("--own is of %s, not of %s", strings.Join(formats, " and "), format)
	}
	return nil
}
