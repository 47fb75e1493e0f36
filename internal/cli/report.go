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
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

type reportFlags struct {
	format, metric, output string
	asJSON                 bool
	judgement
	ownFlag
	allFramesFlag
	pprofFlags
}

// The formats of `ddtop report` other than profiles.
const (
	reportStat = "stat"
	reportDump = "dump"
)

// dumpLeadNS is how much of a recording, in ns, a dump reads before its sample, to know how long states have lasted.
const dumpLeadNS = int64(5 * time.Second)

// reportFormats returns all formats of `ddtop report`. f may be nil if only their names are needed.
func reportFormats(f *reportFlags) []format {
	asJSON := f != nil && f.asJSON
	return append([]format{
		{name: reportStat, about: "the table of ddtop stat, over the whole recording; --json for JSON", json: asJSON, writer: statReport{flags: f}},
		{name: markdownFormat, about: "a summary in Markdown for a ticket, as the key Y copies it", ends: []string{".md"}, writer: markdownReport{flags: f}},
		{name: reportDump, about: "the thread dump of its end; --json for JSON", json: asJSON, writer: dumpReport{flags: f}},
	}, profileFormats()...)
}

func newReport(std run.Streams) *cobra.Command {
	f := reportFlags{judgement: newJudgement()}
	cmd := &cobra.Command{
		Use:   "report FILE [--format stat]",
		Short: "Print or convert a recording",
		Long:  "Print or convert a recording (ddtop record --format ddtop).\n\n" + formatsHelp(reportFormats(nil)),
		Args:  takes(1, `one recording: a file written by "ddtop record --format `+recordingFormat+`"`),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0], std)
		},
	}
	addFormat(cmd, &f.format, reportStat)
	cmd.Flags().StringVar(&f.metric, "metric", flamegraph.Wall.String(), "the `METRIC` that collapsed, speedscope and svg count; pprof has all")
	cmd.Flags().StringVarP(&f.output, "output", "o", "-", "the `FILE` to write; - is standard output")
	f.addRules(cmd)
	f.addWait(cmd)
	f.addOwn(cmd, "collapsed stacks and the dump's text")
	f.addAllFrames(cmd)
	f.addPprof(cmd)
	f.endpoint.AddTo(cmd)
	std.Redact.AddTo(cmd)
	std.Own.AddTo(cmd)
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print stat and dump as JSON (docs/reference/json.md)")
	return cmd
}

func (f *reportFlags) run(cmd *cobra.Command, path string, std run.Streams) error {
	out := run.Output(f.output)
	if err := out.Spare(path); err != nil {
		return err
	}
	format, err := formatOf(cmd, f.format, out, reportFormats(f))
	if err != nil {
		return err
	}
	f.format = format.name
	metric, err := metricNamed(f.metric)
	if err != nil {
		return err
	}
	if err := errors.Join(f.checkAllFrames(f.format),
		f.checkOwn(f.format, collapsedFormat, reportDump), checkEndpoint(&f.endpoint, format, metric), f.pprofFlags.check(format)); err != nil {
		return err
	}
	r, err := openRecording(path, std)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := out.Check(cmd.CommandPath(), format.binary, std); err != nil {
		return err
	}
	return format.write(cmd.Context(), r, &job{length: run.Unlimited, metric: metric, own: f.own, allFrames: f.allFrames, stamped: f.timeline, endpoint: &f.endpoint,
		rules: f.rules, notes: r.Notes(), noted: func(string) {}, out: out, std: std})
}

type statReport struct {
	oneProcess
	flags *reportFlags
}

func (f statReport) write(ctx context.Context, src sampler.Source, j *job) error {
	stat, _, err := measureStat(ctx, src, j.length, f.flags.judgement)
	if err != nil {
		return err
	}
	return j.out.Write(ctx, j.std, func(w io.Writer) error {
		if f.flags.asJSON {
			return export.WriteStatJSON(w, stat, j.notes...)
		}
		return export.WriteStat(w, stat, j.notes...)
	})
}

// markdownReport writes a summary of a recording in Markdown.
type markdownReport struct {
	oneProcess
	flags *reportFlags
}

func (f markdownReport) write(ctx context.Context, src sampler.Source, j *job) error {
	stat, _, err := measureStat(ctx, src, j.length, f.flags.judgement)
	if err != nil {
		return err
	}
	return j.out.Write(ctx, j.std, func(w io.Writer) error { return export.WriteStatMarkdown(w, src.Process(), &stat, j.notes...) })
}

// dumpReport writes a thread dump of a recording, from its last sample with stacks.
type dumpReport struct {
	oneProcess
	flags *reportFlags
}

func (f dumpReport) write(ctx context.Context, src sampler.Source, j *job) error {
	r := src.(*recording.Reader)
	m := measure.New(r.Process(), r.Dictionary(), j.rules)
	var last *sampler.Sample
	var states []gvl.ThreadState
	var first int64
	_, end := r.Span()
	err := r.Range(end-dumpLeadNS, end+1, func(s *sampler.Sample) {
		if first == 0 {
			first = s.TimeNS
		}
		now := m.Feed(s)
		if s.Depth == sampler.StackTick {
			last, states = s.Clone(), append(states[:0], now...)
		}
	})
	if err != nil {
		return err
	}
	if last == nil {
		return fmt.Errorf("the last %v of the recording hold no sample with stacks", time.Duration(dumpLeadNS))
	}
	d := export.NewDump(r.Process(), r.Dictionary(), last, states)
	d.FoldLibraries(j.own)
	d.SetMeasured(last.TimeNS-first, m.Findings())
	d.OnlyEndpoints(j.endpoint.Match())
	return j.out.Write(ctx, j.std, func(w io.Writer) error {
		if f.flags.asJSON {
			return d.WriteJSON(w)
		}
		return d.WriteText(w)
	})
}
