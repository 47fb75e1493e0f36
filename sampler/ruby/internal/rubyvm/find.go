package rubyvm

import (
	"context"
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
)

// FindOptions of Find. The zero value keeps no derived tables and prints nothing.
type FindOptions struct {
	// PID is the process's id.
	PID int
	// Still is true if the target does not change, as a core file. Then one attempt is enough.
	Still bool
	// Cache is the folder for tables derived from debug information. It is empty if there is none.
	Cache string
	// Progress is called while a file's debug information is read. done and total count units.
	Progress func(path string, done, total int)
}

// Found is a VM and a note about its layout.
type Found struct {
	VM *VM
	// Note tells the user how the layout differs from one made for this very release. It is empty if it does not.
	Note string
}

// Find is ruby.Find. threads reads all threads as the sampling will.
func Find(ctx context.Context, mem attach.Memory, module *attach.Module, version string, o FindOptions,
	threads func(vm *VM) error) (Found, error) {
	table, match, err := layout.For(version, module.Machine, module.JmpBuf())
	var unfit error
	switch {
	case err == nil:
		vm, err := TryLayout(ctx, mem, module, version, table, !match.Exact, o, threads)
		if err == nil {
			return Found{vm, verifiedNote(match)}, nil
		}
		if Unreadable(err) || ctx.Err() != nil {
			return Found{}, err
		}
		unfit = err
		if !match.Exact {
			unfit = fmt.Errorf("%s: %w", match.Note, asUnfit(err))
		}
	case errors.Is(err, layout.ErrUnknownRelease):
		unfit = err
	default:
		return Found{}, err
	}
	derived, source, err := DeriveTable(ctx, module, version, o)
	if ctx.Err() != nil {
		return Found{}, context.Cause(ctx)
	}
	if err != nil {
		return Found{}, noLayout(unfit, err, version)
	}
	if table != nil && !layout.Conflict(derived, table) {
		// The layout was right: something else is wrong, such as a VM that is not ready yet.
		return Found{}, unfit
	}
	vm, err := TryLayout(ctx, mem, module, version, derived, true, o, threads)
	if err != nil {
		if Unreadable(err) || ctx.Err() != nil {
			return Found{}, err
		}
		return Found{}, fmt.Errorf("%w; the layout derived from the debug information in %s fails too: %w", unfit, source, err)
	}
	note := fmt.Sprintf("Ruby %s is not known; its layout comes from the debug information in %s, verified on this process", version, source)
	if match.Exact {
		note = fmt.Sprintf("this Ruby %s is built otherwise than the release; its layout comes from the debug information in %s, verified on this process", version, source)
	}
	return Found{vm, note}, nil
}

// TryLayout locates the VM with a layout and, with verify, verifies it.
func TryLayout(ctx context.Context, mem attach.Memory, module *attach.Module, version string, table *layout.Table, verify bool, o FindOptions,
	threads func(vm *VM) error) (*VM, error) {
	patience := bootPatience
	if o.Still {
		patience = 0
	}
	vm, err := locateVM(ctx, mem, module, table, version, patience)
	if err != nil {
		return nil, err
	}
	if verify {
		err = vm.Verify(module, func() error { return threads(vm) })
	}
	return vm, err
}

func verifiedNote(m layout.Match) string {
	if m.Exact || m.Note == "" {
		return ""
	}
	return m.Note + ", verified on this process"
}

// asUnfit reports that a layout made for another release does not fit, if it finds no VM. Without this, the VM would
// look like one that is not ready yet.
func asUnfit(err error) error {
	if errors.Is(err, ErrLayout) {
		return err
	}
	return fmt.Errorf("%w, or %w", ErrLayout, err)
}

// noLayout returns the error if there is neither a table nor debug information. A known release keeps its own error,
// because only users of another build need the debug information.
func noLayout(unfit, noDebug error, version string) error {
	switch {
	case errors.Is(unfit, layout.ErrUnknownRelease):
		return fmt.Errorf("%w, or the debug information of this Ruby (its -dbgsym package, or a build with -g), from which ddtop derives the layout: %w", unfit, noDebug)
	case errors.Is(unfit, ErrLayout):
		return fmt.Errorf("%w; to derive the right one the debug information of this Ruby %s is needed (its -dbgsym package, or a build with -g): %w", unfit, version, noDebug)
	}
	return unfit
}
