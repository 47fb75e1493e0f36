package native

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/debuginfod"
	"github.com/ddtop/ddtop/attach/mapped"
)

const (
	// maxModules bounds how many files are opened for one process. A Rails application maps a few hundred.
	maxModules = 1024
	// maxTables limits the size of the unwind tables of all files together, in bytes. For comparison, the tables of the
	// 46 files that a Ruby maps have 2 MB.
	maxTables = 64 << 20
	// maxRows limits how many rows of unwind tables are kept, for all files together. Each takes 900 bytes.
	maxRows = 4096
	// maxExecuted limits the work for one stack. It is the total size, in bytes, of the CFA programs that ddtop
	// executes to compute the stack's rows. The longest program of a function has 10 KB, and few have more than 100
	// bytes.
	maxExecuted = 1 << 20
)

// Process is a process whose native stacks are read.
type Process interface {
	attach.Memory
	Maps() ([]attach.Mapping, error)
	Module(path string, mappings []attach.Mapping) (*attach.Module, error)
}

// Space has the files that a process has mapped, with their unwind tables and names. It is for one goroutine.
type Space struct {
	// Debug gets debug files that the machine lacks. It is nil if the user does not want to download any.
	Debug *debuginfod.Client

	process  Process
	mappings []attach.Mapping
	modules  map[fileID]*module
	rows     map[uint64]*row // key: an address in the process
	tables   int
	// executed is the size of the CFA programs that were executed for the current stack, in bytes.
	executed int
	// The field again is true if the mappings may be read once more in this round. They are read again if no mapping
	// has a wanted address. readings counts how often they were read.
	again    bool
	readings uint64
}

// fileID identifies a mapped file. After an upgrade, an old and a new file with the same path can be mapped.
type fileID struct {
	path, device string
	inode        uint64
}

func fileOf(m attach.Mapping) fileID { return fileID{m.Path, m.Device, m.Inode} }

// module is a file that a process has mapped.
type module struct {
	*attach.Module
	table *table
	err   error // why there is no table
	short string
	names map[uint64]string // key: the address of the function
	// asked is true if ddtop has requested a debug file for the module. awaits is true if the file may still come.
	asked, awaits bool
}

// NewSpace reads the mappings of a process. It opens no files. A file is opened when a stack has an address in it.
func NewSpace(p Process) (*Space, error) {
	s := &Space{process: p, modules: make(map[fileID]*module), rows: make(map[uint64]*row)}
	return s, s.Refresh()
}

// Refresh reads the mappings again, and closes files that are not mapped now. Call it before each round in which stacks
// are read.
func (s *Space) Refresh() error {
	mappings, err := s.process.Maps()
	if err != nil {
		return err
	}
	s.readings++
	if !slices.Equal(mappings, s.mappings) {
		s.keepModules(mappings)
		s.mappings = mappings
		clear(s.rows)
	}
	s.again = true
	return nil
}

// Readings returns how often the mappings were read.
func (s *Space) Readings() uint64 { return s.readings }

// keepModules closes the files (modules) whose mappings of code have changed, and keeps the others.
func (s *Space) keepModules(mappings []attach.Mapping) {
	code := func(all []attach.Mapping, id fileID) []attach.Mapping {
		return slices.DeleteFunc(mappingsOf(all, id), func(m attach.Mapping) bool { return !m.Exec })
	}
	for id, m := range s.modules {
		if !slices.Equal(code(mappings, id), code(s.mappings, id)) {
			m.close()
			s.tables -= m.size()
			delete(s.modules, id)
		}
	}
}

// mappingsOf returns the mappings of a file.
func mappingsOf(all []attach.Mapping, id fileID) (own []attach.Mapping) {
	for _, m := range all {
		if fileOf(m) == id {
			own = append(own, m)
		}
	}
	return own
}

// Close closes the files.
func (s *Space) Close() {
	for _, m := range s.modules {
		m.close()
	}
	clear(s.modules)
}

func (m *module) close() {
	if m.Module != nil {
		_ = m.Close() // the file was only read
	}
}

func (m *module) size() int {
	if m.table == nil {
		return 0
	}
	return len(m.table.index) + len(m.table.frames)
}

// mappingAt finds the mapping that holds an address. If no mapping holds it, mappingAt reads the mappings again, but
// only once in a round.
func (s *Space) mappingAt(addr uint64) (attach.Mapping, bool) {
	at := attach.Address(addr)
	for {
		i, found := slices.BinarySearchFunc(s.mappings, at, func(m attach.Mapping, at attach.Address) int {
			return cmp.Compare(m.Start, at)
		})
		if !found {
			i--
		}
		if i >= 0 && at < s.mappings[i].End {
			return s.mappings[i], true
		}
		if !s.again || s.Refresh() != nil {
			return attach.Mapping{}, false
		}
		s.again = false
	}
}

// These errors are reasons why an address has no unwind table.
var (
	errNowhere = errors.New("it leads to memory that is not mapped as code")
	errJIT     = errors.New("it leads to code that a JIT made")
	errMany    = errors.New("too many files are mapped")
)

// moduleAt returns the file whose code is at an address. The error says why there is no file, or why the file has no
// unwind table.
func (s *Space) moduleAt(addr uint64) (*module, error) {
	where, ok := s.mappingAt(addr)
	vdso := where.Path == "[vdso]"
	switch {
	case !ok || !where.Exec:
		return nil, errNowhere
	case !where.IsFile() && !vdso:
		return nil, errJIT
	}
	m := s.modules[fileOf(where)]
	if m == nil {
		if len(s.modules) >= maxModules {
			return nil, errMany
		}
		m = s.open(where, vdso)
		s.modules[fileOf(where)] = m
	}
	overlaps := func(l attach.Span) bool { return where.Start < l.End && where.End > l.Start }
	if m.err == nil && !slices.ContainsFunc(m.Loads, overlaps) {
		return m, errNowhere // the file is mapped twice, and was opened with the other mapping
	}
	return m, m.err
}

func (s *Space) open(where attach.Mapping, vdso bool) *module {
	m := &module{short: shortName(where.Path), names: make(map[uint64]string)}
	if vdso {
		m.Module, m.err = mapped.NewModuleFromMemory(where.Path, s.process, where.Start)
	} else {
		m.Module, m.err = s.process.Module(where.Path, mappingsOf(s.mappings, fileOf(where)))
	}
	if m.err != nil {
		m.Module = nil
		return m
	}
	if m.Machine != "x86_64" {
		m.err = ErrMachine
		return m
	}
	if m.table, m.err = readTable(m.Module, s.process); m.err != nil {
		return m
	}
	if s.tables += m.size(); s.tables > maxTables {
		s.tables -= m.size()
		m.table, m.err = nil, errMany
	}
	return m
}

// rowAt returns the row of the unwind table for an address of a module.
func (s *Space) rowAt(m *module, addr uint64) (*row, error) {
	if r := s.rows[addr]; r != nil {
		return r, nil
	}
	if s.executed > maxExecuted {
		return nil, errWork
	}
	before := m.table.executed
	r, err := m.table.rowAt(addr - uint64(m.Bias))
	s.executed += m.table.executed - before
	if err != nil {
		return nil, err
	}
	if len(s.rows) >= maxRows {
		clear(s.rows)
	}
	s.rows[addr] = r
	return r, nil
}

// shortName returns the usual name of a library: libruby for /usr/lib/libruby-3.1.so.3.1.2, pg_ext for pg_ext.so.
func shortName(path string) string {
	name := path[strings.LastIndexByte(path, '/')+1:]
	if i := strings.Index(name, ".so"); i > 0 {
		name = name[:i]
		if base := strings.TrimRight(name, "0123456789."); strings.HasSuffix(base, "-") && len(base) > 1 {
			name = base[:len(base)-1]
		}
	}
	return name
}
