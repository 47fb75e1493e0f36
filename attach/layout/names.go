package layout

import (
	"strings"
	"sync"
)

// jmpBufField is a field whose size shows whether a build uses the jmp_buf of the C library (Table.JmpBuf).
const jmpBufField = "rb_context_struct.jmpbuf"

// names are all names of structs, fields and constants in the tables. They cover everything that ddtop reads from any
// release.
type names struct {
	structs, fields, constants map[string]bool
	// inside has every struct that contains a field of the tables, directly or through other structs. For the field
	// "s.a.b" of a table, it has "s.a" and "s".
	inside map[string]bool
}

func newNames() *names {
	return &names{structs: make(map[string]bool), fields: make(map[string]bool), constants: make(map[string]bool), inside: make(map[string]bool)}
}

// knownNames returns the names in the embedded tables, and jmpBufField. ddtop can read only fields that have one of
// these names.
var knownNames = sync.OnceValues(func() (*names, error) {
	index, err := readIndex()
	if err != nil {
		return nil, err
	}
	n := newNames()
	n.addField(jmpBufField)
	for i := range index {
		for _, jmpBuf := range []bool{false, true} {
			t, err := index[i].table(jmpBuf)
			if err != nil {
				return nil, err
			}
			n.addTable(t)
		}
	}
	return n, nil
})

func (n *names) addTable(t *Table) {
	for name := range t.sizes {
		n.structs[name] = true
	}
	for field := range t.fields {
		n.addField(field)
	}
	for name := range t.constants {
		n.constants[name] = true
	}
}

// addField adds the field "struct.path.to.field". It also adds the struct and every field that contains this one.
func (n *names) addField(field string) {
	n.fields[field] = true
	n.structs[structOf(field)] = true
	for i := strings.LastIndexByte(field, '.'); i >= 0; i = strings.LastIndexByte(field[:i], '.') {
		n.inside[field[:i]] = true
	}
}

// sameAs maps a struct's second name in debug information to the name that tables use.
var sameAs = map[string]string{"rb_shape_t": "rb_shape", "rb_box_t": "rb_box_struct"}

// structName returns the name that tables use for a struct or typedef. ok is false if no table has it.
func (n *names) structName(name string) (table string, ok bool) {
	if to, other := sameAs[name]; other {
		name = to
	}
	return name, n.structs[name]
}

// optional reports whether a table's field may be missing in some builds of the same release. These are the fields for
// the compiled code of a JIT, because Ruby can be built without a JIT.
func optional(field string) bool {
	return field == "rb_iseq_constant_body.jit_func" || field == "rb_iseq_constant_body.jit_entry"
}
