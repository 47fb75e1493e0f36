package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/ui"
)

// screenFlags say how the screen looks.
type screenFlags struct {
	window    duration
	history   duration
	theme     string
	noColor   bool
	ascii     bool
	noMouse   bool
	redact    *redaction
	own       *ownCode
	args      bool
	keys      map[string]string
	findings  *screenRules
	wait      duration
	snapshots string
}

func newScreenFlags(std Streams) screenFlags {
	return screenFlags{
		redact: std.redact, own: std.own,
		window:  duration{value: ui.DefaultWindow, min: time.Second, max: ui.DefaultHistory},
		history: duration{value: ui.DefaultHistory, min: time.Second, max: ui.MaxHistory},

		findings: newScreenRules(), wait: newJudgement().wait,
	}
}

// judgement is that of a measurement which is made instead of a screen.
func (f *screenFlags) judgement() judgement { return judgement{rules: f.findings.rules, wait: f.wait} }

func (f *screenFlags) add(cmd *cobra.Command) {
	cmd.Flags().Var(&f.window, "window", "how much time the screen shows, 1s to 10m")
	cmd.Flags().Var(&f.history, "history", "how much of the past to keep, 1s to 1h; of a recording all")
	cmd.Flags().StringVar(&f.theme, "theme", ui.Themes[0], "the colours, a `NAME`: "+strings.Join(ui.Themes, ", "))
	cmd.Flags().BoolVar(&f.noColor, "no-color", false, "draw without colours (NO_COLOR does too)")
	cmd.Flags().BoolVar(&f.ascii, "ascii", false, "draw with ASCII characters only")
	cmd.Flags().BoolVar(&f.noMouse, "no-mouse", false, "leave the mouse to the terminal")
	f.redact.addTo(cmd)
	f.own.addTo(cmd)
	cmd.Flags().BoolVar(&f.args, "args", false, "show whole command lines in view 8; not with --redact")
	addFinding(cmd, ruleFlag{f.findings.rules, &f.findings.given})
	addWait(cmd, &f.wait)
	cmd.Flags().StringVar(&f.snapshots, "snapshots", snapshotsHere, "the `FOLDER` in which the keys s and W save")
}

// check refuses values before anything is started or attached to.
func (f *screenFlags) check() error {
	if _, err := ui.ThemeByName(f.theme); err != nil {
		return &usageError{fmt.Errorf("--theme: %w", err)}
	}
	if err := checkSnapshots(f.snapshots); err != nil {
		return &usageError{fmt.Errorf("--snapshots %q: %w", f.snapshots, err)}
	}
	return nil
}

// snapshotsHere is the folder that snapshots are saved in when none is named.
const snapshotsHere = "."

// checkSnapshots refuses a folder that snapshots can't be saved in, before there is something to save. It is made when it is
// needed: what must be there is a folder above it, and one that can be written to. Nobody asked for the working folder.
func checkSnapshots(folder string) error {
	switch folder {
	case snapshotsHere:
		return nil
	case "":
		return errors.New("a folder needs a name")
	}
	at := filepath.Clean(folder)
	info, err := os.Stat(at)
	for err != nil && filepath.Dir(at) != at {
		at = filepath.Dir(at)
		info, err = os.Stat(at)
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", at)
	}
	probe, err := os.MkdirTemp(at, ".ddtop-*")
	if err != nil {
		return fmt.Errorf("%w: choose a folder you may write to", err)
	}
	return os.Remove(probe)
}

// shown is what the screen needs to know of its source.
type shown struct {
	// notice is shown at the bottom until the first key; "" for none.
	notice string
	// replay: the source is a recording.
	replay bool
	// exact switches exact mode on and off; nil: it can't be had.
	exact ui.ExactSwitch
	// against is another recording that it is compared with; nil: none.
	against *ui.Against
}

// show runs the screen on a source until the user quits it or ctx ends.
func (f *screenFlags) show(ctx context.Context, src sampler.Source, std Streams, s shown) error {
	o := f.options(std, s)
	o.Source = src
	return ui.Run(ctx, o)
}

// showGroup runs the screen on several processes.
func (f *screenFlags) showGroup(ctx context.Context, g sampler.Group, std Streams, s shown) error {
	o := f.options(std, s)
	o.Group = g
	return ui.Run(ctx, o)
}

func (f *screenFlags) options(std Streams, s shown) ui.Options {
	return ui.Options{
		Window: f.window.value, History: f.history.value, Theme: f.theme, NoColor: f.noColor, ASCII: f.ascii, NoMouse: f.noMouse, Keys: f.keys, Redactor: f.redact.redactor(), Args: f.args, Rules: f.findings.rules,
		WaitThreshold: f.wait.value,
		Folder:        f.snapshots, Notice: s.notice, Replay: s.replay, Against: s.against, Exact: s.exact, Input: std.In, Output: std.Out,
		Suspend: canSuspend(),
	}
}

// watch opens the screen on a process.
func (f *rootFlags) watch(ctx context.Context, std Streams) error {
	if err := f.checkPID(); err != nil {
		return err
	}
	if !std.Terminal {
		return usageErrorf("the live screen needs a terminal: use \"ddtop dump -p %[1]d\", \"ddtop stat -p %[1]d\" or "+
			"\"ddtop record -p %[1]d -o FILE\"", f.pid)
	}
	o := f.options(std, shown{})
	if f.several() {
		later := new(saidLater)
		defer later.say(std)
		g, err := ui.Load(ctx, o, "attaching to the processes "+f.pids.String(), func(ctx context.Context, tell func(ui.Progress)) (group, error) {
			return f.openGroupTelling(ctx, false, later.add, tellUnits(tell))
		})
		if err != nil {
			return notWaitedFor(err)
		}
		return errors.Join(f.showGroup(ctx, g, std, shown{}), g.Close())
	}
	src, err := ui.Load(ctx, o, fmt.Sprintf("attaching to process %d", f.pid), func(ctx context.Context, tell func(ui.Progress)) (*live.Source, error) {
		return f.openTelling(ctx, tellUnits(tell))
	})
	if err != nil {
		return notWaitedFor(err)
	}
	defer src.Close()
	return f.show(ctx, src, std, shown{exact: f.exactSwitch(src)})
}

// saidLater keeps what is to be said while a screen is there until it is gone.
type saidLater struct {
	mu    sync.Mutex
	lines []string
}

// maxSaidLater bounds what is kept.
const maxSaidLater = 20

func (l *saidLater) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < maxSaidLater {
		l.lines = append(l.lines, fmt.Sprintf(format, args...))
	}
}

func (l *saidLater) say(std Streams) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		std.say("%s", line)
	}
}

// tellUnits hands the progress of the reading of debug information on to the picture of it.
func tellUnits(tell func(ui.Progress)) func(path string, done, total int) {
	return func(path string, done, total int) {
		tell(ui.Progress{What: "debug information of " + filepath.Base(path), Done: int64(done), Total: int64(total), Unit: "units"})
	}
}

// notWaitedFor is the error of ui.Load, but nil where the user or a signal did not want the screen any more: leaving it is
// no failure once it is there, and none before.
func notWaitedFor(err error) error {
	if errors.Is(err, ui.ErrCancelled) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// wrapWithScreen starts a program, its output in a file, and shows it from the moment its VM is up. When the user
// quits the screen first, ddtop waits for the program: its exit code is to be passed on.
func wrapWithScreen(ctx context.Context, args []string, f *rootFlags, std Streams) error {
	c, err := startCommand(args, std, true)
	if err != nil {
		return err
	}
	stop := c.forwardSignals()
	defer stop()
	defer c.reap()()
	err = f.showCommand(ctx, c, std)
	if err != nil && (!errors.Is(err, errEndedBefore) || len(c.leftBehind()) == 0) {
		std.sayErr(err)
	}
	if err == nil || errors.Is(err, errEndedBefore) {
		if err := f.showBackground(ctx, c, std); err != nil {
			std.sayErr(err)
		}
	}
	c.nameOutput(std)
	if c.running() {
		std.say("%s still runs (process %d); ctrl-c ends it", std.redact.program(args[0]), c.pid())
	}
	exit := c.exit()
	if f.showOutput {
		if err := c.copyOutput(std.Out); err != nil {
			std.sayErr(err)
		}
	}
	return exit
}

// showBackground shows the Ruby that the program left behind as it ended while it was looked at, or before; none is no error.
func (f *rootFlags) showBackground(ctx context.Context, c *command, std Streams) error {
	if !c.inBackground.Load() && c.shown {
		return nil // the user has quit the screen
	}
	src, err := c.openBackground(ctx, f.attaching(layoutProgress(f.names)))
	if err != nil || src == nil {
		return err
	}
	defer src.Close()
	sayBackground(std, c, src)
	if err := f.exact.begin(ctx, src); err != nil {
		return err
	}
	err = f.show(ctx, src, std, shown{notice: "the program went into the background, and writes to " + c.output, exact: f.exactSwitch(src)})
	if errors.Is(err, sampler.ErrEnded) {
		return nil
	}
	return err
}

func (f *rootFlags) showCommand(ctx context.Context, c *command, std Streams) error {
	fmt.Fprintf(std.Err, "ddtop: waiting for a Ruby VM in process %d\n", c.pid())
	what := fmt.Sprintf("waiting for a Ruby VM in process %d", c.pid())
	first := f.target
	if f.children {
		first.exact.on = false // the group follows it
	}
	// A signal is the program's to obey, and its end ends the waiting.
	src, err := ui.Load(context.WithoutCancel(ctx), f.options(std, shown{}), what, func(ctx context.Context, tell func(ui.Progress)) (*live.Source, error) {
		return c.attach(ctx, first, tellUnits(tell))
	})
	if err != nil {
		return notWaitedFor(err)
	}
	c.shown = true
	letGo := src.Close
	defer func() { letGo() }()
	notice := shown{notice: "the program writes to " + c.output, exact: f.exactSwitch(src)}
	show := func(ctx context.Context) error { return f.show(ctx, src, std, notice) }
	if f.children {
		// That there is a VM shows that there is something to see; the group finds it again.
		if err := src.Close(); err != nil {
			return err
		}
		letGo, notice.exact = func() error { return nil }, nil
		f.pids = pidList{c.pid()}
		later := new(saidLater)
		defer later.say(std)
		g, err := f.openGroup(context.WithoutCancel(ctx), true, later.add)
		if err != nil {
			return err
		}
		letGo = g.Close
		show = func(ctx context.Context) error { return f.showGroup(ctx, g, std, notice) }
	}
	// A signal is the program's to obey. The screen stays until it has, and then ends too.
	screen, quit := context.WithCancel(context.WithoutCancel(ctx))
	defer quit()
	go func() {
		select {
		case <-screen.Done():
			return
		case <-c.done:
			if len(c.leftBehind()) > 0 {
				c.inBackground.Store(true)
				quit() // the next screen has it
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
		case <-c.done:
			quit()
		}
	}()
	err = show(screen)
	if errors.Is(err, sampler.ErrEnded) {
		return nil
	}
	return err
}
