package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

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

// recordFormats are all formats of `ddtop record`.
func recordFormats() []format {
	return append(profileFormats(), format{name: recordingFormat, binary: true, ends: []string{".ddtop"}, about: "all that was seen, for ddtop replay and ddtop report",
		writer: recordingFile{}})
}

func newRecord(std Streams) *cobra.Command {
	f := recordFlags{measurement: newMeasurement(std), when: newWhenFlags()}
	cmd := &cobra.Command{
		Use:   "record PID|NAME [-d 10s] -o FILE [--format FORMAT]",
		Short: "Record for a while into a file",
		Long: `Record for a while into a file. The end of its name chooses the format, or --format does. Ctrl-c ends the recording
early and writes what was measured.

A file is written completely or not at all. There are two exceptions. A recording (ddtop) is written during the
measurement, and is readable up to its last two seconds if ddtop is killed. The lines of jsonl are written as they
come. If FILE exists, the new file is FILE.partial until it is complete.

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
	if err := errors.Join(f.checkOwn(f.format, collapsedFormat), f.endpoint.check(format, metric), f.pprofFlags.check(format)); err != nil {
		return err
	}
	if err := out.check(cmd.CommandPath(), format.binary, std); err != nil {
		return err
	}
	if err := f.measurement.check(cmd, words, std); err != nil {
		return err
	}
	j := &job{length: f.length.value, metric: metric, own: f.own, stamped: f.timeline, endpoint: &f.endpoint, out: out, std: std}
	if f.several() {
		if err := format.checkGroup(format.name, j); err != nil {
			return err
		}
		g, err := f.openGroup(cmd.Context(), false, std.say)
		if err != nil {
			return err
		}
		defer g.Close()
		return format.writeGroup(cmd.Context(), g, j)
	}
	src, err := f.open(cmd.Context())
	if err != nil {
		return err
	}
	defer src.Close()
	j.noted = func(note string) { sayNotes(std, src, note) }
	return format.write(cmd.Context(), src, j)
}

// recordingFile writes a recording, or one of each process.
type recordingFile struct{}

func (recordingFile) write(ctx context.Context, src sampler.Source, j *job) error {
	note, err := streamRecording(ctx, src, j.length, j.out, j.std)
	if err == nil {
		j.noted(note)
	}
	return err
}

func (recordingFile) checkGroup(_ string, j *job) error {
	if j.out == "-" {
		return usageErrorf("a recording of several processes is a file each: name it with -o FILE; the PIDs are added to the name")
	}
	return nil
}

func (recordingFile) writeGroup(ctx context.Context, g sampler.Group, j *job) error {
	var names recordingNames
	_, err := measureGroup(ctx, g, j.length, j.std, func(ctx context.Context, src sampler.Source, left time.Duration) (struct{}, string, error) {
		note, err := streamRecording(ctx, src, left, names.next(j.out, src.Process().PID), j.std)
		return struct{}{}, note, err
	})
	return err
}

// streamRecording writes a recording while it is measured. note says why it ended early, "" when it did not.
func streamRecording(ctx context.Context, src sampler.Source, length time.Duration, out output, std Streams) (note string, err error) {
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
