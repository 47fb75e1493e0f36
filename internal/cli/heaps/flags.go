// Package heaps implements `ddtop heap`. It counts objects, finds which objects keep them alive, and reads and writes
// heap files.
package heaps

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/heapgraph"
)

// Flags are the flags of `ddtop heap` for questions about references: which objects hold which others.
type Flags struct {
	Holders    string
	Biggest    bool
	MaxObjects uint64
	MaxMemory  flags.ByteSize
	// Pause is true if the user wants ddtop to stop the process once and copy its memory.
	Pause *bool
}

// Asked reports whether the user gave --holders or --biggest.
func (f *Flags) Asked() bool { return f.Holders != "" || f.Biggest }

// AddTo adds these flags to a command. pause is the value of the command's flag --pause.
func (f *Flags) AddTo(cmd *cobra.Command, pause *bool) {
	f.Pause = pause
	cmd.Flags().BoolVar(pause, "pause", false, "stop the process once, copy its memory, and read the copy: one instant")
	f.MaxMemory = sampler.DefaultHolderBytes
	cmd.Flags().StringVar(&f.Holders, "holders", "", "say who holds the objects of a `CLASS`, or the object at an address (0x7f…)")
	cmd.Flags().BoolVar(&f.Biggest, "biggest", false, "list the largest Strings, Arrays and Hashes, and equal Strings")
	cmd.Flags().Lookup("values").Usage = "of --biggest: also show the first 64 bytes of Strings; not with --redact"
	cmd.Flags().Uint64Var(&f.MaxObjects, "max-objects", sampler.DefaultHolderObjects, "of --holders, --biggest and files: refuse heaps with more objects")
	cmd.Flags().Var(&f.MaxMemory, "max-memory", "of --holders, --biggest, --pause and files: refuse to copy more")
}

// Answer adds to h the answers to --holders and --biggest. It finds them in g, the graph of references between objects.
func (f *Flags) Answer(h *export.HeapGraph, g *heapgraph.Graph) error {
	if f.Holders != "" {
		set, err := objectsOf(g, f.Holders)
		if err != nil {
			return err
		}
		h.Holders(f.Holders, set)
	}
	if f.Biggest {
		h.Biggest()
	}
	return nil
}

// objectsOf finds all objects of the class name, or, if name is an address, the object at this address.
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
