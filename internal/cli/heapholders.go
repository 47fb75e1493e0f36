package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/heapgraph"
	"github.com/ddtop/ddtop/sampler/live"
)

// graphFlags ask who holds objects.
type graphFlags struct {
	holders    string
	biggest    bool
	maxObjects uint64
	maxMemory  flags.ByteSize
}

func (f *graphFlags) addTo(cmd *cobra.Command) {
	f.maxMemory = sampler.DefaultHolderBytes
	cmd.Flags().StringVar(&f.holders, "holders", "", "say who holds the objects of a `CLASS`, or the object at an address (0x7f…)")
	cmd.Flags().BoolVar(&f.biggest, "biggest", false, "list the largest Strings, Arrays and Hashes, and equal Strings")
	cmd.Flags().Uint64Var(&f.maxObjects, "max-objects", sampler.DefaultHolderObjects, "of --holders and --biggest: refuse heaps with more objects")
	cmd.Flags().Var(&f.maxMemory, "max-memory", "of --holders and --biggest: refuse to copy more")
}

// asked reports whether the user wants to know who holds objects, and checks the flags.
func (f *heapFlags) asked() (bool, error) {
	g := &f.graph
	switch {
	case g.holders == "" && !g.biggest:
		return false, nil
	case f.several():
		return true, flags.Usagef("--holders and --biggest take one process")
	case f.length.Value > 0:
		return true, flags.Usagef("-d counts again and again, --holders and --biggest copy once: choose")
	}
	return true, nil
}

// progressEvery is how often the progress of a copy is said.
const progressEvery = 2 * time.Second

// explain is `ddtop heap` with --holders or --biggest.
func (f *heapFlags) explain(ctx context.Context, std run.Streams) error {
	src, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	said := time.Now()
	g, info, err := live.HeapGraph(ctx, src, sampler.HolderOptions{MaxObjects: f.graph.maxObjects, MaxBytes: uint64(f.graph.maxMemory), Contents: f.graph.biggest,
		Progress: func(stage string, done, total int) {
			if time.Since(said) >= progressEvery {
				said = time.Now()
				std.Say("%s: %d of %d pages", stage, done, total)
			}
		}})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	h := export.NewHeapGraph(src.Process(), g, &info)
	if f.graph.holders != "" {
		set, err := objectsOf(g, f.graph.holders)
		if err != nil {
			return fmt.Errorf("process %d: %w", src.Process().PID, err)
		}
		h.Holders(f.graph.holders, set)
	}
	if f.graph.biggest {
		h.Biggest()
	}
	run.SayBelow(std, src)
	if f.asJSON {
		return h.WriteJSON(std.Results(ctx))
	}
	return h.WriteText(std.Results(ctx))
}

// objectsOf finds the objects of a class, or the object at an address.
func objectsOf(g *heapgraph.Graph, name string) ([]uint32, error) {
	if addr, err := strconv.ParseUint(name, 0, 64); err == nil {
		if n, ok := g.At(addr); ok {
			return []uint32{n}, nil
		}
		return nil, fmt.Errorf("no object is at %#x. It was freed or moved, or the address is wrong", addr)
	}
	if set := g.OfClass(name); len(set) > 0 {
		return set, nil
	}
	return nil, fmt.Errorf("no object is of class %s. Give the whole name, such as Shop::Order. ddtop heap lists the classes", name)
}
