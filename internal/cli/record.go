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
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

// recordFlags are the flags of `ddtop record`.
type recordFlags struct {
	measurement
	ownFlag
	pprofFlags
	endpoint       endpointFlag
	when           whenFlags
	output         string
	format, metric string
}

// recordFormats are all formats of `ddtop record`. The recording has no function: it is written as it comes.
func recordFormats() []format {
	return append(profileFormats(), format{name: recordingFormat, binary: true, ends: []string{".ddtop"}, about: "all that was seen, for ddtop replay and ddtop report"})
}

func newRecord(std Streams) *cobra.Command {
	f := recordFlags{measurement: newMeasurement(std), when: newWhenFlags()}
	cmd := &cobra.Command{
		Use:   "record PID|NAME [-d 10s] -o FILE [--format FORMAT]",
		Short: "Record for a while into a file",
		Long: `Record for a while into a file, in the format that the end of its name stands for, else that of --format.
Ctrl-c ends it early and writes what was measured. The file is complete
or not written at all, except for the formats ddtop, which is written while it is measured and readable up
to its last two seconds however ddtop ends, and jsonl, whose lines come while it is measured. What FILE
held stays until the new one is complete: where there is a FILE already, the new one is in FILE.partial
until then.

` + whenHelp() + `
` + formatsHelp(recordFormats()),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args, std)
		},
	}
	f.addFlags(cmd)
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "the `FILE` to write; - is standard output")
	addFormat(cmd, &f.format, profileFormats()[0].name)
	cmd.Flags().StringVar(&f.metric, "metric", flamegraph.Wall.String(),
		"what collapsed, speedscope and svg count, a `METRIC`; pprof holds all")
	f.addOwn(cmd, "collapsed stacks")
	f.addPprof(cmd)
	f.endpoint.addEndpoint(cmd)
	f.when.addWhen(cmd)
	std.redact.addTo(cmd)
	std.own.addTo(cmd)
	return cmd
}

func (f *recordFlags) run(cmd *cobra.Command, words []string, std Streams) error {
	if waits, err := f.when.given(cmd); waits || err != nil {
		if err == nil {
			err = f.watch(cmd, words, std)
		}
		return err
	}
	out := output(f.output)
	format, err := formatOf(cmd, f.format, out, recordFormats())
	if err != nil {
		return err
	}
	f.format = format.name
	metric, err := metricNamed(f.metric)
	if err != nil {
		return err
	}
	if err := errors.Join(f.checkOwn(f.format, collapsedFormat), f.endpoint.check(format, metric), f.pprofFlags.check(&format)); err != nil {
		return err
	}
	if err := out.check(cmd.CommandPath(), format.binary, std); err != nil {
		return err
	}
	if err := f.measurement.check(cmd, words, std); err != nil {
		return err
	}
	if f.several() && format.several == nil && format.name != recordingFormat {
		return usageErrorf("%s holds one process: choose another format, or name one process", format.name)
	}
	if f.several() {
		return f.recordGroup(cmd.Context(), format, metric, out, std)
	}
	src, err := f.open(cmd.Context())
	if err != nil {
		return err
	}
	defer src.Close()
	if f.format == intervalsFormat {
		note, err := writeIntervals(cmd.Context(), src, f.length.value, nil, out, std)
		if err == nil {
			sayNotes(std, src, note)
		}
		return err
	}
	if f.format == recordingFormat {
		note, err := f.stream(cmd.Context(), src, f.length.value, out, std)
		if err != nil {
			return err
		}
		sayNotes(std, src, note)
		return nil
	}
	measured, note, err := measureProfile(cmd.Context(), src, f.length.value, format)
	if err != nil {
		return err
	}
	sayNotes(std, src, note)
	measured.Own = f.own
	f.endpoint.only(&measured)
	return writeProfile(cmd.Context(), format, measured, metric, out, std)
}

// stream writes a recording while it is measured. note says why it ended early, "" when it did not.
func (f *recordFlags) stream(ctx context.Context, src sampler.Source, length time.Duration, out output, std Streams) (note string, err error) {
	opening, opened := run.Patience(ctx)
	defer opened()
	file, err := out.stream(opening, std)
	if err != nil {
		return "", err
	}
	process := src.Process()
	w, err := recording.NewWriter(file, process, src.Dictionary())
	if err != nil {
		return "", errors.Join(err, file.done(false))
	}
	w.Live(true)
	// A full disk ends the measurement: nothing more would be written.
	measuring, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var failed error
	note, err = sampleFor(measuring, src, length, func(s *sampler.Sample) {
		if failed == nil {
			if failed = w.Write(s); failed != nil {
				cancel(failed)
			}
		}
	})
	// What came before, the probes that were taken out above all, was no fault of the disk's.
	giveUp, written := run.Patience(ctx)
	defer written()
	var end *sampler.End
	if e, ok := src.End(); ok {
		end = &e
	}
	failed = errors.Join(failed, err)
	nothing := errors.Is(err, errNothing)
	late := func() error {
		if w.Complete() && file.there {
			std.say("wrote %s. The disk has not confirmed it within %v: a crash of the machine would lose it", out, run.DiskPatience)
			return nil
		}
		return fmt.Errorf("recording process %d to %s: %w", process.PID, out, w.Unwritten())
	}
	err = run.Unless(giveUp, late, func() error { // a disk that hangs holds whoever closes its file, too
		err := errors.Join(failed, w.Close(end))
		if err != nil {
			err = fmt.Errorf("recording process %d to %s: %w", process.PID, out, err)
		}
		return errors.Join(err, file.done(err == nil))
	})
	if err != nil {
		if !nothing {
			sayNote(std, file.kept)
		}
		return "", err
	}
	if n := w.Lost(); n > 0 {
		sayNote(std, fmt.Sprintf("%d samples are missing in %s: the disk was too slow for them", n, out))
	}
	return note, nil
}

// sayNote prints why a measurement ended early.
func sayNote(std Streams, note string) {
	if note != "" {
		std.say("%s", note)
	}
}

// sayNotes prints why the measurement of a process ended early, and what of its exact mode did not go as it should.
func sayNotes(std Streams, src sampler.Source, note string) {
	sayNote(std, note)
	if what, why := exactNote(src); what != "" {
		tellExact(std.say).note(src.Process(), what, why)
	}
}

func writeProfile(ctx context.Context, f format, m export.Measured, metric flamegraph.Metric, out output, std Streams) error {
	return out.write(ctx, std, func(w io.Writer) error { return f.write(w, m, metric) })
}
