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

	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/heaps"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/ui"
)

type screenFlags struct {
	window    flags.Duration
	history   flags.Duration
	theme     string
	noColor   bool
	ascii     bool
	noMouse   bool
	redact    *flags.Redaction
	own       *flags.OwnCode
	args      bool
	keys      map[string]string
	findings  *screenRules
	wait      flags.Duration
	snapshots string
}

func newScreenFlags(std run.Streams) screenFlags {
	return screenFlags{
		redact: std.Redact, own: std.Own,
		window:  flags.Duration{Value: ui.DefaultWindow, Min: time.Second, Max: ui.DefaultHistory},
		history: flags.Duration{Value: ui.DefaultHistory, Min: time.Second, Max: ui.MaxHistory},

		findings: newScreenRules(), wait: newJudgement().wait,
	}
}

// judgement returns the user's settings for findings and waits, for commands that write text instead of a screen.
func (f *screenFlags) judgement() judgement { return judgement{rules: f.findings.rules, wait: f.wait} }

func (f *screenFlags) add(cmd *cobra.Command) {
	cmd.Flags().Var(&f.window, "window", "how much time the screen shows, 1s to 10m")
	cmd.Flags().Var(&f.history, "history", "how much of the past to keep, 1s to 1h; of a recording all")
	cmd.Flags().StringVar(&f.theme, "theme", ui.Themes[0], "the colours, a `NAME`: "+strings.Join(ui.Themes, ", "))
	cmd.Flags().BoolVar(&f.noColor, "no-color", false, "draw without colours (NO_COLOR does too)")
	cmd.Flags().BoolVar(&f.ascii, "ascii", false, "draw with ASCII characters only")
	cmd.Flags().BoolVar(&f.noMouse, "no-mouse", false, "leave the mouse to the terminal")
	f.redact.AddTo(cmd)
	f.own.AddTo(cmd)
	cmd.Flags().BoolVar(&f.args, "args", false, "show whole command lines in view 8; not with --redact")
	addFinding(cmd, f.findings.flag)
	addWait(cmd, &f.wait)
	cmd.Flags().StringVar(&f.snapshots, "snapshots", snapshotsHere, "the `FOLDER` in which the keys s and W save")
}

// check refuses wrong values before ddtop starts a program or attaches to a process.
func (f *screenFlags) check() error {
	if _, err := ui.ThemeByName(f.theme); err != nil {
		return &flags.UsageError{Err: fmt.Errorf("--theme: %w", err)}
	}
	if err := checkSnapshots(f.snapshots); err != nil {
		return &flags.UsageError{Err: fmt.Errorf("--snapshots %q: %w", f.snapshots, err)}
	}
	return nil
}

// snapshotsHere is the default folder for snapshots: the working folder.
const snapshotsHere = "."

// checkSnapshots refuses a folder in which snapshots could not be saved. So the user gets the error at once, and not at
// the first snapshot. The folder is made later, so only a folder above it must exist and be writable. The working
// folder is not checked, because it is the default and not the user's choice.
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

// shown is what a command passes to the screen in addition to its flags.
type shown struct {
	// notice is a text at the bottom of the screen, until the first key. It is empty if there is none.
	notice string
	// replay is true if the source is a recording.
	replay bool
	// exact switches exact mode on and off. It is nil if the source has no exact mode.
	exact ui.ExactSwitch
	// native switches C stacks of running threads on and off. It is nil if the source has none.
	native ui.NativeSwitch
	// heap returns the reader of a process's heap. It is nil if heaps cannot be read.
	heap func(pid int) ui.HeapReader
	// below allows show to return ui.ErrBelow. If it does, the caller also shows the processes below the source.
	below bool
	// against is another recording, with which the screen compares. It is nil if there is none.
	against *ui.Against
}

// show runs the screen on a source until the user quits it or ctx ends.
func (f *screenFlags) show(ctx context.Context, src sampler.Source, std run.Streams, s shown) error {
	o := f.options(std, s)
	o.Source = src
	return ui.Run(ctx, o)
}

// showProcess attaches to a process, and runs the screen on it. While it attaches, it shows the text what.
func (f *screenFlags) showProcess(ctx context.Context, t *target, what string, std run.Streams) error {
	boundGarbage()
	src, err := ui.Load(ctx, f.options(std, shown{}), what, func(ctx context.Context, tell func(ui.Progress)) (*live.Source, error) {
		return t.openTelling(ctx, tellUnits(tell))
	})
	if err != nil {
		return notWaitedFor(err)
	}
	counts := heaps.NewReaders(t.attaching(nil))
	err = errors.Join(f.show(ctx, src, std, shown{exact: t.exactSwitch(src), native: &src.Running, heap: screenHeap(counts), below: true}),
		counts.Close(), src.Close())
	if !errors.Is(err, ui.ErrBelow) {
		return err
	}
	t.children = true
	return f.showProcesses(ctx, t, std)
}

// showProcesses attaches to several processes, and runs the screen on them.
func (f *screenFlags) showProcesses(ctx context.Context, t *target, std run.Streams) error {
	boundGarbage()
	later := new(saidLater)
	defer later.say(std)
	g, err := ui.Load(ctx, f.options(std, shown{}), "attaching to the processes "+t.pids.String(),
		func(ctx context.Context, tell func(ui.Progress)) (exact.Group, error) {
			return t.openGroupTelling(ctx, false, later.add, tellUnits(tell))
		})
	if err != nil {
		return notWaitedFor(err)
	}
	counts := heaps.NewReaders(t.attaching(nil))
	return errors.Join(f.showGroup(ctx, g, std, shown{heap: screenHeap(counts)}), counts.Close(), g.Close())
}

// screenHeap returns the method r.Of in the form that the screen needs.
func screenHeap(r *heaps.Readers) func(pid int) ui.HeapReader {
	return func(pid int) ui.HeapReader { return r.Of(pid) }
}

func (f *screenFlags) showGroup(ctx context.Context, g sampler.Group, std run.Streams, s shown) error {
	o := f.options(std, s)
	o.Group = g
	return ui.Run(ctx, o)
}

func (f *screenFlags) options(std run.Streams, s shown) ui.Options {
	return ui.Options{
		Window: f.window.Value, History: f.history.Value, Theme: f.theme, NoColor: f.noColor, ASCII: f.ascii, NoMouse: f.noMouse, Keys: f.keys, Redactor: f.redact.Redactor(), Args: f.args, Rules: f.findings.rules,
		WaitThreshold: f.wait.Value,
		Folder:        f.snapshots, Notice: s.notice, Replay: s.replay, Against: s.against, Exact: s.exact, Native: s.native, Heap: s.heap, Below: s.below,
		Input: std.In, Output: std.Out,
		Suspend: canSuspend(),
	}
}

// saidLater collects messages while a screen is open, and prints them when the screen has closed.
type saidLater struct {
	mu    sync.Mutex
	lines []string
}

// maxSaidLater bounds the number of collected messages.
const maxSaidLater = 20

func (l *saidLater) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < maxSaidLater {
		l.lines = append(l.lines, fmt.Sprintf(format, args...))
	}
}

func (l *saidLater) say(std run.Streams) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		std.Say("%s", line)
	}
}

// tellUnits returns a function that shows on the screen how far ddtop has read debug information.
func tellUnits(tell func(ui.Progress)) func(path string, done, total int) {
	return func(path string, done, total int) {
		tell(ui.Progress{What: "debug information of " + filepath.Base(path), Done: int64(done), Total: int64(total), Unit: "units"})
	}
}

// notWaitedFor returns the error of ui.Load. If the user or a signal closed the screen while ui.Load waited, it returns
// nil, because this is no failure.
func notWaitedFor(err error) error {
	if errors.Is(err, ui.ErrCancelled) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
