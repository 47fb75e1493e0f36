package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/heaps"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// asked reports whether the user wants to know who holds objects, and checks the flags.
func (f *heapFlags) asked() (bool, error) {
	g := &f.graph
	switch {
	case !g.Asked() && (f.out == "" || heaps.IsProfile(f.out) && !f.several()):
		return false, nil
	case f.several():
		return true, flags.Usagef("--holders, --biggest and -o take one process")
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
	g, info, err := live.HeapGraph(ctx, src, sampler.HolderOptions{MaxObjects: f.graph.MaxObjects, MaxBytes: uint64(f.graph.MaxMemory), Contents: f.graph.Biggest, Facts: f.out != "",
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
	if f.out != "" {
		return heaps.Write(ctx, f.out, g, std)
	}
	h := export.NewHeapGraph(src.Process(), g, &info)
	if err := f.graph.Answer(h, g); err != nil {
		return fmt.Errorf("process %d: %w", src.Process().PID, err)
	}
	run.SayBelow(std, src)
	if f.asJSON {
		return h.WriteJSON(std.Results(ctx))
	}
	return h.WriteText(std.Results(ctx))
}
