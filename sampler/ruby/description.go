package ruby

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxTable bounds the constants or methods of one class that are looked through.
const maxTable = 1 << 16

// description returns the constant RUBY_DESCRIPTION, which names the JIT in use (ruby_description in the library does not);
// "" when it can't be found.
func (l *locator) description() string {
	s, ok := l.symbol("rb_cObject")
	if !ok {
		return ""
	}
	var text string
	err := l.d.view.Settle(func() error {
		object, err := l.d.view.Word(s.Addr)
		if err != nil {
			return err
		}
		ext, err := l.classExt(attach.Address(object))
		if err != nil {
			return err
		}
		text, err = l.constant(ext, "RUBY_DESCRIPTION")
		return err
	})
	if err != nil {
		return ""
	}
	return text
}

// classExt returns where a class keeps what does not fit into its slot.
func (l *locator) classExt(class attach.Address) (attach.Address, error) {
	if l.o.classExtPtr < 0 {
		return class + attach.Address(l.o.classExt), nil
	}
	w, err := l.d.view.Word(class + attach.Address(l.o.classExtPtr))
	return attach.Address(w), err
}

// constant returns a String constant of the class with the given ext.
func (l *locator) constant(ext attach.Address, name string) (string, error) {
	table, err := l.d.view.Word(ext + attach.Address(l.o.extConsts))
	if err != nil {
		return "", err
	}
	entry, err := l.lookUp(attach.Address(table), name)
	if err != nil {
		return "", err
	}
	v, err := l.d.view.Word(entry + attach.Address(l.o.constVal))
	if err != nil {
		return "", err
	}
	return l.d.text(v)
}

// lookUp finds what a table of IDs (rb_id_table: constants, methods) holds for a name.
func (l *locator) lookUp(table attach.Address, name string) (attach.Address, error) {
	head, err := l.d.view.Bytes(table, max(l.o.idCapacity, l.o.idItems)+8)
	if err != nil {
		return 0, err
	}
	capacity := le32(head[l.o.idCapacity:])
	if capacity > maxTable {
		return 0, fmt.Errorf("a table of %d names", capacity)
	}
	items, err := l.d.view.Bytes(attach.Address(le64(head[l.o.idItems:])), int(capacity)*l.o.idItem)
	if err != nil {
		return 0, err
	}
	var missing error
	for ; len(items) >= l.o.idItem; items = items[l.o.idItem:] {
		serial := uint64(le32(items[l.o.itemKey:]))
		if serial == 0 {
			continue
		}
		if serial > l.o.lastOpID {
			serial <<= 4
		}
		key, err := l.d.idName(serial)
		if err == view.ErrMissing {
			missing = err
		}
		if err == nil && key == name {
			return attach.Address(le64(items[l.o.itemValue:])), nil
		}
	}
	if missing != nil {
		return 0, missing
	}
	return 0, fmt.Errorf("no entry %s", name)
}
