// Package golden compares the result of a test with a file in the test's folder testdata. Only tests import it, because
// it adds the flag -update to their command line.
package golden

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write golden files instead of comparing")

// Check fails the test if got differs from testdata/file, byte for byte. With -update it writes the file instead.
func Check(t testing.TB, file string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: go test -update writes it", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look at it, then run go test -update. Got:\n%s", path, got)
	}
}
