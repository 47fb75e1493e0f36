package probe

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/attach"
)

// Limits of what is read of a library to find its calls, in bytes: libruby has 4 MB of code and 3 MB of relocations.
const (
	maxCode        = 64 << 20
	maxRelocations = 64 << 20
)

// callsOf finds where a library's code calls the C library's functions, or jumps to them, at their addresses in the process: a list for each
// of the functions. What looks like a call by chance, within another instruction, is among them.
func callsOf(p *attach.Process, module *attach.Module, mappings []attach.Mapping, functions []function, set instructionSet) ([][]attach.Address, error) {
	i := slices.IndexFunc(mappings, func(m attach.Mapping) bool { return m.Path == module.Path })
	if i < 0 {
		return nil, fmt.Errorf("%s is not mapped", module.Path)
	}
	path, err := openable(p, mappings[i])
	if err != nil {
		return nil, fmt.Errorf("%s can't be opened: %w", module.Path, err)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", module.Path, err)
	}
	slots, err := slotsOf(f, functions, set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", module.Path, err)
	}
	code, err := codeOf(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", module.Path, err)
	}
	out := make([][]attach.Address, len(functions))
	for fn, places := range set.calls(code, slots, len(functions)) {
		for _, at := range places {
			out[fn] = append(out[fn], module.Bias+attach.Address(at))
		}
	}
	return out, nil
}

// callsIn finds in code the calls of functions, by the slots that have their addresses.
func callsIn(code []section, slots map[uint64]int, functions int) [][]uint64 {
	out := make([][]uint64, functions)
	stubs := make(map[uint64]int)
	for _, c := range code {
		c.jumpsThrough(slots, func(at uint64, fn int) {
			if !c.linkers {
				out[fn] = append(out[fn], at)
				return
			}
			// A stub of the linker's, which may begin with endbr64 and a prefix.
			stubs[at], stubs[at-1], stubs[at-4], stubs[at-5] = fn, fn, fn, fn
		})
	}
	for _, c := range code {
		if !c.linkers {
			c.jumpsTo(stubs, func(at uint64, fn int) { out[fn] = append(out[fn], at) })
		}
	}
	return out
}

// slotsOf finds the words of a file in which the dynamic linker puts the addresses of the functions.
func slotsOf(f *elf.File, functions []function, set instructionSet) (map[uint64]int, error) {
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	numbers := make(map[uint32]int) // of symbols
	for n, s := range symbols {
		if i := slices.IndexFunc(functions, func(f function) bool { return f.libc == s.Name }); i >= 0 {
			numbers[uint32(n+1)] = i
		}
	}
	slots := make(map[uint64]int)
	for _, s := range f.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, err := contentOf(s, maxRelocations)
		if err != nil {
			return nil, err
		}
		for ; len(b) >= 24; b = b[24:] {
			info := binary.LittleEndian.Uint64(b[8:])
			if fn, ok := numbers[elf.R_SYM64(info)]; ok && slices.Contains(set.relocations, elf.R_TYPE64(info)) {
				slots[binary.LittleEndian.Uint64(b)] = fn
			}
		}
	}
	return slots, nil
}

func contentOf(s *elf.Section, limit uint64) ([]byte, error) {
	if s.Size > limit {
		return nil, fmt.Errorf("%s has %d bytes, and at most %d are read", s.Name, s.Size, limit)
	}
	b := make([]byte, s.Size)
	if _, err := io.ReadFull(io.NewSectionReader(s, 0, int64(s.Size)), b); err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.Name, err)
	}
	return b, nil
}

// section is code of a file, and where it is in it. linkers: it is the linker's own, stubs that jump to other files.
type section struct {
	bytes   []byte
	at      uint64
	linkers bool
}

func codeOf(f *elf.File) ([]section, error) {
	var out []section
	for _, s := range f.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_EXECINSTR == 0 {
			continue
		}
		b, err := contentOf(s, maxCode)
		if err != nil {
			return nil, err
		}
		out = append(out, section{b, s.Addr, strings.HasPrefix(s.Name, ".plt")})
	}
	return out, nil
}

// jumpsThrough finds the calls (ff 15) and jumps (ff 25) through a slot, and where one is loaded into a register (8b), to be called.
func (c *section) jumpsThrough(slots map[uint64]int, found func(at uint64, fn int)) {
	for i := 0; i+6 <= len(c.bytes); i++ {
		call, loads := c.bytes[i] == 0xff && (c.bytes[i+1] == 0x15 || c.bytes[i+1] == 0x25), c.bytes[i] == 0x8b && c.bytes[i+1]&0xc7 == 0x05
		if !call && !loads {
			continue
		}
		at := c.at + uint64(i)
		if fn, ok := slots[at+6+uint64(int32(binary.LittleEndian.Uint32(c.bytes[i+2:])))]; ok {
			found(at, fn)
		}
	}
}

// jumpsTo finds the calls (e8), jumps (e9) and conditional jumps (0f 80 to 0f 8f) to a stub.
func (c *section) jumpsTo(stubs map[uint64]int, found func(at uint64, fn int)) {
	for i := 0; i+5 <= len(c.bytes); i++ {
		if b := c.bytes[i]; b != 0xe8 && b != 0xe9 && (b&0xf0 != 0x80 || i == 0 || c.bytes[i-1] != 0x0f) {
			continue
		}
		at := c.at + uint64(i)
		if fn, ok := stubs[at+5+uint64(int32(binary.LittleEndian.Uint32(c.bytes[i+1:])))]; ok {
			found(at, fn)
		}
	}
}
