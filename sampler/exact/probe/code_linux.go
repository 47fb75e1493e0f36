package probe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/exact"
)

// function is a function that needs a probe. The scheduler calls it on each change of a thread's state, or on some
// changes. It has a name in libruby and a name in the C library.
type function struct {
	ruby, libc string
	argument   argument
	kind       exact.Kind
}

// site is a place for a probe in the code of a file.
type site struct {
	function
	symbol string
	file   *codeFile
	// offset is the place, in the file, of the instruction for the probe. The field at is the instruction's address in
	// the target.
	offset uint64
	at     attach.Address
	// callSites are all instructions that call the function, in the file callFile. callSites is empty if they are not
	// known.
	callSites []callSite
	callFile  *codeFile
}

// codeFile is a file with code. open is a descriptor of the file that the process has mapped. ddtop does not open the
// path again, because the path may now lead to another file. Path is the name of the file inside the target.
type codeFile struct {
	open *os.File
	Path string
}

// path returns a path that leads to exactly this file until the file is closed.
func (f *codeFile) path() string { return fmt.Sprintf("/proc/self/fd/%d", f.open.Fd()) }

// Code has the places for the probes, which are instructions in files. Close closes these files, but does not remove
// probes.
type Code struct {
	sites []site
	files []*codeFile
	// callSites is the number of call sites of all functions together.
	callSites int
	// static is true if the file with Ruby's VM also contains the C library.
	static bool
}

// Close closes the files.
func (c *Code) Close() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.open.Close())
	}
	c.files = nil
	return errors.Join(errs...)
}

// functions returns the functions that need a probe. On every change of a thread's state, the scheduler calls one of
// them. If possible, the probes go into Ruby's own functions. These are exported, so strip does not remove their names.
// But a compiler may have inlined them, and a Ruby without a libruby does not export them. In these cases the probes go
// into the C library's functions, which all other code of the process calls, too. See
// docs/reference/exact.md#where-the-probes-are. Ruby up to 3.2 needs a probe in one more function. In these releases, a
// thread that waits for the GVL can also be the thread that measures the time slices.
func functions(before33 bool) []function {
	f := []function{
		{"rb_native_mutex_unlock", "pthread_mutex_unlock", firstArgument, exact.Unlocked},
		{"rb_native_cond_wait", "pthread_cond_wait", secondArgument, exact.Slept},
		{"rb_native_cond_signal", "pthread_cond_signal", noArgument, exact.Signalled},
	}
	if before33 {
		f = append(f, function{"rb_native_cond_timedwait", "pthread_cond_timedwait", secondArgument, exact.Slept})
	}
	return f
}

// CodeOptions select the code for FindCode.
type CodeOptions struct {
	// Before33 is true if the release of Ruby is 3.2 or earlier.
	Before33 bool
	// LibC puts all probes into the C library, even if libruby's own functions could be used. Tests set it to cover
	// this case on every machine.
	LibC bool
}

// FindCode finds the places for the probes in a process. It only reads the process. module is the file with Ruby's VM.
// mappings are the process's mappings. The error is ErrNoCode if no place is both safe and cheap. It is ErrTranslated
// if the code is run by a translator, and not by the CPU itself.
func FindCode(p *attach.Process, module *attach.Module, mappings []attach.Mapping, o CodeOptions) (Code, error) {
	c, err := findCode(p, module, mappings, o, runtime.GOARCH, ownPlace)
	if err == nil {
		if err = checkNative(p, module, mappings, c.static); err != nil {
			err = errors.Join(err, c.Close())
		}
	}
	if err != nil {
		return Code{}, fmt.Errorf("process %d: %w: %w", p.PID(), ErrNoCode, err)
	}
	return c, nil
}

// findCode is FindCode for any kind of machine, so that tests can use it for other machines. goarch is Go's name of the
// machine.
func findCode(p *attach.Process, module *attach.Module, mappings []attach.Mapping, o CodeOptions, goarch string, place placer) (Code, error) {
	set, ok := instructionSetOf(module.Machine)
	if !ok {
		return Code{}, fmt.Errorf("exact mode is for x86_64 as yet, and this Ruby is for %s", module.Machine)
	}
	if set.goarch != goarch {
		return Code{}, fmt.Errorf("this Ruby is for %s, and the machine is not: the kernel knows nothing of the instructions that an emulator runs", module.Machine)
	}
	f := finder{p: p, module: module, mappings: mappings, libc: o.LibC, set: set, place: place}
	defer f.close()
	c, err := f.find(o.Before33)
	if err != nil {
		return Code{}, errors.Join(err, c.Close())
	}
	return c, nil
}

// finder finds the places for probes in the code of one process.
type finder struct {
	p        *attach.Process
	module   *attach.Module
	mappings []attach.Mapping
	libc     bool
	set      instructionSet
	place    placer
	// library is the file that contains the C library's functions. It is nil until it is needed.
	library *attach.Module
	code    Code
}

func (f *finder) close() {
	if f.library != nil && f.library != f.module {
		f.library.Close()
	}
}

// find finds the places for all probes. It returns its results even with an error, because the caller must close their
// files.
func (f *finder) find(before33 bool) (Code, error) {
	functions := functions(before33)
	own := f.wrappers(functions)
	if slices.Contains(own, false) {
		if err := f.findLibrary(); err != nil {
			return f.code, err
		}
		f.code.static = f.library == f.module
		if before33 && strings.Contains(filepath.Base(f.library.Path), "musl") {
			return f.code, errors.New("musl's pthread_cond_wait gives the mutex back by pthread_mutex_unlock: up to Ruby 3.2, a probe there cannot distinguish waiting from giving it away")
		}
	}
	for i, fn := range functions {
		s, err := f.site(fn, own[i])
		if err != nil {
			return f.code, err
		}
		f.code.sites = append(f.code.sites, s)
	}
	return f.code, nil
}

// wrappers reports for each function of the C library whether the probe can be in the function of libruby that calls
// it. Two conditions must hold: libruby exports its own function, and no other code of libruby calls the C library's
// function. If wrappers cannot find out whether they hold, it returns false. Then the probe goes into the C library,
// which always works.
func (f *finder) wrappers(functions []function) []bool {
	own := make([]bool, len(functions))
	if f.libc || f.module.Path == f.p.Exe() || !isLibrary(f.module.Path) {
		return own
	}
	calls, err := callsOf(f.module, functions, f.set)
	if err != nil {
		return own
	}
	for i, fn := range functions {
		symbol, ok := f.module.Exported(fn.ruby)
		own[i] = ok && len(calls[i]) > 0
		for _, at := range calls[i] {
			own[i] = own[i] && at >= symbol.Addr && at < symbol.Addr+attach.Address(symbol.Size)
		}
	}
	return own
}

// site finds the place for the probe of a function. If own is true, the place is in libruby's function, otherwise in
// the function of the C library.
func (f *finder) site(fn function, own bool) (site, error) {
	s := site{function: fn, symbol: fn.ruby}
	module := f.module
	if !own {
		s.symbol, module = fn.libc, f.library
	}
	symbol, ok := module.Exported(s.symbol)
	if !ok {
		symbol, ok = module.Symbol(s.symbol)
	}
	if !ok {
		return s, fmt.Errorf("%s has no function %s", module.Path, s.symbol)
	}
	m, ok := mappingOf(f.mappings, symbol.Addr)
	if !ok || !m.Exec {
		return s, fmt.Errorf("%s of %s lies in no code of its file", s.symbol, module.Path)
	}
	file, err := f.file(module)
	if err != nil {
		return s, err
	}
	if own, ok := module.MappingAt(symbol.Addr); !ok || own.Inode != m.Inode || own.Device != m.Device {
		return s, fmt.Errorf("%s of %s lies in no code of its file", s.symbol, module.Path)
	}
	s.at, s.offset, s.file = symbol.Addr, m.Offset+uint64(symbol.Addr-m.Start), file
	// Read the code from the file, because the code in memory may have the breakpoints of another ddtop.
	code := make([]byte, f.set.entryBytes)
	if err := module.ReadFileAt(code, s.offset); err != nil {
		return s, err
	}
	n, err := f.place(code, s.argument)
	if err != nil {
		return s, fmt.Errorf("%s of %s: %w", s.symbol, module.Path, err)
	}
	if err := f.unchanged(s.at, code[:min(n+maxInstruction, len(code))]); err != nil {
		return s, fmt.Errorf("%s of %s: %w", s.symbol, module.Path, err)
	}
	s.offset += uint64(n)
	s.at += attach.Address(n)
	s.callSites, s.callFile = f.callSites(&s, module, symbol.Addr)
	return s, nil
}

// maxInstruction is the largest size of an instruction that can have a probe, in bytes. It must be a multiple of a
// breakpoint's size on each machine, because the function unchanged compares code in steps of this size.
const maxInstruction = 8

// unchanged returns an error if the code in memory differs from the file, apart from breakpoints. At a probe, the
// kernel emulates the instruction that is in the file. So if the code in memory was patched, the process would run a
// mixture of patched and original code.
func (f *finder) unchanged(at attach.Address, file []byte) error {
	memory := make([]byte, len(file))
	if err := f.p.Read(at, memory); err != nil {
		return err
	}
	n := len(f.set.breakpoint)
	for i := 0; i+n <= len(file); i += n {
		if b := memory[i : i+n]; !bytes.Equal(b, file[i:i+n]) && !bytes.Equal(b, f.set.breakpoint) {
			return fmt.Errorf("%w: at %v the memory holds %x, and the file %x", errPatched, at, memory, file)
		}
	}
	return nil
}

// file opens a module's file for probes.
func (f *finder) file(module *attach.Module) (*codeFile, error) {
	for _, known := range f.code.files {
		if known.Path == module.Path {
			return known, nil
		}
	}
	open, err := module.Duplicate()
	if err != nil {
		again := ""
		if module.Deleted {
			again = ", and was replaced since the process began: restart the process, or run ddtop as root"
		}
		return nil, fmt.Errorf("%w%s", err, again)
	}
	file := &codeFile{open, module.Path}
	f.code.files = append(f.code.files, file)
	return file, nil
}

// libraries are the beginnings of the names of files that can have the C library's functions. The first match counts.
// Before glibc 2.34, the functions were in libpthread. Since then libpthread is empty.
var libraries = []string{"libpthread.so.", "libpthread-2.", "libc.so.", "libc-2.", "ld-musl-", "libc.musl-"}

// findLibrary finds the file with the C library's functions. This is a shared library or the executable.
func (f *finder) findLibrary() error {
	const of = "pthread_mutex_unlock"
	var errs []error
	for _, begins := range libraries {
		last := ""
		for _, m := range f.mappings {
			if !m.IsFile() || m.Path == last || !strings.HasPrefix(filepath.Base(m.Path), begins) {
				continue
			}
			last = m.Path
			library, err := f.p.Module(m.Path, f.mappings)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if _, ok := library.Exported(of); ok {
				f.library = library
				return nil
			}
			library.Close()
		}
	}
	if _, ok := f.module.Symbol(of); ok && !f.module.Undefined(of) {
		f.library = f.module // Ruby and the C library are in one file
		return nil
	}
	return cmp.Or(errors.Join(errs...), fmt.Errorf("none of its files has a function %s that can be found: it is linked with its C library into one file, and stripped", of))
}

func isLibrary(path string) bool {
	ok, err := filepath.Match("lib*.so*", filepath.Base(path))
	return err == nil && ok
}

func mappingOf(mappings []attach.Mapping, at attach.Address) (attach.Mapping, bool) {
	for _, m := range mappings {
		if at >= m.Start && at < m.End {
			return m, true
		}
	}
	return attach.Mapping{}, false
}
