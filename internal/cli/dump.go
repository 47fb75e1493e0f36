package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// dumpFlags are the flags of `ddtop dump`.
type dumpFlags struct {
	target
	judgement
	coreFlags
	ownFlag
	length duration
	asJSON bool
}

func newDump(std Streams) *cobra.Command {
	f := dumpFlags{
		target: target{stackRate: defaultStackRate, lockRate: defaultLockRate, names: std.redact, ownCode: std.own}, judgement: newJudgement(),
		length: duration{max: time.Hour},
	}
	cmd := &cobra.Command{
		Use:   "dump {PID|NAME | --core FILE}",
		Short: "Print each thread's state and stack",
		Long: `Print one thread dump: every thread with its state, what it waits for and its full stack, the holder of the GVL and
its queue, locks and deadlocks. Without --pause the process is not stopped. Reading takes a few milliseconds, so the
dump is not exactly one instant. It marks what could not be read completely.

An instant does not show what is wrong over time, or how long states have lasted. With -d 5s ddtop measures first, and
the dump at the end shows both.

With --core FILE ddtop reads a core file that the kernel or gcore wrote. A core file lacks what only the kernel knew of
a living thread, such as its system call and its CPU time.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			core, err := f.coreFlags.check(cmd)
			if err != nil {
				return err
			}
			if core && len(args) > 0 {
				return usageErrorf("--core FILE and %q: choose", args[0])
			}
			if core {
				f.readValues, f.onlyEndpoints = f.values, f.endpoint.match()
				return f.coreFlags.dump(cmd.Context(), f.rules, std, f.own, f.asJSON)
			}
			if err := f.checkExact(cmd, false); err != nil {
				return err
			}
			if f.exact.on && f.length.value == 0 {
				return usageErrorf("--exact goes with -d: in an instant nothing changes")
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
	f.coreFlags.addFlags(cmd)
	f.addRules(cmd)
	std.redact.addTo(cmd)
	std.own.addTo(cmd)
	cmd.Flags().VarP(&f.length, "duration", "d", "measure first, to get findings: 5s, or a number of seconds")
	f.addOwn(cmd, "stacks; JSON has all")
	f.endpoint.addEndpoint(cmd)
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON (docs/reference/json.md)")
	return cmd
}

// write measures, when that is asked for, and writes the dump of the instant after that.
func (f *dumpFlags) write(ctx context.Context, src *live.Source, std Streams) error {
	d, note, err := f.make(ctx, src, f.length.value)
	if err != nil {
		return err
	}
	if f.length.value > 0 {
		sayNotes(std, src, note)
	}
	if f.asJSON {
		return d.WriteJSON(std.results(ctx))
	}
	return d.WriteText(std.results(ctx))
}

// keepEvery is how often a sample of a measurement is kept, for the case that there is none after it.
const keepEvery = 250 * time.Millisecond

// make measures for the length of time, if any, and takes the dump of the instant after that. note says why it measured for
// less, "" when it did not.
func (f *dumpFlags) make(ctx context.Context, src *live.Source, length time.Duration) (d *export.Dump, note string, err error) {
	m := gvl.NewMeasure(src.Process(), src.Dictionary(), f.rules)
	var first, last int64
	var kept *sampler.Sample // the last one with stacks, up to keepEvery old
	if length > 0 {
		note, err = sampleFor(ctx, src, length, func(s *sampler.Sample) {
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
			return nil, "", err
		}
		var cancel context.CancelFunc
		ctx, cancel = afterwards(ctx)
		defer cancel()
	}
	// Listed before the sample: a thread of Ruby's own that is in the list is in the sample too.
	native, nativeErr := src.NativeThreads()
	s, err := src.Once(ctx)
	if errors.Is(err, attach.ErrNoAnswer) && kept != nil {
		s, err = kept, nil // what note says of its end holds for it, too
	}
	if err != nil {
		return nil, "", err
	}
	d = export.NewDump(src.Process(), src.Dictionary(), s, m.Classify(s))
	d.FoldLibraries(f.own)
	addFibers(ctx, d, src)
	if length > 0 {
		d.SetMeasured(last-first, m.Findings())
		d.Alloc = m.Alloc()
	}
	d.OnlyEndpoints(f.endpoint.match())
	if nativeErr == nil {
		d.NativeThreads = append(d.NativeThreads, unknownOf(native, s, nil, nil)...)
	}
	return d, note, nil
}

// addFibers adds the suspended fibers of a source that was just read. Where they can't be told the dump has none, and its
// JSON null.
func addFibers(ctx context.Context, d *export.Dump, src interface {
	Fibers(context.Context) (sampler.Fibers, error)
	Dictionary() *sampler.Dictionary
}) {
	if fibers, err := src.Fibers(ctx); err == nil {
		d.SetFibers(fibers, src.Dictionary())
	}
}
