package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

// recordFlags are the flags of `ddtop record`.
type recordFlags struct {
	measurement
	output         string
	format, metric string
	redact         bool
}

// recordFormats are all formats of `ddtop record`. The recording has no function: it is written as it comes.
func recordFormats() []format {
	return append(profileFormats(), format{name: recordingFormat, binary: true, about: "all that was seen, for ddtop replay and ddtop report"})
}

func newRecord(std Streams) *cobra.Command {
	f := recordFlags{measurement: newMeasurement()}
	cmd := &cobra.Command{
		Use:   "record -p PID [-d 10s] -o FILE [--format pprof]",
		Short: "Record for a while into a file",
		Long: `Record for a while into a file. Ctrl-c ends it early and writes what was measured. The file is complete
or not written at all, but for the format ddtop, which is written while it is measured and readable up
to its last two seconds however ddtop ends.

` + formatsHelp(recordFormats()),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, std)
		},
	}
	f.addFlags(cmd)
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "the `FILE` to write; - is standard output")
	cmd.Flags().StringVar(&f.format, "format", profileFormats()[0].name, "the file's `FORMAT`")
	cmd.Flags().StringVar(&f.metric, "metric", flamegraph.Wall.String(),
		"what collapsed and speedscope count, a `METRIC`; pprof holds all but blame")
	cmd.Flags().BoolVar(&f.redact, "redact", false, "leave command line, user, host and the directories of files out")
	return cmd
}

func (f *recordFlags) run(cmd *cobra.Command, std Streams) error {
	if err := f.measurement.check(cmd); err != nil {
		return err
	}
	format, err := formatNamed(f.format, recordFormats())
	if err != nil {
		return err
	}
	metric, err := metricNamed(f.metric)
	if err != nil {
		return err
	}
	out := output(f.output)
	if err := out.check(cmd.CommandPath(), format.binary, std); err != nil {
		return err
	}
	if f.several() {
		return f.recordGroup(cmd.Context(), format, metric, out, std)
	}
	src, err := f.open(cmd.Context())
	if err != nil {
		return err
	}
	defer src.Close()
	src.Dictionary().HideDirectories(f.redact)
	if f.format == recordingFormat {
		note, err := f.stream(cmd.Context(), src, f.length.value, out, std)
		if err != nil {
			return err
		}
		sayNote(std, note)
		return nil
	}
	measured, note, err := measureProfile(cmd.Context(), src, f.length.value, format.timeline)
	if err != nil {
		return err
	}
	sayNote(std, note)
	return writeProfile(format, measured, metric, out, std)
}

// stream writes a recording while it is measured. note says why it ended early, "" when it did not.
func (f *recordFlags) stream(ctx context.Context, src sampler.Source, length time.Duration, out output, std Streams) (note string, err error) {
	file, done, err := out.stream(std)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, done()) }()
	process := src.Process()
	if f.redact {
		process = recording.Redact(process)
	}
	w, err := recording.NewWriter(file, process, src.Dictionary())
	if err != nil {
		return "", err
	}
	// A full disk ends the measurement: nothing more would be written.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var failed error
	note, err = run(ctx, src, length, func(s *sampler.Sample) {
		if failed == nil {
			if failed = w.Write(s); failed != nil {
				cancel(failed)
			}
		}
	})
	var end *sampler.End
	if e, ok := src.End(); ok {
		end = &e
	}
	if err := errors.Join(failed, err, w.Close(end)); err != nil {
		return "", fmt.Errorf("recording process %d to %s: %w", process.PID, out, err)
	}
	out.say(std)
	return note, nil
}

// sayNote prints why a measurement ended early.
func sayNote(std Streams, note string) {
	if note != "" {
		fmt.Fprintln(std.Err, "ddtop:", note)
	}
}

func writeProfile(f format, m export.Measured, metric flamegraph.Metric, out output, std Streams) error {
	return out.write(std, func(w io.Writer) error { return f.write(w, m, metric) })
}
