package cli_test

import (
	"bytes"
	"os"
	"testing"
)

// TestNoTemplates: ddtop runs no text/template. A template can call any exported method by its name, so the linker
// would keep all methods of all types, 4 MB of them. A stripped binary has the names of its functions, too.
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
