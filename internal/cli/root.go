package cli

import (
	"errors"

	"github.com/spf13/cobra"
)

const rootLong = `ddtop attaches from outside to a running Ruby and shows, live, what every thread does, who holds
the Global VM Lock (GVL), who waits for it, and where the time goes. It installs nothing in the
process, writes nothing to it, and stops it only where it is told to (--pause).

  ddtop -p PID            the live screen for a process
  ddtop -p PID --children the same for all Rubies below it too, forked workers to come included
  ddtop                   choose one from a list
  ddtop -- ruby app.rb    start a program and watch it from the moment its VM is up; its exit code
                          is passed on
  ddtop demo              watch the program that ddtop brings along

Without a terminal there is no screen: dump, stat and record say and save what it would show.`

// rootFlags are the flags of ddtop without a command's name.
type rootFlags struct {
	target
	screenFlags
	showOutput bool
}

func newRoot(std Streams) *cobra.Command {
	if std.redact == nil {
		std.redact = newRedaction(nil)
	}
	if std.own == nil {
		std.own = new(ownCode)
	}
	f := rootFlags{screenFlags: newScreenFlags(std), target: target{names: std.redact, ownCode: std.own}}
	cmd := &cobra.Command{
		Use:           "ddtop [-p PID | -- command ...]",
		Short:         "See a running Ruby's threads, its GVL and its flamegraph, live",
		Long:          rootLong + "\n\n" + exitCodesHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          rootArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(f.configure(cmd, std), f.checkRates(), f.check()); err != nil {
				return err
			}
			switch {
			case len(args) > 0 && cmd.Flags().Changed("pid"):
				return usageErrorf("-p PID looks at a running process and \"-- %s\" starts one: choose", args[0])
			case len(args) > 0:
				return wrap(cmd.Context(), args, &f, std)
			case cmd.Flags().Changed("pid"):
				return f.watch(cmd.Context(), std)
			}
			pid, err := choose(cmd.Context(), std)
			if err != nil {
				return err
			}
			f.pids = pidList{pid}
			return f.watch(cmd.Context(), std)
		},
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageErrorf("%w; \"%s --help\" lists the flags", err, c.CommandPath())
	})
	f.addPID(cmd)
	f.addRates(cmd)
	f.addPause(cmd)
	f.screenFlags.add(cmd)
	cmd.Flags().BoolVar(&f.showOutput, "show-output", false, "print what the command behind -- wrote, when the screen is left")
	cmd.AddCommand(newPs(std), newDump(std), newLayout(std), newStat(std), newRecord(std), newReplay(std), newReport(std), newDemo(std), newVersion(std))
	return cmd
}

// rootArgs refuses words that name no command, unless they follow "--".
func rootArgs(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash == 0 && len(args) == 0:
		return usageErrorf("the program to start comes after \"--\": ddtop -- ruby app.rb")
	case dash == 0 || len(args) == 0:
		return nil
	}
	return usageErrorf("there is no command %q; \"ddtop help\" lists them, \"ddtop -- %s\" starts a program", args[0], args[0])
}
