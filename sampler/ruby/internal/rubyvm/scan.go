package rubyvm

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxScan limits how much of the variables of a Ruby library is searched, in bytes. Ruby has about 130 KiB of
// variables.
const maxScan = 16 << 20

// span is a part of the target's memory with its content.
type span struct {
	at   attach.Address
	data []byte
}

// variables reads all of the module's variables (.data, .bss).
func (l *locator) variables() ([]span, error) {
	var spans []span
	total := 0
	for _, s := range l.module.Writable() {
		start := (s.Start + 7) &^ 7
		n := int(s.End-start) &^ 7
		if s.End <= start || n == 0 {
			continue
		}
		if total += n; total > maxScan {
			break
		}
		sp := span{start, make([]byte, n)}
		if err := l.mem.Read(start, sp.data); err != nil {
			// Read page by page, because the memory at the end of .bss may not be mapped.
			if sp.data = l.readable(start, n); len(sp.data) == 0 {
				continue
			}
		}
		spans = append(spans, sp)
	}
	if len(spans) == 0 {
		return nil, fmt.Errorf("%w: none of the variables of %s can be read", ErrNoVM, l.module.Path)
	}
	return spans, nil
}

// readable reads n bytes. If a page cannot be read, it returns only the bytes before this page.
func (l *locator) readable(at attach.Address, n int) []byte {
	var out []byte
	for len(out) < n {
		page := min(4096-int(at&4095), n-len(out))
		b := make([]byte, page)
		if l.mem.Read(at, b) != nil {
			break
		}
		out = append(out, b...)
		at += attach.Address(page)
	}
	return out
}

// findSymbols returns the address of the symbol table. No library exports it. If the library has no symbol for it
// either, findSymbols searches the library's variables. It accepts a table in which the IDs of four operators ('!',
// '+', '-', '<') have these names.
func (l *locator) findSymbols() (attach.Address, error) {
	for _, name := range []string{"ruby_global_symbols", "global_symbols"} {
		if s, ok := l.Symbol(name); ok && !s.TLS {
			if ok, err := l.objects.ProvesSymbols(s.Addr); ok || err != nil {
				return s.Addr, err
			}
		}
	}
	spans, err := l.variables()
	if err != nil {
		return 0, err
	}
	for _, sp := range spans {
		if at, err := l.objects.FindSymbols(sp.at, sp.data); at != 0 || err != nil {
			return at, err
		}
	}
	return 0, fmt.Errorf("%w: its symbol table was not found", ErrBooting)
}

// findShapes returns the address of rb_shape_tree_t. It returns zero if the release has no such struct, or if the
// struct is not found. In the second case ddtop cannot read instance variables. In 4.0 and later, a symbol names the
// struct. In earlier releases, a symbol names a pointer to the struct. Stripped libraries of 3.3 and 3.4 have no such
// symbol, so findShapes searches their variables for such a pointer. The error means that the target cannot be read.
func (l *locator) findShapes() (attach.Address, error) {
	if !l.objects.HasShapeTree() {
		return 0, nil
	}
	if s, ok := l.Symbol("rb_shape_tree"); ok && !s.TLS {
		return s.Addr, nil
	}
	if s, ok := l.Symbol("rb_shape_tree_ptr"); ok && !s.TLS {
		w, err := l.word(s.Addr)
		return attach.Address(w), err
	}
	var candidates []attach.Address
	seen := make(map[attach.Address]bool)
	err := l.eachVariable(func(_ attach.Address, word uint64) {
		if v := attach.Address(word); l.objects.IsObject(word) && v >= 1<<16 && v < 1<<56 && !seen[v] {
			seen[v] = true
			candidates = append(candidates, v)
		}
	})
	if err != nil {
		return 0, err
	}
	return l.objects.FindShapes(candidates)
}

func (l *locator) eachVariable(f func(at attach.Address, word uint64)) error {
	spans, err := l.variables()
	for _, sp := range spans {
		for i := 0; i+8 <= len(sp.data); i += 8 {
			f(sp.at+attach.Address(i), view.U64(sp.data[i:]))
		}
	}
	return err
}
