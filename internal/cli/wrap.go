package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/heaps"
	"github.com/ddtop/ddtop/internal/cli/program"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/ui"
)

func wrap(ctx context.Context, args []string, f *rootFlags, std run.Streams) error {
	if std.Terminal {
		return wrapWithScreen(ctx, args, f, std)
	}
	return wrapWithoutScreen(ctx, args, f, std)
}

// wrapWithoutScreen starts a program, and measures each Ruby VM that the program starts. It prints the table of stat
// for each VM to standard error, and exits with the program's exit code.
func wrapWithoutScreen(ctx context.Context, args []string, f *rootFlags, std run.Streams) error {
	c, err := program.Start(args, std, false)
	if err != nil {
		return err
	}
	stop := c.ForwardSignals()
	defer stop()
	defer c.Reap()()
	// The program also gets the signals that end ctx. So ddtop continues until the program has ended.
	unended := context.WithoutCancel(ctx)
	if f.children {
		if err := measureCommands(unended, c, f, std); err != nil {
			std.SayErr(err)
		}
	}
	measured := 0
	for ; c.Running() && !f.children; measured++ {
		if err = measureCommand(unended, c, f, std, measured > 0); err != nil {
			break
		}
	}
	early := errors.Is(err, program.ErrEndedBefore)
	if err != nil && !early {
		std.SayErr(err)
	}
	exit := c.Exit()
	if early && measured == 0 && len(c.LeftBehind()) == 0 { // only now it is known what the program left running
		std.SayErr(err)
	}
	for ; ctx.Err() == nil; measured++ { // the terminal's signals reach only ddtop, and end it
		found, err := measureBackground(ctx, c, f, std, measured > 0 || f.children)
		if err != nil {
			std.SayErr(err)
		}
		if err != nil || !found {
			break
		}
	}
	return exit
}

// measureBackground measures the Ruby that the program left running in the background, until this Ruby or ctx ends. It
// returns false if there is no such Ruby.
func measureBackground(ctx context.Context, c *program.Command, f *rootFlags, std run.Streams, again bool) (found bool, err error) {
	t := f.target
	src, err := c.OpenBackground(ctx, t.attaching(layoutProgress(t.names)))
	if err != nil || src == nil {
		return false, err
	}
	defer src.Close()
	program.SayBackground(std, c, src)
	if err := t.exact.Begin(ctx, src); err != nil {
		return false, err
	}
	return true, f.printStat(ctx, src, std, again)
}

// measureCommand measures one VM of the program from its start to its end, and prints the table. again adds an empty
// line before the table.
func measureCommand(ctx context.Context, c *program.Command, f *rootFlags, std run.Streams, again bool) error {
	t := f.target
	src, err := c.Attach(ctx, t.attaching(layoutProgress(t.names)), &t.exact)
	if err != nil {
		return err
	}
	defer src.Close()
	return f.printStat(ctx, src, std, again)
}

// printStat measures a process until it or ctx ends, and prints the table. again adds an empty line before the table.
func (f *rootFlags) printStat(ctx context.Context, src *live.Source, std run.Streams, again bool) error {
	stat, _, err := measureStat(ctx, src, run.Unlimited, f.judgement())
	if errors.Is(err, run.ErrNothing) {
		return program.ErrEndedBefore
	}
	if err != nil {
		return err
	}
	run.SayNotes(std, src, "")
	if again {
		fmt.Fprintln(std.Err)
	}
	return export.WriteStat(std.Err, stat)
}

// measureCommands measures the started program and all its Ruby descendants until the program ends.
func measureCommands(ctx context.Context, c *program.Command, f *rootFlags, std run.Streams) error {
	t := f.target
	if t.pause && !c.Pausable {
		return program.ErrNoPidfd
	}
	t.pids = flags.PIDs{c.PID()}
	g, err := t.openGroup(ctx, true, std.Say)
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.Done:
			cancel()
		case <-ctx.Done():
		}
	}()
	quiet := std
	quiet.Err = io.Discard // do not print the ends of processes, because they are expected to end
	list, err := measureStats(ctx, g, run.Unlimited, f.judgement(), quiet)
	if errors.Is(err, run.ErrNothingOfAny) {
		return program.ErrEndedBefore
	}
	if err != nil {
		return err
	}
	relatives, forgotten := g.Relatives()
	return export.WriteStats(std.Err, list, relatives, forgotten)
}

// wrapWithScreen starts a program, whose output goes to a file, and shows it when its Ruby VM is ready. If the user
// quits the screen first, ddtop waits for the program, because ddtop exits with the program's exit code.
func wrapWithScreen(ctx context.Context, args []string, f *rootFlags, std run.Streams) error {
	c, err := program.Start(args, std, true)
	if err != nil {
		return err
	}
	stop := c.ForwardSignals()
	defer stop()
	defer c.Reap()()
	err = f.showCommand(ctx, c, std)
	if err != nil && (!errors.Is(err, program.ErrEndedBefore) || len(c.LeftBehind()) == 0) {
		std.SayErr(err)
	}
	if err == nil || errors.Is(err, program.ErrEndedBefore) {
		if err := f.showBackground(ctx, c, std); err != nil {
			std.SayErr(err)
		}
	}
	c.NameOutput(std)
	if c.Running() {
		std.Say("%s still runs (process %d); ctrl-c ends it", std.Redact.Program(args[0]), c.PID())
	}
	exit := c.Exit()
	if f.showOutput {
		if err := c.CopyOutput(std.Out); err != nil {
			std.SayErr(err)
		}
	}
	return exit
}

// showBackground shows the Ruby that the program left running in the background when it ended. It returns nil if there
// is no such Ruby.
func (f *rootFlags) showBackground(ctx context.Context, c *program.Command, std run.Streams) error {
	if !c.InBackground.Load() && c.Shown {
		return nil // there was a screen, and the user has quit it
	}
	src, err := c.OpenBackground(ctx, f.attaching(layoutProgress(f.names)))
	if err != nil || src == nil {
		return err
	}
	defer src.Close()
	program.SayBackground(std, c, src)
	if err := f.exact.Begin(ctx, src); err != nil {
		return err
	}
	counts := heaps.NewReaders(f.attaching(nil))
	defer counts.Close()
	err = f.show(ctx, src, std, shown{notice: "the program went into the background, and writes to " + c.Output, exact: f.exactSwitch(src), native: &src.Running, heap: screenHeap(counts)})
	if errors.Is(err, sampler.ErrEnded) {
		return nil
	}
	return err
}

func (f *rootFlags) showCommand(ctx context.Context, c *program.Command, std run.Streams) error {
	fmt.Fprintf(std.Err, "ddtop: waiting for a Ruby VM in process %d\n", c.PID())
	what := fmt.Sprintf("waiting for a Ruby VM in process %d", c.PID())
	first := f.target
	if f.children {
		first.exact.On = false // the group switches exact mode on
	}
	// The program also gets the signal that ends ctx. If the program ends, the wait for its VM ends too.
	src, err := ui.Load(context.WithoutCancel(ctx), f.options(std, shown{}), what, func(ctx context.Context, tell func(ui.Progress)) (*live.Source, error) {
		return c.Attach(ctx, first.attaching(tellUnits(tell)), &first.exact)
	})
	if err != nil {
		return notWaitedFor(err)
	}
	c.Shown = true
	letGo := src.Close
	defer func() { letGo() }()
	counts := heaps.NewReaders(f.attaching(nil))
	defer counts.Close()
	notice := shown{notice: "the program writes to " + c.Output, exact: f.exactSwitch(src), native: &src.Running, heap: screenHeap(counts)}
	show := func(ctx context.Context) error { return f.show(ctx, src, std, notice) }
	if f.children {
		// Attach only showed that the program has a VM. The group opens the process itself, so close this source.
		if err := src.Close(); err != nil {
			return err
		}
		letGo, notice.exact, notice.native = func() error { return nil }, nil, nil
		f.pids = flags.PIDs{c.PID()}
		later := new(saidLater)
		defer later.say(std)
		g, err := f.openGroup(context.WithoutCancel(ctx), true, later.add)
		if err != nil {
			return err
		}
		letGo = g.Close
		show = func(ctx context.Context) error { return f.showGroup(ctx, g, std, notice) }
	}
	// The program also gets the signal that ends ctx. So the screen stays until the program has ended.
	screen, quit := context.WithCancel(context.WithoutCancel(ctx))
	defer quit()
	go func() {
		select {
		case <-screen.Done():
			return
		case <-c.Done:
			if len(c.LeftBehind()) > 0 {
				c.InBackground.Store(true)
				quit() // close this screen; showBackground opens the next one
				return
			}
			select {
			case <-screen.Done():
				return
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		select {
		case <-screen.Done():
		case <-c.Done:
			quit()
		}
	}()
	err = show(screen)
	if errors.Is(err, sampler.ErrEnded) {
		return nil
	}
	return err
}
