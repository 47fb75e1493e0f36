package rubytest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMatrixOfWhatRan: a test that passes on a Ruby adds a line with the Ruby's release, machine and C library; one that is skipped adds none.
func TestMatrixOfWhatRan(t *testing.T) {
	file := filepath.Join(t.TempDir(), "matrix")
	if env(nested) != "" {
		r := One(t)
		t.Run("ran", func(t *testing.T) { r.Start(t, "puts 1", Options{}) })
		t.Run("skipped", func(t *testing.T) {
			recordAtEnd(t, r)
			Skip(t, "not today")
		})
		return
	}
	if out, err := again(t, "DDTOP_TEST_MATRIX="+file); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := One(t)
	machine, libc := kindOf(filepath.Join(r.Root, r.Bin))
	if machine == "unknown" || libc == "unknown" {
		t.Errorf("%s is for %s and %s", r, machine, libc)
	}
	if want := "ruby " + r.Version + " " + machine + " " + libc + " tested\n"; strings.Count(string(got), "ruby ") != 1 || !strings.HasSuffix(string(got), want) ||
		!strings.Contains(string(got), "kernel release ") {
		t.Errorf("got %q, want at its end %q", got, want)
	}
}
