package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/cli/run"
)

// progressAfter is how long reading debug information may take before ddtop reports its progress. It is also the
// interval between two reports.
const progressAfter = time.Second

// maxShownDifferences limits how many differences from the built-in table of Ruby's structs are printed.
const maxShownDifferences = 20

func newLayout(std run.Streams) *cobra.Command {
	out := run.Output("-")
	var version string
	cmd := &cobra.Command{
		Use:   "layout FILE [-o table.json]",
		Short: "Make a table of Ruby's structs from a libruby with debug information",
		Long: `Read the debug information (DWARF) of a libruby or a statically linked ruby. Write where this build keeps each field
of its structs, as JSON. FILE is the library or its separate debug file. For a stripped library, ddtop finds the
separate file by the build id or .gnu_debuglink. Differences from the built-in table of the release go to standard
error.

If ddtop meets an unknown release, or a build that the built-in table does not fit, it does the same by itself. It
keeps the table in the user's cache folder, and reports this on the screen.`,
		Args: takes(1, "one file: a libruby, a ruby, or its debug file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check("layout", false, std); err != nil {
				return err
			}
			return deriveLayout(cmd.Context(), args[0], version, out, std)
		},
	}
	cmd.Flags().StringVarP((*string)(&out), "output", "o", "-", "the `FILE` to write; - is standard output")
	cmd.Flags().StringVar(&version, "ruby", "", "the `RELEASE`, such as 3.4.9, for a debug file that does not name it")
	return cmd
}

func deriveLayout(ctx context.Context, path, version string, out run.Output, std run.Streams) error {
	m, err := attach.OpenFile(path)
	if err != nil {
		return err
	}
	defer m.Close()
	if version == "" {
		if version, err = m.FileVersion(); err != nil {
			return fmt.Errorf("%w; give the libruby (or ruby, where that is linked statically), or, of a debug file, say the release with --ruby", err)
		}
	}
	debug, err := m.DebugFile()
	if err != nil {
		return fmt.Errorf("%w; the package with the debug information (libruby…-dbgsym), or a build with -g, is needed", err)
	}
	info, err := layout.ReadDebugInfo(ctx, debug.ELF)
	if err != nil {
		return fmt.Errorf("%s: %w", debug.Path, err)
	}
	base, nearest, err := layout.Nearest(version, m.Machine, m.JmpBuf())
	if err != nil {
		return err
	}
	derived, err := layout.Derive(ctx, info, layout.DeriveOptions{Release: version, Machine: m.Machine, Base: base,
		Progress: sayProgress(std.Err, debug.Path)})
	if err != nil {
		return fmt.Errorf("%s: %w", debug.Path, err)
	}
	var text bytes.Buffer
	if err := derived.Table.WriteJSON(&text); err != nil {
		return err
	}
	if err := out.Write(ctx, std, func(w io.Writer) error { _, err := w.Write(text.Bytes()); return err }); err != nil {
		return err
	}
	return describeLayout(std.Err, derived, version, nearest, debug.Path)
}

// describeLayout prints where the table of Ruby's structs is from, and how it differs from the nearest built-in table.
func describeLayout(w io.Writer, d *layout.Derived, version, nearest, path string) error {
	structs, fields, constants := d.Table.Counts()
	var b strings.Builder
	fmt.Fprintf(&b, "ddtop: Ruby %s on %s, from %s: %d structs, %d fields, %d constants (%d of %d units read)\n",
		version, d.Table.Machine, path, structs, fields, constants, d.Units, d.Total)
	fmt.Fprintf(&b, "ddtop: %d macros and structs that debug information does not hold are those of %s\n", len(d.Borrowed), nearest)
	known, match, err := layout.For(version, d.Table.Machine, d.Table.JmpBuf)
	if err != nil {
		fmt.Fprintf(&b, "ddtop: there is no built-in table for %s\n", version)
		_, err := io.WriteString(w, b.String())
		return err
	}
	differences := layout.Differences(d.Table, known)
	switch {
	case len(differences) == 0:
		fmt.Fprintf(&b, "ddtop: it agrees with the built-in table %q\n", known.Name)
	case match.Exact:
		fmt.Fprintf(&b, "ddtop: it differs from the built-in table %q in %d places:\n", known.Name, len(differences))
	default:
		fmt.Fprintf(&b, "ddtop: %s; the table from debug information differs from it in %d places:\n", match.Note, len(differences))
	}
	for i, diff := range differences {
		if i == maxShownDifferences {
			fmt.Fprintf(&b, "  and %d more\n", len(differences)-i)
			break
		}
		fmt.Fprintf(&b, "  %s\n", flamegraph.Printable(diff))
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// sayProgress returns a function that once a second prints how far ddtop has read the debug information.
func sayProgress(w io.Writer, path string) func(done, total int) {
	next := time.Now().Add(progressAfter)
	return func(done, total int) {
		if now := time.Now(); now.After(next) {
			next = now.Add(progressAfter)
			fmt.Fprintf(w, "ddtop: reading the debug information of %s: %d of %d units\n", flamegraph.Printable(path), done, total)
		}
	}
}
