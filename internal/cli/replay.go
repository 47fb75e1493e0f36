package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui"
)

func newReplay(std Streams) *cobra.Command {
	screen := newScreenFlags(std)
	var against string
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Show a recording on the screen",
		Long: `Show a recording (ddtop record --format ddtop) on the screen, with every view as it was live. Several files show several
processes (ddtop record --children). With --against, the flamegraph and the top functions show what is more or less
than in another recording, for the same length of time.`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !std.Terminal {
				return usageErrorf("replay needs a terminal: use \"ddtop report %s\"", args[0])
			}
			if err := errors.Join(screen.configure(cmd, std), screen.check()); err != nil {
				return err
			}
			if against != "" && len(args) > 1 {
				return usageErrorf("--against compares one recording: name one")
			}
			if len(args) > 1 {
				return replaySeveral(cmd.Context(), &screen, args, std)
			}
			s := shown{replay: true}
			all, err := loadRecordings(cmd.Context(), &screen, args, std)
			if err != nil {
				return notWaitedFor(err)
			}
			s.notice = sayDamage(all[0], std)
			if against != "" {
				if s.against, err = loadAgainst(cmd.Context(), &screen, against, std); err != nil {
					return errors.Join(notWaitedFor(err), all.Close())
				}
			}
			return errors.Join(screen.show(cmd.Context(), all[0], std, s), all.Close())
		},
	}
	cmd.Flags().StringVar(&against, "against", "", "compare with another recording, a `FILE`")
	screen.add(cmd)
	return cmd
}

// loadAgainst reads a recording to compare with, with a picture of how far it is.
func loadAgainst(ctx context.Context, screen *screenFlags, path string, std Streams) (*ui.Against, error) {
	list, err := loadRecordings(ctx, screen, []string{path}, std)
	if err != nil {
		return nil, fmt.Errorf("--against: %w", err)
	}
	name := std.redact.text(filepath.Base(path))
	x, err := ui.Load(ctx, screen.options(std, shown{}), "reading "+name, func(ctx context.Context, _ func(ui.Progress)) (*ui.Against, error) {
		return ui.LoadAgainst(ctx, list[0], name, screen.options(std, shown{}))
	})
	if err != nil && notWaitedFor(err) != nil {
		err = fmt.Errorf("--against %s: %w", path, err)
	}
	return x, errors.Join(err, list.Close())
}

// reportFlags are the flags of `ddtop report`.
type reportFlags struct {
	format, metric, output string
	asJSON                 bool
	judgement
	ownFlag
	pprofFlags
}

// Formats of `ddtop report` beside those of profiles.
const (
	reportStat = "stat"
	reportDump = "dump"
)

// dumpLeadNS is how much of a recording's end is read for a dump: what a thread did before says more about a state that
// lasts than one sample does.
const dumpLeadNS = int64(5 * time.Second)

// reportFormats are all formats of `ddtop report`. f may be nil for their names.
func reportFormats(f *reportFlags) []format {
	asJSON := f != nil && f.asJSON
	return append([]format{
		{name: reportStat, about: "the table of ddtop stat, over the whole recording; --json for JSON", json: asJSON, writer: statReport{flags: f}},
		{name: reportDump, about: "the thread dump of its end; --json for JSON", json: asJSON, writer: dumpReport{flags: f}},
	}, profileFormats()...)
}

func newReport(std Streams) *cobra.Command {
	f := reportFlags{judgement: newJudgement()}
	cmd := &cobra.Command{
		Use:   "report FILE [--format stat]",
		Short: "Print or convert a recording",
		Long:  "Print or convert a recording (ddtop record --format ddtop).\n\n" + formatsHelp(reportFormats(nil)),
		Args:  oneFile,
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
	f.addPprof(cmd)
	f.endpoint.addEndpoint(cmd)
	std.redact.addTo(cmd)
	std.own.addTo(cmd)
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print stat and dump as JSON (docs/reference/json.md)")
	return cmd
}

func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageErrorf("%s takes one recording: a file written by \"ddtop record --format %s\"", cmd.CommandPath(), recordingFormat)
	}
	return nil
}

// openRecording opens a file and says what of it can't be read.
func openRecording(path string, std Streams) (*recording.Reader, error) {
	r, err := recording.Open(path)
	if err != nil {
		return nil, err
	}
	r.Redact(std.redact.redactor())
	r.Own(std.own.rules())
	sayDamage(r, std)
	return r, nil
}

// sayDamage says what of a recording can't be read, and returns it; "" when all can.
func sayDamage(r *recording.Reader, std Streams) string {
	damage := r.Damage()
	if damage == nil {
		return ""
	}
	std.sayErr(damage)
	return std.redact.text(damage.Error())
}

func (f *reportFlags) run(cmd *cobra.Command, path string, std Streams) error {
	out := output(f.output)
	format, err := formatOf(cmd, f.format, out, reportFormats(f))
	if err != nil {
		return err
	}
	f.format = format.name
	metric, err := metricNamed(f.metric)
	if err != nil {
		return err
	}
	if err := errors.Join(out.spare(path), f.checkOwn(f.format, collapsedFormat, reportDump), f.endpoint.check(format, metric), f.pprofFlags.check(format)); err != nil {
		return err
	}
	r, err := openRecording(path, std)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := out.check(cmd.CommandPath(), format.binary, std); err != nil {
		return err
	}
	return format.write(cmd.Context(), r, &job{length: unlimited, metric: metric, own: f.own, stamped: f.timeline, endpoint: &f.endpoint,
		rules: f.rules, notes: r.Notes(), noted: func(string) {}, out: out, std: std})
}

// statReport writes the table of `ddtop stat`.
type statReport struct {
	oneProcess
	flags *reportFlags
}

func (f statReport) write(ctx context.Context, src sampler.Source, j *job) error {
	stat, _, err := measureStat(ctx, src, j.length, f.flags.judgement)
	if err != nil {
		return err
	}
	return j.out.write(ctx, j.std, func(w io.Writer) error {
		if f.flags.asJSON {
			return export.WriteStatJSON(w, stat, j.notes...)
		}
		return export.WriteStat(w, stat, j.notes...)
	})
}

// dumpReport writes the thread dump of the last sample that has all stacks.
type dumpReport struct {
	oneProcess
	flags *reportFlags
}

func (f dumpReport) write(ctx context.Context, src sampler.Source, j *job) error {
	r := src.(*recording.Reader)
	m := gvl.NewMeasure(r.Process(), r.Dictionary(), j.rules)
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
	d.OnlyEndpoints(j.endpoint.match())
	return j.out.write(ctx, j.std, func(w io.Writer) error {
		if f.flags.asJSON {
			return d.WriteJSON(w)
		}
		return d.WriteText(w)
	})
}
