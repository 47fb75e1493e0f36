package cli

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/debuginfod"
	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

type dumpFlags struct {
	target
	judgement
	coreFlags
	ownFlag
	length flags.Duration
	asJSON bool
}

func newDump(std run.Streams) *cobra.Command {
	f := dumpFlags{
		target: target{stackRate: defaultStackRate, lockRate: defaultLockRate, names: std.Redact, ownCode: std.Own}, judgement: newJudgement(),
		length: flags.Duration{Max: time.Hour},
	}
	cmd := &cobra.Command{
		Use:   "dump {PID|NAME | --core FILE}",
		Short: "Print each thread's state and stack",
		Long: `Print one thread dump: every thread with its state, what it waits for and its full stack, the holder of the GVL and
its queue, locks and deadlocks. Without --pause the process is not stopped. Reading takes a few milliseconds, so the
dump is not exactly one instant. It marks what could not be read completely.

An instant does not show what is wrong over time, or how long states have lasted. With -d 5s ddtop measures first, and
the dump at the end shows both.

With --core FILE ddtop reads a core file that the kernel or gcore wrote. It has the C functions of all threads, also of
those that ran. A core file lacks what only the kernel knew of a living thread, such as its system call and its CPU
time.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			core, err := f.coreFlags.check(cmd)
			if err != nil {
				return err
			}
			if core && len(args) > 0 {
				return flags.Usagef("--core FILE and %q: choose", args[0])
			}
			if core {
				f.readValues = f.values
				return f.dumpCore(cmd.Context(), std)
			}
			if err := f.checkExact(cmd, false); err != nil {
				return err
			}
			if f.exact.On && f.length.Value == 0 {
				return flags.Usagef("--exact goes with -d: in an instant nothing changes")
			}
			if err := f.find(cmd, args, std, plainLook("dump", std)); err != nil {
				return err
			}
			if f.several() {
				return f.dumpGroup(cmd.Context(), std)
			}
			src, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			defer src.Close()
			return f.write(cmd.Context(), src, std)
		},
	}
	f.addPID(cmd)
	f.addOverhead(cmd)
	f.addPause(cmd)
	f.addExact(cmd)
	f.debug.AddTo(cmd, std)
	f.coreFlags.addFlags(cmd)
	f.addRules(cmd)
	std.Redact.AddTo(cmd)
	std.Own.AddTo(cmd)
	cmd.Flags().VarP(&f.length, "duration", "d", "measure first, to get findings: 5s, or a number of seconds")
	f.addOwn(cmd, "stacks; JSON has all")
	f.endpoint.AddTo(cmd)
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON (docs/reference/json.md)")
	return cmd
}

// write measures the process first if the user gave -d, and then writes the dump.
func (f *dumpFlags) write(ctx context.Context, src *live.Source, std run.Streams) error {
	d, _, note, err := f.make(ctx, src, f.length.Value)
	if err != nil {
		return err
	}
	if f.length.Value > 0 {
		run.SayNotes(std, src, note)
	} else {
		run.SayBelow(std, src)
	}
	if f.asJSON {
		return d.WriteJSON(std.Results(ctx))
	}
	return d.WriteText(std.Results(ctx))
}

// keepEvery is how often the measurement keeps a sample. The dump shows it if the process ends before the dump.
const keepEvery = 250 * time.Millisecond

// make measures for the given length, if it is not zero, and then takes the dump. note says why the measurement ended
// early. It is empty if it did not.
func (f *dumpFlags) make(ctx context.Context, src *live.Source, length time.Duration) (d *export.Dump, m *measure.Measure, note string, err error) {
	m = measure.New(src.Process(), src.Dictionary(), f.rules)
	var first, last int64
	var kept *sampler.Sample // the last sample with stacks, up to keepEvery old
	if length > 0 {
		note, err = run.SampleFor(ctx, src, length, func(s *sampler.Sample) {
			if first == 0 {
				first = s.TimeNS
			}
			last = s.TimeNS
			m.Feed(s)
			if s.Depth == sampler.StackTick && (kept == nil || time.Duration(s.TimeNS-kept.TimeNS) >= keepEvery) {
				kept = s.Clone()
			}
		})
		if err != nil {
			return nil, nil, "", err
		}
		var cancel context.CancelFunc
		ctx, cancel = run.Afterwards(ctx)
		defer cancel()
	}
	f.debug.Fetch(ctx, src)
	// List the threads before the sample. Otherwise a thread made in between would seem unknown to Ruby.
	threads, _ := src.NativeThreads() // after an error the dump has no native threads
	s, err := src.Once(ctx)
	if errors.Is(err, attach.ErrNoAnswer) && kept != nil {
		s, err = kept, nil // the sample is up to keepEvery old; the note says that the process has ended
	}
	if err != nil {
		return nil, nil, "", err
	}
	d = export.NewDump(src.Process(), src.Dictionary(), s, m.Classify(s))
	d.FoldLibraries(f.own)
	addFibers(ctx, d, src)
	if length > 0 {
		d.SetMeasured(last-first, m.Findings())
		d.Alloc = m.Alloc()
	}
	d.OnlyEndpoints(f.endpoint.Match())
	if s != kept {
		f.addNative(ctx, d, src, s, threads)
	}
	return d, m, note, nil
}

// addNative adds native stacks, and threads unknown to Ruby. threads lists the native threads before the sample.
func (f *dumpFlags) addNative(ctx context.Context, d *export.Dump, src run.NativeSource, s *sampler.Sample, threads []live.NativeThread) {
	others := run.UnknownOf(threads, s, nil, nil)
	tids := make([]int32, len(others))
	for i := range others {
		tids[i] = others[i].TID
	}
	missing := ""
	stacks, err := src.NativeStacks(ctx, s, tids)
	if err != nil {
		missing = f.names.Redactor().Error(err)
	}
	d.SetNative(others, stacks.Ruby, stacks.Others, missing)
	if _, core := src.(*live.Core); err == nil && !core || stacks.Locks != nil {
		d.SetNativeLocks(stacks.Locks, src.Dictionary())
	}
}

// addFibers adds the suspended fibers of a process or core file that was just read. If they cannot be read, the dump
// has none, and its JSON has null for them.
func addFibers(ctx context.Context, d *export.Dump, src interface {
	Fibers(context.Context) (sampler.Fibers, error)
	Dictionary() *sampler.Dictionary
}) {
	if fibers, err := src.Fibers(ctx); err == nil {
		d.SetFibers(fibers, src.Dictionary())
	}
}

// coreFlags are the flags of `ddtop dump` that read a core file instead of a process.
type coreFlags struct {
	core  string
	files []string
	root  string
	// readValues is the command's flag --values.
	readValues bool
}

func (f *coreFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.core, "core", "", "read a core `FILE` of the kernel or gcore instead of a process")
	cmd.Flags().StringVar(&f.root, "root", "", "with --core: the `FOLDER` that was the process's root, for a core from a container")
	cmd.Flags().StringArrayVar(&f.files, "exe", nil, "with --core: the `FILE` of the program or a library that has moved; can be repeated")
}

// check refuses flags that contradict --core or that need it. It reports whether the user wants to read a core file.
func (f *coreFlags) check(cmd *cobra.Command) (core bool, err error) {
	core = cmd.Flags().Changed("core")
	switch {
	case core && cmd.Flags().Changed("pid"):
		return false, flags.Usagef("-p PID looks at a process and --core at a core file: choose")
	case core && f.core == "":
		return false, flags.Usagef("--core takes the path of a core file")
	case core && cmd.Flags().Changed("duration"):
		return false, flags.Usagef("a core file holds one instant: -d measures a process")
	case !core && (len(f.files) > 0 || f.root != ""):
		return false, flags.Usagef("--exe and --root go with --core FILE")
	}
	return core, nil
}

// openCore opens the core file. debug downloads debug files for its C functions, or is nil.
func (f *coreFlags) openCore(ctx context.Context, std run.Streams, debug *debuginfod.Client) (*live.Core, error) {
	return live.OpenCore(ctx, f.core, attach.CoreFiles{Root: f.root, Files: f.files}, live.Options{Redactor: std.Redact.Redactor(), Values: f.readValues, OwnCode: std.Own.Rules(), Debug: debug, Progress: layoutProgress(std.Redact)})
}

// dumpCore writes the dump of a core file.
func (f *dumpFlags) dumpCore(ctx context.Context, std run.Streams) error {
	src, err := f.openCore(ctx, std, f.debug.Client)
	if err != nil {
		return err
	}
	defer src.Close()
	f.debug.Fetch(ctx, src)
	s, err := src.Once(ctx)
	if err != nil {
		return err
	}
	if missing := src.Missing(); missing > 0 {
		std.Say("%s was cut short by %d bytes: what they held is missing here", flamegraph.Printable(f.core), missing)
	}
	m := measure.New(src.Process(), src.Dictionary(), f.rules)
	d := export.NewDump(src.Process(), src.Dictionary(), s, m.Classify(s))
	d.FoldLibraries(f.own)
	addFibers(ctx, d, src)
	d.OnlyEndpoints(f.endpoint.Match())
	threads, _ := src.NativeThreads()
	f.addNative(ctx, d, src, s, threads)
	if f.asJSON {
		return d.WriteJSON(std.Results(ctx))
	}
	return d.WriteText(std.Results(ctx))
}

// layoutProgress returns a function that reports progress while ddtop reads debug information, which only an unknown
// Ruby needs. It writes to standard error, and not to the command's streams, because a screen may use them.
func layoutProgress(names *flags.Redaction) func(path string, done, total int) {
	var say func(done, total int)
	return func(path string, done, total int) {
		if say == nil {
			say = sayProgress(os.Stderr, names.Redactor().Text(path, path))
		}
		say(done, total)
	}
}

// dumpGroup writes the dumps of several processes, one after the other. With -d, it first measures all of them.
func (f *dumpFlags) dumpGroup(ctx context.Context, std run.Streams) error {
	g, err := f.openGroup(ctx, false, std.Say)
	if err != nil {
		return err
	}
	defer g.Close()
	// With a length of zero, MeasureGroup would not report processes that ended early.
	length := max(f.length.Value, time.Nanosecond)
	type dumped struct {
		export.ProcessDump
		of *measure.Measure
	}
	made, err := run.MeasureGroup(ctx, g, length, std, func(ctx context.Context, src sampler.Source, left time.Duration) (dumped, string, error) {
		if f.length.Value == 0 {
			left = 0
		}
		d, m, note, err := f.make(ctx, src.(*live.Source), left)
		return dumped{export.ProcessDump{Process: src.Process(), Dump: d}, m}, note, err
	})
	if err != nil {
		return err
	}
	list, of, found := make([]export.ProcessDump, len(made)), make([]*measure.Measure, len(made)), make([][]report.StatFinding, len(made))
	for i := range made {
		list[i], of[i], found[i] = made[i].ProcessDump, made[i].of, made[i].Dump.Findings
	}
	measure.PlanTogether(of, found)
	relatives, forgotten := g.Relatives()
	if f.asJSON {
		return export.WriteDumpsJSON(std.Results(ctx), list, relatives, forgotten)
	}
	return export.WriteDumps(std.Results(ctx), list, relatives, forgotten)
}
