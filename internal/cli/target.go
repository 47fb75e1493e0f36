package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/sampler/live/group"
)

// Defaults and limits of the sampling rates, in Hz. Above 10 kHz there is too little time for one tick. Stacks are
// never read more often than the state of the GVL ("lock").
const (
	defaultStackRate = 100.0
	defaultLockRate  = 1000.0
	maxRate          = 10000.0
	minRate          = 0.1
)

// target is which processes a command reads, and how it reads them.
type target struct {
	// pids are the PIDs that the user named. pid is the first of them.
	pids      flags.PIDs
	pid       int
	children  bool
	stackRate float64
	lockRate  float64
	pause     bool
	overhead  flags.Overhead
	// figuresOf is how much time each set of figures covers (stat --interval). Zero means sampler.QualityWindow.
	figuresOf time.Duration
	exact     exact.Flags
	source    sourceFlag
	// native is true if the user wants C stacks of running threads (--native).
	native bool
	debug  run.Debuginfod
	// values is true if ddtop reads paths, arguments, literals and messages of the target. --redact overrides it.
	values bool
	// noRequests is true if ddtop does not read requests and jobs, to measure what reading them costs.
	noRequests bool
	// names is the flag --redact.
	names *flags.Redaction
	// ownCode selects which code is the program's own, in addition to the code that ddtop detects.
	ownCode *flags.OwnCode
}

func (t *target) addPID(cmd *cobra.Command) {
	cmd.Flags().VarP(&t.pids, "pid", "p", "the `PID` of the process; several: 17,18,19")
	addValues(cmd, &t.values)
	cmd.Flags().BoolVar(&t.noRequests, "no-requests", false, "don't read for whom threads work")
	// MarkHidden fails only for unknown flags.
	_ = cmd.Flags().MarkHidden("no-requests")
	// RegisterFlagCompletionFunc fails only for unknown flags.
	_ = cmd.RegisterFlagCompletionFunc("pid", completePIDs)
	cmd.ValidArgsFunction = completePIDs
	cmd.Flags().BoolVar(&t.children, "children", false, "also follow the Ruby processes below it, including later ones")
}

// addValues adds the flag --values.
func addValues(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "values", false, "also read paths, arguments, literals and messages; not with --redact")
}

// attaching returns the options for attaching. progress is called while ddtop reads debug information.
func (t *target) attaching(progress func(path string, done, total int)) live.Options {
	return live.Options{StackRate: t.stackRate, LockRate: t.lockRate, Overhead: t.overhead.Share, OverheadMost: t.overheadMost(), Window: t.figuresOf, Pause: t.pause,
		Redactor: t.names.Redactor(), Values: t.values, NoRequests: t.noRequests, From: t.from(), Running: t.native, Debug: t.debug.Client, OwnCode: t.ownCode.Rules(), Progress: progress}
}

// several reports whether the command has more than one process, or can get more later.
func (t *target) several() bool { return t.children || len(t.pids) > 1 }

func (t *target) addRates(cmd *cobra.Command) {
	cmd.Flags().Float64Var(&t.stackRate, "rate", defaultStackRate, "how often to read stacks, in `Hz`")
	cmd.Flags().Float64Var(&t.lockRate, "lock-rate", defaultLockRate, "how often to read the GVL, in `Hz`, up to 10000")
	t.addOverhead(cmd)
	t.source.addTo(cmd)
}

// checkPID checks the PIDs that the user named or chose.
func (t *target) checkPID() error {
	if len(t.pids) == 0 {
		t.pids = flags.PIDs{t.pid}
	}
	t.pid = t.pids[0]
	for _, pid := range t.pids {
		if pid <= 0 {
			return flags.Usagef("%d is not a process: a PID is a number above 0", pid)
		}
	}
	return nil
}

func (t *target) checkRates() error {
	for _, r := range []struct {
		flag string
		hz   float64
	}{{"--rate", t.stackRate}, {"--lock-rate", t.lockRate}} {
		// The condition is negated to refuse NaN too, because every comparison with NaN is false.
		if !(r.hz >= minRate && r.hz <= maxRate) {
			return flags.Usagef("%s takes %g to %g Hz, not %g", r.flag, minRate, maxRate, r.hz)
		}
	}
	if t.lockRate < t.stackRate {
		// Each tick that reads stacks also reads the state of the GVL. So lockRate must not be lower than stackRate.
		t.lockRate = t.stackRate
	}
	return t.checkSource()
}

// defaultMeasure is how long `ddtop stat` and `ddtop record` measure by default.
const defaultMeasure = 10 * time.Second

// measurement has what the commands stat and record share: the target, and the length of the measurement.
type measurement struct {
	target
	length flags.Duration
}

func newMeasurement(std run.Streams) measurement {
	return measurement{target: target{names: std.Redact, ownCode: std.Own}, length: flags.Duration{Value: defaultMeasure, Min: 10 * time.Millisecond, Max: 24 * time.Hour}}
}

func (m *measurement) addFlags(cmd *cobra.Command, std run.Streams) {
	m.addPID(cmd)
	m.addRates(cmd)
	m.addPause(cmd)
	m.addExact(cmd)
	m.addNative(cmd)
	m.debug.AddTo(cmd, std)
	cmd.Flags().VarP(&m.length, "duration", "d", "how long to measure: 10s, 1m30s, or a number of seconds")
}

// check checks the flags, and then finds the processes.
func (m *measurement) check(cmd *cobra.Command, words []string, std run.Streams) error {
	if err := errors.Join(m.checkRates(), m.checkExact(cmd, false)); err != nil {
		return err
	}
	return m.find(cmd, words, std, plainLook(cmd.Name(), std))
}

// open attaches to the process, and switches exact mode on if requested. It reports slow progress on standard error.
func (t *target) open(ctx context.Context) (*live.Source, error) {
	return t.openTelling(ctx, layoutProgress(t.names))
}

// openTelling is like open, but calls progress while it reads debug information.
func (t *target) openTelling(ctx context.Context, progress func(path string, done, total int)) (*live.Source, error) {
	if t.pause {
		exact.StayAwake()
	}
	src, err := live.Open(ctx, t.pid, t.attaching(progress))
	if err != nil {
		return nil, err
	}
	if err := t.exact.Begin(ctx, src); err != nil {
		return nil, errors.Join(err, src.Close())
	}
	return src, nil
}

// openGroup attaches to the named processes and, with --children, to their descendants. pending is true if the named
// process was just started and may not run Ruby yet. openGroup reports each process in which exact mode fails.
func (t *target) openGroup(ctx context.Context, pending bool, say func(format string, args ...any)) (exact.Group, error) {
	return t.openGroupTelling(ctx, pending, say, layoutProgress(t.names))
}

// openGroupTelling is like openGroup, but calls progress while it reads debug information. It also does so for
// processes that join the group later.
func (t *target) openGroupTelling(ctx context.Context, pending bool, say func(format string, args ...any), progress func(path string, done, total int)) (exact.Group, error) {
	if t.pause {
		exact.StayAwake()
	}
	if t.native {
		if err := live.MayRun(); err != nil {
			say("no C functions of running threads: %v", err)
		}
	}
	g, err := group.Open(ctx, t.pids, group.Options{Children: t.children, Pending: pending, Options: t.attaching(progress)})
	if err != nil {
		return nil, err
	}
	return t.exact.Group(ctx, g, run.TellExact(say), false)
}

const exactHelp = `
--exact records every change of the GVL, to the microsecond. Sampling knows only shares of time. Meanwhile the kernel
keeps breakpoints in the process's memory, in the code of libruby. If they cost the process more than --exact-cost of
its CPU time, ddtop removes them, reports that, and goes on sampling. --exact needs root or capabilities, and a kernel
and a Ruby that support it. "ddtop doctor" checks that. See docs/reference/exact.md.`

const nativeHelp = `
--native takes the C stacks of running threads, 49 times a second on each CPU. Flamegraphs, profiles and recordings then
show in which C functions a method spends its time. It needs root or capabilities, as --source switches does. Without
them ddtop says what is missing, and goes on. See docs/reference/native.md.`

// addNative adds the flag --native, and a description of the flag to the command's help.
func (t *target) addNative(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&t.native, "native", false, "take C stacks of running threads")
	cmd.Long += "\n" + nativeHelp
}

// addExact adds the flag --exact, and a description of the flag to the command's help.
func (t *target) addExact(cmd *cobra.Command) {
	t.exact.AddTo(cmd)
	cmd.Long += "\n" + exactHelp
}

// checkExact refuses flags that contradict --exact. later is true for a screen, whose keys can switch exact mode on.
func (t *target) checkExact(cmd *cobra.Command, later bool) error {
	switch {
	case !t.exact.On && !later && cmd.Flags().Changed(exact.CostFlag):
		return flags.Usagef("--exact-cost is of --exact, which is not asked for")
	case t.exact.On && t.pause:
		return flags.Usagef("--exact does not go with --pause, whose stops would be in all that it says")
	}
	return nil
}

// exactSwitch returns the switch with which the screen turns exact mode on and off for a process.
func (t *target) exactSwitch(src exact.Source) *exact.Switch {
	return &exact.Switch{Src: src, Flags: t.exact, Paused: t.pause}
}

// defaultOverhead limits ddtop's CPU time by default, as a share of one CPU. It is so small that even a busy machine is
// hardly affected.
const defaultOverhead = 0.03

// mostOverhead limits ddtop's CPU time, as a share of one CPU, if the figures' minimum quality (sampler.LeastQualities)
// needs more than defaultOverhead. On a busy machine, reading ten stacks of a Rails worker per second takes half of it.
// If the user sets a limit, ddtop never exceeds the user's limit.
const mostOverhead = 0.06

func (t *target) addOverhead(cmd *cobra.Command) {
	t.overhead.Share = defaultOverhead
	cmd.Flags().Var(&t.overhead, "overhead",
		"the most that ddtop takes of one CPU, or off; unless given, up to 6%")
}

// overheadMost returns the share of a CPU that ddtop may use if figures need it for their minimum quality. It is zero
// if the user has set a limit.
func (t *target) overheadMost() float64 {
	if t.overhead.Asked {
		return 0
	}
	return mostOverhead
}

const pauseHelp = `
--pause stops all threads with ptrace while stacks are read, so that each sample shows one instant of all threads.
Reads of the GVL never stop the process. A stop is limited: after 5 ms the process goes on, and the sample counts as
cut. Stops take at most a tenth of the time. With many threads, stacks are therefore read less often. ddtop measures
and reports the length of stops. A stop interrupts system calls in which threads sleep. The kernel restarts most of
them, but epoll_wait and a few others fail with EINTR. --pause is refused while a debugger or strace is attached. If
ddtop is killed, the process goes on. --pause does not help with Ruby 2.5 to 2.7, and 3.1 with YJIT: they publish a
frame before it is filled.`

// addPause adds the flag --pause, and a description of the flag to the command's help.
func (t *target) addPause(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&t.pause, "pause", false, "stop all threads while stacks are read, each time for at most about 5 ms")
	cmd.Long += "\n" + pauseHelp
}

// sourceFlag is the flag --source, which selects how ddtop observes threads.
type sourceFlag struct{ from live.From }

func (f *sourceFlag) addTo(cmd *cobra.Command) {
	f.from = live.FromAuto
	cmd.Flags().Var(f, "source", "`SOURCE` of thread states: auto, switches, moved, polling")
	// RegisterFlagCompletionFunc fails only for unknown flags.
	_ = cmd.RegisterFlagCompletionFunc("source", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{string(live.FromAuto), string(live.FromSwitches), string(live.FromMoved), string(live.FromPolling)}, cobra.ShellCompDirectiveNoFileComp
	})
}

// String returns the value of the flag.
func (f *sourceFlag) String() string { return string(f.from) }

// Type returns the word that stands for the value in help texts.
func (f *sourceFlag) Type() string { return "string" }

// Set parses the value of the flag.
func (f *sourceFlag) Set(text string) error {
	from, err := live.ParseFrom(text)
	if err == nil {
		f.from = from
	}
	return err
}

// from returns how to observe threads. In exact mode, ddtop does not follow thread switches but polls, because the
// probes already show more than the switches would.
func (t *target) from() live.From {
	if t.source.from == live.FromAuto && t.exact.On {
		return live.FromPolling
	}
	return t.source.from
}

// checkSource refuses --source together with contradicting flags.
func (t *target) checkSource() error {
	if from := t.source.from; (from == live.FromSwitches || from == live.FromMoved) && t.pause {
		return flags.Usagef("--source %s does not go with --pause, whose stops would be in all that it says", from)
	}
	return nil
}
