package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
)

const rootLong = `ddtop attaches from outside to a running Ruby process. It shows live what each thread does, which thread holds
the Global VM Lock (GVL), which threads wait for it, and where the time goes. It installs nothing in the process. It
writes to the process only with --exact, by way of the kernel, and stops it only with --pause.

  ddtop PID, ddtop NAME   open the screen for a process, by its PID (also -p PID) or by a part of its name or command
                          line, or for a cluster of that name; dump, stat and record take them too
  ddtop PID --children    also show all Ruby processes below it, including those that start later
  ddtop                   choose a process from a list; if there is only one, attach to it
  ddtop -- ruby app.rb    start a program and watch it from the moment its VM is up; exit with its exit code
  ddtop demo              watch a bundled program

The live screen needs a terminal. In scripts, use dump, stat or record.`

type rootFlags struct {
	target
	screenFlags
	showOutput, version bool
}

// Command returns ddtop's root command with all subcommands, for man pages and completions. It must not be run.
func Command() *cobra.Command { return newRoot(run.Streams{}) }

func newRoot(std run.Streams) *cobra.Command {
	if std.Redact == nil {
		std.Redact = flags.NewRedaction(nil)
	}
	if std.Own == nil {
		std.Own = new(flags.OwnCode)
	}
	if std.Chosen == nil {
		std.Chosen = new(run.Chosen)
	}
	f := rootFlags{screenFlags: newScreenFlags(std), target: target{names: std.Redact, ownCode: std.Own}}
	cmd := &cobra.Command{
		Use:           "ddtop [PID | NAME | -- command ...]",
		Short:         "See a running Ruby's threads, its GVL and its flamegraph, live",
		Long:          rootLong + "\n\n" + exitCodesHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		// If a mistyped command differs by at most two letters from a command, cobra suggests that command.
		SuggestionsMinimumDistance: 2,
		Args:                       rootArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.version {
				return printVersion(std)
			}
			if err := errors.Join(f.configure(cmd, std), f.checkRates(), f.checkExact(cmd, true), f.check()); err != nil {
				return err
			}
			if cmd.ArgsLenAtDash() == 0 {
				if cmd.Flags().Changed("pid") {
					return flags.Usagef("-p PID looks at a running process and \"-- %s\" starts one: choose", args[0])
				}
				return wrap(cmd.Context(), args, &f, std)
			}
			look := listLook{f.options(std, shown{}), "attach"}
			if err := f.find(cmd, args, std, look); err != nil {
				if errors.Is(err, errNotChosen) {
					return nil // the user has left the list, which is no error
				}
				return err
			}
			return f.watch(cmd.Context(), std)
		},
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return flags.Usagef("%w; \"%s --help\" lists the flags", err, c.CommandPath())
	})
	// Do not call cobra.Command.SetVersionTemplate. It would link text/template, whose templates can call any exported
	// method by its name. So the linker would keep all methods, and the binary would be 4 MB larger.
	cmd.Flags().BoolVarP(&f.version, "version", "v", false, "version for ddtop")
	f.addPID(cmd)
	f.addRates(cmd)
	f.addPause(cmd)
	f.addExact(cmd)
	f.addNative(cmd)
	f.debug.AddTo(cmd, std)
	f.screenFlags.add(cmd)
	cmd.Flags().BoolVar(&f.showOutput, "show-output", false, "print the output of the command after -- when you leave the screen")
	cmd.AddCommand(newPs(std), newDump(std), newHeap(std), newLayout(std), newStat(std), newRecord(std),
		newPush(std), newReplay(std), newReport(std), newDiff(std), newDemo(std), newDoctor(std), newMCP(std), newVersion(std))
	addHelp(cmd)
	return cmd
}

// rootArgs refuses a "--" without a command after it, and any words before the "--".
func rootArgs(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash == 0 && len(args) == 0:
		return flags.Usagef("the program to start comes after \"--\": ddtop -- ruby app.rb")
	case dash > 0:
		return flags.Usagef("%q names a running process and \"--\" starts one: choose", args[0])
	}
	return nil
}

// watch opens the screen for the named processes.
func (f *rootFlags) watch(ctx context.Context, std run.Streams) error {
	if err := f.checkPID(); err != nil {
		return err
	}
	if !std.Terminal {
		return flags.Usagef("the live screen needs a terminal: use \"ddtop dump -p %[1]d\", \"ddtop stat -p %[1]d\" or "+
			"\"ddtop record -p %[1]d -o FILE\"", f.pid)
	}
	if f.several() {
		return f.showProcesses(ctx, &f.target, std)
	}
	return f.showProcess(ctx, &f.target, fmt.Sprintf("attaching to process %d", f.pid), std)
}
