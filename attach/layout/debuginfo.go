package layout

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// ErrNoDebugInfo is returned for an ELF file without DWARF, or whose DWARF can't be read.
var ErrNoDebugInfo = errors.New("no debug information")

// Limits of what is read of debug information. A libruby with all its units has some 60 MB and
// 3 million entries; the limit takes some seconds.
const (
	maxDebugBytes   = 1 << 30
	maxDebugEntries = 1 << 24
	maxDebugUnits   = 1 << 16
)

// DebugInfo is the debug information of one ELF file.
type DebugInfo struct {
	data *dwarf.Data
	// units are where the units' first entries stand.
	units []dwarf.Offset
}

// ReadDebugInfo reads the DWARF of an ELF file, compressed or not (debug/elf knows zlib and zstd). ErrNoDebugInfo where
// there is none, or more than 1 GiB of it.
func ReadDebugInfo(f *elf.File) (*DebugInfo, error) {
	section := f.Section(".debug_info")
	if section == nil {
		return nil, ErrNoDebugInfo
	}
	var total uint64
	for _, s := range f.Sections {
		if !strings.HasPrefix(s.Name, ".debug_") {
			continue
		}
		if total += s.Size; s.Size > maxDebugBytes || total > maxDebugBytes {
			return nil, fmt.Errorf("%w: more than %d MiB of it", ErrNoDebugInfo, maxDebugBytes>>20)
		}
		if s.Type == elf.SHT_NOBITS {
			return nil, fmt.Errorf("%w: its section %s is empty", ErrNoDebugInfo, s.Name)
		}
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDebugInfo, err)
	}
	d := new(DebugInfo)
	if d.units, err = readUnits(info, f.ByteOrder); err != nil {
		return nil, err
	}
	if d.data, err = f.DWARF(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDebugInfo, err)
	}
	return d, nil
}

// readUnits finds the first entry of each unit by the headers alone (DWARF 5, section 7.5.1): debug/dwarf would have to
// read a unit's entries to find its end.
func readUnits(info []byte, order binary.ByteOrder) ([]dwarf.Offset, error) {
	const (
		wide          = 0xffffffff // marks the 64-bit form
		typeUnit      = 2          // DW_UT_type
		splitTypeUnit = 6          // DW_UT_split_type
	)
	var out []dwarf.Offset
	for at := uint64(0); at+11 <= uint64(len(info)); {
		length, head, word := uint64(order.Uint32(info[at:])), at+4, uint64(4)
		if length == wide {
			if at+23 > uint64(len(info)) {
				break
			}
			length, head, word = order.Uint64(info[at+4:]), at+12, 8
		}
		if length == 0 || length > uint64(len(info))-head {
			return nil, fmt.Errorf("%w: a unit of %d bytes at %#x", ErrNoDebugInfo, length, at)
		}
		version, kind := order.Uint16(info[head:]), byte(0)
		first := head + 2 + word + 1
		if version >= 5 {
			kind = info[head+2]
			first++
			if kind >= 4 { // a skeleton or split unit has an id of 8 bytes
				first += 8
			}
		}
		if kind != typeUnit && kind != splitTypeUnit && first < head+length {
			if len(out) >= maxDebugUnits {
				return nil, fmt.Errorf("%w: more than %d units", ErrNoDebugInfo, maxDebugUnits)
			}
			out = append(out, dwarf.Offset(first))
		}
		at = head + length
	}
	return out, nil
}
