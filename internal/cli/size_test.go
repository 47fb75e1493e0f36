package cli_test

import (
	"bytes"
	"debug/elf"
	"os"
	"runtime"
	"testing"
)

// releasedBytes is the size of the released binary for x86_64. docs/internals/contributing.md says what it consists of.
const releasedBytes = 25_720_000

// TestReleasedSize: ddtop's binary is at most 3 % larger than the documented size. The released file is a stripped
// binary. The test does not link one. Instead it sums up the sections that the kernel loads. A stripped file is less
// than 0.1 % larger than these.
func TestReleasedSize(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the documented size is that of Linux on x86_64")
	}
	f, err := elf.Open(ddtop)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var size uint64
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS {
			size += s.FileSize
		}
	}
	if most := uint64(releasedBytes / 100 * 103); size > most || size < releasedBytes/2 {
		t.Errorf("ddtop has %d bytes, at most %d are allowed: make it smaller, or document the new size and why", size, most)
	}
}

// TestNoTemplates: ddtop does not link text/template. Its templates can call any exported method by its name. So the
// linker would keep all methods of all types, 4 MB of them. The test searches the names of functions in the binary,
// which even a stripped binary has.
func TestNoTemplates(t *testing.T) {
	t.Parallel()
	binary, err := os.ReadFile(ddtop)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(binary, []byte("github.com/spf13/cobra.(*Command).ExecuteC\x00")) {
		t.Fatal("no names of functions are found")
	}
	if bytes.Contains(binary, []byte("text/template.(*state).evalField\x00")) {
		t.Error("it can run templates: see the dependencies that go build -ldflags=-dumpdep prints")
	}
}
