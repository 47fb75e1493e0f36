package probe

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ddtop/ddtop/attach"
)

// A translator, such as valgrind, DynamoRIO, Pin or qemu-user, runs its own copy of a program's code. If the code
// contains the kernel's breakpoint, the translator copies it like any other instruction. The process then dies of
// SIGTRAP at the copy, because the kernel has no probe there. The mappings of a process cannot prove that there is no
// translator. But its threads can. If a thread sleeps in a system call, ddtop sees which code made the call. This is
// the C library if the CPU runs the code itself, and otherwise the translator. And if a thread is running, the kernel
// sees it in Ruby's own code only if there is no translator.

const (
	// nativePatience is how long checkThreads waits for evidence that the CPU runs the process's code itself. On a busy
	// machine a new process may get no CPU for a second. nativeEvery is the length of one attempt.
	nativePatience, nativeEvery = 5 * time.Second, 20 * time.Millisecond
	// maxCallers is the largest number of threads that are read in each attempt.
	maxCallers = 4096
)

// translatorPrograms are the names of translators' program files, and translatorBeginnings are beginnings of such
// names. translatorEnds are the ends of the names of valgrind's tools, such as memcheck-amd64-linux.
var (
	translatorPrograms   = []string{"rr", "drrun", "drrun64", "pin", "pinbin", "sde", "sde64", "rosetta", "blink", "runsc", "gem5"}
	translatorBeginnings = []string{"valgrind", "qemu-", "box64", "box86", "FEX", "ubt_x86", "exagear", "houdini"}
	translatorEnds       = []string{"-amd64-linux", "-arm64-linux"}
)

// translatorFiles are the beginnings of the names of libraries that translators load into a process.
var translatorFiles = []string{"vgpreload_", "libdynamorio.so", "libdrpreload.so", "libpinvm", "pinvm", "librrpreload.so", "librrpage", "rr_page", "frida-agent", "libfrida-gum"}

// cLibraries are the beginnings of the names of a C library's files, without the dynamic linker. Programs call the
// kernel through these files.
var cLibraries = append(slices.Clone(libraries), "librt.so.", "librt-2.", "libdl.so.", "libdl-2.", "libanl.so.", "libanl-2.", "libresolv.so.", "libresolv-2.", "libnsl.so.", "libnsl-2.")

// loaders are the beginnings of the names of the dynamic linker's files.
var loaders = []string{"ld-linux", "ld-2.", "ld.so", "ld64.so"}

// checkNative returns an error unless two conditions prove that the CPU runs the code of a process itself. First, at
// least one thread sleeps in a system call of the C library, or runs in Ruby's code. Second, no thread sleeps in a
// system call of code outside the libraries. module is the file with Ruby's VM. static is true if it contains the C
// library.
func checkNative(p *attach.Process, module *attach.Module, mappings []attach.Mapping, static bool) error {
	if err := knownTranslator(p, mappings); err != nil {
		return err
	}
	return checkThreads(p, module, mappings, static)
}

// checkThreads is the part of checkNative that looks for proof in the threads of the process.
func checkThreads(p *attach.Process, module *attach.Module, mappings []attach.Mapping, static bool) error {
	c := callers{program: p.Exe(), mappings: mappings}
	if static {
		c.static = module.Path
	}
	if err := c.oneLibrary(); err != nil {
		return err
	}
	for deadline := time.Now().Add(nativePatience); ; {
		tids, err := p.TIDs(nil)
		if err != nil {
			return err
		}
		proven := false
		var running []int32
		for _, tid := range tids[:min(len(tids), maxCallers)] {
			at, ok, err := p.CallFrom(tid)
			if errors.Is(err, attach.ErrThreadGone) {
				continue
			}
			if err == nil && !ok {
				running = append(running, tid)
				continue
			}
			if err != nil {
				return err
			}
			switch by := c.caller(at); by.kind {
			case theCLibrary:
				proven = true
			case noLibrary:
				return fmt.Errorf("%w (valgrind, DynamoRIO, Pin, qemu-user): thread %d sleeps in a system call that was made at %v, in %s, and not in the C library. "+
					"A breakpoint could end the process", ErrTranslated, tid, at, by.where)
			}
		}
		if proven {
			return nil
		}
		whereRunning(running, nativeEvery, func(at attach.Address) {
			m, ok := mappingOf(mappings, at)
			_, own := module.MappingAt(at)
			proven = proven || ok && m.Exec && own
		})
		if proven {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: for %v no thread slept in a call of its C library or ran in Ruby's code, which would show that the CPU runs its code itself. Try again when a thread waits",
				ErrTranslated, nativePatience)
		}
	}
}

// knownTranslator returns an error if the names of a process's files show that a translator runs it.
func knownTranslator(p *attach.Process, mappings []attach.Mapping) error {
	program := filepath.Base(p.Exe())
	if slices.Contains(translatorPrograms, program) || isOneOf(translatorBeginnings, program) ||
		slices.ContainsFunc(translatorEnds, func(end string) bool { return strings.HasSuffix(program, end) }) {
		return fmt.Errorf("%w: its program is %s, which runs a copy of the code. A breakpoint would end the process", ErrTranslated, p.Exe())
	}
	for _, m := range mappings {
		if m.IsFile() && isOneOf(translatorFiles, filepath.Base(m.Path)) {
			return fmt.Errorf("%w: it has loaded %s. A breakpoint could end the process", ErrTranslated, m.Path)
		}
	}
	return nil
}

// callers finds out which code of a process has made a system call.
type callers struct {
	mappings []attach.Mapping
	// program is the path of the program file. static is the path of a file that contains the C library. It is empty
	// if the C library is a file of its own.
	program, static string
}

// callerKind is the kind of code that made a system call.
type callerKind uint8

const (
	// noLibrary is code outside the process's libraries: the program itself, or memory without a file.
	noLibrary callerKind = iota
	// otherLibrary is a library that makes system calls itself, as liburing and Go's libraries do. A system call from
	// it proves neither that there is a translator nor that there is none.
	otherLibrary
	theCLibrary
)

// caller is code that made a system call, with a description of its place.
type caller struct {
	kind  callerKind
	where string
}

func (c *callers) caller(at attach.Address) caller {
	m, ok := mappingOf(c.mappings, at)
	name := filepath.Base(m.Path)
	switch {
	case !ok:
		return caller{noLibrary, "memory that was not there before"}
	case m.Path == "[vdso]" || m.Path == "[vsyscall]":
		return caller{theCLibrary, m.Path}
	case !m.IsFile() || !m.Exec || strings.HasPrefix(m.Path, "/memfd:") || strings.HasPrefix(m.Path, "/dev/"):
		return caller{noLibrary, "memory without a file"}
	case m.Path == c.static, isOneOf(cLibraries, name), isOneOf(loaders, name):
		return caller{theCLibrary, m.Path}
	case m.Path == c.program:
		return caller{noLibrary, "its program " + m.Path}
	}
	return caller{otherLibrary, m.Path}
}

// oneLibrary returns an error for a process that has two C libraries, or one C library at two addresses. One of the two
// may belong to a translator, so calls from the C library prove nothing.
func (c *callers) oneLibrary() error {
	var first attach.Mapping
	for _, m := range c.mappings {
		if !m.IsFile() || !m.Exec || !isOneOf([]string{"libc.so.", "libc-2.", "ld-musl-", "libc.musl-"}, filepath.Base(m.Path)) {
			continue
		}
		switch {
		case first.Path == "":
			first = m
		case m.Inode != first.Inode || m.Device != first.Device:
			return fmt.Errorf("%w: it has two C libraries, %s and %s, and one can be a translator's", ErrTranslated, first.Path, m.Path)
		case m.Offset <= first.Offset:
			return fmt.Errorf("%w: it has the code of %s twice, and one can be a translator's", ErrTranslated, m.Path)
		}
	}
	return nil
}

func isOneOf(beginnings []string, name string) bool {
	return slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(name, b) })
}
