package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// rows reads a table of testdata. It returns the releases, which are the names of the columns, and the rows.
func rows(t *testing.T, file string) (releases []string, out [][]string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0] == "#":
		case f[0] == "field":
			releases = f[1:]
		case len(f) != len(releases)+1:
			t.Fatalf("%s: %q has %d columns, want %d", file, line, len(f), len(releases)+1)
		default:
			out = append(out, f)
		}
	}
	return releases, out
}

func table(t *testing.T, release, machine string, jmpBuf bool) *Table {
	t.Helper()
	if release == "head" {
		release = "4.1.0"
	}
	tb, _, err := For(release, machine, jmpBuf)
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

// place returns the value that a table has for a name. It writes the value as text, in the same form as likeThis, a
// value from testdata.
func place(tb *Table, name string, likeThis string) string {
	if structName, ok := strings.CutSuffix(name, ".__size"); ok {
		if n := tb.Size(structName); n >= 0 {
			return fmt.Sprint(n)
		}
		return "-"
	}
	if !strings.Contains(name, ".") {
		if v, ok := tb.Constant(name); ok {
			return fmt.Sprint(v)
		}
		return "-"
	}
	f, ok := tb.Field(name)
	switch {
	case !ok:
		return "-"
	case strings.Contains(likeThis, ":b"):
		return fmt.Sprintf("%d:b%d+%d", f.Offset, f.BitOffset, f.BitSize)
	case strings.Contains(likeThis, "."):
		return fmt.Sprintf("%d.%d", f.Offset, f.BitOffset)
	case strings.Contains(likeThis, "/"):
		return fmt.Sprintf("%d/%d", f.Offset, f.Size)
	}
	return fmt.Sprint(f.Offset)
}

// TestOffsetsThatRubyConfirmed: the tables have the same offsets as the files in testdata. The offsets in testdata are
// right: another program has read real processes with them, and Ruby itself confirmed what the program had read.
func TestOffsetsThatRubyConfirmed(t *testing.T) {
	compared := 0
	for _, file := range []string{"testdata/stacks.txt", "testdata/gc.txt"} {
		releases, fields := rows(t, file)
		for i, release := range releases {
			tb := table(t, release, "x86_64", false)
			for _, row := range fields {
				want, got := row[i+1], "-"
				for name := range strings.SplitSeq(row[0], "|") {
					if got = place(tb, name, want); got != "-" {
						break
					}
				}
				if got != want {
					t.Errorf("%s: %s on %s is %s, want %s", file, row[0], release, got, want)
				}
				compared++
			}
		}
	}
	if compared < 950 {
		t.Errorf("only %d numbers compared", compared)
	}
}

func TestEveryReleaseFindsItsTable(t *testing.T) {
	releases, err := Releases()
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]int{}
	for _, r := range releases {
		machines[r.Machine]++
		for _, jmpBuf := range []bool{false, true} {
			tb, m, err := For(r.Version, r.Machine, jmpBuf)
			if err != nil {
				t.Errorf("%s %s: %v", r.Version, r.Machine, err)
				continue
			}
			possible := jmpBuf && r.JmpBuf || !jmpBuf && r.Builtin
			always := r.Version < "2.7"
			if want := (possible || always) && r.Version != "4.1.0"; m.Exact != want || (m.Note == "") != want || m.Made != r.Version {
				t.Errorf("%s %s jmp_buf %t: match %+v, want exact %t", r.Version, r.Machine, jmpBuf, m, want)
			}
			if possible && tb.JmpBuf != jmpBuf {
				t.Errorf("%s has jmp_buf %t, want %t", tb.Name, tb.JmpBuf, jmpBuf)
			}
			if !slices.Contains(tb.AppliesTo, r.Version) || tb.Machine != r.Machine {
				t.Errorf("%s %s got the table of %v on %s", r.Version, r.Machine, tb.AppliesTo, tb.Machine)
			}
			checkTable(t, tb)
		}
	}
	// The releases are 2.5.0-2.5.9, 2.6.0-10, 2.7.0-8, 3.0.0-7, 3.1.0-7, 3.2.0-11, 3.3.0-12, 3.4.0-11, 4.0.0-6 and
	// 4.1.0. For arm64 they are 2.7 to 4.0, without 3.0.0. If a patch release or a series is added to the tables, add
	// it here, too.
	if want := 10 + 11 + 9 + 8 + 8 + 12 + 13 + 12 + 7 + 1; machines["x86_64"] != want {
		t.Errorf("%d releases on x86_64, want %d", machines["x86_64"], want)
	}
	if want := 9 + 7 + 8 + 12 + 13 + 12 + 7; machines["aarch64"] != want {
		t.Errorf("%d releases on aarch64, want %d", machines["aarch64"], want)
	}
}

// checkTable checks what must be true of every layout.
func checkTable(t *testing.T, tb *Table) {
	t.Helper()
	for _, name := range []string{"rb_vm_struct", "rb_thread_struct", "rb_execution_context_struct", "rb_control_frame_struct",
		"rb_iseq_constant_body", "rb_mutex_struct", "rb_monitor", "rb_fiber_struct", "rb_objspace", "heap_page", "st_table",
		"rb_id_table", "rb_classext_struct",
	} {
		// From 2.7 on, Monitor is written in C. So tables of older releases have no struct rb_monitor.
		if (tb.Size(name) <= 0 || !tb.hasStruct(name)) && !(name == "rb_monitor" && tb.Name < "2.7") {
			t.Errorf("%s has no %s", tb.Name, name)
		}
	}
	for name, f := range tb.fields {
		structName, _, _ := strings.Cut(name, ".")
		if f.Offset+f.Size > tb.Size(structName) {
			t.Errorf("%s: %s ends at %d, beyond the struct's %d", tb.Name, name, f.Offset+f.Size, tb.Size(structName))
		}
		if f.BitOffset+f.BitSize > 8*f.Size && f.BitSize > 0 {
			t.Errorf("%s: %s: bits %d+%d are beyond its %d bytes", tb.Name, name, f.BitOffset, f.BitSize, f.Size)
		}
	}
}

func TestTheNearestOlderReleaseStandsInForAnUnknownOne(t *testing.T) {
	for _, test := range []struct{ release, made string }{
		{"3.4.12", "3.4.11"}, {"3.4.99", "3.4.11"}, {"2.7.9", "2.7.8"}, {"4.0.7", "4.0.6"}, {"4.1.3", "4.1.0"},
	} {
		tb, m, err := For(test.release, "x86_64", true)
		if err != nil {
			t.Errorf("%s: %v", test.release, err)
			continue
		}
		if m.Exact || m.Made != test.made || !strings.Contains(m.Note, test.release) || !strings.Contains(m.Note, test.made) || !slices.Contains(tb.AppliesTo, test.made) {
			t.Errorf("%s: %s %+v, want the table of %s with a note", test.release, tb.Name, m, test.made)
		}
	}
}

func TestUnknownReleases(t *testing.T) {
	for _, test := range []struct{ release, machine string }{
		{"2.4.10", "x86_64"}, {"1.9.3", "x86_64"}, {"4.2.0", "x86_64"}, {"5.0.0", "x86_64"}, {"2.6.10", "aarch64"},
		{"3.4.9", "riscv64"}, {"", "x86_64"}, {"3.4", "x86_64"}, {"3.4.x", "x86_64"}, {"3.4.9.1", "x86_64"}, {"3.-4.9", "x86_64"},
	} {
		tb, m, err := For(test.release, test.machine, false)
		if !errors.Is(err, ErrUnknownRelease) || tb != nil || m != (Match{}) {
			t.Errorf("%q on %s: %v, %v, %v; want ErrUnknownRelease", test.release, test.machine, tb, m, err)
			continue
		}
		if !strings.Contains(err.Error(), test.release) {
			t.Errorf("%q does not name the release %q", err, test.release)
		}
	}
}

// TestJmpBufMovesWhatFollowsIt: a jmp_buf is larger than the five words of __builtin_setjmp, so the fields after it
// have other offsets. The tables with and without jmp_buf have the offsets that were measured.
func TestJmpBufMovesWhatFollowsIt(t *testing.T) {
	for _, test := range []struct {
		release, machine, field string
		builtin, jmpBuf         int
	}{
		{"3.4.11", "x86_64", "rb_fiber_struct.prev", 504, 504 + 160},
		{"3.3.8", "x86_64", "rb_fiber_struct.prev", 520, 520 + 160},
		{"3.3.8", "x86_64", "rb_fiber_struct.cont.saved_ec", 80, 80},
		{"2.7.4", "x86_64", "rb_thread_struct.name", 360, 360 + 160},
		{"3.0.7", "x86_64", "rb_thread_struct.name", 384, 384 + 160},
		{"3.1.2", "x86_64", "rb_thread_struct.name", 352, 352},
		{"3.3.8", "aarch64", "rb_fiber_struct.prev", 632, 632 + 272},
		{"3.3.8", "aarch64", "rb_fiber_struct.cont.saved_ec", 80, 80},
		{"3.4.11", "aarch64", "rb_fiber_struct.prev", 888, 888},
		{"2.6.10", "x86_64", "rb_fiber_struct.prev", 672, 672},
	} {
		if got := table(t, test.release, test.machine, false).Offset(test.field); got != test.builtin {
			t.Errorf("%s %s %s: %d, want %d", test.release, test.machine, test.field, got, test.builtin)
		}
		if got := table(t, test.release, test.machine, true).Offset(test.field); got != test.jmpBuf {
			t.Errorf("%s %s jmp_buf %s: %d, want %d", test.release, test.machine, test.field, got, test.jmpBuf)
		}
	}
}

func TestAllocationCaches(t *testing.T) {
	for _, test := range []struct {
		release                     string
		pointer                     int64
		heaps, stride, count, using int
	}{
		{"3.0.7", 0, 0, 16, -1, 8}, {"3.1.2", 0, 0, 16, -1, 8}, {"3.2.11", 0, 8, 16, -1, 8}, {"3.3.8", 0, 8, 16, -1, 8},
		{"3.4.11", 1, 8, 16, -1, 8}, {"4.0.2", 1, 8, 24, 16, 8}, {"4.1.0", 1, 8, 48, 40, 24},
	} {
		tb := table(t, test.release, "x86_64", false)
		pointer, ok := tb.Constant("NEWOBJ_CACHE_IS_POINTER")
		if !ok || pointer != test.pointer || tb.Offset("ractor_newobj_cache.heaps") != test.heaps ||
			tb.Size("ractor_newobj_heap_cache") != test.stride || tb.Offset("ractor_newobj_heap_cache.allocated_objects_count") != test.count ||
			tb.Offset("ractor_newobj_heap_cache.using_page") != test.using {
			t.Errorf("%s: pointer %d, heaps %d, stride %d, count %d", test.release, pointer, tb.Offset("ractor_newobj_cache.heaps"),
				tb.Size("ractor_newobj_heap_cache"), tb.Offset("ractor_newobj_heap_cache.allocated_objects_count"))
		}
	}
	if table(t, "2.7.8", "x86_64", false).hasStruct("ractor_newobj_cache") {
		t.Error("2.7 has no ractors")
	}
}

func TestMissingNames(t *testing.T) {
	tb := table(t, "2.5.9", "x86_64", false)
	if tb.Offset("rb_thread_struct.nt") != -1 || tb.Size("rb_ractor_struct") != -1 || tb.hasStruct("rb_ractor_struct") {
		t.Error("2.5 has no ractors")
	}
	if _, ok := tb.Field("nonsense"); ok {
		t.Error("nonsense is a field")
	}
	if _, ok := tb.Constant("nonsense"); ok {
		t.Error("nonsense is a constant")
	}
}

func TestFieldIn(t *testing.T) {
	for _, test := range []struct {
		field      Field
		word, want uint64
	}{
		{Field{0, 8, 0, 0}, 0xdeadbeef, 0xdeadbeef}, {Field{16, 4, 0, 2}, 0xfffffffe, 2}, {Field{16, 4, 5, 1}, 0x20, 1},
		{Field{16, 4, 5, 1}, 0xdf, 0}, {Field{0, 8, 0, 64}, 1<<63 | 1, 1<<63 | 1}, {Field{8, 4, 0, 0}, 0x123456789, 0x23456789},
		{Field{8, 2, 0, 0}, 0x12345, 0x2345}, {Field{8, 1, 0, 0}, 0x1234, 0x34}, {Field{23, 1, 3, 2}, 0x18, 3},
	} {
		b := make([]byte, 32)
		binary.LittleEndian.PutUint64(b[test.field.Offset:], test.word)
		if got := test.field.In(b); got != test.want {
			t.Errorf("%+v of 0x%x is 0x%x, want 0x%x", test.field, test.word, got, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	text, err := readTable("3.4.9.x86_64.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":"ddtop layout 1","machine":"x86_64","applies_to":["1.2.3"],"structs":{"a":{"size":8,"fields":{"b":[0,8,60,4]}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		tb, err := ParseJSON(text)
		if err != nil {
			if !errors.Is(err, errFormat) {
				t.Errorf("%v is not ErrFormat", err)
			}
			return
		}
		for name, field := range tb.fields {
			if field.Offset < 0 || field.Size < 0 || field.BitOffset+field.BitSize > 64 {
				t.Errorf("%s is at %+v", name, field)
			}
		}
	})
}

func BenchmarkFor(b *testing.B) {
	for b.Loop() {
		if _, _, err := For("3.4.11", "x86_64", true); err != nil {
			b.Fatal(err)
		}
	}
}
