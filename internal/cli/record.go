package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export/trace"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/heaps"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

type recordFlags struct {
	measurement
	ownFlag
	allFramesFlag
	pprofFlags
	endpoint       flags.Endpoint
	when           whenFlags
	output         string
	heap           bool
	format, metric string
}

func recordFormats() []format {
	return append(profileFormats(), format{name: recordingFormat, binary: true, ends: []string{".ddtop"}, about: "all that was seen, for ddtop replay and ddtop report",
		writer: recordingFile{}})
}

func newRecord(std run.Streams) *cobra.Command {
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
	f.addFlags(cmd, std)
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "the `FILE` to write; - is standard output")
	addFormat(cmd, &f.format, profileFormats()[0].name)
	cmd.Flags().StringVar(&f.metric, "metric", flamegraph.Wall.String(),
		"what collapsed, speedscope and svg count, a `METRIC`; pprof holds all")
	f.addOwn(cmd, "collapsed stacks")
	f.addAllFrames(cmd)
	f.addPprof(cmd)
	f.endpoint.AddTo(cmd)
	f.when.addWhen(cmd)
	cmd.Flags().BoolVar(&f.heap, "heap", false, "of html: count live objects meanwhile, and add a table of their classes")
	std.Redact.AddTo(cmd)
	std.Own.AddTo(cmd)
	return cmd
}

func (f *recordFlags) run(cmd *cobra.Command, words []string, std run.Streams) error {
	if waits, err := f.when.given(cmd); waits || err != nil {
		if err == nil && f.heap {
			return flags.Usagef("--heap is of a page, and --when writes recordings")
		}
		if err == nil {
			err = f.watch(cmd, words, std)
		}
		return err
	}
	out := run.Output(f.output)
	format, err := formatOf(cmd, f.format, out, recordFormats())
	if err != nil {
		return err
	}
	f.format = format.name
	metric, err := metricNamed(f.metric)
	if err != nil {
		return err
	}
	if err := errors.Join(f.checkAllFrames(f.format),
		f.checkOwn(f.format, collapsedFormat), checkEndpoint(&f.endpoint, format, metric), f.pprofFlags.check(format)); err != nil {
		return err
	}
	if f.heap && format.name != htmlFormat {
		return flags.Usagef("--heap adds a table to html: %s has no place for it", format.name)
	}
	if err := out.Check(cmd.CommandPath(), format.binary, std); err != nil {
		return err
	}
	if err := f.measurement.check(cmd, words, std); err != nil {
		return err
	}
	j := &job{length: f.length.Value, metric: metric, own: f.own, allFrames: f.allFrames, stamped: f.timeline, endpoint: &f.endpoint, out: out, std: std}
	if f.heap {
		j.heaps = heaps.NewReaders(f.attaching(nil))
		defer j.heaps.Close()
	}
	if f.several() {
		if err := format.checkGroup(format.name, j); err != nil {
			return err
		}
		g, err := f.openGroup(cmd.Context(), false, std.Say)
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
	j.noted = func(note string) { run.SayNotes(std, src, note) }
	return format.write(cmd.Context(), src, j)
}

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
		return flags.Usagef("a recording of several processes is a file each: name it with -o FILE; the PIDs are added to the name")
	}
	return nil
}

func (recordingFile) writeGroup(ctx context.Context, g sampler.Group, j *job) error {
	var names recordingNames
	_, err := run.MeasureGroup(ctx, g, j.length, j.std, func(ctx context.Context, src sampler.Source, left time.Duration) (struct{}, string, error) {
		note, err := streamRecording(ctx, src, left, names.next(j.out, src.Process().PID), j.std)
		return struct{}{}, note, err
	})
	return err
}

// streamRecording measures, and writes the recording meanwhile. note is "", or says why the measurement ended early.
func streamRecording(ctx context.Context, src sampler.Source, length time.Duration, out run.Output, std run.Streams) (note string, err error) {
	opening, opened := run.Patience(ctx)
	defer opened()
	file, err := out.Stream(opening, std)
	if err != nil {
		return "", err
	}
	process := src.Process()
	w, err := recording.NewWriter(file, process, src.Dictionary())
	if err != nil {
		return "", errors.Join(err, file.Done(false))
	}
	w.Live(true)
	// If the disk is full, end the measurement, because no further samples can be written.
	measuring, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var failed error
	note, err = run.SampleFor(measuring, src, length, func(s *sampler.Sample) {
		s.Native.WantAll(s.TimeNS)
		if failed == nil {
			if failed = w.Write(s); failed != nil {
				cancel(failed)
			}
		}
	})
	// The disk's time limit (run.DiskPatience) begins only here, because SampleFor may need long to remove the probes.
	giveUp, written := run.Patience(ctx)
	defer written()
	var end *sampler.End
	if e, ok := src.End(); ok {
		end = &e
	}
	failed = errors.Join(failed, err)
	nothing := errors.Is(err, run.ErrNothing)
	late := func() error {
		if w.Complete() && file.There {
			std.Say("wrote %s. The disk has not confirmed it within %v: a crash of the machine would lose it", out, run.DiskPatience)
			return nil
		}
		return fmt.Errorf("recording process %d to %s: %w", process.PID, out, w.Unwritten())
	}
	err = run.Unless(giveUp, late, func() error { // on a disk that hangs, closing a file hangs, too
		err := errors.Join(failed, w.Close(end))
		if err != nil {
			err = fmt.Errorf("recording process %d to %s: %w", process.PID, out, err)
		}
		return errors.Join(err, file.Done(err == nil))
	})
	if err != nil {
		if !nothing {
			run.SayNote(std, file.Kept)
		}
		return "", err
	}
	if n := w.Lost(); n > 0 {
		run.SayNote(std, fmt.Sprintf("%d samples are missing in %s: the disk was too slow for them", n, out))
	}
	return note, nil
}

// recordingNames makes the names of the files of several processes: FILE-PID.ddtop. If a process became another Ruby by
// exec, the next file is FILE-PID-2.ddtop.
type recordingNames struct {
	mu   sync.Mutex
	seen map[int]int
}

func (n *recordingNames) next(out run.Output, pid int) run.Output {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil {
		n.seen = make(map[int]int)
	}
	n.seen[pid]++
	ext := filepath.Ext(string(out))
	name := fmt.Sprintf("%s-%d", strings.TrimSuffix(string(out), ext), pid)
	if n.seen[pid] > 1 {
		name += fmt.Sprintf("-%d", n.seen[pid])
	}
	return run.Output(name + ext)
}

// intervalLines writes a line of JSON for each interval of a thread in one state, while ddtop measures.
type intervalLines struct{ oneProcess }

func (intervalLines) write(ctx context.Context, src sampler.Source, j *job) error {
	note, err := writeIntervals(ctx, src, j.length, j.notes, j.out, j.std)
	if err == nil {
		j.noted(note)
	}
	return err
}

// writeIntervals measures for a length of time, or reads a whole recording, and writes a line for each interval of a
// thread. note says why it ended early, or is empty.
func writeIntervals(ctx context.Context, src sampler.Source, length time.Duration, notes []sampler.Note, out run.Output, std run.Streams) (note string, err error) {
	giveUp, released := run.Patience(ctx)
	defer released()
	file, err := out.Stream(giveUp, std)
	if err != nil {
		return "", err
	}
	aside := run.WriteAside(file, giveUp)
	class, stream := gvl.NewClassifier(src.Process(), src.Dictionary()), stream.New(src.Process())
	lines := trace.NewIntervals(aside, stream, src.Process(), src.Dictionary(), Version)
	for _, n := range notes {
		lines.Note(n)
	}
	measuring, stop := context.WithCancel(ctx)
	defer stop()
	note, err = run.SampleFor(measuring, src, length, func(s *sampler.Sample) {
		if stream.Feed(s, class.Classify(s)); lines.Err() != nil {
			stop() // the disk may be full: no further lines can be written
		}
	})
	stream.Finish()
	if lines.Err() == nil {
		// The time limit for the disk (run.DiskPatience) begins only here. SampleFor may need long to remove probes.
		giveUp, written := run.Patience(ctx)
		defer written()
		aside.GiveUp = giveUp
	}
	end, _ := src.End()
	failed := errors.Join(err, lines.Finish(end.Reason), aside.Close())
	if failed != nil && err == nil {
		failed = fmt.Errorf("writing the intervals of process %d to %s: %w", src.Process().PID, out, firstOf(failed))
	}
	// If a disk hangs, closing a file on it hangs, too.
	if err := run.Unless(aside.GiveUp, run.Slow, func() error { return file.Done(failed == nil) }); failed == nil {
		failed = err
	}
	if failed != nil {
		if err == nil {
			run.SayNote(std, file.Kept)
		}
		return "", failed
	}
	return note, nil
}

// firstOf returns the first of several joined errors. The others have the same cause, so only the first is reported.
func firstOf(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()[0]
	}
	return err
}
