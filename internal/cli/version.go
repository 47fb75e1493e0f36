package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Version is ddtop's release.
const Version = "0.1.0"

func newVersion(std Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print ddtop's version",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(std.Out, versionText())
			return err
		},
	}
}

// versionText reads "ddtop 0.1.0 (commit 1a2b3c4, changed), go1.26.8, linux/amd64".
func versionText() string {
	var commit, changed string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && len(s.Value) >= 12:
				commit = s.Value[:12]
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = ", changed"
			}
		}
	}
	var b strings.Builder
	b.WriteString("ddtop " + Version)
	if commit != "" {
		b.WriteString(" (commit " + commit + changed + ")")
	}
	fmt.Fprintf(&b, ", %s, %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return b.String()
}
