package mapped

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// These limits are for the search for calls in a file's machine code. For comparison, libruby has 4 MB of code and 3 MB
// of relocations.
const (
	// MaxCode limits the total size of the code in all sections, in bytes. In a hostile file, sections can overlap.
	MaxCode = 32 << 20
	// maxSlotRelocations limits the total size of the relocations in all sections, in bytes.
	maxSlotRelocations = 64 << 20
	// MaxSlots limits how many words Slots returns. Each word holds the address of a wanted function.
	MaxSlots = 1 << 10
)

// CodeSection is a section of a file with machine code.
type CodeSection struct {
	Bytes []byte
	// Addr is the address of the code in the file, without the module's Bias.
	Addr uint64
	// Linkers is true for a section of the linker's stubs (.plt). A stub is a short piece of code that jumps to a
	// function of another file.
	Linkers bool
}

// Code reads the sections with machine code. It returns an error if they have more than MaxCode bytes, or if the
// module was read from memory.
func (m *Module) Code() ([]CodeSection, error) {
	if m.File == nil {
		return nil, fmt.Errorf("%s: %w", m.Path, errNoFile)
	}
	var out []CodeSection
	left := uint64(MaxCode)
	for _, s := range m.File.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_EXECINSTR == 0 {
			continue
		}
		in, err := plainSection(s, left)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		left -= s.Size
		b := make([]byte, s.Size)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, fmt.Errorf("%s: reading section %q: %w", m.Path, s.Name, err)
		}
		out = append(out, CodeSection{b, s.Addr, strings.HasPrefix(s.Name, ".plt")})
	}
	return out, nil
}

// Slots finds the words through which the file calls functions of other files. The dynamic linker writes a function's
// address into such a word. The result maps the address of each word in this file to the index of its function in
// names. kinds are the types of relocation that mark such a word.
func (m *Module) Slots(names []string, kinds []uint32) (map[uint64]int, error) {
	if m.File == nil {
		return nil, fmt.Errorf("%s: %w", m.Path, errNoFile)
	}
	functions := make(map[uint32]int) // maps a symbol's number to the index of its name in names
	for i, name := range names {
		numbers, err := m.dynamic.numbers(name)
		if err != nil {
			return nil, fmt.Errorf("%s: reading its symbols: %w", m.Path, err)
		}
		for _, n := range numbers {
			functions[n] = i
		}
	}
	slots := make(map[uint64]int)
	left := uint64(maxSlotRelocations)
	for _, s := range m.File.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		in, err := plainSection(s, left)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		left -= s.Size
		const entry = 24 // size of struct Elf64_Rela in bytes; searchPiece is a multiple of it
		err = pieces(in, searchPiece, 0, func(b []byte, _ int64) bool {
			for ; len(b) >= entry; b = b[entry:] {
				info := binary.LittleEndian.Uint64(b[8:])
				if fn, ok := functions[elf.R_SYM64(info)]; ok && slices.Contains(kinds, elf.R_TYPE64(info)) {
					slots[binary.LittleEndian.Uint64(b)] = fn
				}
			}
			return len(slots) <= MaxSlots
		})
		if err != nil {
			return nil, fmt.Errorf("%s: reading section %q: %w", m.Path, s.Name, err)
		}
		if len(slots) > MaxSlots {
			return nil, fmt.Errorf("%s: %w: more than %d words with the addresses of %d functions", m.Path, errELFLimit, MaxSlots, len(names))
		}
	}
	return slots, nil
}

// errNoFile is returned if a module was read from memory, because its file cannot be opened.
var errNoFile = errors.New("its file can't be opened")

// plainSection returns the content of a section that is also loaded into memory. It returns an error if the section
// has more than limit bytes. A loaded section is never compressed (gABI, "Section Compression").
func plainSection(s *elf.Section, limit uint64) (*io.SectionReader, error) {
	if s.Flags&elf.SHF_COMPRESSED != 0 {
		return nil, fmt.Errorf("%w: section %q is compressed", errELFLimit, s.Name)
	}
	if s.Size > limit {
		return nil, fmt.Errorf("%w: section %q has %d bytes, and %d are the most", errELFLimit, s.Name, s.Size, limit)
	}
	return io.NewSectionReader(s, 0, int64(s.Size)), nil
}

// numbers returns the indexes, in the symbol table, of all symbols with the given name. It includes symbols that this
// file needs from another file. It returns an error if there are more than maxSameName.
func (t *symbolTable) numbers(name string) ([]uint32, error) {
	if t == nil {
		return nil, nil
	}
	places, err := t.nameOffsets(name)
	if err != nil || len(places) == 0 {
		return nil, err
	}
	var out []uint32
	err = pieces(t.symbols, searchPiece, 0, func(b []byte, off int64) bool {
		for ; len(b) >= elf.Sym64Size; b, off = b[elf.Sym64Size:], off+elf.Sym64Size {
			if places[binary.LittleEndian.Uint32(b)] {
				out = append(out, uint32(off/elf.Sym64Size))
			}
		}
		return len(out) <= maxSameName
	})
	if err == nil && len(out) > maxSameName {
		err = fmt.Errorf("%w: more than %d symbols are called %s", errELFLimit, maxSameName, name)
	}
	return out, err
}

// MappingAt returns the mapping of the module's file that contains an address of the process.
func (m *Module) MappingAt(at Address) (Mapping, bool) {
	for _, own := range m.mapped {
		if at >= own.Start && at < own.End {
			return own, true
		}
	}
	return Mapping{}, false
}

// ReadFileAt fills all of buf from an offset of the module's file, or returns an error.
func (m *Module) ReadFileAt(buf []byte, offset uint64) error {
	if m.content == nil {
		return fmt.Errorf("%s: %w", m.Path, errNoFile)
	}
	if offset > 1<<62 {
		return fmt.Errorf("%s: %w: offset %#x", m.Path, errELFLimit, offset)
	}
	n, err := m.content.ReadAt(buf, int64(offset))
	if n == len(buf) {
		return nil
	}
	return fmt.Errorf("reading %d bytes at offset %#x of %s: %w", len(buf), offset, m.Path, err)
}
