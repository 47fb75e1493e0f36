package attach

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/elftest"
)

// hostileELF returns ELF files whose headers claim more than the files contain. The map's keys name the test cases. The
// field size is the length to which the test extends the file with zeros, as a sparse file.
func hostileELF(t testing.TB) map[string]struct {
	file []byte
	size int64
} {
	type file = struct {
		file []byte
		size int64
	}
	squeezed := elftest.Zeros(t, 400)
	symbols := func(size uint64) elftest.Section {
		return elftest.Section{Name: ".dynsym", Type: elf.SHT_DYNSYM, Link: 2, Claim: size}
	}
	out := map[string]file{
		"many symbols": {elftest.Make(t, []elftest.Section{symbols(400 << 20 / 24 * 24), {Name: ".dynstr", Type: elf.SHT_STRTAB, Claim: 8 << 20}}, nil), 1 << 30},
		"long names":   {elftest.Make(t, []elftest.Section{symbols(240), {Name: ".dynstr", Type: elf.SHT_STRTAB, Claim: 400 << 20}}, nil), 1 << 30},
		"symbols to the limit": {elftest.Make(t, []elftest.Section{symbols(mapped.MaxSymbols * elf.Sym64Size),
			{Name: ".dynstr", Type: elf.SHT_STRTAB, Claim: mapped.MaxSymbolNames}}, nil), 1 << 30},
		"compressed names of symbols": {elftest.Make(t, []elftest.Section{symbols(240),
			{Name: ".dynstr", Type: elf.SHT_STRTAB, Flags: elf.SHF_COMPRESSED, Content: squeezed}}, nil), 0},
		"compressed symbols": {elftest.Make(t, []elftest.Section{{Name: ".symtab", Type: elf.SHT_SYMTAB, Link: 2, Flags: elf.SHF_COMPRESSED, Content: squeezed},
			{Name: ".strtab", Type: elf.SHT_STRTAB, Content: []byte{0}}}, nil), 0},
		"dynamic section": {elftest.Make(t, []elftest.Section{{Name: ".dynamic", Type: elf.SHT_DYNAMIC, Link: 3, Claim: 400 << 20}, symbols(240),
			{Name: ".dynstr", Type: elf.SHT_STRTAB, Content: []byte{0}}}, nil), 1 << 30},
		"compressed dynamic section": {elftest.Make(t, []elftest.Section{{Name: ".dynamic", Type: elf.SHT_DYNAMIC, Link: 3, Flags: elf.SHF_COMPRESSED, Content: squeezed},
			symbols(240), {Name: ".dynstr", Type: elf.SHT_STRTAB, Content: []byte{0}}}, nil), 0},
		"compressed names of sections": {elftest.Make(t, []elftest.Section{{Name: ".shstrtab", Type: elf.SHT_STRTAB, Flags: elf.SHF_COMPRESSED, Content: squeezed}}, nil), 0},
		"large program headers":        {elftest.Make(t, nil, func(h *elf.Header64) { h.Phnum, h.Phentsize = 0xfff0, 0x2000 }), 1 << 30},
		"large section headers":        {elftest.Make(t, nil, func(h *elf.Header64) { h.Shnum, h.Shentsize = 0xfe00, 0x2000 }), 1 << 30},
	}
	const code, relocations = elf.SHF_ALLOC | elf.SHF_EXECINSTR, elf.SHF_ALLOC | elf.SHF_COMPRESSED
	names := elftest.Section{Name: ".dynstr", Type: elf.SHT_STRTAB, Content: []byte("\x00pthread_mutex_unlock\x00")}
	wanted := func(n int) elftest.Section { // returns a section of n symbols, all with the same name
		return elftest.Section{Name: ".dynsym", Type: elf.SHT_DYNSYM, Link: 2, Content: bytes.Repeat(append([]byte{1}, make([]byte, 23)...), n)}
	}
	one := wanted(1)
	out["compressed relocations"] = file{elftest.Make(t, []elftest.Section{one, names,
		{Name: ".rela.dyn", Type: elf.SHT_RELA, Flags: relocations, Content: squeezed}}, nil), 0}
	out["compressed versions of symbols"] = file{elftest.Make(t, []elftest.Section{one, names,
		{Name: ".gnu.version_r", Type: elf.SHT_GNU_VERNEED, Flags: elf.SHF_COMPRESSED, Content: squeezed}}, nil), 0}
	out["compressed code"] = file{elftest.Make(t, []elftest.Section{{Name: ".text", Type: elf.SHT_PROGBITS, Flags: code | elf.SHF_COMPRESSED, Content: squeezed}}, nil), 0}
	out["much code"] = file{elftest.Make(t, []elftest.Section{{Name: ".text", Type: elf.SHT_PROGBITS, Flags: code, Claim: 1 << 30}}, nil), 2 << 30}
	var same, related []elftest.Section // consecutive sections whose claimed contents overlap
	for range 900 {
		same = append(same, elftest.Section{Name: ".text", Type: elf.SHT_PROGBITS, Flags: code, Claim: 30 << 20})
		related = append(related, elftest.Section{Name: ".rela.dyn", Type: elf.SHT_RELA, Flags: elf.SHF_ALLOC, Claim: 60 << 20})
	}
	out["code over code"] = file{elftest.Make(t, same, nil), 2 << 30}
	out["relocations over relocations"] = file{elftest.Make(t, append([]elftest.Section{one, names}, related...), nil), 2 << 30}
	out["one name for many symbols"] = file{elftest.Make(t, []elftest.Section{wanted(1 << 16), names}, nil), 0}
	slots := make([]byte, 24<<12) // relocations: each is for a word at another address, and all refer to symbol 0
	for i := range 1 << 12 {
		binary.LittleEndian.PutUint64(slots[24*i:], uint64(8*i))
		binary.LittleEndian.PutUint64(slots[24*i+8:], 7)
	}
	out["many words with one address"] = file{elftest.Make(t, []elftest.Section{one, names, {Name: ".rela.plt", Type: elf.SHT_RELA, Flags: elf.SHF_ALLOC, Content: slots}}, nil), 0}
	// In this file, 1,000 sections share one name of 400 kB. If ddtop copied the name for each section, it would need
	// 400 MB.
	var many []elftest.Section
	for range 1000 {
		many = append(many, elftest.Section{})
	}
	many = append(many, elftest.Section{Name: ".shstrtab", Type: elf.SHT_STRTAB, Content: append(bytes.Repeat([]byte{'x'}, 400<<10), 0)})
	out["one long name for many sections"] = file{elftest.Make(t, many, nil), 0}
	return out
}

// TestHostileELF: if an ELF file's headers claim more than the file contains, reading it takes little memory and does
// not panic.
func TestHostileELF(t *testing.T) {
	const most = 16 << 20
	refused := map[string]bool{"compressed relocations": true, "relocations over relocations": true, "one name for many symbols": true, "many words with one address": true,
		"compressed code": true, "much code": true, "code over code": true}
	for name, h := range hostileELF(t) {
		path := filepath.Join(t.TempDir(), "libruby.so.3.4")
		if err := os.WriteFile(path, h.file, 0o600); err != nil {
			t.Fatal(err)
		}
		if h.size > 0 {
			if err := os.Truncate(path, h.size); err != nil {
				t.Fatal(err)
			}
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := mapped.NewModule(path, f, 0, f)
		if err == nil {
			m.Symbol(mapped.SymbolVersion)
			m.Undefined("x")
			slots, slotsErr := m.Slots([]string{"pthread_mutex_unlock"}, []uint32{7})
			code, codeErr := m.Code()
			if refused[name] != (slotsErr != nil || codeErr != nil) {
				t.Errorf("%s: %d slots, %v; %d sections of code, %v", name, len(slots), slotsErr, len(code), codeErr)
			}
		}
		runtime.ReadMemStats(&after)
		f.Close()
		most := uint64(most)
		if name == "code over code" {
			// The method Code reads the first section before it finds that all sections together are too large.
			most += mapped.MaxCode
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			t.Errorf("%s: %d MB allocated (%v)", name, used>>20, err)
		}
	}
}

// TestListHostileELF: if processes map the files of hostileELF as libruby, listing the processes needs less than 64 MB.
func TestListHostileELF(t *testing.T) {
	started := 0
	for name, h := range hostileELF(t) {
		path := filepath.Join(t.TempDir(), "libruby.so.3.4")
		if err := os.WriteFile(path, h.file, 0o644); err != nil {
			t.Fatal(err)
		}
		if h.size > 0 {
			if err := os.Truncate(path, h.size); err != nil {
				t.Fatal(err)
			}
		}
		c := startHelper(t, "map "+path, nil)
		if got := c.line(t); got != "mapped" {
			t.Fatalf("%s: %q", name, got)
		}
		started++
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperMode+"=list")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, text, ok := strings.Cut(string(out), "peak")
	var peak int
	if _, err := fmt.Sscan(text, &peak); err != nil || !ok {
		t.Fatalf("%v: %s", err, out)
	}
	if t.Logf("%d kB for %d hostile files", peak, started); peak >= 64<<10 {
		t.Errorf("the list took %d MB, over %d hostile files", peak>>10, started)
	}
}

// TestELFChangesWhileRead: if an ELF file changes after ddtop has checked a part of it, ddtop still uses the content
// that it has checked.
func TestELFChangesWhileRead(t *testing.T) {
	good := elftest.Make(t, []elftest.Section{{Name: ".text", Type: elf.SHT_PROGBITS, Content: []byte("code")}}, nil)
	bad := hostileELF(t)["compressed names of sections"].file
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := mapped.OpenELF(&changing{good, bad, 4})
	runtime.ReadMemStats(&after)
	if err != nil || f.Section(".text") == nil {
		t.Errorf("%+v, %v", f, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d MB allocated", used>>20)
	}
}

// changing is a file whose content is replaced after some reads. The field now is the content before the replacement,
// and the field then is the content after it.
type changing struct {
	now, then []byte
	reads     int
}

func (c *changing) ReadAt(b []byte, off int64) (int, error) {
	if c.reads--; c.reads < 0 {
		return bytes.NewReader(c.then).ReadAt(b, off)
	}
	return bytes.NewReader(c.now).ReadAt(b, off)
}

// FuzzELF: reading any bytes as an ELF file ends without a panic, and within the limits.
func FuzzELF(f *testing.F) {
	for _, h := range hostileELF(f) {
		if len(h.file) < 1<<16 {
			f.Add(h.file)
		}
	}
	f.Add(elftest.Make(f, []elftest.Section{{Name: ".dynsym", Type: elf.SHT_DYNSYM, Link: 2, Content: make([]byte, 48)},
		{Name: ".dynstr", Type: elf.SHT_STRTAB, Content: []byte("\x00ruby_version\x00")},
		{Name: ".gnu_debuglink", Type: elf.SHT_PROGBITS, Content: []byte("a.debug\x00crc.")}}, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := mapped.NewModule("fuzz", bytes.NewReader(b), 0, nil)
		if err != nil {
			return
		}
		m.Roots = []mapped.DebugRoot{mapped.OwnRoot(t.TempDir())}
		m.Symbol(mapped.SymbolVersion)
		m.JmpBuf()
		if slots, err := m.Slots([]string{"pthread_mutex_unlock", mapped.SymbolVersion}, []uint32{1, 6, 7}); err == nil && len(slots) > mapped.MaxSlots {
			t.Errorf("%d slots", len(slots))
		}
		if code, err := m.Code(); err == nil {
			n := 0
			for _, c := range code {
				n += len(c.Bytes)
			}
			if n > mapped.MaxCode {
				t.Errorf("%d bytes of code", n)
			}
		}
		m.DebugLink()
		mapped.BuildIDOfSections(m.File)
		m.Close()
	})
}
