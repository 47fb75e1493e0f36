package probe

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/exact"
)

// site is a place in a file's code at which a probe is put.
type site struct {
	symbol   string
	argument argument
	kind     exact.Kind
	// offset is the place in the file; at the place in the target's memory.
	offset uint64
	at     attach.Address
}

// Code says where probes are put: in which file, at which of its instructions.
type Code struct {
	// path is how the file can be opened from here, Path how the process calls it.
	path, Path string
	sites      []site
}

// functions are libruby's own functions through which all that a scheduler does passes: exported, so no strip removes them, and in a
// shared library they are called, not inlined (docs/exact.md).
func functions() []site {
	return []site{
		{symbol: "rb_native_mutex_unlock", argument: firstArgument, kind: exact.Unlocked},
		{symbol: "rb_native_cond_wait", argument: secondArgument, kind: exact.Slept},
		{symbol: "rb_native_cond_signal", argument: noArgument, kind: exact.Signalled},
	}
}

// FindCode finds where to put the probes in the Ruby of a process. module is its file with the VM, mappings are the process's. The
// error is ErrNoCode where no place is safe and cheap.
func FindCode(p *attach.Process, module *attach.Module, mappings []attach.Mapping) (Code, error) {
	c := Code{Path: module.Path, sites: functions()}
	fail := func(format string, args ...any) (Code, error) {
		return Code{}, fmt.Errorf("process %d: %w: %s", p.PID(), ErrNoCode, fmt.Sprintf(format, args...))
	}
	if module.Machine != "x86_64" {
		return fail("exact mode is for x86_64 as yet, and this Ruby is for %s", module.Machine)
	}
	if module.Path == p.Exe() || !isLibrary(module.Path) {
		return fail("%s is Ruby in one file, without a libruby, where the functions to watch may be part of others", module.Path)
	}
	var own attach.Mapping
	for i := range c.sites {
		s := &c.sites[i]
		symbol, ok := module.Exported(s.symbol)
		if !ok {
			return fail("%s has no function %s", module.Path, s.symbol)
		}
		m, ok := mappingOf(mappings, symbol.Addr)
		if !ok || m.Path != module.Path || !m.Exec || own.Path != "" && own.Inode != m.Inode {
			return fail("%s of %s lies in no code of its file", s.symbol, module.Path)
		}
		own = m
		s.at, s.offset = symbol.Addr, m.Offset+uint64(symbol.Addr-m.Start)
	}
	var err error
	if c.path, err = openable(p, own); err != nil {
		return fail("%s can't be opened: %v", module.Path, err)
	}
	f, err := os.Open(c.path)
	if err != nil {
		return fail("%v", err)
	}
	defer f.Close()
	for i := range c.sites {
		s := &c.sites[i]
		// The file's bytes, not the memory's: there another ddtop may have its probes.
		var code [maxEntryBytes]byte
		if n, err := f.ReadAt(code[:], int64(s.offset)); n < len(code) {
			return fail("reading %s: %v", s.symbol, err)
		}
		n, err := place(code[:], s.argument)
		if err != nil {
			return fail("%s: %v", s.symbol, err)
		}
		s.offset += uint64(n)
		s.at += attach.Address(n)
	}
	return c, nil
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

// openable is a path under which the very file that a process has mapped can be opened: the kernel's link to it, for which it wants
// CAP_CHECKPOINT_RESTORE, else its path below the process's root, unless it has been replaced.
func openable(p *attach.Process, m attach.Mapping) (string, error) {
	link := p.Path("map_files", fmt.Sprintf("%x-%x", uint64(m.Start), uint64(m.End)))
	f, err := os.Open(link)
	if err == nil {
		f.Close()
		return link, nil
	}
	if m.Deleted {
		return "", fmt.Errorf("it was replaced since the process began (%w); restart the process, or run ddtop as root", err)
	}
	return p.Path("root") + m.Path, nil
}
