package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/workload"
)

const (
	// demoPhase is the length of one phase of the demo's program when a screen shows it.
	demoPhase = 20 * time.Second
	// demoPhaseWithoutScreen is the length of a phase without a screen. All seven phases pass within demoMeasure.
	demoPhaseWithoutScreen = 1300 * time.Millisecond
	// demoMeasure is how long ddtop measures the demo's program if there is no terminal.
	demoMeasure = 10 * time.Second
)

type demoFlags struct {
	target
	screenFlags
	phase, ruby string
}

func newDemo(std run.Streams) *cobra.Command {
	f := demoFlags{screenFlags: newScreenFlags(std)}
	f.names, f.ownCode = std.Redact, std.Own
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a bundled Ruby program",
		Long: `Start the bundled program, a small order service with many threads, and watch it. It goes through seven phases.
Six of them have one problem each. With --phase it stays in one phase:

  healthy   requests, jobs and small reports; nothing is wrong
  hog       the thread "reports" computes in Ruby without end: all others wait for the GVL
  mutex     all requests go through one Mutex, held during queries
  database  every query takes 250 to 900 ms
  gc        two workers allocate millions of objects
  stall     "worker-1" calls a C function that blocks with the GVL held
  routes    one request in 45 computes a report: the others wait for the GVL meanwhile

It needs Ruby 2.5 or later. Without a terminal it measures for some seconds, then prints the table of stat and a
thread dump.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(f.configure(cmd, std), f.checkRates(), f.checkExact(cmd, true), f.check()); err != nil {
				return err
			}
			return f.run(cmd.Context(), std)
		},
	}
	f.addRates(cmd)
	f.addExact(cmd)
	f.screenFlags.add(cmd)
	cmd.Flags().StringVar(&f.phase, "phase", "", "stay in this `PHASE`")
	cmd.Flags().StringVar(&f.ruby, "ruby", "", "run it with this ruby `FILE` (default: the one in PATH or in the usual places)")
	return cmd
}

// findRuby returns the Ruby that --ruby names, or without --ruby the first Ruby that it finds.
func (f *demoFlags) findRuby(ctx context.Context) (workload.Ruby, error) {
	if f.ruby != "" {
		return workload.AskRuby(ctx, f.ruby)
	}
	return workload.FindRuby(ctx)
}

func (f *demoFlags) run(ctx context.Context, std run.Streams) (err error) {
	if err := workload.CheckPhase(f.phase); err != nil {
		return &flags.UsageError{Err: err}
	}
	ruby, err := f.findRuby(ctx)
	if err != nil {
		return err
	}
	// The program must keep running after a ctrl-c until the results are printed. Then Stop ends the program.
	w, err := workload.Start(context.WithoutCancel(ctx), ruby.Path, workload.Options{Phase: f.phase, PhaseLength: f.phaseLength(std)})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, w.Stop()) }()
	f.pid, f.pids = w.PID, flags.PIDs{w.PID}
	if std.Terminal {
		what := fmt.Sprintf("attaching to the order service, process %d", w.PID)
		return f.showProcess(ctx, &f.target, what, std)
	}
	fmt.Fprintf(std.Err, "ddtop: measuring the order service on Ruby %s for %v, process %d; phases: %s\n",
		ruby.Version, demoMeasure, w.PID, cmp.Or(f.phase, strings.Join(workload.Phases(), ", ")))
	return f.report(ctx, std)
}

func (f *demoFlags) phaseLength(std run.Streams) time.Duration {
	switch {
	case f.phase != "":
		return 0 // the phase lasts forever
	case std.Terminal:
		return demoPhase
	}
	return demoPhaseWithoutScreen
}

func (f *demoFlags) report(ctx context.Context, std run.Streams) error {
	src, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	stat, note, err := measureStat(ctx, src, demoMeasure, f.judgement())
	if err != nil {
		return err
	}
	run.SayNotes(std, src, note)
	out := std.Results(ctx)
	if err := export.WriteStat(out, stat); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	dump := dumpFlags{judgement: f.judgement()}
	return dump.write(context.WithoutCancel(ctx), src, std)
}
