package mapped

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
)

const (
	// maxFunctionsAsked limits how many addresses one call of FunctionsAt looks up.
	maxFunctionsAsked = 4096
	// maxNamesOfFunctions limits how many names one call of FunctionsAt reads from a table. Few functions have more
	// than two names.
	maxNamesOfFunctions = 4 * maxFunctionsAsked
)

// askedFunction is an address for which FunctionsAt searches the function, and the best symbol found so far.
type askedFunction struct {
	addr  uint64
	place int // index of the address in the caller's list
	best  elf.Symbol
	named bool
}

// FunctionsAt returns the functions that contain the addresses: result i is for at[i]. A Symbol without a name means
// that the function is in no table: .dynsym, .symtab, or a separate debug file of the same build id.
func (m *Module) FunctionsAt(at []Address) []Symbol {
	out := make([]Symbol, len(at))
	var asked []*askedFunction
	for i, addr := range at[:min(len(at), maxFunctionsAsked)] {
		asked = append(asked, &askedFunction{addr: uint64(addr - m.Bias), place: i})
	}
	slices.SortFunc(asked, func(a, b *askedFunction) int { return cmp.Compare(a.addr, b.addr) })
	m.mu.Lock()
	defer m.mu.Unlock()
	look := func(t *symbolTable, exported bool) {
		if t == nil || len(asked) == 0 {
			return
		}
		t.functionsAt(asked)
		asked = slices.DeleteFunc(asked, func(a *askedFunction) bool {
			if a.named {
				out[a.place] = m.symbolOf(a.best, exported)
			}
			return a.named
		})
	}
	look(m.dynamic, true)
	look(m.static, false)
	if m.static == nil && len(asked) > 0 && m.File != nil {
		if f, err := m.separate(); err == nil {
			look(f.symbols, false)
		}
	}
	return out
}

// functionsAt finds the best symbol in the table t for each address in asked. asked is sorted by address.
func (t *symbolTable) functionsAt(asked []*askedFunction) {
	names := 0
	// Treat a table that cannot be read as a table without symbols, so ignore the error.
	_ = pieces(t.symbols, searchPiece, 0, func(b []byte, off int64) bool {
		for ; len(b) >= elf.Sym64Size; b, off = b[elf.Sym64Size:], off+elf.Sym64Size {
			s := elf.Symbol{Info: b[4], Section: elf.SectionIndex(binary.LittleEndian.Uint16(b[6:])),
				Value: binary.LittleEndian.Uint64(b[8:]), Size: binary.LittleEndian.Uint64(b[16:])}
			// The symbol of an indirect function (STT_GNU_IFUNC) is the address of its resolver, not of the code that
			// runs later. So skip such symbols.
			if s.Section == elf.SHN_UNDEF || s.Value == 0 || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
				continue
			}
			i, _ := slices.BinarySearchFunc(asked, s.Value, func(a *askedFunction, v uint64) int {
				return cmp.Compare(a.addr, v)
			})
			for ; i < len(asked) && asked[i].addr-s.Value < max(s.Size, 1); i++ {
				if s.Name == "" {
					if names++; names > maxNamesOfFunctions {
						return false
					}
					s.Name = t.nameAt(uint64(binary.LittleEndian.Uint32(b)))
				}
				if a := asked[i]; s.Name != "" && (!a.named || nearer(s, a.best)) {
					a.best, a.named = s, true
				}
			}
		}
		return true
	})
}

// nearer reports whether symbol a is a better name for a function than b. Most functions of the C library have several
// names. For example, poll is better known than __poll.
func nearer(a, b elf.Symbol) bool {
	underscores := func(s string) int { return len(s) - len(strings.TrimLeft(s, "_")) }
	return cmp.Or(
		cmp.Compare(b.Value, a.Value), // prefer the symbol that begins later
		cmp.Compare(underscores(a.Name), underscores(b.Name)),
		cmp.Compare(len(a.Name), len(b.Name)),
		strings.Compare(a.Name, b.Name),
	) < 0
}
