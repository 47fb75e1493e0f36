package layout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// newField is the end of a line that Differences writes about a field that only the first table has. Conflict ignores
// such lines.
const newField = " is new"

// Differences returns a line for each struct, field and constant that has different values in the two tables. If a
// struct is in both tables, it also returns a line for each field that only one table has. It omits the fields that
// Ruby has only if it was built with a JIT (optional).
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

// Conflict reports whether ddtop would misread a Ruby if it used table a, although b is the true table of this Ruby.
// There are two cases. The tables have different values for a struct, field or constant that is in both. Or a struct
// that is in both has a field in b, but not in a.
func Conflict(a, b *Table) bool {
	return slices.ContainsFunc(Differences(a, b), func(d string) bool { return !strings.HasSuffix(d, newField) })
}

func structOf(path string) string {
	name, _, _ := strings.Cut(path, ".")
	return name
}

// String writes the place of a field as "offset+size" or, for a bit field, as "offset+size:bit+bits".
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
