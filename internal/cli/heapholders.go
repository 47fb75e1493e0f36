package cli

import (
	"context"

	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/heaps"
	"github.com/ddtop/ddtop/internal/cli/run"
)

// asked reports whether the flags need a copy of all references between objects, and checks these flags.
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

// explain runs `ddtop heap` with --holders or --biggest, or writes all objects to a file.
func (f *heapFlags) explain(ctx context.Context, std run.Streams) error {
	src, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	return f.graph.Explain(ctx, src, f.out, f.asJSON, std)
}
