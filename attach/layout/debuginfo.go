package layout

import (
	"bytes"
	"context"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// errNoDebugInfo is returned for an ELF file without readable DWARF.
var errNoDebugInfo = errors.New("no debug information")

// These limits apply to the debug information of a file, because a hostile owner of the process may have written the
// file. A large libruby, with a JIT in Rust, has about 30 MB of debug information. It has 800 units, 3 million entries
// and 300 kB of abbreviations. Reading it takes a second or two. Together the limits keep ddtop's memory below 512 MiB.
const (
	maxDebugBytes   = 96 << 20 // total decompressed size of the sections that are read
	maxDebugEntries = 1 << 24
	maxDebugUnits   = 1 << 16
	// maxAbbrevBytes bounds the total size of the abbreviation tables of all units, in bytes. Tables can overlap in the
	// file, but debug/dwarf decodes each one separately. A decoded table takes about 20 times its size in the file.
	maxAbbrevBytes = 4 << 20
	// maxAttributes bounds the number of attributes of one entry. Compilers write 20.
	maxAttributes = 256
	// maxDebugString is the length at which strings are cut, in bytes. Long strings are expensive, because debug/dwarf
	// copies a string for every entry that refers to it. The longest names that ddtop needs have about 40 bytes.
	maxDebugString = 4096
	// maxVarint is the length of the longest LEB128 number, in bytes. ddtop refuses a unit that ends in the middle of a
	// number. At such an end debug/dwarf stays at the same position. It would read the incomplete number again for each
	// following attribute.
	maxVarint = 10
	// maxDebugTime is the time limit for ReadDebugInfo, and also for Derive. Each of the two may take this long.
	maxDebugTime = 2 * time.Minute
)

// DebugInfo is the debug information of one ELF file.
type DebugInfo struct {
	data *dwarf.Data
	// units has the offset, in the debug information, of each unit's first entry.
	units []dwarf.Offset
}

// ReadDebugInfo reads the DWARF of an ELF file. The sections may be compressed (SHF_COMPRESSED, zlib or zstd). It
// returns errNoDebugInfo if the file has no DWARF, or if its DWARF exceeds the limits above. If the context ends
// first, it returns the context's error. It does not read sections .zdebug_*, which binutils made before 2.26, nor
// split DWARF (.dwo).
func ReadDebugInfo(ctx context.Context, f *elf.File) (*DebugInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxDebugTime, errTooLong)
	defer cancel()
	sections, err := readSections(ctx, f)
	if err != nil {
		return nil, err
	}
	d := new(DebugInfo)
	info, abbrev := sections[".debug_info"], sections[".debug_abbrev"]
	if d.units, err = readUnits(ctx, info, abbrev, f.ByteOrder); err != nil {
		return nil, err
	}
	if d.data, err = dwarf.New(abbrev, nil, nil, info, nil, nil, nil, sections[".debug_str"]); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoDebugInfo, err)
	}
	for _, name := range []string{".debug_line_str", ".debug_str_offsets", ".debug_addr", ".debug_rnglists"} {
		if err := d.data.AddSection(name, sections[name]); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoDebugInfo, err)
		}
	}
	return d, nil
}

var (
	errTooLong       = fmt.Errorf("%w: reading it took more than %v", errNoDebugInfo, maxDebugTime)
	errAbbreviations = fmt.Errorf("%w: more than %d MiB of abbreviations", errNoDebugInfo, maxAbbrevBytes>>20)
)

// readSections reads only the sections that debug/dwarf needs to decode entries. If several sections have the same
// name, it reads the first. ddtop does not use elf.File.DWARF, which reads every section of any size. elf.File.DWARF
// also reads relocations, but a linked file has none.
func readSections(ctx context.Context, f *elf.File) (map[string][]byte, error) {
	names := []string{".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_str_offsets",
		".debug_addr", ".debug_rnglists"}
	total := uint64(0)
	for _, name := range names {
		s := f.Section(name)
		switch {
		case s == nil:
			continue
		case s.Type == elf.SHT_NOBITS:
			return nil, fmt.Errorf("%w: its section %s is empty", errNoDebugInfo, name)
		case s.Size > maxDebugBytes || total+s.Size > maxDebugBytes:
			return nil, fmt.Errorf("%w: more than %d MiB of it", errNoDebugInfo, maxDebugBytes>>20)
		}
		total += s.Size
	}
	if s := f.Section(names[0]); s == nil || s.Size == 0 {
		return nil, errNoDebugInfo
	}
	out := make(map[string][]byte, len(names))
	for _, name := range names {
		s := f.Section(name)
		if s == nil {
			continue
		}
		b := make([]byte, s.Size)
		if err := readAll(ctx, s.Open(), b); err != nil {
			return nil, fmt.Errorf("section %s: %w", name, err)
		}
		if name == ".debug_str" || name == ".debug_line_str" {
			cutStrings(b)
		}
		out[name] = b
	}
	return out, nil
}

// readAll fills b in pieces. Between pieces it checks whether the context has ended.
func readAll(ctx context.Context, r io.Reader, b []byte) error {
	const chunk = 1 << 20
	for len(b) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := io.ReadFull(r, b[:min(chunk, len(b))])
		if err != nil {
			return fmt.Errorf("%w: %w", errNoDebugInfo, err)
		}
		b = b[n:]
	}
	return nil
}

// cutStrings shortens every string in a section to at most maxDebugString bytes by writing a zero byte into it. It also
// writes a zero byte at the section's end if the last string has none.
func cutStrings(b []byte) {
	for len(b) > 0 {
		end := bytes.IndexByte(b[:min(maxDebugString, len(b))], 0)
		if end < 0 {
			end = min(maxDebugString, len(b)) - 1
			b[end] = 0
		}
		b = b[end+1:]
	}
}

// readUnits finds the first entry of each unit. It reads only the units' headers (DWARF 5, section 7.5.1). debug/dwarf
// is slower, because it reads all entries of a unit to find its end. readUnits also limits the number of units and the
// size of their abbreviations, because dwarf.New reads both without a limit.
func readUnits(ctx context.Context, info, abbrev []byte, order binary.ByteOrder) ([]dwarf.Offset, error) {
	const (
		wide          = 0xffffffff // a unit in the 64-bit format of DWARF begins with this word
		typeUnit      = 2          // DW_UT_type
		splitTypeUnit = 6          // DW_UT_split_type
	)
	var out []dwarf.Offset
	if len(abbrev) > maxAbbrevBytes {
		return nil, errAbbreviations
	}
	tables := abbreviations{data: abbrev, seen: make(map[uint64]bool)}
	units := 0
	for at := uint64(0); at < uint64(len(info)); {
		if at+11 > uint64(len(info)) {
			return nil, fmt.Errorf("%w: a unit at %#x that does not end", errNoDebugInfo, at)
		}
		length, head, word := uint64(order.Uint32(info[at:])), at+4, uint64(4)
		if length == wide {
			if at+23 > uint64(len(info)) {
				return nil, fmt.Errorf("%w: a unit at %#x that does not end", errNoDebugInfo, at)
			}
			length, head, word = order.Uint64(info[at+4:]), at+12, 8
		}
		if length == 0 || length > uint64(len(info))-head {
			return nil, fmt.Errorf("%w: a unit of %d bytes at %#x", errNoDebugInfo, length, at)
		}
		if units++; units > maxDebugUnits {
			return nil, fmt.Errorf("%w: more than %d units", errNoDebugInfo, maxDebugUnits)
		}
		version, kind := order.Uint16(info[head:]), byte(0)
		if version < 2 || version > 5 {
			return nil, fmt.Errorf("%w: a unit of DWARF %d at %#x", errNoDebugInfo, version, at)
		}
		first, table := head+2+word+1, head+2
		if version >= 5 {
			kind = info[head+2]
			first++
			table += 2
			if kind >= 4 { // a skeleton or split unit has an id of 8 bytes
				first += 8
			}
		}
		if table+word > uint64(len(info)) {
			return nil, fmt.Errorf("%w: a unit at %#x that does not end", errNoDebugInfo, at)
		}
		offset := uint64(order.Uint32(info[table:]))
		if word == 8 {
			offset = order.Uint64(info[table:])
		}
		end := info[head : head+length]
		end = end[max(0, len(end)-maxVarint):]
		if len(end) == maxVarint && !slices.ContainsFunc(end, func(c byte) bool { return c < 0x80 }) {
			return nil, fmt.Errorf("%w: the unit at %#x ends within a number", errNoDebugInfo, at)
		}
		if err := tables.check(ctx, offset); err != nil {
			return nil, err
		}
		if kind != typeUnit && kind != splitTypeUnit && first < head+length {
			out = append(out, dwarf.Offset(first))
		}
		at = head + length
	}
	return out, nil
}

// abbreviations checks the abbreviation tables of all units: their total size (maxAbbrevBytes), and the size of each
// entry (maxAttributes).
type abbreviations struct {
	data []byte
	// seen has the offsets of the tables that were checked. bytes is the sum of their sizes.
	seen  map[uint64]bool
	bytes int
}

// check adds the size of the abbreviation table at an offset to bytes, unless this table was checked before. It fails
// if the sum is too large, or if an entry has too many attributes (DWARF 5, section 7.5.3).
func (a *abbreviations) check(ctx context.Context, offset uint64) error {
	const implicitConst = 0x21 // DW_FORM_implicit_const: its value is in the table
	if a.seen[offset] {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if offset >= uint64(len(a.data)) {
		return fmt.Errorf("%w: abbreviations at %#x, beyond their end", errNoDebugInfo, offset)
	}
	a.seen[offset] = true
	rest := a.data[offset:]
	size := len(rest)
	next := func() (v uint64) {
		for i, c := range rest {
			if v |= uint64(c&0x7f) << (7 * i); c&0x80 == 0 {
				rest = rest[i+1:]
				return v
			}
		}
		rest = nil
		return 0
	}
	for uint32(next()) != 0 {
		next() // skip the tag
		if len(rest) > 0 {
			rest = rest[1:] // skip the flag "has children"
		}
		for n := 0; ; n++ {
			attribute, form := next(), next()
			if attribute == 0 && form == 0 {
				break
			}
			if uint32(form) == implicitConst {
				next()
			}
			if n >= maxAttributes {
				return fmt.Errorf("%w: an entry with more than %d attributes", errNoDebugInfo, maxAttributes)
			}
		}
	}
	if a.bytes += size - len(rest); a.bytes > maxAbbrevBytes {
		return errAbbreviations
	}
	return nil
}
