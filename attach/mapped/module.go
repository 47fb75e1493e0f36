package mapped

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// Span is a range of a target's address space.
type Span struct{ Start, End Address }

// Len returns the span's length in bytes.
func (s Span) Len() int { return int(s.End - s.Start) }

// Symbol is a function or variable with a name in a target's memory.
type Symbol struct {
	Name string
	// Addr is the address in the process. For a thread-local variable it is the offset in the module's TLS block.
	Addr Address
	// Size is in bytes. It is zero if the file does not give it.
	Size uint64
	// TLS is set for thread-local variables. Exported is set for symbols of .dynsym, which strip keeps.
	TLS, Exported bool
}

// Module is an ELF file as it is mapped into a target. It reads symbols when they are first needed. Any goroutine may
// use it.
type Module struct {
	// Path is the file's path in the mappings. Deleted is set if the file was removed or replaced since it was mapped.
	Path    string
	Deleted bool
	// Machine is "x86_64", "aarch64", or another machine's name in the ELF specification. It is the target's machine,
	// which differs from ddtop's under an emulator.
	Machine string
	// Bias is what to add to an address in the file to get the address in the process. It is zero for a program that
	// is not position-independent.
	Bias Address
	// BuildID is the linker's build id in hexadecimal, or "" if the file has none.
	BuildID string

	writable []Span
	Loads    []Span
	needed   []string
	// unwind is the place of the section .eh_frame_hdr in the file's addresses (PT_GNU_EH_FRAME). It is empty if the
	// file has none.
	unwind FileSpan
	// File is nil for a module that was read from memory. content is the file's content.
	File    *elf.File
	content io.ReaderAt
	closer  io.Closer
	// mapped has the mappings of the file. It is nil if no process has mapped it.
	mapped []Mapping
	// Roots are the folders below which separate debug files are searched, such as a container's root. Nil means only
	// "/". Chroot is the target's root folder as ddtop sees it. It is empty if this is "/" or not known.
	Roots  []DebugRoot
	Chroot string

	// dynamic has the exported and undefined symbols, static the symbols of .symtab. Each is nil if there are none.
	dynamic, static *symbolTable

	mu          sync.Mutex
	debug       *DebugFile
	debugErr    error
	debugCloser io.Closer
	// asked has the results of all searches for symbols, so that no table is searched twice for the same name. It stays
	// small, because ddtop searches only for names that are constants in its code.
	asked map[askedFor]found
}

type askedFor struct {
	table *symbolTable
	name  string
}

// NewModule reads an ELF file that is mapped at bias. Closing the Module closes closer, which may be nil.
func NewModule(path string, file io.ReaderAt, bias Address, closer io.Closer) (*Module, error) {
	f, err := OpenELF(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m := &Module{Path: path, Machine: MachineName(f.Machine), Bias: bias, File: f, content: file, closer: closer,
		dynamic: symbolsOf(f, elf.SHT_DYNSYM), static: symbolsOf(f, elf.SHT_SYMTAB)}
	if err := m.readNeeded(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_LOAD:
			span := Span{bias + Address(p.Vaddr), bias + Address(p.Vaddr+p.Memsz)}
			if span.End < span.Start {
				return nil, fmt.Errorf("%s: a segment at 0x%x with %d bytes wraps around", path, p.Vaddr, p.Memsz)
			}
			m.Loads = append(m.Loads, span)
			if p.Flags&elf.PF_W != 0 {
				m.writable = append(m.writable, span)
			}
		case elf.PT_NOTE:
			if m.BuildID == "" {
				m.BuildID = buildID(p)
			}
		case elf.PT_GNU_EH_FRAME:
			m.unwind = FileSpan{p.Vaddr, p.Memsz}
		}
	}
	return m, nil
}

// readNeeded reads the names of the libraries that the file needs. For a separate debug file it reads nothing, because
// the section .dynamic of such a file has no content.
func (m *Module) readNeeded() error {
	d := m.File.Section(".dynamic")
	if d == nil || d.Type == elf.SHT_NOBITS || m.dynamic == nil {
		return nil
	}
	b, err := sectionData(d, maxDynamicEntries*16)
	if err != nil {
		return err
	}
	for ; len(b) >= 16 && len(m.needed) < maxNeeded; b = b[16:] {
		if elf.DynTag(binary.LittleEndian.Uint64(b)) == elf.DT_NEEDED {
			m.needed = append(m.needed, m.dynamic.nameAt(binary.LittleEndian.Uint64(b[8:])))
		}
	}
	return nil
}

// MachineName returns a machine's name as uname -m prints it.
func MachineName(m elf.Machine) string {
	switch m {
	case elf.EM_X86_64:
		return "x86_64"
	case elf.EM_AARCH64:
		return "aarch64"
	}
	return m.String()
}

// maxNeeded limits how many names of needed libraries are read from a file.
const maxNeeded = 256

// maxNotes limits how many bytes of ELF notes are read from one segment or section.
const maxNotes = 1 << 16

func buildID(p *elf.Prog) string {
	b := make([]byte, min(p.Filesz, maxNotes))
	if _, err := p.ReadAt(b, 0); err != nil {
		return ""
	}
	return buildIDOf(b)
}

// buildIDOf finds the build id in ELF notes and returns it in hexadecimal. It is the note with the owner GNU and type
// 3 (NT_GNU_BUILD_ID, elf.h).
func buildIDOf(b []byte) string {
	for len(b) >= 12 {
		order := binary.LittleEndian
		name, desc, kind := uint64(order.Uint32(b)), uint64(order.Uint32(b[4:])), order.Uint32(b[8:])
		nameEnd := 12 + (name+3)&^3
		end := nameEnd + (desc+3)&^3
		if end > uint64(len(b)) {
			return ""
		}
		if kind == 3 && string(b[12:12+name]) == "GNU\x00" {
			return hex.EncodeToString(b[nameEnd : nameEnd+desc])
		}
		b = b[end:]
	}
	return ""
}

// Close closes the module's files. A later search still returns the symbols that were found before.
func (m *Module) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	if m.debugCloser != nil {
		errs = append(errs, m.debugCloser.Close())
		m.debug, m.debugErr, m.debugCloser = nil, fmt.Errorf("%w: %s is closed", ErrNoDebugFile, m.Path), nil
	}
	if m.closer != nil {
		errs = append(errs, m.closer.Close())
	}
	return errors.Join(errs...)
}

// Symbol finds a defined symbol by name. It searches the exported symbols, then .symtab, which strip removes, then a
// separate debug file. ok is false if none defines the symbol, or if the tables cannot be read.
func (m *Module) Symbol(name string) (s Symbol, ok bool) {
	if s, ok = m.Exported(name); ok {
		return s, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.find(m.static, name); found.defined {
		return m.symbolOf(found.symbol, false), true
	}
	if m.static == nil {
		if f, err := m.separate(); err == nil {
			found := m.find(f.symbols, name)
			return m.symbolOf(found.symbol, false), found.defined
		}
	}
	return Symbol{}, false
}

// find searches the module's table t for a symbol's name, and keeps the result in m.asked. The caller must hold m.mu.
func (m *Module) find(t *symbolTable, name string) found {
	key := askedFor{t, name}
	out, ok := m.asked[key]
	if !ok {
		out, _ = t.find(name) // ignore the error: an unreadable table has no symbols
		if m.asked == nil {
			m.asked = make(map[askedFor]found)
		}
		m.asked[key] = out
	}
	return out
}

func (m *Module) symbolOf(s elf.Symbol, exported bool) Symbol {
	out := Symbol{Name: s.Name, Addr: Address(s.Value), Size: s.Size, Exported: exported, TLS: elf.ST_TYPE(s.Info) == elf.STT_TLS}
	if !out.TLS && s.Section != elf.SHN_ABS {
		out.Addr += m.Bias
	}
	return out
}

// Exported finds a defined symbol in .dynsym by name.
func (m *Module) Exported(name string) (s Symbol, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.find(m.dynamic, name)
	if !found.defined {
		return Symbol{}, false
	}
	return m.symbolOf(found.symbol, true), true
}

// inItself reports whether the module's file itself defines a symbol. A separate debug file does not count.
func (m *Module) inItself(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(m.dynamic, name).defined || m.find(m.static, name).defined
}

// Undefined reports whether the file needs a symbol with this name from another file. Pass the name without its
// version: __longjmp_chk instead of __longjmp_chk@GLIBC_2.11.
func (m *Module) Undefined(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(m.dynamic, name).undefined
}

// Stripped reports whether the file has no .symtab.
func (m *Module) Stripped() bool { return !m.HasSection(".symtab") }

// HasDWARF reports whether the file itself has debug information.
func (m *Module) HasDWARF() bool {
	return m.HasSection(".debug_info") || m.HasSection(".zdebug_info")
}

// HasSection reports whether the file has a section with this name. It is false if the module was read from memory.
func (m *Module) HasSection(name string) bool { return m.File != nil && m.File.Section(name) != nil }

// Needs returns the libraries that the file asks the dynamic linker for (DT_NEEDED).
func (m *Module) Needs() []string { return slices.Clone(m.needed) }

// JmpBuf reports whether the Ruby in this file saves registers with the C library's jmp_buf. It is false for
// __builtin_setjmp. Ruby saves registers in its tags (the targets of exceptions) and fibers, so the answer decides
// their layout. A file with jmp_buf needs _longjmp or, if hardened, __longjmp_chk from the C library (checked on 13
// libraries). A statically linked program defines one of these functions itself.
func (m *Module) JmpBuf() bool {
	if m.Undefined("_longjmp") || m.Undefined("__longjmp_chk") {
		return true
	}
	if len(m.Needs()) > 0 {
		return false
	}
	_, plain := m.Symbol("_longjmp")
	_, checked := m.Symbol("__longjmp_chk")
	return plain || checked
}

// Writable returns the parts of the process's memory that hold the file's variables (.data, .bss and neighbouring
// sections).
func (m *Module) Writable() []Span { return slices.Clone(m.writable) }

// NewMappedModule reads an ELF file with its mappings (own). Closing the Module closes closer, which may be nil.
func NewMappedModule(path string, file io.ReaderAt, own []Mapping, closer io.Closer) (*Module, error) {
	m, err := NewModule(path, file, 0, closer)
	if err != nil {
		return nil, err
	}
	bias, err := LoadBias(m.File.Progs, own)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.moveTo(bias)
	m.mapped = own
	return m, nil
}

// moveTo sets the bias of a module, and adds it to the addresses of the module's parts. The module must have been read
// with bias 0.
func (m *Module) moveTo(bias Address) {
	m.Bias = bias
	for _, spans := range [][]Span{m.Loads, m.writable} {
		for i := range spans {
			spans[i].Start += bias
			spans[i].End += bias
		}
	}
}

// errNoBias is returned if no mapping belongs to one of the file's segments.
var errNoBias = errors.New("no mapping belongs to a segment of the file")

// LoadBias returns the module's bias: an address in the process minus the same address in the file. It finds a mapping
// that begins at a segment's offset in the file, and subtracts the segment's address from the mapping's start. It
// rounds the segment's offset and address down to a page.
func LoadBias(progs []*elf.Prog, mappings []Mapping) (Address, error) {
	for _, p := range progs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		// The linker may align segments to 64 KiB (aarch64), but the kernel still maps whole pages of 4 KiB. So round
		// down to these pages.
		offset, vaddr := p.Off&^(PageSize-1), p.Vaddr&^(PageSize-1)
		for _, m := range mappings {
			if m.Offset == offset {
				return m.Start - Address(vaddr), nil
			}
		}
	}
	return 0, errNoBias
}

// ReadCString reads a text that ends with a zero byte. It returns an error if there is no zero byte in the first limit
// bytes.
func ReadCString(mem Memory, addr Address, limit int) (string, error) {
	var out strings.Builder
	buf := make([]byte, 64)
	for out.Len() < limit {
		// Do not read beyond the end of a page, because the next page may not be mapped.
		n := min(len(buf), limit-out.Len(), int(PageSize-uint64(addr)%PageSize))
		if err := mem.Read(addr, buf[:n]); err != nil {
			return "", err
		}
		for i, c := range buf[:n] {
			if c == 0 {
				out.Write(buf[:i])
				return out.String(), nil
			}
		}
		out.Write(buf[:n])
		addr += Address(n)
	}
	return "", fmt.Errorf("text at %v does not end within %d bytes", addr-Address(out.Len()), limit)
}
