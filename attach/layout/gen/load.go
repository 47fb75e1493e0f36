package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/attach/layout/internal/kept"
)

type field struct {
	Offset    int `json:"offset"`
	Size      int `json:"size"`
	BitOffset int `json:"bit_offset"`
	BitSize   int `json:"bit_size"`
}

type structure struct {
	Size   int              `json:"size"`
	Fields map[string]field `json:"fields"`
}

type variant struct {
	Structs map[string]structure `json:"structs"`
}

type document struct {
	Ruby      string                      `json:"ruby"`
	AppliesTo []string                    `json:"applies_to"`
	Arch      string                      `json:"arch"`
	Structs   map[string]structure        `json:"structs"`
	Enums     map[string]map[string]int64 `json:"enums"`
	Constants map[string]int64            `json:"constants"`
	Variants  map[string]variant          `json:"variants"`
}

// table is what is kept of a document.
type table struct {
	release, machine string
	snapshot         string
	applies          []string
	mainJmpBuf       bool
	structs          map[string]structure
	constants        map[string]int64
	jmpBuf           map[string]structure
}

func load(name string) (*table, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var d document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, err
	}
	if d.Ruby == "" || d.Arch == "" || len(d.AppliesTo) == 0 {
		return nil, fmt.Errorf("ruby, arch or applies_to is missing")
	}
	t := &table{release: d.Ruby, machine: d.Arch, applies: d.AppliesTo,
		structs: keepStructs(d.Structs), constants: make(map[string]int64)}
	for k, v := range d.Constants {
		if kept.Constant(k) {
			t.constants[k] = v
		}
	}
	for _, members := range d.Enums {
		for k, v := range members {
			if !kept.Constant(k) {
				continue
			}
			if old, ok := t.constants[k]; ok && old != v {
				return nil, fmt.Errorf("%s is both %d and %d", k, old, v)
			}
			t.constants[k] = v
		}
	}
	for name, v := range d.Variants {
		switch name {
		case "jmp_buf":
			t.jmpBuf = keepStructs(v.Structs)
		case "no_yjit":
			if err := t.checkSame(keepStructs(v.Structs)); err != nil {
				return nil, fmt.Errorf("variant no_yjit: %w", err)
			}
		default:
			return nil, fmt.Errorf("unknown variant %s", name)
		}
	}
	if release, snapshot, ok := strings.Cut(d.AppliesTo[0], "dev-"); ok {
		// A development version's ruby_version names the release to come, without a date.
		t.release, t.snapshot, t.applies = release, snapshot, []string{release}
	}
	for name, s := range t.structs {
		for _, path := range []string{"s", "c"} {
			if _, ok := s.Fields[path]; ok {
				return nil, fmt.Errorf("%s has a field %q, which the text form gives another meaning", name, path)
			}
		}
	}
	if _, ok := t.structs["rb_fiber_struct"]; !ok {
		return nil, fmt.Errorf("no rb_fiber_struct")
	}
	t.mainJmpBuf = t.structs["rb_context_struct"].Fields["jmpbuf"].Size > builtinJmpBuf
	if t.jmpBuf == nil && !t.mainJmpBuf {
		t.jmpBuf = t.deriveJmpBuf()
	}
	t.addAllocationCaches()
	t.addCompilerPrivate()
	return t, nil
}

func keepStructs(all map[string]structure) map[string]structure {
	out := make(map[string]structure)
	for name, s := range all {
		to, ok := kept.Struct(name)
		if !ok {
			continue
		}
		if _, both := all[to]; both && kept.Alias(name) {
			continue
		}
		k := structure{Size: s.Size, Fields: make(map[string]field)}
		for path, f := range s.Fields {
			if kept.Field(to, path) {
				k.Fields[path] = f
			}
		}
		out[to] = k
	}
	return out
}

func (t *table) checkSame(other map[string]structure) error {
	for name, s := range other {
		for path, f := range s.Fields {
			if t.structs[name].Fields[path] != f {
				return fmt.Errorf("%s.%s differs", name, path)
			}
		}
	}
	return nil
}

const (
	// builtinJmpBuf is the size of __builtin_setjmp's buffer: five words.
	builtinJmpBuf = 40
	// aarch64Longer is by how much glibc's jmp_buf (312 bytes) is longer on aarch64.
	aarch64Longer = 312 - builtinJmpBuf
)

// deriveJmpBuf makes the jmp_buf configuration of an aarch64 table that came without: what follows the buffer within a
// fiber and within a tag moves by the difference of the sizes. (3.4 and later always use jmp_buf on aarch64, and their
// tables show exactly this difference.)
func (t *table) deriveJmpBuf() map[string]structure {
	derived := make(map[string]structure)
	for name, buffer := range map[string]string{
		"rb_context_struct": "jmpbuf", "rb_fiber_struct": "cont.jmpbuf", "rb_vm_tag": "buf",
	} {
		s, ok := t.structs[name]
		if !ok {
			continue
		}
		buf, ok := s.Fields[buffer]
		if !ok {
			continue
		}
		d := structure{Size: s.Size + aarch64Longer, Fields: make(map[string]field)}
		for path, f := range s.Fields {
			switch {
			case f.Offset > buf.Offset:
				f.Offset += aarch64Longer
			case path == buffer || path == "cont":
				f.Size += aarch64Longer
			}
			d.Fields[path] = f
		}
		derived[name] = d
	}
	return derived
}

// addAllocationCaches adds the per-ractor allocation cache, which is private to the collector and not in the documents from
// 3.4 on: offsets measured on running processes of 3.0 to 4.1-dev (docs/internals/gc.md#which-classes). One description for
// all releases: ractor_newobj_cache.heaps is the first of an array of ractor_newobj_heap_cache.
func (t *table) addAllocationCaches() {
	ractor, ok := t.structs["rb_ractor_struct"]
	if !ok {
		return
	}
	if _, ok := ractor.Fields["newobj_cache"]; !ok {
		return
	}
	heaps, pointer := 0, int64(0)
	heap := structure{Size: 16, Fields: map[string]field{
		"freelist": {Offset: 0, Size: 8}, "using_page": {Offset: 8, Size: 8}}}
	switch s := series(t.release); {
	case s == "3.0" || s == "3.1":
	case s == "3.2" || s == "3.3":
		heaps = 8
	case s == "3.4":
		heaps, pointer = 8, 1
	case s == "4.0":
		heaps, pointer = 8, 1
		heap.Size = 24
		heap.Fields["allocated_objects_count"] = field{Offset: 16, Size: 8}
	default:
		heaps, pointer = 8, 1
		heap = structure{Size: 48, Fields: map[string]field{
			"cursor": {Offset: 0, Size: 8}, "cursor_end": {Offset: 8, Size: 8}, "next_region": {Offset: 16, Size: 8},
			"using_page": {Offset: 24, Size: 8}, "region_end": {Offset: 32, Size: 8},
			"allocated_objects_count": {Offset: 40, Size: 8}}}
	}
	t.structs["ractor_newobj_cache"] = structure{Size: heaps + heap.Size,
		Fields: map[string]field{"heaps": {Offset: heaps, Size: heap.Size}}}
	t.structs["ractor_newobj_heap_cache"] = heap
	t.constants["NEWOBJ_CACHE_IS_POINTER"] = pointer
}

// addCompilerPrivate adds what the documents lack because no C debug information holds it: a macro of the compiler, and
// the frame that 4.1's ZJIT, written in Rust, describes itself by (CFP_ZJIT_FRAME in zjit.h; confirmed on running
// processes).
func (t *table) addCompilerPrivate() {
	if !lessRelease(t.release, "3.4.0") {
		t.constants["BUILTIN_ATTR_C_TRACE"] = 8
	}
	if !lessRelease(t.release, "4.1.0") {
		t.structs["zjit_jit_frame"] = structure{Size: 16,
			Fields: map[string]field{"pc": {Offset: 0, Size: 8}, "iseq": {Offset: 8, Size: 8}}}
	}
}

func series(release string) string {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return release
	}
	return parts[0] + "." + parts[1]
}

func lessRelease(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; i < len(x) && i < len(y); i++ {
		m, _ := strconv.Atoi(x[i])
		n, _ := strconv.Atoi(y[i])
		if m != n {
			return m < n
		}
	}
	return len(x) < len(y)
}

func (t *table) write(w io.Writer) {
	fmt.Fprintln(w, "# ddtop layout 1, made by attach/layout/gen. s STRUCT SIZE; FIELD OFFSET SIZE [BIT BITS]; c CONSTANT VALUE; v VARIANT")
	fmt.Fprintln(w, "release", t.release)
	fmt.Fprintln(w, "machine", t.machine)
	fmt.Fprintln(w, "applies", strings.Join(t.applies, " "))
	if t.snapshot != "" {
		fmt.Fprintln(w, "snapshot", t.snapshot)
	}
	t.writeContent(w)
}

func (t *table) writeContent(w io.Writer) {
	if t.mainJmpBuf {
		fmt.Fprintln(w, "jmp_buf")
	}
	for _, name := range sortedKeys(t.structs) {
		writeStruct(w, name, t.structs[name], structure{})
	}
	for _, name := range sortedKeys(t.constants) {
		fmt.Fprintln(w, "c", name, t.constants[name])
	}
	if t.jmpBuf != nil {
		fmt.Fprintln(w, "v jmp_buf")
		for _, name := range sortedKeys(t.jmpBuf) {
			writeStruct(w, name, t.jmpBuf[name], t.structs[name])
		}
	}
}

// writeStruct writes the fields of s that differ from those of base.
func writeStruct(w io.Writer, name string, s, base structure) {
	fmt.Fprintln(w, "s", name, s.Size)
	paths := sortedKeys(s.Fields)
	sort.SliceStable(paths, func(i, j int) bool {
		a, b := s.Fields[paths[i]], s.Fields[paths[j]]
		if a.Offset != b.Offset {
			return a.Offset < b.Offset
		}
		return a.BitOffset < b.BitOffset
	})
	for _, path := range paths {
		f := s.Fields[path]
		if old, ok := base.Fields[path]; ok && old == f {
			continue
		}
		if f.BitSize != 0 {
			fmt.Fprintln(w, path, f.Offset, f.Size, f.BitOffset, f.BitSize)
		} else {
			fmt.Fprintln(w, path, f.Offset, f.Size)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
