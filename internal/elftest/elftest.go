// Package elftest makes small ELF files for tests. A header in such a file can claim a size that is much too large, as
// in a hostile file.
package elftest

import (
	"bytes"
	"compress/flate"
	"debug/elf"
	"encoding/binary"
	"testing"
)

// Section is a section of a made-up ELF file. If Claim is larger than the size of Content, the header says falsely that
// the section has the size Claim.
type Section struct {
	Name       string
	Type       elf.SectionType
	Flags      elf.SectionFlag
	Link, Info uint32
	Content    []byte
	Claim      uint64
}

// Make makes an ELF library with these sections, and with one segment that maps its first 4096 bytes at address 0. It
// also adds a section that has the names of the sections, unless the last section already is such a section. If change
// is not nil, Make calls it to edit the finished header.
func Make(t testing.TB, sections []Section, change func(*elf.Header64)) []byte {
	t.Helper()
	table := []byte{0}
	sections = append([]Section{{}}, sections...)
	var at []uint32
	last := len(sections) - 1
	if last == 0 || sections[last].Name != ".shstrtab" {
		sections = append(sections, Section{Name: ".shstrtab", Type: elf.SHT_STRTAB})
		last++
	}
	for _, s := range sections {
		at = append(at, uint32(len(table)))
		table = append(append(table, s.Name...), 0)
	}
	if sections[last].Content == nil {
		sections[last].Content = table
	}
	var out, headers bytes.Buffer
	out.Write(make([]byte, 64+56))
	for i, s := range sections {
		size := max(uint64(len(s.Content)), s.Claim)
		if err := binary.Write(&headers, binary.LittleEndian, elf.Section64{Name: at[i], Type: uint32(s.Type), Flags: uint64(s.Flags),
			Off: uint64(out.Len()), Size: size, Link: s.Link, Info: s.Info, Addralign: 1}); err != nil {
			t.Fatal(err)
		}
		out.Write(s.Content)
	}
	head := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Shoff: uint64(out.Len()), Ehsize: 64,
		Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: uint16(last)}
	copy(head.Ident[:], []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1})
	if change != nil {
		change(&head)
	}
	out.Write(headers.Bytes())
	b := out.Bytes()
	var start bytes.Buffer
	if err := binary.Write(&start, binary.LittleEndian, head); err != nil {
		t.Fatal(err)
	}
	if err := binary.Write(&start, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R), Filesz: 4096, Memsz: 4096}); err != nil {
		t.Fatal(err)
	}
	copy(b, start.Bytes())
	return b
}

// Zeros returns the content of a compressed section (SHF_COMPRESSED, zlib) that unpacks to n MiB of zeros. The content
// has a thousandth of this size. Zeros compresses only one MiB and repeats the compressed data n times. Compressed data
// can refer to the unpacked data before it. In each copy this data is zeros, so each copy unpacks to zeros too.
func Zeros(t testing.TB, n int) []byte {
	t.Helper()
	const mib = 1 << 20
	var b, block bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: uint64(n * mib), Addralign: 1}); err != nil {
		t.Fatal(err)
	}
	z, err := flate.NewWriter(&block, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(make([]byte, mib)); err != nil {
		t.Fatal(err)
	}
	if err := z.Flush(); err != nil { // completes the last byte
		t.Fatal(err)
	}
	b.Write([]byte{0x78, 0x01}) // RFC 1950: deflate, a window of 32 KiB
	b.Write(bytes.Repeat(block.Bytes(), n))
	b.Write([]byte{0x03, 0x00}) // RFC 1951: the last block, which is empty
	// zlib data ends with the checksum Adler-32, which has two halves. For zeros, the low half stays 1. The high half
	// is the sum of the low halves after each byte.
	sum := uint32(n*mib%65521)<<16 | 1
	b.Write(binary.BigEndian.AppendUint32(nil, sum))
	return b.Bytes()
}
