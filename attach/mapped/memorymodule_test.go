package mapped_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/memtest"
)

// picture returns the bytes of a tiny libruby as it is in memory at base. It has a header, a dynamic section, names,
// and a GNU or an old hash table. It has three symbols: one that it needs from another file, one that it defines, and
// one that is thread-local. If relocated is true, the dynamic section has addresses of the process, as with glibc.
// Otherwise it has addresses of the file, as with musl.
func picture(base uint64, gnu, relocated bool) []byte {
	const dynamic, symbols, names, hash, size = 0x100, 0x200, 0x280, 0x2c0, 0x300
	b := make([]byte, size)
	put := func(at int, v any) {
		var buf bytes.Buffer
		if err := binary.Write(&buf, binary.LittleEndian, v); err != nil {
			panic(err)
		}
		copy(b[at:], buf.Bytes())
	}
	put(0, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_AARCH64), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 3,
	})
	put(64, []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R), Filesz: size, Memsz: size},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: 0x1e00, Vaddr: 0x11e00, Filesz: 0x10, Memsz: 0x500},
		{Type: uint32(elf.PT_DYNAMIC), Vaddr: dynamic, Memsz: 8 * 16},
	})
	at := func(offset uint64) uint64 {
		if relocated {
			return base + offset
		}
		return offset
	}
	table := elf.DT_HASH
	if gnu {
		table = elf.DT_GNU_HASH
		// The GNU hash table has one bucket with the symbols 2 and 3, and one word of the bloom filter.
		put(hash, []uint32{1, 2, 1, 6, 0, 0, 2, 0x1000, 0x1001})
	} else {
		put(hash, []uint32{1, 4, 2, 0, 0, 3, 0})
	}
	put(dynamic, []elf.Dyn64{
		{Tag: int64(elf.DT_NEEDED), Val: 32}, {Tag: int64(elf.DT_SYMTAB), Val: at(symbols)}, {Tag: int64(elf.DT_STRTAB), Val: at(names)},
		{Tag: int64(elf.DT_STRSZ), Val: 0x40}, {Tag: int64(table), Val: at(hash)}, {Tag: int64(elf.DT_NULL)},
	})
	put(names, []byte("\x00_longjmp\x00ruby_version\x00ruby_ec\x00\x00libm.so\x00"))
	put(symbols, []elf.Sym64{
		{}, {Name: 1, Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC)},
		{Name: 10, Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_OBJECT), Shndx: 5, Value: 0x11e08, Size: 6},
		{Name: 23, Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_TLS), Shndx: 6, Value: 0x20, Size: 8},
	})
	return b
}

func TestNewModuleFromMemory(t *testing.T) {
	const base = 0x7f0000000000
	for _, gnu := range []bool{false, true} {
		for _, relocated := range []bool{false, true} {
			var p memtest.Pages
			p.Set(base, picture(base, gnu, relocated))
			p.Set(base+0x11e08, []byte("3.3.8\x00"))
			p.Set(base+0x11e0e, make([]byte, 100))
			m, err := mapped.NewModuleFromMemory("libruby.so.3.3", &p, base)
			if err != nil {
				t.Fatalf("gnu %t relocated %t: %v", gnu, relocated, err)
			}
			version, ok := m.Symbol("ruby_version")
			ec, ok2 := m.Exported("ruby_ec")
			if !ok || version != (attach.Symbol{Name: "ruby_version", Addr: base + 0x11e08, Size: 6, Exported: true}) || !ok2 ||
				ec != (attach.Symbol{Name: "ruby_ec", Addr: 0x20, Size: 8, TLS: true, Exported: true}) {
				t.Errorf("gnu %t relocated %t: %+v %+v", gnu, relocated, version, ec)
			}
			if !m.JmpBuf() || m.Undefined("ruby_version") || m.Machine != "aarch64" || m.Bias != base || !m.Stripped() || m.HasDWARF() {
				t.Errorf("gnu %t relocated %t: %+v", gnu, relocated, m)
			}
			if !slices.Equal(m.Needs(), []string{"libm.so"}) || !slices.Equal(m.Writable(), []attach.Span{{base + 0x11e00, base + 0x12300}}) {
				t.Errorf("needs %q, writable %v", m.Needs(), m.Writable())
			}
			if v, _, err := m.RubyVersion(&p); err != nil || v != "3.3.8" {
				t.Errorf("version %q, %v", v, err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestNewModuleFromBrokenMemory: if a byte of the picture is wrong, NewModuleFromMemory returns an error or a Module.
// Reading it neither panics nor loops forever. If too much is missing at the end of the picture, NewModuleFromMemory
// returns an error.
func TestNewModuleFromBrokenMemory(t *testing.T) {
	const base = 0x10000
	for _, gnu := range []bool{false, true} {
		whole := picture(base, gnu, true)
		for i := range whole {
			for _, v := range []byte{0, 0x7f, 0xff} {
				b := slices.Clone(whole)
				b[i] = v
				var p memtest.Pages
				p.Set(base, b)
				if m, err := mapped.NewModuleFromMemory("x", &p, base); err == nil {
					m.Symbol("ruby_version")
				}
			}
		}
		for n := range whole {
			var p memtest.Pages
			p.Set(base, whole[:n])
			if _, err := mapped.NewModuleFromMemory("x", &p, base); n < 0x2c0 && err == nil {
				t.Fatalf("%d bytes are enough", n)
			}
		}
	}
	var p memtest.Pages
	p.Set(base, make([]byte, 64))
	if _, err := mapped.NewModuleFromMemory("x", &p, base); !errors.Is(err, mapped.ErrNoModule) {
		t.Errorf("%v, want ErrNoModule", err)
	}
}

func FuzzModules(f *testing.F) {
	f.Add(picture(0x10000, true, true))
	f.Add(picture(0x10000, false, false))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var p memtest.Pages
		p.Set(0x10000, b)
		if m, err := mapped.NewModuleFromMemory("x", &p, 0x10000); err == nil {
			m.Symbol("x")
			m.JmpBuf()
		}
		if m, err := mapped.NewModule("x", bytes.NewReader(b), 0, nil); err == nil {
			m.Symbol("x")
			m.JmpBuf()
		}
	})
}
