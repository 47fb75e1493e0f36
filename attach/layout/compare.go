package layout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// newField ends the line of Differences about a field that only the first table has.
const newField = " is new"

// Differences describes, a line each, the structs, fields and constants that have different values in the two tables.
// It also describes the fields that only one table has, if both have their struct. It omits fields that depend on
// which JITs are built in (optional).
func Differences(a, b *Table) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(a.sizes)) {
		if size, ok := b.sizes[name]; ok && size != a.sizes[name] {
			say("%s has %d bytes, not %d", name, a.sizes[name], size)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(a.fields)) {
		f := a.fields[path]
		switch g, ok := b.fields[path]; {
		case ok && f != g:
			say("%s is at %s, not %s", path, f, g)
		case !ok && b.hasStruct(structOf(path)) && !optional(path):
			say("%s%s", path, newField)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(b.fields)) {
		if _, ok := a.fields[path]; !ok && a.hasStruct(structOf(path)) && !optional(path) {
			say("%s is missing", path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.constants)) {
		if v, ok := b.constants[name]; ok && v != a.constants[name] {
			say("%s is %d, not %d", name, a.constants[name], v)
		}
	}
	return out
}

// Conflict reports whether a reader with table a would read from other places than a reader with table b. This is so
// if a field or constant in both differs, or if b has a field that a lacks, in a struct of both.
func Conflict(a, b *Table) bool {
	return slices.ContainsFunc(Differences(a, b), func(d string) bool { return !strings.HasSuffix(d, newField) })
}

func structOf(path string) string {
	name, _, _ := strings.Cut(path, ".")
	return name
}

// String writes the place as "offset+size" or "offset+size:bit+bits".
func (f Field) String() string {
	if f.BitSize == 0 {
		return fmt.Sprintf("%d+%d", f.Offset, f.Size)
	}
	return fmt.Sprintf("%d+%d:%d+%d", f.Offset, f.Size, f.BitOffset, f.BitSize)
}

// Counts returns the numbers of structs, fields and constants in the table.
func (t *Table) Counts() (structs, fields, constants int) {
	return len(t.sizes), len(t.fields), len(t.constants)
}
