package mapped

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// maxRelocations limits the number of relocations in all sections of a module. In a hostile file, sections can
	// overlap. maxTLSRelocations limits the number of relocations for thread-local variables. This limit is lower,
	// because each of these relocations takes longer to check. A tracing library has about a dozen.
	maxRelocations, maxTLSRelocations = 1 << 20, 1 << 12
	// maxStaticTLS limits a variable's distance from the thread pointer, in bytes. maxTLSModules limits the number of
	// modules with thread-local variables.
	maxStaticTLS, maxTLSModules = 1 << 30, 1 << 16
)

// ErrNoThreadLocal is returned if no module has the thread-local variable, or if its place in a thread is unknown.
var ErrNoThreadLocal = errors.New("no thread-local variable that can be reached")

// ThreadLocal describes where each thread has its copy of a thread-local variable
// (docs/internals/context.md#thread-local-variables).
type ThreadLocal struct {
	// Module is zero if the variable is at a fixed distance from the thread pointer. Then offset is this distance.
	// Otherwise Module is the number of a module, and offset counts from the start of a block of memory. Each thread
	// has such a block for the module's variables. The thread's vector (dtv) points to the block once the thread has
	// used one of the variables. If the vector's generation is lower than the field generation, the vector has no entry
	// for the module yet.
	Module, generation uint64
	offset             int64
}

// These are the relocations by which a module's machine code finds a thread-local variable (x86-64 psABI, "Relocation
// Types").
const (
	relocModule     = elf.R_X86_64_DTPMOD64
	relocOffset     = elf.R_X86_64_TPOFF64
	relocDescriptor = elf.R_X86_64_TLSDESC
)

// ThreadLocal finds the place of a thread-local variable that the module defines. The dynamic linker has written this
// place into words of the module, because the module's own code needs it. ThreadLocal reads these words. program is set
// if the module is the program itself. vectors is set if each thread has glibc's vector (dtv), which points to the
// thread's blocks of variables.
func (m *Module) ThreadLocal(mem Memory, name string, program, vectors bool) (ThreadLocal, error) {
	fail := func(format string, args ...any) (ThreadLocal, error) {
		return ThreadLocal{}, fmt.Errorf("%s: %w: %s", m.Path, ErrNoThreadLocal, fmt.Sprintf(format, args...))
	}
	s, ok := m.Exported(name)
	if !ok || !s.TLS {
		return fail("it does not export %s", name)
	}
	if m.File == nil || m.Machine != "x86_64" {
		return fail("its relocations can't be read")
	}
	value := uint64(s.Addr)
	var failed error
	looked, left := 0, uint64(maxRelocations*24)
	for _, section := range m.File.Sections {
		if section.Type != elf.SHT_RELA || section.Flags&elf.SHF_COMPRESSED != 0 || section.Size > left {
			continue
		}
		left -= section.Size
		var found *ThreadLocal
		in := io.NewSectionReader(section, 0, int64(section.Size))
		err := pieces(in, 24<<10, 0, func(b []byte, _ int64) bool {
			for ; len(b) >= 24 && found == nil && looked < maxTLSRelocations; b = b[24:] {
				at, info, addend := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
				kind := elf.R_X86_64(uint32(info))
				if kind != relocModule && kind != relocOffset && kind != relocDescriptor {
					continue
				}
				looked++
				v, is, err := m.relocated(mem, kind, uint32(info>>32), m.Bias+Address(at), name, value, addend)
				if err != nil {
					failed = err
				} else if is && (v.Module == 0 || vectors) {
					found = &v
				} else if is {
					failed = errors.New("it is in blocks of its own for each thread, and those of this C library are not known")
				}
			}
			return found == nil
		})
		if found != nil {
			return *found, nil
		}
		if err != nil {
			return fail("%v", err)
		}
	}
	if failed != nil {
		return fail("%v", failed)
	}
	if program {
		return m.ownThreadLocal(value)
	}
	return fail("its code does not use %s", name)
}

// relocated reads what the dynamic linker has stored for a relocation, and derives the variable's place in a thread
// from it. It returns false if the relocation is for another variable, or if the place is not aligned to 8 bytes.
func (m *Module) relocated(mem Memory, kind elf.R_X86_64, symbol uint32, at Address, name string, value, addend uint64) (v ThreadLocal, is bool, err error) {
	if symbol != 0 && !m.isSymbol(symbol, name) || symbol == 0 && kind != relocModule && addend != value {
		return v, false, nil // this relocation is for another variable
	}
	var words [2]uint64
	read := func(at Address) error {
		var b [16]byte
		n := 16
		if kind == relocOffset {
			n = 8
		}
		err := mem.Read(at, b[:n])
		words = [2]uint64{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
		return err
	}
	if err := read(at); err != nil {
		return v, false, err
	}
	if kind == relocDescriptor {
		words[0] = words[1] // a TLS descriptor is a function's address and then the function's argument
	}
	if near := int64(words[0]); kind != relocModule && near > -maxStaticTLS && near < 0 {
		// A negative distance means that the variable is below the thread pointer, where x86-64 keeps it (psABI).
		return ThreadLocal{offset: near}, near%8 == 0, nil
	}
	generation := uint64(0)
	if kind == relocDescriptor {
		// The argument of this TLS descriptor points to the module's number, the variable's offset and the generation
		// (struct tlsdesc_dynamic_arg, glibc).
		var b [24]byte
		if err := mem.Read(Address(words[0]), b[:]); err != nil {
			return v, false, err
		}
		words, generation = [2]uint64{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}, binary.LittleEndian.Uint64(b[16:])
	}
	if kind == relocModule && symbol == 0 && words[1] != value {
		return v, false, nil // this relocation is for another variable
	}
	if kind == relocOffset || words[0] == 0 || words[0] > maxTLSModules || words[1] > maxStaticTLS || words[1]%8 != 0 {
		return v, false, errors.New("the dynamic linker has not bound it yet")
	}
	return ThreadLocal{Module: words[0], offset: int64(words[1]), generation: generation}, true, nil
}

// isSymbol reports whether the symbol with this number has this name.
func (m *Module) isSymbol(number uint32, name string) bool {
	var b [elf.Sym64Size]byte
	if _, err := m.dynamic.symbols.ReadAt(b[:], int64(number)*elf.Sym64Size); err != nil {
		return false
	}
	return m.dynamic.nameAt(uint64(binary.LittleEndian.Uint32(b[:]))) == name
}

// ownThreadLocal returns the place of a variable of the program itself. The program has no relocation for it, because
// its code contains the distance from the thread pointer. The program's block of variables is the first one below the
// thread pointer (x86-64 psABI, "TLS", variant II).
func (m *Module) ownThreadLocal(value uint64) (ThreadLocal, error) {
	for _, p := range m.File.Progs {
		if p.Type != elf.PT_TLS {
			continue
		}
		align := max(p.Align, 1)
		if align&(align-1) != 0 || align > PageSize || p.Vaddr%align != 0 || p.Memsz > maxStaticTLS || value >= p.Memsz {
			break
		}
		if offset := int64(value) - int64((p.Memsz+align-1)&^(align-1)); offset%8 == 0 {
			return ThreadLocal{offset: offset}, nil
		}
	}
	return ThreadLocal{}, fmt.Errorf("%s: %w", m.Path, ErrNoThreadLocal)
}

// HasThreadLocals reports whether a module has thread-local variables at all.
func (m *Module) HasThreadLocals() bool {
	if m.File == nil {
		return false
	}
	for _, p := range m.File.Progs {
		if p.Type == elf.PT_TLS {
			return true
		}
	}
	return false
}

// Word is the address of a word in a target's memory, and the value that it is expected to have.
type Word struct {
	Addr  Address
	Value uint64
}

// Locate returns the address of the variable in a thread. The parameter thread is the thread pointer (on x86-64 the fs
// base, which is its pthread_t). To find the variable, Locate follows up to two words of the thread's memory. It
// appends these words to via and returns the result as words. The address is valid while the words keep their values.
// at is zero if the thread has no such variable yet. calls is the number of system calls made.
func (v *ThreadLocal) Locate(mem Memory, thread Address, via []Word) (at Address, words []Word, calls int, err error) {
	if v.Module == 0 {
		return thread + Address(v.offset), via, 0, nil
	}
	// The thread's vector (dtv_t, glibc) has its length, the generation, and a pointer for each module.
	const vectorAt, entry, unused = 8, 16, ^uint64(0)
	var b [8]byte
	if err := mem.Read(thread+vectorAt, b[:]); err != nil {
		return 0, via, 1, err
	}
	vector := Address(binary.LittleEndian.Uint64(b[:]))
	via = append(via, Word{thread + vectorAt, uint64(vector)})
	var head [2 * entry]byte
	if err := mem.Read(vector-entry, head[:]); err != nil {
		return 0, via, 2, err
	}
	if v.Module > binary.LittleEndian.Uint64(head[:]) || binary.LittleEndian.Uint64(head[entry:]) < v.generation {
		return 0, append(via, Word{vector, binary.LittleEndian.Uint64(head[entry:])}), 2, nil
	}
	block := vector + Address(v.Module)*entry
	if err := mem.Read(block, b[:]); err != nil {
		return 0, via, 3, err
	}
	start := binary.LittleEndian.Uint64(b[:])
	via = append(via, Word{block, start})
	if start == unused || start == 0 {
		return 0, via, 3, nil
	}
	return Address(start) + Address(v.offset), via, 3, nil
}
