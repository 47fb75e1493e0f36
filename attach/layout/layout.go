// Package layout has tables of where each Ruby release keeps its data in memory: the offsets and sizes of struct
// fields, and the values of constants. It embeds one compact table for each distinct layout, and chooses a table by
// release and machine.
package layout

import (
	"encoding/binary"
	"maps"
	"slices"
)

// Field is the place of a struct field.
type Field struct {
	// Offset and Size are in bytes. For a bit field they describe the word that holds it.
	Offset, Size int
	// BitOffset and BitSize place a bit field within its word (little endian, bit 0 the lowest). BitSize is zero if the
	// field is no bit field.
	BitOffset, BitSize int
}

// Known reports whether the release has the field. If the release lacks the field, its Offset is -1.
func (f Field) Known() bool { return f.Offset >= 0 }

// In returns the field's value from b, the bytes of its struct. b begins at offset 0 of the struct, and must include
// the whole word of the field. The word has 1, 2, 4 or 8 bytes.
func (f Field) In(b []byte) uint64 {
	v := word(b[f.Offset:], f.Size)
	if f.BitSize == 0 {
		return v
	}
	return v >> f.BitOffset & (1<<f.BitSize - 1)
}

// word reads a little-endian number of size bytes. It treats every size other than 1, 2 and 4 as 8.
func word(b []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// Table is the layout of one release on one machine, in one configuration. A Table is never changed.
type Table struct {
	// Name is the release and the machine that the table was made from, for example "3.4.9 x86_64" or "3.4.9 x86_64
	// jmp_buf".
	Name string
	// AppliesTo lists the releases that have this layout.
	AppliesTo []string
	// Machine is "x86_64" or "aarch64".
	Machine string
	// JmpBuf describes how Ruby saves registers in its tags (the targets of exceptions) and fibers. It is true if Ruby
	// uses the C library's jmp_buf. It is false if Ruby uses the five words of __builtin_setjmp. It is always true on
	// Ruby 2.5 and 2.6, and on aarch64 from 3.4 on.
	JmpBuf bool

	fields    map[string]Field
	sizes     map[string]int
	constants map[string]int64
}

// Names lists the fields and constants of the table.
func (t *Table) Names() []string {
	return slices.AppendSeq(slices.Collect(maps.Keys(t.fields)), maps.Keys(t.constants))
}

// Field finds a field by its full name, such as "rb_thread_struct.sched.node.readyq".
func (t *Table) Field(name string) (Field, bool) {
	f, ok := t.fields[name]
	return f, ok
}

// Offset returns the offset of a field in bytes, or -1 if this release has no such field.
func (t *Table) Offset(name string) int {
	if f, ok := t.Field(name); ok {
		return f.Offset
	}
	return -1
}

// Size returns a struct's size in bytes, or -1 if this release has no such struct.
func (t *Table) Size(structName string) int {
	if n, ok := t.sizes[structName]; ok {
		return n
	}
	return -1
}

// Constant returns the value of an enum member or macro. ok is false if this release does not define it.
func (t *Table) Constant(name string) (value int64, ok bool) {
	v, ok := t.constants[name]
	return v, ok
}

func (t *Table) hasStruct(structName string) bool { _, ok := t.sizes[structName]; return ok }
