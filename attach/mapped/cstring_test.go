package mapped_test

import (
	"bytes"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/memtest"
)

func TestReadCString(t *testing.T) {
	var p memtest.Pages
	long := bytes.Repeat([]byte("x"), 300)
	p.Set(0x2000-3, []byte("abc"))
	p.Set(0x2000, append([]byte("def\x00ghi\x00"), append(long, 0)...))
	for _, test := range []struct {
		addr  attach.Address
		limit int
		want  string
		fails bool
	}{
		{0x2000 - 3, 100, "abcdef", false}, {0x2000 - 3, 7, "abcdef", false}, {0x2000 - 3, 6, "", true}, {0x2004, 100, "ghi", false},
		{0x2008, 301, string(long), false}, {0x2008, 300, "", true}, {0x5000, 10, "", true}, {0x2003, 1, "", false},
	} {
		got, err := mapped.ReadCString(&slow{&p}, test.addr, test.limit)
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("at %v up to %d: %q, %v; want %q", test.addr, test.limit, got, err, test.want)
		}
	}
}

// slow is a Memory that can be read up to the end of a page, as in a process. A read of memtest.Pages alone fails if
// one of the bytes was not set. After such a failure, slow reads byte by byte.
type slow struct{ *memtest.Pages }

func (s *slow) Read(addr attach.Address, buf []byte) error {
	if err := s.Pages.Read(addr, buf); err == nil {
		return nil
	}
	for i := range buf {
		err := s.Pages.Read(addr+attach.Address(i), buf[i:i+1])
		if err != nil && i == 0 {
			return err
		}
	}
	return nil
}
