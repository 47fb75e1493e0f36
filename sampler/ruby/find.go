package ruby

import (
	"context"
	"errors"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
)

// These are types of the internal package rubyvm, for callers that cannot import it.
type (
	// VM is a Ruby virtual machine found in a target's memory.
	VM = rubyvm.VM
	// FindOptions are options of Find.
	FindOptions = rubyvm.FindOptions
	// Found is a VM that Find has found, and a note about its layout.
	Found = rubyvm.Found
)

// These are errors that Find returns.
var (
	ErrBooting = rubyvm.ErrBooting
	ErrNoVM    = rubyvm.ErrNoVM
	ErrLayout  = rubyvm.ErrLayout
)

// CacheFolder returns the folder for layouts derived from debug information. It is empty if there is no such folder.
func CacheFolder() string { return rubyvm.CacheFolder() }

// maxVerifyTries limits how often ddtop reads all threads until a reading has no flaw. In a busy process, a read can be
// torn because the process changes its memory at the same time.
const maxVerifyTries = 20

// Find chooses the layout of structs for a Ruby and locates its VM. If the layout was made for another release, Find
// verifies it on the target. If the layout of the Ruby's own release does not fit (a patched build), Find derives a
// layout from the module's debug information. An error is layout.ErrUnknownRelease, ErrLayout with advice, or an error
// of LocateVM.
func Find(ctx context.Context, mem attach.Memory, module *attach.Module, version string, o FindOptions) (Found, error) {
	return rubyvm.Find(ctx, mem, module, version, o, func(vm *VM) error { return verifyThreads(vm, module, o.PID) })
}

// verifyThreads checks a layout. It reads all threads in the same way as later ticks, until a reading has no flaw.
func verifyThreads(vm *VM, module *attach.Module, pid int) error {
	var last error
	for range maxVerifyTries {
		r, err := NewReader(vm, module, pid, sampler.NewDictionary(), Options{})
		if err != nil {
			return err
		}
		var s sampler.Sample
		if last = r.Read(sampler.StackTick, &s); rubyvm.Unreadable(last) {
			return last
		}
		if last == nil {
			if last = flawIn(&s, r.dec); last == nil {
				return nil
			}
		}
	}
	return last
}

func flawIn(s *sampler.Sample, dec *code.Decoder) error {
	main, named := false, false
	for i := range s.Threads {
		t := &s.Threads[i]
		main = main || t.Bits&sampler.BitMain != 0
		named = named || t.Stack != 0
		if t.Quality&sampler.StackFailed != 0 && t.Bits&sampler.BitStarting == 0 {
			return fmt.Errorf("the stack of thread %d of %d can't be read", i+1, len(s.Threads))
		}
	}
	switch {
	case !main:
		return fmt.Errorf("the main thread is not among the %d threads", len(s.Threads))
	case !named:
		return errors.New("no thread has a frame")
	}
	if err := dec.LastNameError(); err != nil {
		return fmt.Errorf("a frame has no name: %w", err)
	}
	return nil
}
