package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/ddtop/ddtop/attach/layout"
)

// fromDWARF begins the first line of a table that was made from a library's own debug information, with no document.
const fromDWARF = "# ddtop layout 1, made by attach/layout/gen -dwarf."

// outside are structs that no debug information of a libruby holds (monitor.so's, and caches described by hand). They have
// no locks and no registers in them, so that they are the same on all 64-bit machines.
var outside = []string{"rb_monitor", "ractor_newobj_cache", "ractor_newobj_heap_cache"}

// addFromDWARF makes the table of another machine: structs and enums from the debug information of a libruby built for it,
// and from like, the table of the same releases on a known machine, the releases, the macros and what else is outside of
// the library. It fails where the two disagree in anything but places and sizes: then the build is not of these releases.
func addFromDWARF(library, like, out string) error {
	text, err := os.ReadFile(like)
	if err != nil {
		return err
	}
	base, err := layout.Parse(string(text), false)
	if err != nil {
		return fmt.Errorf("%s: %w", like, err)
	}
	release := base.AppliesTo[len(base.AppliesTo)-1]
	t, err := derived(library, release)
	if err != nil {
		return fmt.Errorf("%s: %w", library, err)
	}
	t.applies = base.AppliesTo
	known, err := tableOf(base)
	if err != nil {
		return err
	}
	if err := t.complete(known); err != nil {
		return fmt.Errorf("%s beside %s: %w", library, like, err)
	}
	if t.structs["rb_context_struct"].Fields["jmpbuf"].Size > builtinJmpBuf {
		return fmt.Errorf("%s was built with jmp_buf; tables start from a build without", library)
	}
	longer, err := layout.Parse(string(text), true)
	if err != nil {
		return fmt.Errorf("%s: %w", like, err)
	}
	knownLonger, err := tableOf(longer)
	if err != nil {
		return err
	}
	if t.jmpBuf, err = t.moveLike(known, knownLonger); err != nil {
		return fmt.Errorf("%s: %w", like, err)
	}
	var b bytes.Buffer
	t.write(&b)
	_, content, _ := strings.Cut(b.String(), "\n")
	content = fmt.Sprintf("%s Macros and structs of other files: %s\n%s", fromDWARF, filepath.Base(like), content)
	return os.WriteFile(filepath.Join(out, t.fileName()), []byte(content), 0o644)
}

// x86Longer is by how much glibc's jmp_buf (200 bytes) is longer than __builtin_setjmp's buffer on x86_64.
const x86Longer = 200 - builtinJmpBuf

// moveLike makes the jmp_buf configuration: what moves or grows by a number of buffers in the known table, whose machine is
// x86_64, moves or grows by as many here.
func (t *table) moveLike(known, longer *table) (map[string]structure, error) {
	grown := func(what string, old, long int) (int, error) {
		if (long-old)%x86Longer != 0 {
			return 0, fmt.Errorf("%s: with jmp_buf %d and not %d, which is no number of buffers", what, long, old)
		}
		return (long - old) / x86Longer * aarch64Longer, nil
	}
	moved := make(map[string]structure)
	for _, name := range sortedKeys(t.structs) {
		s, differs := t.structs[name], false
		more, err := grown(name, known.structs[name].Size, longer.structs[name].Size)
		if err != nil {
			return nil, err
		}
		d := structure{Size: s.Size + more, Fields: make(map[string]field)}
		for path, f := range s.Fields {
			old, long := known.structs[name].Fields[path], longer.structs[name].Fields[path]
			by, err1 := grown(name+"."+path, old.Offset, long.Offset)
			larger, err2 := grown(name+"."+path, old.Size, long.Size)
			if err := errors.Join(err1, err2); err != nil {
				return nil, err
			}
			differs = differs || by != 0 || larger != 0
			f.Offset += by
			f.Size += larger
			d.Fields[path] = f
		}
		if differs || more != 0 {
			moved[name] = d
		}
	}
	return moved, nil
}

// derived reads the debug information of a library.
func derived(library, release string) (*table, error) {
	f, err := elf.Open(library)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Machine != elf.EM_AARCH64 {
		return nil, fmt.Errorf("it is of %v; tables are made for EM_AARCH64", f.Machine)
	}
	info, err := layout.ReadDebugInfo(context.Background(), f)
	if err != nil {
		return nil, err
	}
	d, err := layout.Derive(context.Background(), info, layout.DeriveOptions{Release: release, Machine: "aarch64"})
	if err != nil {
		return nil, err
	}
	t, err := tableOf(d.Table)
	if err != nil {
		return nil, err
	}
	t.release, t.machine = release, "aarch64"
	return t, nil
}

// tableOf takes a finished table apart, by its JSON.
func tableOf(from *layout.Table) (*table, error) {
	var b bytes.Buffer
	if err := from.WriteJSON(&b); err != nil {
		return nil, err
	}
	var d struct {
		Structs map[string]struct {
			Size   int              `json:"size"`
			Fields map[string][]int `json:"fields"`
		} `json:"structs"`
		Constants map[string]int64 `json:"constants"`
	}
	if err := json.Unmarshal(b.Bytes(), &d); err != nil {
		return nil, err
	}
	t := &table{structs: make(map[string]structure), constants: d.Constants}
	for name, s := range d.Structs {
		k := structure{Size: s.Size, Fields: make(map[string]field)}
		for path, n := range s.Fields {
			n = append(n, 0, 0)
			k.Fields[path] = field{Offset: n[0], Size: n[1], BitOffset: n[2], BitSize: n[3]}
		}
		t.structs[name] = k
	}
	return t, nil
}

// complete adds what debug information lacks, and says what of known is not in t, or is another thing there.
func (t *table) complete(known *table) error {
	var wrong []string
	for _, name := range sortedKeys(known.structs) {
		want := known.structs[name]
		have, ok := t.structs[name]
		switch {
		case !ok && slices.Contains(outside, name):
			t.structs[name] = want
			continue
		case !ok:
			wrong = append(wrong, "no struct "+name)
			continue
		}
		for _, path := range sortedKeys(want.Fields) {
			if f, ok := have.Fields[path]; !ok {
				wrong = append(wrong, "no "+name+"."+path)
			} else if f.BitSize != want.Fields[path].BitSize {
				wrong = append(wrong, name+"."+path+" has another number of bits")
			}
		}
	}
	for _, name := range sortedKeys(t.structs) {
		if _, ok := known.structs[name]; !ok {
			delete(t.structs, name)
			continue
		}
		for _, path := range sortedKeys(t.structs[name].Fields) {
			if _, ok := known.structs[name].Fields[path]; !ok {
				delete(t.structs[name].Fields, path)
			}
		}
	}
	for _, name := range sortedKeys(t.constants) {
		if _, ok := known.constants[name]; !ok {
			delete(t.constants, name)
		}
	}
	for _, name := range sortedKeys(known.constants) {
		if v, ok := t.constants[name]; ok && v != known.constants[name] {
			wrong = append(wrong, fmt.Sprintf("%s is %d and %d", name, v, known.constants[name]))
		}
		t.constants[name] = known.constants[name]
	}
	if len(wrong) > 0 {
		sort.Strings(wrong)
		return fmt.Errorf("not the same releases: %s", strings.Join(wrong, "; "))
	}
	return nil
}
