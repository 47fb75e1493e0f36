package cli

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/run"
)

// Version is ddtop's release. The Git tag of a release is the letter v followed by this version.
const Version = "0.1.0"

func newVersion(std run.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print ddtop's version",
		Args:  noArgs,
		RunE:  func(*cobra.Command, []string) error { return printVersion(std) },
	}
}

func printVersion(std run.Streams) error {
	_, err := fmt.Fprintln(std.Out, versionText())
	return err
}

// versionText returns a line such as "ddtop 0.1.0 (commit 1a2b3c4d5e6f, 2026-11-26), go1.26.8, linux/amd64".
func versionText() string {
	source := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		source = sourceOf(info)
	}
	if source != "" {
		source = " (" + source + ")"
	}
	return fmt.Sprintf("ddtop %s%s, %s, %s/%s", Version, source, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// pseudoVersion matches Go's name of a commit without a tag: a time in UTC, then the commit's first twelve digits.
var pseudoVersion = regexp.MustCompile(`[-.](\d{14})-([0-9a-f]{12})(\+.*)?$`)

// sourceOf returns what the binary was built from: the commit with its date. If Go recorded no commit, as with `go
// install …@v0.1.0`, sourceOf returns the module's version. If Go recorded neither, it returns "".
func sourceOf(info *debug.BuildInfo) string {
	var commit, date, changed string
	if m := pseudoVersion.FindStringSubmatch(info.Main.Version); m != nil {
		commit, date = m[2], dateOf("20060102150405", m[1])
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			commit = s.Value[:12]
		case s.Key == "vcs.time":
			date = dateOf(time.RFC3339, s.Value)
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "changed"
		}
	}
	switch version := info.Main.Version; {
	case commit != "":
		commit = "commit " + commit
	case version != "" && version != "(devel)":
		commit = "module " + version
	}
	var words []string
	for _, w := range []string{commit, date, changed} {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, ", ")
}

// dateOf returns the day in text, in UTC. It returns "" if text does not have the given layout.
func dateOf(layout, text string) string {
	t, err := time.Parse(layout, text)
	if err != nil {
		return ""
	}
	return t.UTC().Format(time.DateOnly)
}
