package mapped

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
)

// These are limits for a symbol table, in a file or in memory. For comparison, libruby with all its symbols has 20,000
// symbols and 1 MB of names.
const (
	MaxSymbols     = 1 << 20
	MaxSymbolNames = 64 << 20
	// maxSymbolName limits the length of a symbol's name, in bytes.
	maxSymbolName = 4096
	// maxSameName limits how many places of the string table can hold one name. A name can be there several times,
	// because linkers store a short name as the end of a longer name.
	maxSameName = 64
	// searchPiece is how many bytes of a table are read and searched at a time. It is a multiple of a symbol's size.
	searchPiece = elf.Sym64Size << 11
)

// symbolTable is a table of symbols with their names. It is not loaded as a whole, but searched in pieces. ddtop needs
// only a few symbols, and the table of an unknown file can have any size up to the limits.
type symbolTable struct {
	symbols, names *io.SectionReader
	// versions has two bytes for each symbol (.gnu.version). It is nil if symbols have no versions.
	versions *io.SectionReader
}

// hiddenVersion is the bit in versions that marks an old version of a symbol (VERSYM_HIDDEN). The linker finds such a
// symbol only if its version is given.
const hiddenVersion = 1 << 15

// newSymbolTable returns a table in a file or in a target's memory. It returns nil if the table exceeds the limits.
func newSymbolTable(in io.ReaderAt, symbols, symbolsSize, names, namesSize uint64) *symbolTable {
	if symbolsSize > MaxSymbols*elf.Sym64Size || namesSize > MaxSymbolNames {
		return nil
	}
	return &symbolTable{symbols: io.NewSectionReader(in, int64(symbols), int64(symbolsSize)), names: io.NewSectionReader(in, int64(names), int64(namesSize))}
}

// symbolsOf returns the symbol table in a section of an ELF file, with the names in the section that it links to.
func symbolsOf(f *elf.File, kind elf.SectionType) *symbolTable {
	s := f.SectionByType(kind)
	if s == nil || s.Flags&elf.SHF_COMPRESSED != 0 || int(s.Link) >= len(f.Sections) {
		return nil
	}
	names := f.Sections[s.Link]
	if names.Type != elf.SHT_STRTAB || names.Flags&elf.SHF_COMPRESSED != 0 ||
		s.Size > MaxSymbols*elf.Sym64Size || names.Size > MaxSymbolNames {
		return nil
	}
	t := &symbolTable{symbols: io.NewSectionReader(s, 0, int64(s.Size)), names: io.NewSectionReader(names, 0, int64(names.Size))}
	if v := f.SectionByType(elf.SHT_GNU_VERSYM); kind == elf.SHT_DYNSYM && v != nil && v.Flags&elf.SHF_COMPRESSED == 0 {
		t.versions = io.NewSectionReader(v, 0, int64(v.Size))
	}
	return t
}

// hidden reports whether the symbol with this number is an old version (hiddenVersion).
func (t *symbolTable) hidden(number int64) bool {
	var b [2]byte
	if t.versions == nil {
		return false
	}
	_, err := t.versions.ReadAt(b[:], 2*number)
	return err == nil && binary.LittleEndian.Uint16(b[:])&hiddenVersion != 0
}

// found is the result of a search for a symbol's name: its definition, and whether an undefined symbol has the same
// name.
type found struct {
	symbol             elf.Symbol
	defined, undefined bool
}

// find searches the table for a symbol's name. If a name has several definitions, find returns the one with the default
// version, or else the first. A nil table has no symbols.
func (t *symbolTable) find(name string) (out found, err error) {
	if t == nil || name == "" || len(name) > maxSymbolName {
		return out, nil
	}
	places, err := t.nameOffsets(name)
	if err != nil || len(places) == 0 {
		return out, err
	}
	final := false
	err = pieces(t.symbols, searchPiece, 0, func(b []byte, off int64) bool {
		for ; len(b) >= elf.Sym64Size && !final; b, off = b[elf.Sym64Size:], off+elf.Sym64Size {
			if !places[binary.LittleEndian.Uint32(b)] {
				continue
			}
			s := elf.Symbol{Name: name, Info: b[4], Other: b[5], Section: elf.SectionIndex(binary.LittleEndian.Uint16(b[6:])),
				Value: binary.LittleEndian.Uint64(b[8:]), Size: binary.LittleEndian.Uint64(b[16:])}
			kind := elf.ST_TYPE(s.Info)
			switch {
			case s.Section == elf.SHN_UNDEF:
				out.undefined = true
			case kind == elf.STT_FILE || kind == elf.STT_SECTION:
			default:
				if final = !t.hidden(off / elf.Sym64Size); final || !out.defined {
					out.symbol, out.defined = s, true
				}
			}
		}
		return !final
	})
	return out, err
}

// nameOffsets returns all offsets of a name in the string table. There can be several, because linkers also store a
// name as the end of a longer name.
func (t *symbolTable) nameOffsets(name string) (map[uint32]bool, error) {
	out := make(map[uint32]bool)
	want := append([]byte(name), 0)
	err := pieces(t.names, searchPiece, len(want)-1, func(b []byte, off int64) bool {
		for at := 0; len(out) < maxSameName; {
			i := bytes.Index(b[at:], want)
			if i < 0 {
				return true
			}
			out[uint32(off)+uint32(at+i)] = true
			at += i + 1
		}
		return false
	})
	return out, err
}

// nameAt returns the name at an offset in the string table, or "" if no complete name is there.
func (t *symbolTable) nameAt(at uint64) string {
	if at >= uint64(t.names.Size()) {
		return ""
	}
	b := make([]byte, min(maxSymbolName, uint64(t.names.Size())-at))
	if _, err := t.names.ReadAt(b, int64(at)); err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	name, _, ok := bytes.Cut(b, []byte{0})
	if !ok {
		return ""
	}
	return string(name)
}

// pieces reads all of a SectionReader, one piece after another. It calls the function look with each piece, until look
// returns false. Each piece begins with the last overlap bytes of the previous one. off is the offset of the piece.
func pieces(in *io.SectionReader, size, overlap int, look func(b []byte, off int64) bool) error {
	buf := make([]byte, min(int64(size+overlap), in.Size()))
	for off := int64(0); off < in.Size(); off += int64(size) {
		n, err := in.ReadAt(buf[:min(int64(len(buf)), in.Size()-off)], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if !look(buf[:n], off) {
			return nil
		}
	}
	return nil
}

// memoryReader is an io.ReaderAt of a target's memory. Offsets are addresses.
type memoryReader struct{ mem Memory }

// ReadAt reads all of buf, or nothing.
func (m memoryReader) ReadAt(buf []byte, off int64) (int, error) {
	if err := m.mem.Read(Address(off), buf); err != nil {
		return 0, err
	}
	return len(buf), nil
}
