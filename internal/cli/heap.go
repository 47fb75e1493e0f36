package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/heaps"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

type heapFlags struct {
	target
	coreFlags
	length flags.Duration
	asJSON bool
	graph  heaps.Flags
	out    run.Output
}

func newHeap(std run.Streams) *cobra.Command {
	f := heapFlags{
		target: target{stackRate: defaultStackRate, lockRate: defaultLockRate, names: std.Redact, ownCode: std.Own},
		length: flags.Duration{Max: time.Hour},
	}
	cmd := &cobra.Command{
		Use:   "heap {PID|NAME|FILE | --core FILE} [-d 1m]",
		Short: "Count Ruby's objects by class, and name the classes that grow",
		Long: `Count the objects on Ruby's heap by class and type, with their size and how many of them are old. ddtop stops the
process only with --pause. It reads all pages of the heap in pieces, so that it takes no more than --overhead of a CPU:
a million objects take about two seconds. Objects that live for longer than that are counted exactly.

With -d 1m ddtop counts again and again, and names the classes whose old objects become more all the time. A cache that
fills looks like a leak until it is full. A question mark means that garbage can be among the objects, because there
were too few major collections to tell.

With --holders CLASS ddtop copies the heap once, follows all references from constants, variables, stacks and the VM,
and shows the shortest path to the objects of the class, and how much memory they keep alive. With --biggest it shows
the largest objects.

With -o FILE ddtop writes all objects as ObjectSpace.dump_all does, but without their values. It reads such files, its
own and Ruby's: "ddtop heap a.json" shows the same tables, "ddtop heap a.json b.json" what grew. With --core FILE
ddtop reads a core file that the kernel or gcore wrote.

With --pause ddtop stops the process once, copies all of its writable memory, and lets it go on. Then it counts the
copy, which shows one instant. It says ahead how long the stop will be, 31 to 76 ms for 100 MB, and how long it was.

ddtop shows the sizes and classes of objects, and not what they hold. With --biggest --values it also shows the first 64
bytes of Strings. They are in no file that ddtop writes.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			core, err := f.coreFlags.check(cmd)
			switch {
			case err != nil:
				return err
			case core && (len(args) > 0 || f.children || f.pause):
				return flags.Usagef("--core FILE takes no process, no other file and no --pause")
			case f.pause && (f.several() || f.length.Value > 0):
				return flags.Usagef("--pause stops one process, once: it does not go with -d, --children and several processes")
			case f.values && (!f.graph.Biggest || f.asJSON || heaps.AreFiles(args)):
				return flags.Usagef("--values goes with --biggest of a process or core, as text: values are in no file and no JSON")
			case heaps.AreFiles(args) && (f.length.Value > 0 || f.several() || len(f.pids) > 0 || f.out != "" || f.pause):
				return flags.Usagef("-d, -o, -p, --pause and --children are of a process, not of a file")
			case heaps.AreFiles(args):
				return f.graph.Read(cmd.Context(), args, f.asJSON, std)
			case f.out != "" && (f.several() || f.length.Value > 0 || f.asJSON || f.graph.Asked()):
				return flags.Usagef("-o writes the heap of one process, without -d, --json, --holders and --biggest")
			case f.out != "":
				if err := heaps.CheckOut(f.out, std); err != nil {
					return err
				}
			}
			if core {
				f.readValues = f.values
				src, err := f.openCore(cmd.Context(), std, nil)
				if err != nil {
					return err
				}
				defer src.Close()
				return f.graph.ReadCore(cmd.Context(), src, f.core, f.out, f.asJSON, std)
			}
			if err := f.find(cmd, args, std, plainLook("heap", std)); err != nil {
				return err
			}
			if asked, err := f.asked(); asked && err == nil {
				return f.explain(cmd.Context(), std)
			} else if err != nil {
				return err
			}
			if f.several() {
				return f.heapGroup(cmd.Context(), std)
			}
			src, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			defer src.Close()
			release, err := f.graph.Stop(cmd.Context(), src, std)
			if err != nil {
				return err
			}
			defer release()
			h, note, err := heaps.Count(cmd.Context(), src, f.open, f.length.Value)
			if err != nil {
				return err
			}
			run.SayNote(std, note)
			run.SayBelow(std, src)
			if f.out != "" {
				return f.out.Write(cmd.Context(), std, func(w io.Writer) error { return profile.WriteHeap(w, src.Process(), h) })
			}
			if f.asJSON {
				return h.WriteJSON(std.Results(cmd.Context()))
			}
			return h.WriteText(std.Results(cmd.Context()))
		},
	}
	f.addPID(cmd)
	f.addOverhead(cmd)
	std.Redact.AddTo(cmd)
	cmd.Flags().VarP(&f.length, "duration", "d", "count again for so long, to see what grows: 30s, 5m, or a number of seconds")
	f.graph.AddTo(cmd, &f.pause)
	f.coreFlags.addFlags(cmd)
	cmd.Flags().StringVarP((*string)(&f.out), "output", "o", "", "write a `FILE`: all objects (.json, .json.zst), or classes for pprof (.pb.gz)")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON (docs/reference/json.md)")
	return cmd
}

// heapGroup runs `ddtop heap` for several processes.
func (f *heapFlags) heapGroup(ctx context.Context, std run.Streams) error {
	g, err := f.openGroup(ctx, false, std.Say)
	if err != nil {
		return err
	}
	defer g.Close()
	// With a length of zero, MeasureGroup would not report processes that ended early.
	length := max(f.length.Value, time.Nanosecond)
	list, err := run.MeasureGroup(ctx, g, length, std, func(ctx context.Context, src sampler.Source, left time.Duration) (*export.Heap, string, error) {
		if f.length.Value == 0 {
			left = 0
		}
		again := *f
		again.pid = src.Process().PID
		return heaps.Count(ctx, src.(*live.Source), again.open, left)
	})
	if err != nil {
		return err
	}
	if f.asJSON {
		relatives, forgotten := g.Relatives()
		return export.WriteHeapsJSON(std.Results(ctx), list, relatives, forgotten)
	}
	for i, h := range list {
		if i > 0 {
			if _, err := fmt.Fprintln(std.Results(ctx)); err != nil {
				return err
			}
		}
		if err := h.WriteText(std.Results(ctx)); err != nil {
			return err
		}
	}
	return nil
}
