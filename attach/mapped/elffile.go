package mapped

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// These are limits on an ELF file's headers. Programs and libraries have about ten segments and forty sections.
const (
	maxProgramHeaders = 512
	maxSections       = 1024
	maxSectionNames   = 1 << 16
	maxSectionName    = 256
)

// errELFLimit is returned for an ELF file with sizes that no real program or library has.
var errELFLimit = errors.New("it is not an ELF file of a usual size")

// OpenELF reads an ELF file's headers after it has checked their sizes. Without the check, debug/elf would read as much
// as the headers claim, and decompress sections. If many headers refer to one section name, debug/elf would copy it for
// each of them. The file may change after the check, so debug/elf gets copies of the bytes that were checked.
func OpenELF(file io.ReaderAt) (*elf.File, error) {
	var head elf.Header64
	const size, segment, section = 64, 56, 64 // sizes of the header, a program header, a section header
	b := make([]byte, size)
	if _, err := file.ReadAt(b, 0); err != nil {
		return nil, err
	}
	if string(b[:4]) != elf.ELFMAG {
		return nil, fmt.Errorf("%w: it does not begin as one", errELFLimit)
	}
	if class, data := elf.Class(b[4]), elf.Data(b[5]); class != elf.ELFCLASS64 || data != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("%w: it is %v %v, and only 64-bit little-endian programs can be read", ErrNotRuby, class, data)
	}
	head.Phoff, head.Shoff = binary.LittleEndian.Uint64(b[32:]), binary.LittleEndian.Uint64(b[40:])
	head.Phentsize, head.Phnum = binary.LittleEndian.Uint16(b[54:]), binary.LittleEndian.Uint16(b[56:])
	head.Shentsize, head.Shnum, head.Shstrndx = binary.LittleEndian.Uint16(b[58:]), binary.LittleEndian.Uint16(b[60:]), binary.LittleEndian.Uint16(b[62:])
	switch {
	case head.Phnum > maxProgramHeaders, head.Phnum > 0 && head.Phentsize != segment,
		head.Shnum > maxSections, head.Shnum > 0 && head.Shentsize != section,
		// with 65,280 or more sections, the header has the count 0 (gABI, "Extensions")
		head.Shnum == 0 && head.Shoff != 0,
		head.Shnum > 0 && head.Shstrndx >= head.Shnum:
		return nil, fmt.Errorf("%w: %d program headers of %d bytes, %d sections of %d, their names in section %d",
			errELFLimit, head.Phnum, head.Phentsize, head.Shnum, head.Shentsize, head.Shstrndx)
	}
	checked := checkedFile{file: file, parts: []checkedPart{{0, b}}}
	read := func(offset, size uint64) ([]byte, error) {
		if offset > 1<<62 {
			return nil, fmt.Errorf("%w: headers at %#x", errELFLimit, offset)
		}
		b := make([]byte, size)
		if size > 0 {
			if _, err := file.ReadAt(b, int64(offset)); err != nil {
				return nil, err
			}
		}
		checked.parts = append(checked.parts, checkedPart{int64(offset), b})
		return b, nil
	}
	if _, err := read(head.Phoff, uint64(head.Phnum)*segment); err != nil {
		return nil, err
	}
	sections, err := read(head.Shoff, uint64(head.Shnum)*section)
	if err != nil {
		return nil, err
	}
	if head.Shnum > 0 && head.Shstrndx > 0 {
		s := sections[int(head.Shstrndx)*section:]
		flags, offset, size := elf.SectionFlag(binary.LittleEndian.Uint64(s[8:])), binary.LittleEndian.Uint64(s[24:]), binary.LittleEndian.Uint64(s[32:])
		if flags&elf.SHF_COMPRESSED != 0 || size > maxSectionNames {
			return nil, fmt.Errorf("%w: %d bytes of section names, flags %v", errELFLimit, size, flags)
		}
		names, err := read(offset, size)
		if err != nil {
			return nil, err
		}
		for h := sections; len(h) >= section; h = h[section:] {
			at := min(uint64(binary.LittleEndian.Uint32(h)), size)
			if bytes.IndexByte(names[at:min(at+maxSectionName, size)], 0) < 0 {
				return nil, fmt.Errorf("%w: a section's name does not end", errELFLimit)
			}
		}
	}
	return elf.NewFile(&checked)
}

// checkedPart is a part of a file that was read and checked. at is its offset.
type checkedPart struct {
	at   int64
	data []byte
}

// checkedFile is a file with copies of its checked parts. Reads of these parts return the copies, so a later change of
// the file cannot undo the check.
type checkedFile struct {
	file  io.ReaderAt
	parts []checkedPart
}

// ReadAt implements io.ReaderAt.
func (c *checkedFile) ReadAt(buf []byte, off int64) (int, error) {
	n, err := c.file.ReadAt(buf, off)
	for _, p := range c.parts {
		from, to := max(off, p.at), min(off+int64(n), p.at+int64(len(p.data)))
		if from < to {
			copy(buf[from-off:to-off], p.data[from-p.at:])
		}
	}
	return n, err
}

// sectionData returns a section's content, decompressed, or an error if it has more than limit bytes.
func sectionData(s *elf.Section, limit uint64) ([]byte, error) {
	if s.Size > limit || s.Type == elf.SHT_NOBITS {
		return nil, fmt.Errorf("%w: section %s has %d bytes, and %d are the most", errELFLimit, s.Name, s.Size, limit)
	}
	return s.Data() // Data returns at most s.Size bytes, so the limit holds
}
