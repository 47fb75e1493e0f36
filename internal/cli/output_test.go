package cli

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestFilesAreTheirOwners: a file of ddtop's can be read by its owner alone, also where one that all could read was there
// before, and a link to it stays one.
func TestFilesAreTheirOwners(t *testing.T) {
	var quiet = Streams{Out: io.Discard, Err: io.Discard}
	for name, write := range map[string]func(output) error{
		"whole": func(o output) error {
			return o.write(quiet, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err })
		},
		"streamed": func(o output) error {
			w, done, err := o.stream(quiet)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(w, "new"); err != nil {
				return err
			}
			return done()
		},
	} {
		for _, before := range []string{"nothing", "a file", "a link"} {
			folder := t.TempDir()
			path := filepath.Join(folder, "file")
			target := path
			if before != "nothing" {
				if before == "a link" {
					target = filepath.Join(folder, "target")
					if err := os.Symlink("target", path); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.WriteFile(target, []byte("what was there"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(target, 0o664); err != nil { // whatever the umask
					t.Fatal(err)
				}
			}
			if err := write(output(path)); err != nil {
				t.Fatalf("%s over %s: %v", name, before, err)
			}
			info, err := os.Lstat(target)
			if err != nil || info.Mode() != 0o600 {
				t.Errorf("%s over %s: %v, %v", name, before, info.Mode(), err)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != "new" {
				t.Errorf("%s over %s: %q, %v", name, before, text, err)
			}
			if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink != 0 != (before == "a link") {
				t.Errorf("%s over %s left %v, %v", name, before, info.Mode(), err)
			}
		}
	}
}
