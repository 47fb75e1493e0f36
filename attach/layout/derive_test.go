package layout

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// compile compiles testdata/shapes.c. It skips the test if there is no gcc, or if gcc does not know a flag.
func compile(t testing.TB, flags ...string) string {
	t.Helper()
	gcc := rubytest.Program(t, "gcc", "gcc libc6-dev")
	out := filepath.Join(t.TempDir(), "shapes")
	args := append([]string{"-o", out, "testdata/shapes.c"}, flags...)
	if text, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Skipf("gcc %v: %v: %s", flags, err, text)
	}
	return out
}

// deriveFile derives a table from a file. known has the names to derive. If known is nil, deriveFile uses the names of
// the embedded tables.
func deriveFile(t testing.TB, path string, known *names, o DeriveOptions) (*Derived, error) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := ReadDebugInfo(t.Context(), f)
	if err != nil {
		return nil, err
	}
	if known == nil {
		return Derive(t.Context(), info, o)
	}
	return derive(t.Context(), info, known, o)
}

// TestDerive: a compiled C program prints the layout of its structs. The layout that ddtop derives from its debug
// information equals this output, for every form of debug information that compilers write.
func TestDerive(t *testing.T) {
	for _, flags := range [][]string{
		{"-g"}, {"-g", "-O2"}, {"-gdwarf-5"}, {"-gdwarf-4"}, {"-gdwarf-3", "-gstrict-dwarf"}, {"-gdwarf-2", "-gstrict-dwarf"},
		{"-g", "-gz=zlib"}, {"-g", "-gz=zstd"}, {"-g", "-flto"}, {"-g", "-gdwarf64"},
	} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			program := compile(t, flags...)
			base := &Table{Machine: "x86_64", constants: map[string]int64{"VM_CHECK_MODE": 7, "tLAST_OP_ID": 1},
				sizes:  map[string]int{"rb_monitor": 99, "ractor_newobj_cache": 16},
				fields: map[string]Field{"ractor_newobj_cache.heaps": {Size: 8}, "rb_monitor.count": {Offset: 98, Size: 1}}}
			said, err := exec.Command(program).Output()
			if err != nil {
				t.Fatal(err)
			}
			d, err := deriveFile(t, program, namesIn(string(said), base), DeriveOptions{Release: "9.1.0", Machine: "x86_64", Base: base})
			if err != nil {
				t.Fatal(err)
			}
			compareWithProgram(t, d.Table, string(said))
			for name, want := range map[string]int64{"tLAST_OP_ID": 170, "RUBY_FL_SINGLETON": 0x2000, "THREAD_KILLED": -3,
				"THREAD_STOPPED_FOREVER": 40, "VM_FRAME_MAGIC_METHOD": 0x11110001, "VM_CHECK_MODE": 7} {
				if got, ok := d.Table.Constant(name); !ok || got != want {
					t.Errorf("%s is %d, %v, want %d", name, got, ok, want)
				}
			}
			if got := strings.Join(d.Borrowed, " "); got != "VM_CHECK_MODE ractor_newobj_cache" {
				t.Errorf("borrowed %q", got)
			}
			if d.Table.Offset("ractor_newobj_cache.heaps") != 0 || d.Table.Machine != "x86_64" || d.Table.JmpBuf {
				t.Error("what is borrowed, or the table's head, is wrong")
			}
		})
	}
}

// namesIn returns the names to derive: the names that the program has printed (said), the names of base, and the names
// that every Ruby has.
func namesIn(said string, base *Table) *names {
	n := newNames()
	n.addTable(base)
	for line := range strings.Lines(said) {
		if name := strings.Fields(line)[0]; strings.Contains(name, ".") {
			n.addField(name)
		} else {
			n.structs[name] = true
		}
	}
	for _, name := range essential {
		n.structs[name] = true
	}
	for _, name := range []string{"RUBY_FL_SINGLETON", "THREAD_KILLED", "THREAD_STOPPED_FOREVER", "VM_FRAME_MAGIC_METHOD"} {
		n.constants[name] = true
	}
	return n
}

func compareWithProgram(t *testing.T, table *Table, said string) {
	t.Helper()
	compared := 0
	for line := range strings.Lines(said) {
		w := strings.Fields(line)
		compared++
		switch {
		case len(w) > 1 && w[1] == "bits":
			f, ok := table.Field(w[0])
			var got []string
			for i := range f.BitSize {
				got = append(got, strconv.Itoa(8*f.Offset+f.BitOffset+i))
			}
			if !ok || strings.Join(got, " ") != strings.Join(w[2:], " ") {
				t.Errorf("%s has the bits %v, the program says %v (%+v)", w[0], got, w[2:], f)
			}
		case len(w) == 3:
			f, ok := table.Field(w[0])
			if got := []string{strconv.Itoa(f.Offset), strconv.Itoa(f.Size)}; !ok || got[0] != w[1] || got[1] != w[2] || f.BitSize != 0 {
				t.Errorf("%s is at %v, the program says %v", w[0], got, w[1:])
			}
		case len(w) == 2:
			if got := strconv.Itoa(table.Size(w[0])); got != w[1] {
				t.Errorf("%s has %s bytes, the program says %s", w[0], got, w[1])
			}
		default:
			t.Errorf("the program says %q", line)
		}
	}
	if compared < 30 {
		t.Errorf("%d places compared", compared)
	}
}

// TestDeriveErrors: without debug information, or without Ruby's structs, deriving returns an error that gives the
// reason.
func TestDeriveErrors(t *testing.T) {
	if _, err := deriveFile(t, compile(t), nil, DeriveOptions{}); !errors.Is(err, errNoDebugInfo) {
		t.Errorf("without -g: %v", err)
	}
	if _, err := deriveFile(t, compile(t, "-g", "-DRClass=other"), nil, DeriveOptions{}); !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "RClass") {
		t.Errorf("without RClass: %v", err)
	}
}

// TestJSON: each table is written and read back unchanged, and bad input is refused.
func TestJSON(t *testing.T) {
	releases, err := Releases()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range releases {
		for _, jmpBuf := range []bool{false, true} {
			table, _, err := For(r.Version, r.Machine, jmpBuf)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := table.WriteJSON(&text); err != nil {
				t.Fatal(err)
			}
			back, err := ParseJSON([]byte(text.String()))
			if err != nil {
				t.Fatal(err)
			}
			if diff := append(Differences(table, back), Differences(back, table)...); len(diff) > 0 || back.Name != table.Name || back.JmpBuf != table.JmpBuf {
				t.Fatalf("%s comes back as %s with %v", table.Name, back.Name, diff)
			}
			if s, f, c := back.Counts(); s != len(table.sizes) || f != len(table.fields) || c != len(table.constants) {
				t.Fatalf("%s: structs, fields or constants are lost", table.Name)
			}
		}
	}
	for _, bad := range []string{"", "{}", `{"format":"ddtop layout 2","machine":"x86_64","applies_to":["1.2.3"],"structs":{"a":{"size":1}}}`,
		`{"format":"ddtop layout 1","machine":"x86_64","applies_to":["1.2.3"],"structs":{"a":{"size":-1}}}`,
		`{"format":"ddtop layout 1","machine":"x86_64","applies_to":["1.2.3"],"structs":{"a":{"size":8,"fields":{"b":[1]}}}}`,
		`{"format":"ddtop layout 1","machine":"x86_64","applies_to":["1.2.3"],"structs":{"a":{"size":8,"fields":{"b":[0,8,60,8]}}}}`,
		`{"format":"ddtop layout 1","machine":"x86_64","applies_to":["1.2.3"],"structs":{"a":{"size":8,"fields":{"b":[9999999,8]}}}}`,
	} {
		if _, err := ParseJSON([]byte(bad)); !errors.Is(err, errFormat) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestNearest: for any version, Nearest returns the newest table that is not newer than the version. If all tables are
// newer, it returns the oldest.
func TestNearest(t *testing.T) {
	for version, want := range map[string]string{"2.4.0": "2.5.0", "3.2.99": "3.2.11", "3.5.0": "3.4.11", "3.4.2": "3.4.2", "9.0.0": "4.1.0"} {
		if _, got, err := Nearest(version, "x86_64", false); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", version, got, err, want)
		}
	}
	if _, _, err := Nearest("3.4.0", "riscv", false); !errors.Is(err, ErrUnknownRelease) {
		t.Errorf("an unknown machine: %v", err)
	}
}

// FuzzDerive: deriving from a damaged file gives an error or a table. It neither panics nor loops forever.
func FuzzDerive(f *testing.F) {
	whole, err := os.ReadFile(compile(f, "-g", "-Os"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), uint32(0), []byte{}, uint32(len(whole)))
	for _, name := range []string{".debug_info", ".debug_abbrev", ".debug_str"} {
		e, err := elf.NewFile(strings.NewReader(string(whole)))
		if err != nil {
			f.Fatal(err)
		}
		s := e.Section(name)
		for i := range uint32(16) {
			at := uint32(s.Offset) + i*uint32(s.Size)/16
			f.Add(at, at+7, []byte{byte(i * 17), 0xff, 0}, uint32(len(whole)))
		}
		f.Add(uint32(0), uint32(0), []byte{}, uint32(s.Offset)+uint32(s.Size)/2)
	}
	f.Fuzz(func(t *testing.T, one, two uint32, bytes []byte, length uint32) {
		file := append([]byte(nil), whole...)
		for i, b := range bytes {
			file[(uint64(one)+uint64(i))%uint64(len(file))] = b
			file[(uint64(two)+3*uint64(i))%uint64(len(file))] ^= b
		}
		file = file[:min(int64(length), int64(len(file)))]
		e, err := elf.NewFile(strings.NewReader(string(file)))
		if err != nil {
			return
		}
		info, err := ReadDebugInfo(t.Context(), e)
		if err != nil {
			return
		}
		d, err := Derive(t.Context(), info, DeriveOptions{Release: "9.9.9", Machine: "x86_64"})
		if err != nil {
			return
		}
		for path, field := range d.Table.fields {
			if field.Offset < 0 || field.Offset > maxStruct || field.Size < 0 || field.Size > maxStruct {
				t.Errorf("%s is at %v", path, field)
			}
		}
	})
}
