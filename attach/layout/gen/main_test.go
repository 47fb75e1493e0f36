package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach/layout"
)

// dump is a small document as the tool reads them; ruby, applies and the offset of a field vary.
func dump(ruby, applies, arch, offset, extra string) string {
	return fmt.Sprintf(`{"ruby": %q, "applies_to": [%s], "arch": %q, "source": "x", "config": {"USE_YJIT": 1},
 "structs": {
  "rb_thread_struct": {"size": 64, "fields": {
   "name": {"offset": %s, "size": 8, "type": "VALUE"},
   "status": {"offset": 16, "size": 4, "type": "enum", "bit_offset": 3, "bit_size": 2},
   "lock.__data": {"offset": 24, "size": 40, "type": "x"}}},
  "rb_io_t": {"size": 8, "fields": {"fd": {"offset": 4, "size": 4, "type": "int"}}},
  "rb_context_struct": {"size": 100, "fields": {"jmpbuf": {"offset": 10, "size": 40, "type": "x"}, "after": {"offset": 50, "size": 8, "type": "x"}}},
  "rb_fiber_struct": {"size": 120, "fields": {"cont": {"offset": 0, "size": 100, "type": "x"}, "cont.jmpbuf": {"offset": 10, "size": 40, "type": "x"},
   "prev": {"offset": 100, "size": 8, "type": "x"}}},
  "rb_iseq_constant_body": {"size": 40, "fields": {"type": {"offset": 0, "size": 4, "type": "x"}, "yjit_payload": {"offset": 32, "size": 8, "type": "x"}}},
  "not_read": {"size": 8, "fields": {"x": {"offset": 0, "size": 8, "type": "x"}}}},
 "enums": {"e": {"THREAD_KILLED": 3, "gc_stat_sym_count": 0}},
 "constants": {"tLAST_OP_ID": 170, "RUBY_FL_SINGLETON": 8192, "RUBY_MAX_CHAR_LEN": 16, "BASE": 1}%s}`, ruby, applies, arch, offset, extra)
}

const variants = `, "variants": {
 "no_yjit": {"structs": {"rb_iseq_constant_body": {"size": 32, "fields": {"type": {"offset": 0, "size": 4, "type": "x"}}}}},
 "jmp_buf": {"structs": {"rb_fiber_struct": {"size": 280, "fields": {"cont": {"offset": 0, "size": 260, "type": "x"}, "cont.jmpbuf": {"offset": 10, "size": 200, "type": "x"},
   "prev": {"offset": 260, "size": 8, "type": "x"}}}}}}`

// generate runs the tool over documents and returns its files by name.
func generate(t *testing.T, documents map[string]string) (map[string]string, error) {
	t.Helper()
	in, out := t.TempDir(), t.TempDir()
	for name, text := range documents {
		if err := os.WriteFile(filepath.Join(in, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(out, "old.layout"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(in, out); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got[filepath.Base(f)] = string(b)
	}
	return got, nil
}

func TestTables(t *testing.T) {
	got, err := generate(t, map[string]string{
		"ruby-3.3.9.x86_64.json":  dump("3.3.9", `"3.3.8", "3.3.9"`, "x86_64", "8", variants),
		"ruby-3.3.10.x86_64.json": dump("3.3.10", `"3.3.10"`, "x86_64", "8", variants),
		"ruby-3.3.11.x86_64.json": dump("3.3.11", `"3.3.11"`, "x86_64", "0", variants),
		"ruby-3.3.9.aarch64.json": dump("3.3.9", `"3.3.9"`, "aarch64", "8", ""),
		"ruby-head.x86_64.json":   dump("head", `"4.1.0dev-abc-2026-01-01"`, "x86_64", "8", variants),
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range got {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"3.3.10.x86_64.layout", "3.3.11.x86_64.layout", "3.3.9.aarch64.layout", "4.1.0.x86_64.layout"}; !slices.Equal(names, want) {
		t.Fatalf("files %v, want %v", names, want)
	}
	const want = `release 3.3.10
machine x86_64
applies 3.3.8 3.3.9 3.3.10
s rb_context_struct 100
jmpbuf 10 40
after 50 8
s rb_fiber_struct 120
cont 0 100
cont.jmpbuf 10 40
prev 100 8
s rb_io 8
fd 4 4
s rb_iseq_constant_body 40
type 0 4
s rb_thread_struct 64
name 8 8
status 16 4 3 2
c RUBY_FL_SINGLETON 8192
c THREAD_KILLED 3
c tLAST_OP_ID 170
v jmp_buf
s rb_fiber_struct 280
cont 0 260
cont.jmpbuf 10 200
prev 260 8
`
	_, text, _ := strings.Cut(got["3.3.10.x86_64.layout"], "\n")
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	derived, err := layout.Parse(got["3.3.9.aarch64.layout"], true)
	if err != nil {
		t.Fatal(err)
	}
	if derived.Offset("rb_fiber_struct.prev") != 372 || derived.Size("rb_fiber_struct") != 392 || derived.Offset("rb_context_struct.after") != 322 || !derived.JmpBuf {
		t.Errorf("derived: prev %d of %d", derived.Offset("rb_fiber_struct.prev"), derived.Size("rb_fiber_struct"))
	}
	head, err := layout.Parse(got["4.1.0.x86_64.layout"], true)
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := head.Constant("BUILTIN_ATTR_C_TRACE"); v != 8 || head.Offset("zjit_jit_frame.iseq") != 8 || !strings.Contains(got["4.1.0.x86_64.layout"], "\nsnapshot abc-2026-01-01\n") {
		t.Error("head lacks what C debug information does not hold")
	}
}

func TestWhatIsRefused(t *testing.T) {
	good := dump("3.3.9", `"3.3.9"`, "x86_64", "8", variants)
	for name, text := range map[string]string{
		"no JSON":           "{",
		"unknown variant":   dump("3.3.9", `"3.3.9"`, "x86_64", "8", `, "variants": {"musl": {"structs": {}}}`),
		"no release":        strings.Replace(good, `["3.3.9"]`, "[]", 1),
		"no fiber":          strings.Replace(good, "rb_fiber_struct", "other", 2),
		"ambiguous":         strings.Replace(good, `"THREAD_KILLED": 3`, `"tLAST_OP_ID": 3`, 1),
		"reserved name":     strings.Replace(good, `"name": {"offset"`, `"c": {"offset"`, 1),
		"JIT moves a field": strings.Replace(good, `"fields": {"type": {"offset": 0, "size": 4, "type": "x"}}}}`, `"fields": {"type": {"offset": 8, "size": 4, "type": "x"}}}}`, 1),
	} {
		if text == good {
			t.Errorf("%s: the document is not changed", name)
		}
		if _, err := generate(t, map[string]string{"ruby-1.x86_64.json": text}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := generate(t, nil); err == nil {
		t.Error("an empty folder is taken")
	}
	if err := run("", ""); err == nil {
		t.Error("no folder is taken")
	}
}

func TestLessRelease(t *testing.T) {
	for _, pair := range [][2]string{{"3.3.9", "3.3.10"}, {"2.7.8", "3.0.0"}, {"3.4.11", "4.0.0"}, {"4.0", "4.0.1"}} {
		if !lessRelease(pair[0], pair[1]) || lessRelease(pair[1], pair[0]) {
			t.Errorf("%s is not before %s", pair[0], pair[1])
		}
	}
}

// TestTablesOfDebugInformationStay: no document names them.
func TestTablesOfDebugInformationStay(t *testing.T) {
	in, out := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(in, "ruby-3.3.9.x86_64.json"):     dump("3.3.9", `"3.3.9"`, "x86_64", "8", variants),
		filepath.Join(out, "3.1.4.aarch64.layout"):      fromDWARF + " …\nrelease 3.1.4\n",
		filepath.Join(out, "3.1.4.x86_64.layout"):       "# ddtop layout 1, made by attach/layout/gen. …\n",
		filepath.Join(out, "3.3.9.x86_64.layout"):       "# ddtop layout 1, made by attach/layout/gen. …\n",
		filepath.Join(out, "not a table, but in there"): "x",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(in, out); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(out, "*.layout"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if want := []string{"3.1.4.aarch64.layout", "3.3.9.x86_64.layout"}; !slices.Equal(files, want) {
		t.Errorf("%v, want %v", files, want)
	}
}

// thread is a table with one struct.
func thread(fields map[string]field, size int) *table {
	return &table{structs: map[string]structure{"rb_thread_struct": {Size: size, Fields: fields}}, constants: map[string]int64{}}
}

// TestCompleteRefusesOtherReleases: a build of another release than the table beside it lacks a field, or has another value
// for a name.
func TestCompleteRefusesOtherReleases(t *testing.T) {
	known := thread(map[string]field{"name": {Offset: 8, Size: 8}, "status": {Offset: 16, Size: 4, BitOffset: 3, BitSize: 2}}, 24)
	known.structs["rb_monitor"] = structure{Size: 24, Fields: map[string]field{"owner": {Offset: 8, Size: 8}}}
	known.constants = map[string]int64{"THREAD_KILLED": 3, "A_MACRO": 7}
	same := thread(map[string]field{"name": {Offset: 16, Size: 8}, "status": {Offset: 24, Size: 4, BitOffset: 3, BitSize: 2}, "more": {Offset: 40, Size: 8}}, 48)
	same.constants = map[string]int64{"THREAD_KILLED": 3, "ANOTHER": 1}
	if err := same.complete(known); err != nil {
		t.Fatal(err)
	}
	if got := same.structs["rb_thread_struct"].Fields; len(got) != 2 || got["name"].Offset != 16 {
		t.Errorf("fields %v", got)
	}
	if same.structs["rb_monitor"].Size != 24 || len(same.constants) != 2 || same.constants["A_MACRO"] != 7 {
		t.Errorf("taken over: %v, %v", same.structs["rb_monitor"], same.constants)
	}
	other := thread(map[string]field{"status": {Offset: 24, Size: 4}}, 48)
	other.constants = map[string]int64{"THREAD_KILLED": 4}
	err := other.complete(known)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"no rb_thread_struct.name", "status has another number of bits", "THREAD_KILLED is 4 and 3"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestMoveLike: one buffer before a field is 160 bytes on x86_64 and 272 on aarch64.
func TestMoveLike(t *testing.T) {
	known := thread(map[string]field{"first": {Offset: 0, Size: 8}, "buf": {Offset: 8, Size: 40}, "last": {Offset: 48, Size: 8}}, 56)
	longer := thread(map[string]field{"first": {Offset: 0, Size: 8}, "buf": {Offset: 8, Size: 200}, "last": {Offset: 208, Size: 8}}, 216)
	here := thread(map[string]field{"first": {Offset: 0, Size: 8}, "buf": {Offset: 16, Size: 40}, "last": {Offset: 56, Size: 8}}, 64)
	moved, err := here.moveLike(known, longer)
	if err != nil {
		t.Fatal(err)
	}
	s := moved["rb_thread_struct"]
	if s.Size != 336 || s.Fields["first"].Offset != 0 || s.Fields["buf"] != (field{Offset: 16, Size: 312}) || s.Fields["last"].Offset != 328 {
		t.Errorf("%+v", s)
	}
	longer.structs["rb_thread_struct"].Fields["last"] = field{Offset: 100, Size: 8}
	if _, err := here.moveLike(known, longer); err == nil {
		t.Error("a field that moves by 52 bytes is taken")
	}
}
