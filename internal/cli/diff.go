package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export/diff"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
)

// maxProfileBytes bounds how large a profile for diff may be when it is uncompressed.
const maxProfileBytes = 256 << 20

type diffFlags struct{ format, metric, output string }

// diffFormats returns the formats of a comparison. The first is the default.
func diffFormats() []format {
	return []format{
		{name: "text", about: "what differs most, by state and function", ends: []string{".txt"}},
		{name: collapsedFormat, about: "stacks with both numbers, as difffolded.pl writes them for flamegraph.pl", ends: []string{".folded", ".collapsed"}},
		{name: "html", about: "a page for any browser: by state and function, and a flamegraph with the change as colour", ends: []string{".html", ".htm"}},
	}
}

func newDiff(std run.Streams) *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two recordings or profiles",
		Long: `Compare two recordings (ddtop record --format ddtop) or pprof profiles by state and function. The result shows what B
has more or less than A, per second of elapsed time.

` + formatsHelp(diffFormats()),
		Args: takes(2, "two files: recordings or pprof profiles, the earlier one first"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args, std) },
	}
	addFormat(cmd, &f.format, diffFormats()[0].name)
	cmd.Flags().StringVar(&f.metric, "metric", flamegraph.Wall.String(), "compare this `METRIC`")
	cmd.Flags().StringVarP(&f.output, "output", "o", "-", "the `FILE` to write; - is standard output")
	std.Redact.AddTo(cmd)
	return cmd
}

func (f *diffFlags) run(cmd *cobra.Command, paths []string, std run.Streams) error {
	out := run.Output(f.output)
	if err := out.Spare(paths...); err != nil {
		return err
	}
	format, err := formatOf(cmd, f.format, out, diffFormats())
	if err != nil {
		return err
	}
	metric, err := metricNamed(f.metric)
	if err != nil {
		return err
	}
	if err := out.Check(cmd.CommandPath(), false, std); err != nil {
		return err
	}
	var both [2]diff.Comparable
	for i, path := range paths {
		if both[i], err = loadComparable(cmd.Context(), path, metric, std); err != nil {
			return err
		}
	}
	write := diff.WriteDifference
	switch format.name {
	case collapsedFormat:
		write = diff.WriteCollapsedDifference
	case "html":
		write = diff.WriteHTMLDifference
	}
	return out.Write(cmd.Context(), std, func(w io.Writer) error { return write(w, both[0], both[1], metric) })
}

// loadComparable reads a file that is a recording or a profile.
func loadComparable(ctx context.Context, path string, metric flamegraph.Metric, std run.Streams) (diff.Comparable, error) {
	file, err := os.Open(path)
	if err != nil {
		return diff.Comparable{}, err
	}
	defer file.Close()
	inFile := func(c diff.Comparable, err error) (diff.Comparable, error) {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return c, err
	}
	p, err := readProfile(file)
	if err != nil {
		return inFile(diff.Comparable{}, err)
	}
	if p != nil {
		if std.Redact.Redactor() != nil {
			return inFile(diff.Comparable{}, flags.Usagef("a profile can't be redacted any more: compare recordings, or leave --redact out"))
		}
		return inFile(diff.CompareProfile(p, metric))
	}
	r, err := openRecording(path, std)
	if err != nil {
		return diff.Comparable{}, err // the error already names the file
	}
	defer r.Close()
	m, _, err := run.MeasureProfile(ctx, r, run.Unlimited, run.Needs{})
	if err != nil {
		return inFile(diff.Comparable{}, err)
	}
	return inFile(diff.CompareMeasured(m, metric))
}

// readProfile reads a pprof profile. It returns nil if the file does not begin with the magic bytes of gzip.
func readProfile(file *os.File) (*profile.Profile, error) {
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	var begin [2]byte
	if n, err := io.ReadFull(file, begin[:]); n < 2 || !bytes.Equal(begin[:], []byte{0x1f, 0x8b}) {
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		return nil, nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("damaged profile: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(z, maxProfileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("damaged profile: %w", err)
	}
	if len(data) > maxProfileBytes {
		return nil, fmt.Errorf("the profile is larger than %d MB", maxProfileBytes>>20)
	}
	p, err := profile.ParseUncompressed(data)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("no pprof profile, nor a recording: %w", err)
	}
	return p, nil
}
