package elftest_test

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/ddtop/ddtop/internal/elftest"
)

// TestZeros: the content that the function Zeros returns decompresses to zeros, and its checksum is right.
func TestZeros(t *testing.T) {
	file := elftest.Make(t, []elftest.Section{{Name: ".zeros", Type: elf.SHT_PROGBITS, Flags: elf.SHF_COMPRESSED, Content: elftest.Zeros(t, 3)}}, nil)
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.Section(".zeros").Data()
	if err != nil || !bytes.Equal(b, make([]byte, 3<<20)) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if len(file) > 64<<10 {
		t.Errorf("the file has %d bytes", len(file))
	}
}
