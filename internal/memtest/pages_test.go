package memtest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// TestPagesAgreeWithAnArray: the test writes the same random data to Pages and to an array. Afterwards it must read the
// same bytes from Pages as from the array. The same must be true for Pages that were written to a file and read again.
func TestPagesAgreeWithAnArray(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const base, size = 0x7f0000000000, 5 * pageSize
	var p Pages
	var data [size]byte
	var known [size]bool
	for range 300 {
		at := r.IntN(size)
		n := r.IntN(min(size-at, 700)) + 1
		if r.IntN(2) == 0 {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(r.Uint32())
				data[at+i], known[at+i] = b[i], true
			}
			p.Set(base+attach.Address(at), b)
		}
		at = r.IntN(size)
		n = r.IntN(min(size-at, 300)) + 1
		all := true
		for i := range n {
			all = all && known[at+i]
		}
		got := make([]byte, n)
		ranges := []attach.Range{{Addr: base + attach.Address(at), Buf: make([]byte, n)}, {Addr: 5, Buf: got[:1]}}
		err := p.Read(base+attach.Address(at), got)
		calls, err2 := p.ReadBatch(ranges)
		if (err == nil) != all || ranges[0].Failed == all || !ranges[1].Failed || err2 != nil || calls != 1 {
			t.Fatalf("%d bytes at %d: %v, batch %t; all known: %t", n, at, err, ranges[0].Failed, all)
		}
		if all && (!bytes.Equal(got, data[at:at+n]) || !bytes.Equal(ranges[0].Buf, got)) {
			t.Fatalf("%d bytes at %d differ", n, at)
		}
		if !all && !errors.Is(err, attach.ErrUnmapped) {
			t.Fatalf("%v is not ErrUnmapped", err)
		}
	}
	total := 0
	for _, s := range p.Spans() {
		for a := s.Start; a < s.End; a++ {
			if !known[a-base] {
				t.Fatalf("%v is in a span and was never set", a)
			}
		}
		total += s.Len()
	}
	want := 0
	for _, k := range known {
		if k {
			want++
		}
	}
	if total != want {
		t.Errorf("the spans hold %d bytes, want %d", total, want)
	}
	var file bytes.Buffer
	if err := p.Write(&file); err != nil {
		t.Fatal(err)
	}
	back, err := ReadPages(&file)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range known {
		var b [1]byte
		if err := back.Read(base+attach.Address(i), b[:]); (err == nil) != k || k && b[0] != data[i] {
			t.Fatalf("byte %d after writing and reading: %v %d, want %t %d", i, err, b[0], k, data[i])
		}
	}
}

func TestPagesHoldAWholePage(t *testing.T) {
	var p Pages
	p.SetWord(0x1000, 0x1122334455667788)
	var b [8]byte
	if err := p.Read(0x1000, b[:]); err != nil || b[0] != 0x88 || b[7] != 0x11 {
		t.Errorf("%x, %v", b, err)
	}
	if p.holds(0x1000) {
		t.Error("a page with 8 bytes is whole")
	}
	p.Set(0x1000, make([]byte, pageSize))
	if !p.holds(0x1000) || p.holds(0x2000) {
		t.Error("a page set in whole is not")
	}
}

func TestCaptureKeepsWhatWasRead(t *testing.T) {
	var from Pages
	whole := make([]byte, 2*pageSize)
	for i := range whole {
		whole[i] = pattern(i)
	}
	from.Set(0x10000, whole)
	c := NewCapture(&from)
	buf := make([]byte, 100)
	if err := c.Read(0x10000+pageSize-50, buf); err != nil || buf[0] != pattern(pageSize-50) || buf[99] != pattern(pageSize+49) {
		t.Fatal(err, buf)
	}
	from.Set(0x10000, make([]byte, 2*pageSize))
	ranges := []attach.Range{{Addr: 0x10000, Buf: make([]byte, 4)}, {Addr: 0x90000, Buf: make([]byte, 4)}, {Addr: 0x11000, Buf: make([]byte, 4)}}
	if _, err := c.ReadBatch(ranges); err != nil || ranges[0].Failed || !ranges[1].Failed || ranges[2].Failed {
		t.Fatal(err, ranges)
	}
	if ranges[0].Buf[1] != pattern(1) {
		t.Error("a page is read twice")
	}
	if err := c.Read(0x90000, buf); !errors.Is(err, attach.ErrUnmapped) {
		t.Errorf("%v, want ErrUnmapped", err)
	}
	if spans := c.Pages().Spans(); len(spans) != 1 || spans[0] != (attach.Span{Start: 0x10000, End: 0x12000}) {
		t.Errorf("captured %v", spans)
	}
}

func FuzzReadPages(f *testing.F) {
	var p Pages
	p.Set(0x1ff0, []byte("over the end of a page"))
	p.Set(0x9000, make([]byte, pageSize))
	var file bytes.Buffer
	if err := p.Write(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ReadPages(bytes.NewReader(b))
		if err != nil {
			return
		}
		for _, s := range p.Spans() {
			if err := p.Read(s.Start, make([]byte, s.Len())); err != nil {
				t.Error(err)
			}
		}
	})
}

// pattern returns the byte at position i of the memory in these tests.
func pattern(i int) byte { return byte(i*7 + i/256) }
