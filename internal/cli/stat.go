package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

func newStat(std Streams) *cobra.Command {
	m, j := newMeasurement(std), newJudgement()
	lines := newLineFlags()
	var asJSON bool
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
			if err != nil {
				return err
			}
			if inLines {
				m.figuresOf = lines.interval.value
			}
			if err := m.check(cmd, args, std); err != nil {
				return err
			}
			if inLines {
				return m.statLines(cmd.Context(), lines.interval.value, std, asJSON)
			}
			if m.several() {
				return m.statGroup(cmd.Context(), m.length.value, j, std, asJSON)
			}
			src, err := m.open(cmd.Context())
			if err != nil {
				return err
			}
			defer src.Close()
			stat, note, err := measureStat(cmd.Context(), src, m.length.value, j)
			if err != nil {
				return err
			}
			sayNotes(std, src, note)
			if asJSON {
				return export.WriteStatJSON(std.results(cmd.Context()), stat)
			}
			return export.WriteStat(std.results(cmd.Context()), stat)
		},
	}
	m.addFlags(cmd)
	std.redact.addTo(cmd)
	std.own.addTo(cmd)
	j.addRules(cmd)
	j.addWait(cmd)
	lines.addLines(cmd)
	j.endpoint.addEndpoint(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/reference/json.md)")
	return cmd
}

// measureStat measures a source for a while.
func measureStat(ctx context.Context, src sampler.Source, length time.Duration, j judgement) (gvl.Stat, string, error) {
	m := gvl.NewMeasure(src.Process(), src.Dictionary(), j.rules)
	native := watchNative(src)
	note, err := sampleFor(ctx, src, length, func(s *sampler.Sample) { m.Feed(s) })
	if err != nil {
		return gvl.Stat{}, "", err
	}
	stat := m.Stat(j.wait.value.Nanoseconds())
	if match := j.endpoint.match(); match != nil {
		stat.Requests = m.Requests(match)
	}
	fillSource(&stat, src)
	stat.FillNative(native.others(ctx, rubyTIDs(&stat)))
	return stat, note, fillExact(&stat, src)
}
