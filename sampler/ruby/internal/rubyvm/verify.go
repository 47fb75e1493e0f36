package rubyvm

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// ErrLayout means that a layout does not fit a process, because the memory at the layout's offsets has impossible
// content.
var ErrLayout = errors.New("the layout does not fit this process")

const (
	// minVMStack and maxVMStack limit the length of a thread's VM stack, in words. They are 16 KiB and 1 GiB
	// (RUBY_THREAD_VM_STACK_SIZE; vm_core.h).
	minVMStack, maxVMStack = 1 << 11, 1 << 27
)

// provenMethods are methods of classes that every release exports as variables. Verify checks that each class has its
// name, and that at least one of the methods is found in its class. It does not require more, because a program may
// have prepended modules to the other classes.
var provenMethods = []struct{ variable, class, method string }{
	{"rb_mKernel", "Kernel", "puts"}, {"rb_cString", "String", "upcase"}, {"rb_cArray", "Array", "push"}, {"rb_cHash", "Hash", "fetch"},
}

// Verify checks on the target that a layout is right, if it was not made for exactly this build. LocateVM has already
// checked that VM, main thread, execution context and main ractor refer to each other. Verify makes four further
// checks:
//
//   - Control frames fill the main thread's stack without a remainder.
//   - Ruby's description is among the constants.
//   - A known method is in its class and has its name.
//   - All threads can be read, and their frames have names.
//
// ErrLayout names the check that fails. Other errors mean that the target cannot be read.
func (vm *VM) Verify(module *attach.Module, threads func() error) error {
	l := NewLocator(vm, module)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"the main thread's frames", func() error { return l.verifyFrames(vm) }},
		{"the constant RUBY_DESCRIPTION", func() error { return verifyDescription(vm) }},
		{"a method's and a class's name", l.verifyMethod},
		{"all threads", threads},
	} {
		if err := step.do(); Unreadable(err) {
			return err
		} else if err != nil {
			return fmt.Errorf("%w: checking %s: %w", ErrLayout, step.name, err)
		}
	}
	return nil
}

// verifyFrames checks that the main thread's control frames have the right size. The frames grow down from the end of
// the thread's VM stack. If the thread runs, the frame pointer changes between reads, but it always stays within the
// stack.
func (l *locator) verifyFrames(vm *VM) error {
	ec, err := l.word(vm.MainThread + attach.Address(l.o.ThEC))
	if err != nil {
		return err
	}
	var words [3]uint64
	for i, off := range []int{l.o.ecStack, l.o.ecStackSize, l.o.ecFrame} {
		if words[i], err = l.word(attach.Address(ec) + attach.Address(off)); err != nil {
			return err
		}
	}
	start, size, frame := words[0], words[1], words[2]
	end := start + 8*size
	frameSize := uint64(l.o.Code.FrameSize)
	if start == 0 || start&7 != 0 || size < minVMStack || size > maxVMStack || frame < start || frame >= end || (end-frame)%frameSize != 0 {
		return fmt.Errorf("a stack of %d words at %#x with a frame of %d bytes at %#x", size, start, frameSize, frame)
	}
	return nil
}

func verifyDescription(vm *VM) error {
	if !strings.HasPrefix(vm.Description, fmt.Sprintf("ruby %d.%d.", vm.Release.Major, vm.Release.Minor)) {
		return fmt.Errorf("it says %q, and this is Ruby %s", vm.Description, vm.Version)
	}
	return nil
}

func (l *locator) verifyMethod() error {
	found := false
	var first error
	for _, m := range provenMethods {
		s, ok := l.Symbol(m.variable)
		if !ok {
			continue
		}
		if err := l.objects.Read(func() error { return l.verifyClass(s.Addr, m.class) }); err != nil {
			return fmt.Errorf("%s: %w", m.variable, err)
		}
		err := l.objects.Read(func() error { return l.findMethod(s.Addr, m.method) })
		if Unreadable(err) {
			return err
		}
		if found = found || err == nil; err != nil && first == nil {
			first = fmt.Errorf("%s#%s: %w", m.variable, m.method, err)
		}
	}
	if !found && first == nil {
		first = fmt.Errorf("none of the variables of Ruby's classes is exported by %s", l.module.Path)
	}
	if found {
		return nil
	}
	return first
}

func (l *locator) verifyClass(variable attach.Address, want string) error {
	class, err := l.objects.View.Word(variable)
	if err != nil {
		return err
	}
	label, _, err := l.objects.Qualified(class, "m")
	if err == nil && label != want+"#m" {
		err = fmt.Errorf("a method m of %s is called %q", want, label)
	}
	return err
}

// findMethod finds a method by its name, in the class to which the variable at an address refers. It checks that the
// method's definition has the same name.
func (l *locator) findMethod(variable attach.Address, name string) error {
	class, err := l.objects.View.Word(variable)
	if err != nil {
		return err
	}
	entry, err := l.objects.Method(class, name)
	if err != nil {
		return err
	}
	got, err := code.DefinedName(l.objects, entry)
	if err == nil && got != name {
		err = fmt.Errorf("its definition says %q", got)
	}
	return err
}
