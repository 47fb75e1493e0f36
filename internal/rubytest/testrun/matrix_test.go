package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMatrix: the page has a row for each Ruby, in the order of releases, and says what was not tested.
func TestMatrix(t *testing.T) {
	file := filepath.Join(t.TempDir(), "matrix")
	lines := `kernel release 6.1.0 amd64
kernel pidfd tested
ruby 3.10.0 x86_64 glibc tested
ruby 3.4.9 x86_64 glibc tested
kernel pidfd tested
ruby 3.4.9 x86_64 glibc tested
ruby 3.4.9 aarch64 glibc emulated
`
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := run([]string{"matrix", file}, &b); err != nil {
		t.Fatal(err)
	}
	want := `| 3.4.9 | tested: 2 | emulated: 1 | untested | untested |
| 3.10.0 | tested: 1 | untested | untested | untested |

The kernel on which they ran:

* release 6.1.0 amd64
* pidfd tested
`
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("got\n%s, want at its end\n%s", &b, want)
	}
	for _, bad := range []string{"", "nonsense\n"} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{"matrix", file}, &b); err == nil {
			t.Errorf("%q is taken for a matrix", bad)
		}
	}
}
