package heaps

import (
	"context"
	"fmt"
	"io"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// ReadCore runs `ddtop heap` on a core file. name is its path.
func (f *Flags) ReadCore(ctx context.Context, core *live.Core, name string, out run.Output, asJSON bool, std run.Streams) error {
	if missing := core.Missing(); missing > 0 {
		std.Say("the core file was cut short by %d bytes: objects in them are missing here", missing)
	}
	var result interface {
		WriteText(w io.Writer) error
		WriteJSON(w io.Writer) error
	}
	if f.Asked() || out != "" && !IsProfile(out) {
		g, info, err := core.HeapGraph(ctx, sampler.HolderOptions{MaxObjects: f.MaxObjects, MaxBytes: uint64(f.MaxMemory), Contents: f.Biggest, Facts: out != ""})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if out != "" {
			return Write(ctx, out, g, std)
		}
		h := export.NewHeapGraph(core.Process(), g, &info)
		h.File = &name
		if err := f.Answer(h, g); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		result = h
	} else {
		c, err := core.CountHeap(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		h := export.NewHeap(core.Process(), c, nil)
		h.File = &name
		if out != "" {
			return out.Write(ctx, std, func(w io.Writer) error { return profile.WriteHeap(w, core.Process(), h) })
		}
		result = h
	}
	if asJSON {
		return result.WriteJSON(std.Results(ctx))
	}
	return result.WriteText(std.Results(ctx))
}
