package ruby

import (
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// maxScan bounds the variables of a Ruby library that are looked through, in bytes. Ruby's own are some 130 KiB.
	maxScan = 16 << 20
	// A symbol table holds at least Ruby's own names and not more than this many.
	minSymbols, maxSymbols = 200, 1 << 26
)

// span is a piece of the target's memory with its content.
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
			// Page by page: the end of .bss may not be mapped.
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

// readable reads n bytes as far as they can be read.
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

// findSymbols returns the address of the symbol table: its own symbol where the library still has it, else the variables
// are searched for what names '!', '+', '-' and '<' by their own IDs. It is never exported.
func (l *locator) findSymbols() (attach.Address, error) {
	for _, name := range []string{"ruby_global_symbols", "global_symbols"} {
		if s, ok := l.symbol(name); ok && !s.TLS {
			ok, err := l.provesSymbols(s.Addr)
			if err != nil {
				return 0, err
			}
			if ok {
				return s.Addr, nil
			}
		}
	}
	spans, err := l.variables()
	if err != nil {
		return 0, err
	}
	ids, count := l.d.o.symbolsIDs, l.d.o.symbolsCount
	for _, sp := range spans {
		for off := 0; off+max(ids, count)+8 <= len(sp.data); off += 8 {
			n := le32(sp.data[off+count:])
			if n < minSymbols || n > maxSymbols || !l.d.isHeap(le64(sp.data[off+ids:])) {
				continue
			}
			at := sp.at + attach.Address(off)
			ok, err := l.provesSymbols(at)
			if err != nil {
				return 0, err
			}
			if ok {
				return at, nil
			}
		}
	}
	return 0, fmt.Errorf("%w: its symbol table was not found", ErrBooting)
}

// provesSymbols reports whether a symbol table stands at an address. The error is the target's.
func (l *locator) provesSymbols(at attach.Address) (bool, error) {
	var ok bool
	l.d.view.Reset()
	err := l.d.view.Settle(func() error {
		ok = true
		var missing error
		for _, op := range "!+-<" {
			s, err := l.d.idStringAt(at, uint64(op))
			var name rubyString
			if err == nil {
				name, err = l.d.rawString(s)
			}
			if err == view.ErrMissing {
				missing = err
			} else if err != nil || string(name.bytes) != string(op) {
				ok = false
				return nil
			}
		}
		return missing
	})
	return ok, err
}
