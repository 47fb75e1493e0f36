package mapped

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// These are limits for reading an ELF file's image from a target's memory, which can be damaged.
const (
	maxDynamicEntries = 4096
	maxHashBuckets    = 1 << 22
	maxHashChain      = 1 << 12
)

// ErrNoModule is returned if there is no readable ELF image at an address of the target.
var ErrNoModule = errors.New("no ELF file in memory there")

// NewModuleFromMemory makes a Module from the parts of a file that a process has in memory for the dynamic linker. It
// is for a file that cannot be opened. For example, an upgrade has replaced the file, or the file is in a mount
// namespace that ddtop cannot enter. start is the address of the file's first byte. The Module has the exported and
// undefined symbols, and the symbols of a separate debug file.
func NewModuleFromMemory(path string, mem Memory, start Address) (*Module, error) {
	fail := func(what string, err error) (*Module, error) {
		return nil, fmt.Errorf("%s at %v: %s: %w", path, start, what, err)
	}
	var head [64]byte
	if err := mem.Read(start, head[:]); err != nil {
		return fail("its header", err)
	}
	if string(head[:4]) != elf.ELFMAG || elf.Class(head[4]) != elf.ELFCLASS64 || elf.Data(head[5]) != elf.ELFDATA2LSB {
		return fail("its header", ErrNoModule)
	}
	count, size := int(binary.LittleEndian.Uint16(head[56:])), int(binary.LittleEndian.Uint16(head[54:]))
	if size != 56 || count == 0 || count > maxProgramHeaders {
		return fail("its program headers", ErrNoModule)
	}
	table := make([]byte, count*size)
	if err := mem.Read(start+Address(binary.LittleEndian.Uint64(head[32:])), table); err != nil {
		return fail("its program headers", err)
	}
	m := &Module{Path: path, Machine: MachineName(elf.Machine(binary.LittleEndian.Uint16(head[18:])))}
	var dynamic Span
	biased := false
	for h := table; len(h) >= size; h = h[size:] {
		kind, flags := elf.ProgType(binary.LittleEndian.Uint32(h)), elf.ProgFlag(binary.LittleEndian.Uint32(h[4:]))
		offset, vaddr, memsz := binary.LittleEndian.Uint64(h[8:]), binary.LittleEndian.Uint64(h[16:]), binary.LittleEndian.Uint64(h[40:])
		if kind == elf.PT_LOAD && !biased {
			// The first segment contains the file's first byte, which is at the address start in the process. So this
			// segment shows the bias: an address in the process minus the same address in the file.
			m.Bias, biased = start-Address(vaddr&^(PageSize-1))+Address(offset&^(PageSize-1)), true
		}
		span := Span{m.Bias + Address(vaddr), m.Bias + Address(vaddr+memsz)}
		switch {
		case kind == elf.PT_LOAD && span.End < span.Start:
			return fail("its segments", ErrNoModule)
		case kind == elf.PT_LOAD:
			m.Loads = append(m.Loads, span)
			if flags&elf.PF_W != 0 {
				m.writable = append(m.writable, span)
			}
		case kind == elf.PT_DYNAMIC && biased:
			dynamic = span
		case kind == elf.PT_GNU_EH_FRAME:
			m.unwind = FileSpan{vaddr, memsz}
		case kind == elf.PT_NOTE && biased && m.BuildID == "":
			notes := make([]byte, min(memsz, maxNotes))
			if mem.Read(span.Start, notes) == nil {
				m.BuildID = buildIDOf(notes)
			}
		}
	}
	if err := m.readDynamicMemory(mem, dynamic); err != nil {
		return fail("its dynamic section", err)
	}
	return m, nil
}

// dynamicTable has the entries of a dynamic section that ddtop uses. Its addresses are valid in the process's memory,
// not in the file.
type dynamicTable struct {
	symbols, strings, gnuHash, hash Address
	stringsSize                     uint64
	needed                          []uint64
}

func (m *Module) readDynamicMemory(mem Memory, at Span) error {
	n := min(max(at.Len(), 0)/16, maxDynamicEntries)
	entries := make([]byte, n*16)
	if err := mem.Read(at.Start, entries); err != nil {
		return err
	}
	var d dynamicTable
	for ; len(entries) >= 16; entries = entries[16:] {
		tag, value := elf.DynTag(binary.LittleEndian.Uint64(entries)), binary.LittleEndian.Uint64(entries[8:])
		// The dynamic linker of glibc has already added the bias to these addresses in memory. musl leaves the file's
		// addresses, which are below the bias.
		addr := Address(value)
		if addr < m.Bias {
			addr += m.Bias
		}
		switch tag {
		case elf.DT_SYMTAB:
			d.symbols = addr
		case elf.DT_STRTAB:
			d.strings = addr
		case elf.DT_STRSZ:
			d.stringsSize = value
		case elf.DT_GNU_HASH:
			d.gnuHash = addr
		case elf.DT_HASH:
			d.hash = addr
		case elf.DT_NEEDED:
			d.needed = append(d.needed, value)
		}
	}
	if d.symbols == 0 || d.strings == 0 || d.stringsSize == 0 || d.stringsSize > MaxSymbolNames {
		return ErrNoModule
	}
	count, err := d.symbolCount(mem)
	if err != nil {
		return err
	}
	m.dynamic = newSymbolTable(memoryReader{mem}, uint64(d.symbols), uint64(count)*elf.Sym64Size, uint64(d.strings), d.stringsSize)
	if m.dynamic == nil {
		return ErrNoModule
	}
	// Read the tables once now. If a table cannot be read, the error is returned here, and not later by the first
	// search.
	for _, part := range []*io.SectionReader{m.dynamic.symbols, m.dynamic.names} {
		if err := pieces(part, searchPiece, 0, func([]byte, int64) bool { return true }); err != nil {
			return err
		}
	}
	for _, n := range d.needed[:min(len(d.needed), maxNeeded)] {
		m.needed = append(m.needed, m.dynamic.nameAt(n))
	}
	return nil
}

// symbolCount returns the number of symbols in the symbol table. The table itself does not show its length, but its
// hash table does. The old hash table (DT_HASH) contains the number. In the GNU hash table, the end of the last chain
// shows the index of the last symbol.
func (d *dynamicTable) symbolCount(mem Memory) (int, error) {
	if d.hash != 0 {
		var head [8]byte
		if err := mem.Read(d.hash, head[:]); err != nil {
			return 0, err
		}
		if n := binary.LittleEndian.Uint32(head[4:]); n <= MaxSymbols {
			return int(n), nil
		}
		return 0, ErrNoModule
	}
	var head [16]byte
	if d.gnuHash == 0 {
		return 0, ErrNoModule
	}
	if err := mem.Read(d.gnuHash, head[:]); err != nil {
		return 0, err
	}
	buckets, first, bloom := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:])
	if buckets == 0 || buckets > maxHashBuckets || bloom > maxHashBuckets || first > MaxSymbols {
		return 0, ErrNoModule
	}
	at := d.gnuHash + 16 + Address(bloom)*8
	last := uint32(0)
	err := pieces(io.NewSectionReader(memoryReader{mem}, int64(at), int64(buckets)*4), searchPiece, 0, func(b []byte, _ int64) bool {
		for ; len(b) >= 4; b = b[4:] {
			last = max(last, binary.LittleEndian.Uint32(b))
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	if last < first {
		return int(first), nil
	}
	// Behind the buckets are the chains. They have one word for each symbol, beginning with the symbol of index first.
	// The lowest bit of a word is set at the end of a chain.
	at += Address(buckets) * 4
	for end := min(last+maxHashChain, MaxSymbols); last < end; last++ {
		var word [4]byte
		if err := mem.Read(at+Address(last-first)*4, word[:]); err != nil {
			return 0, err
		}
		if word[0]&1 != 0 {
			return int(last) + 1, nil
		}
	}
	return 0, ErrNoModule
}
