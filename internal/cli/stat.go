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
	lines, follow := newLineFlags(), newExactFlags()
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stat PID|NAME [-d 10s]",
		Short: "Measure for a while, then print where the time went",
		Long: `Measure for a while, then print what was wrong, the time per state and thread, the use of the GVL,
the waiting for it and who is to blame for it, garbage collection, the rates achieved, what could not
be read, and what ddtop itself used.
Ctrl-c ends it early and prints what was measured.
With --interval it prints a line for each second, say, as vmstat does; with --json an object each.
With --exact it prints each change of the GVL too: how often and for how long each thread held it and
waited for it, to the microsecond, and for whom. The kernel puts breakpoints into the process's
libruby for it, in memory, while it lasts (docs/exact.md): needs root or capabilities, Ruby 3.3 or later.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			inLines, err := lines.given(cmd, &m.length)
			if err != nil {
				return err
			}
			if err := m.check(cmd, args, std); err != nil {
				return err
			}
			if err := follow.check(cmd, inLines, m.several()); err != nil {
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
			probes, err := follow.open(cmd.Context(), src)
			if err != nil {
				return err
			}
			defer probes.close()
			stat, note, err := measureStat(cmd.Context(), src, m.length.value, j, probes.saw)
			if err != nil {
				return err
			}
			if err := probes.fill(&stat); err != nil {
				return err
			}
			sayNote(std, note)
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
	follow.addTo(cmd)
	j.endpoint.addEndpoint(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/json.md)")
	return cmd
}

// measureStat measures a source for a while. Each sample is shown to also, too.
func measureStat(ctx context.Context, src sampler.Source, length time.Duration, j judgement, also ...func(*sampler.Sample)) (gvl.Stat, string, error) {
	m := gvl.NewMeasure(src.Process(), src.Dictionary(), j.rules)
	native := watchNative(src)
	note, err := run(ctx, src, length, func(s *sampler.Sample) {
		m.Feed(s)
		for _, see := range also {
			see(s)
		}
	})
	if err != nil {
		return gvl.Stat{}, "", err
	}
	stat := m.Stat(j.wait.value.Nanoseconds())
	if match := j.endpoint.match(); match != nil {
		stat.Requests = m.Requests(match)
	}
	stat.FillNative(native.others(ctx, rubyTIDs(&stat)))
	return stat, note, nil
}
