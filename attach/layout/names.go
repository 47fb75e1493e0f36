package layout

import (
	"strings"
	"sync"
)

// jmpBufField is the field whose size shows a table's configuration.
const jmpBufField = "rb_context_struct.jmpbuf"

// names are what a table holds: that which ddtop reads, of whatever release.
type names struct {
	structs, fields, constants map[string]bool
	// inside are the fields, by struct and path, that hold others of fields.
	inside map[string]bool
}

func newNames() *names {
	return &names{structs: make(map[string]bool), fields: make(map[string]bool), constants: make(map[string]bool), inside: make(map[string]bool)}
}

// knownNames are the names in the embedded tables, and jmpBufField. A name that ddtop is to read must be among them.
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

// addField adds a field, "struct.path.to.field", and what it is inside of.
func (n *names) addField(field string) {
	n.fields[field] = true
	n.structs[structOf(field)] = true
	for i := strings.LastIndexByte(field, '.'); i >= 0; i = strings.LastIndexByte(field[:i], '.') {
		n.inside[field[:i]] = true
	}
}

// sameAs gives structs that debug information may have under two names the one that they have in tables.
var sameAs = map[string]string{"rb_shape_t": "rb_shape", "rb_box_t": "rb_box_struct"}

// structName returns the name that a struct or typedef has in tables; ok is false for one that is in none.
func (n *names) structName(name string) (table string, ok bool) {
	if to, other := sameAs[name]; other {
		name = to
	}
	return name, n.structs[name]
}

// optional reports whether a build of the same release may lack a field that a table has: where code that a JIT has
// compiled begins.
func optional(field string) bool {
	return field == "rb_iseq_constant_body.jit_func" || field == "rb_iseq_constant_body.jit_entry"
}
