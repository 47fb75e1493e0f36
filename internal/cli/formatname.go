package cli

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// addFormat adds the flag of the format.
func addFormat(cmd *cobra.Command, name *string, usual string) {
	cmd.Flags().StringVar(name, "format", usual, "the `FORMAT`, if the name of the file does not choose it")
}

// formatOf is the format that a file is written in: the one asked for, else the one that its name stands for, else the usual one,
// which is what asked holds. A name that stands for another one than was asked for is refused: whoever opens the file by its name
// would be told that it is broken.
func formatOf(cmd *cobra.Command, asked string, out output, formats []format) (format, error) {
	f, err := formatNamed(asked, formats)
	if err != nil {
		return format{}, err
	}
	name := strings.ToLower(filepath.Base(string(out)))
	is := func(f format) bool {
		return slices.ContainsFunc(f.ends, func(end string) bool { return strings.HasSuffix(name, end) }) ||
			f.begins != "" && strings.HasPrefix(name, f.begins)
	}
	told := slices.IndexFunc(formats, is)
	chosen := cmd.Flags().Changed("format")
	switch {
	case told >= 0 && (formats[told].name == f.name || !chosen):
		return formats[told], nil
	case told >= 0:
		return format{}, usageErrorf("%s is the name of a file in the format %s, not %s: choose another name, or leave --format out", out, formats[told].name, f.name)
	case strings.HasSuffix(name, ".json") && !f.json:
		var all []string
		for _, f := range formats {
			if f.json {
				all = append(all, f.name)
			}
		}
		how := "with --format"
		if cmd.Flags().Lookup("json") != nil {
			how += ", or take --json for stat"
		}
		return format{}, usageErrorf("%s is no name for the format %s; in JSON are %s: say which %s", out, f.name, strings.Join(all, ", "), how)
	case strings.HasSuffix(name, ".html"):
		return format{}, usageErrorf("%s is no name for the format %s; a flamegraph for a browser is an .svg", out, f.name)
	}
	return f, nil
}
