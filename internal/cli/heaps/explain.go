package heaps

import (
	"context"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// progressEvery is the interval between two messages about how far the copying of the heap is.
const progressEvery = 2 * time.Second

// Explain runs `ddtop heap` on a process with --holders or --biggest, or writes a file of all objects.
func (f *Flags) Explain(ctx context.Context, src *live.Source, out run.Output, asJSON bool, std run.Streams) error {
	release, err := f.Stop(ctx, src, std)
	if err != nil {
		return err
	}
	defer release()
	said := time.Now()
	g, info, err := live.HeapGraph(ctx, src, sampler.HolderOptions{MaxObjects: f.MaxObjects, MaxBytes: uint64(f.MaxMemory), Contents: f.Biggest, Facts: out != "",
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
	if out != "" {
		return Write(ctx, out, g, std)
	}
	h := export.NewHeapGraph(src.Process(), g, &info)
	if err := f.Answer(h, g); err != nil {
		return fmt.Errorf("process %d: %w", src.Process().PID, err)
	}
	run.SayBelow(std, src)
	if asJSON {
		return h.WriteJSON(std.Results(ctx))
	}
	return h.WriteText(std.Results(ctx))
}

// Stop stops the process once and copies its memory, if the user gave --pause. From then until the caller calls
// release, ddtop reads the heap from the copy.
func (f *Flags) Stop(ctx context.Context, src *live.Source, std run.Streams) (release func(), err error) {
	if !*f.Pause {
		return func() {}, nil
	}
	pid := src.Process().PID
	z, release, err := live.PauseHeap(ctx, src, uint64(f.MaxMemory), func(bytes uint64, fast, slow time.Duration) {
		std.Say("stopping process %d for about %s to %s, to copy %s of memory", pid, units.ProseDuration(int64(fast)), units.ProseDuration(int64(slow)), units.FineBytes(int64(bytes)))
	})
	if err != nil {
		return nil, err
	}
	std.Say("process %d was stopped for %s: %s were copied", pid, units.ProseDuration(z.NS), units.FineBytes(int64(z.Bytes)))
	return release, nil
}
