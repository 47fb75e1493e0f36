package cli

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

func newStat(std run.Streams) *cobra.Command {
	m, j := newMeasurement(std), newJudgement()
	lines := newLineFlags()
	var asJSON bool
	var as statFormat
	cmd := &cobra.Command{
		Use:   "stat PID|NAME [-d 10s]",
		Short: "Measure for a while, then print where the time went",
		Long: `Measure for a while, then print findings, time by state and thread, use of the GVL, waits for the GVL and their
causes, garbage collection, the rates reached, what could not be read, and what ddtop itself used. Ctrl-c ends the
measurement early and prints what was measured.

With --interval 1s it prints a line per second, as vmstat does; with --json an object per line. With --exact all times
and waits are exact. It then also prints how often threads got the GVL and what the probes cost.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			inLines, err := lines.given(cmd, &m.length)
			if err = cmp.Or(err, as.check(asJSON || inLines)); err != nil {
				return err
			}
			if inLines {
				m.figuresOf = lines.interval.Value
			}
			if err := m.check(cmd, args, std); err != nil {
				return err
			}
			if inLines {
				return m.statLines(cmd.Context(), lines.interval.Value, std, asJSON)
			}
			if m.several() {
				return m.statGroup(cmd.Context(), m.length.Value, j, std, asJSON, as)
			}
			src, err := m.open(cmd.Context())
			if err != nil {
				return err
			}
			defer src.Close()
			stat, note, err := measureStat(cmd.Context(), src, m.length.Value, j)
			if err != nil {
				return err
			}
			run.SayNotes(std, src, note)
			if asJSON {
				return export.WriteStatJSON(std.Results(cmd.Context()), stat)
			}
			if as == markdownFormat {
				return export.WriteStatMarkdown(std.Results(cmd.Context()), src.Process(), &stat)
			}
			return export.WriteStat(std.Results(cmd.Context()), stat)
		},
	}
	m.addFlags(cmd, std)
	std.Redact.AddTo(cmd)
	std.Own.AddTo(cmd)
	j.addRules(cmd)
	j.addWait(cmd)
	lines.addLines(cmd)
	j.endpoint.AddTo(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/reference/json.md)")
	as = textFormat
	cmd.Flags().StringVar((*string)(&as), "format", textFormat, "text, or md: a summary in Markdown for a ticket, a `FORMAT`")
	return cmd
}

// statFormat is the value of the flag --format of `ddtop stat`.
type statFormat string

const textFormat, markdownFormat = "text", "md"

// check refuses unknown formats. It also refuses Markdown if another is true: the user gave --json or --interval.
func (f statFormat) check(another bool) error {
	switch {
	case f != textFormat && f != markdownFormat:
		return flags.Usagef("there is no format %q: the formats are %s, %s", string(f), textFormat, markdownFormat)
	case f == markdownFormat && another:
		return flags.Usagef("--format %s does not go with --json and --interval", markdownFormat)
	}
	return nil
}

func measureStat(ctx context.Context, src sampler.Source, length time.Duration, j judgement) (report.Stat, string, error) {
	return measureWith(ctx, measure.New(src.Process(), src.Dictionary(), j.rules), src, length, j)
}

// measureWith is like measureStat, but uses a Measure that the caller has made.
func measureWith(ctx context.Context, m *measure.Measure, src sampler.Source, length time.Duration, j judgement) (report.Stat, string, error) {
	native := run.WatchNative(src)
	m.WatchNative()
	note, err := run.SampleFor(ctx, src, length, func(s *sampler.Sample) { m.Feed(s) })
	if err != nil {
		return report.Stat{}, "", err
	}
	stat := m.Stat(j.wait.Value.Nanoseconds())
	if err := seenEndpoints(&j.endpoint, m); err != nil {
		return report.Stat{}, "", err
	}
	if match := j.endpoint.Match(); match != nil {
		stat.Requests = m.Requests(match)
	}
	fillSource(&stat, src)
	stat.FillNative(native.Others(ctx, run.RubyTIDs(&stat)))
	return stat, note, exact.Fill(&stat, src)
}

// headEvery is the number of lines of text after which the table's heading is repeated.
const headEvery = 20

type lineFlags struct{ interval flags.Duration }

func newLineFlags() lineFlags {
	return lineFlags{flags.Duration{Min: 100 * time.Millisecond, Max: time.Hour}}
}

func (f *lineFlags) addLines(cmd *cobra.Command) {
	cmd.Flags().Var(&f.interval, "interval", "print a line for each interval of this length, until ctrl-c or for -d: 1s")
	cmd.Flags().Lookup("interval").DefValue = ""
}

// given reports whether the user gave --interval. It refuses flags that cannot be combined with it.
func (f *lineFlags) given(cmd *cobra.Command, length *flags.Duration) (bool, error) {
	if !cmd.Flags().Changed("interval") {
		return false, nil
	}
	for _, name := range []string{"finding", "wait-threshold", "endpoint"} {
		if cmd.Flags().Changed(name) {
			return false, flags.Usagef("--%s does not go with --interval, whose lines have nothing of it", name)
		}
	}
	if !cmd.Flags().Changed("duration") {
		length.Value = run.Unlimited
	}
	return true, nil
}

// linePrinter prints the lines of one or several processes while they are measured.
type linePrinter struct{ *run.Printer[report.TimedLine] }

// printLines starts a linePrinter. It calls failed when nothing more can be written.
func printLines(to io.Writer, asJSON, several bool, failed func()) linePrinter {
	n := 0
	return linePrinter{run.Print(func(l report.TimedLine) error {
		if asJSON {
			return export.WriteStatLineJSON(to, l)
		}
		if n%headEvery == 0 {
			if _, err := io.WriteString(to, export.StatLinesHead(several)); err != nil {
				return err
			}
		}
		n++
		return export.WriteStatLine(to, l, several)
	}, failed)}
}

// measure measures a process and adds its lines. note says why the measurement ended early, or is "".
func (p linePrinter) measure(ctx context.Context, src sampler.Source, length, interval time.Duration) (note string, err error) {
	class := gvl.NewClassifier(src.Process(), src.Dictionary())
	stream := stream.New(src.Process())
	lines := account.NewLines(stream, src.Process(), interval.Nanoseconds(), func(l report.StatLine) {
		p.Add(report.TimedLine{Time: src.Process().WallTime(l.EndNS), StatLine: l})
	})
	note, err = run.SampleFor(ctx, src, length, func(s *sampler.Sample) { stream.Feed(s, class.Classify(s)) })
	stream.Finish()
	lines.Finish()
	return note, err
}

func (m *measurement) statLines(ctx context.Context, interval time.Duration, std run.Streams, asJSON bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if m.several() {
		g, err := m.openGroup(ctx, false, std.Say)
		if err != nil {
			return err
		}
		defer g.Close()
		p := printLines(std.Results(ctx), asJSON, true, cancel)
		_, err = run.MeasureGroup(ctx, g, m.length.Value, std, func(ctx context.Context, src sampler.Source, left time.Duration) (struct{}, string, error) {
			note, err := p.measure(ctx, src, left, interval)
			return struct{}{}, note, err
		})
		return cmp.Or(p.Close(std.Say), err)
	}
	src, err := m.open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	p := printLines(std.Results(ctx), asJSON, false, cancel)
	go run.TellFailures(ctx, src, std.Say)
	note, err := p.measure(ctx, src, m.length.Value, interval)
	if err = cmp.Or(p.Close(std.Say), err); err == nil {
		run.SayNotes(std, src, note)
	}
	return err
}

// measured is the result of `ddtop stat` for one of several processes, and the Measure that made it.
type measured struct {
	export.ProcessStat
	of *measure.Measure
}

// measureStats measures each process. It chooses the advice for all processes together, to avoid contradictions.
func measureStats(ctx context.Context, g sampler.Group, length time.Duration, j judgement, std run.Streams) ([]export.ProcessStat, error) {
	list, err := run.MeasureGroup(ctx, g, length, std, func(ctx context.Context, src sampler.Source, left time.Duration) (measured, string, error) {
		m := measure.New(src.Process(), src.Dictionary(), j.rules)
		stat, note, err := measureWith(ctx, m, src, left, j)
		return measured{export.ProcessStat{Process: src.Process(), Stat: stat}, m}, note, err
	})
	out, of, found := make([]export.ProcessStat, len(list)), make([]*measure.Measure, len(list)), make([][]report.StatFinding, len(list))
	for i := range list {
		out[i], of[i], found[i] = list[i].ProcessStat, list[i].of, list[i].Stat.Findings
	}
	measure.PlanTogether(of, found)
	return out, err
}

func (t *target) statGroup(ctx context.Context, length time.Duration, j judgement, std run.Streams, asJSON bool, as statFormat) error {
	g, err := t.openGroup(ctx, false, std.Say)
	if err != nil {
		return err
	}
	defer g.Close()
	list, err := measureStats(ctx, g, length, j, std)
	if err != nil {
		return err
	}
	relatives, forgotten := g.Relatives()
	if asJSON {
		return export.WriteStatsJSON(std.Results(ctx), list, relatives, forgotten)
	}
	if as == markdownFormat {
		return export.WriteStatsMarkdown(std.Results(ctx), list)
	}
	return export.WriteStats(std.Results(ctx), list, relatives, forgotten)
}

// fillSource sets stat.Source, which says how ddtop observed the threads.
func fillSource(stat *report.Stat, src sampler.Source) {
	from, ok := src.(exact.SwitchSource)
	if !ok {
		return
	}
	s := from.SwitchStatus()
	out := &report.StatSource{Kind: string(live.FromPolling), Why: s.Ended, Records: s.Records, Lost: s.Lost, FailedWords: s.Failed, KernelNS: s.BusyNS}
	if s.SinceNS != 0 && s.Ended == "" {
		out.Kind = s.Kind
	}
	stat.Source = out
}
