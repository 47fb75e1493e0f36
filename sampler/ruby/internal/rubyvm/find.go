package rubyvm

import (
	"context"
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
)

// FindOptions are the options of Find. With the zero value, derived tables are not cached and progress is not reported.
type FindOptions struct {
	// PID is the process's id.
	PID int
	// Still is true if the target does not change, for example a core file. Find then does not wait for a VM that is
	// starting.
	Still bool
	// Cache is the folder for tables derived from debug information. If it is empty, they are not cached.
	Cache string
	// Progress is called repeatedly while a file's debug information is read. done is the number of compilation units
	// that were read so far, and total the number of all units.
	Progress func(path string, done, total int)
}

// Found is a VM and a note about its layout.
type Found struct {
	VM *VM
	// Note is a text for the user. It says where the layout comes from, if it was not made for exactly this release.
	// Otherwise it is empty.
	Note string
}

// Find is the implementation of ruby.Find. It calls the function threads to verify a layout. threads must read all
// threads in the same way as sampling does.
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
		// The derived table agrees with the table that was tried first, so the layout is right. Something else failed:
		// for example, the VM is not ready yet.
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

// TryLayout searches for the VM with a given layout. If verify is true, it then also verifies the layout.
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

// asUnfit adds ErrLayout to the error of a layout that was made for another release and with which no VM was found.
// Such a layout probably does not fit. Without ErrLayout, the user would think that the VM is not ready yet.
func asUnfit(err error) error {
	if errors.Is(err, ErrLayout) {
		return err
	}
	return fmt.Errorf("%w, or %w", ErrLayout, err)
}

// noLayout returns the error for a Ruby for which ddtop has no fitting table and finds no debug information. For a
// known release it returns only the error unfit. Advice about debug information is useful only for other builds.
func noLayout(unfit, noDebug error, version string) error {
	switch {
	case errors.Is(unfit, layout.ErrUnknownRelease):
		return fmt.Errorf("%w, or the debug information of this Ruby (its -dbgsym package, or a build with -g), from which ddtop derives the layout: %w", unfit, noDebug)
	case errors.Is(unfit, ErrLayout):
		return fmt.Errorf("%w; to derive the right one the debug information of this Ruby %s is needed (its -dbgsym package, or a build with -g): %w", unfit, version, noDebug)
	}
	return unfit
}
