package run

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesAreTheirOwners: only the owner can read a file that ddtop writes. This is true even if it replaces a file
// that all users could read. If the path is a link, it stays a link.
func TestFilesAreTheirOwners(t *testing.T) {
	var quiet = Streams{Out: io.Discard, Err: io.Discard}
	for name, write := range map[string]func(Output) error{
		"whole": func(o Output) error {
			return o.Write(t.Context(), quiet, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err })
		},
		"streamed": func(o Output) error {
			w, err := o.Stream(nil, quiet)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(w, "new"); err != nil {
				return err
			}
			return w.Done(true)
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
				if err := os.Chmod(target, 0o664); err != nil { // sets these permissions whatever the umask is
					t.Fatal(err)
				}
			}
			if err := write(Output(path)); err != nil {
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

// TestOutputKeepsWhatWasThere: while ddtop writes a new file, an old file with the same name stays. It also stays if
// writing fails. In this case ddtop says where the part is that it has written.
func TestOutputKeepsWhatWasThere(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file.ddtop")
	holds := func(file, want string) {
		t.Helper()
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%s holds %q, %v; want %q", file, text, err, want)
		}
	}
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	std := Streams{Out: io.Discard, Err: &said}
	// in the second run, the incomplete file of the first run is replaced
	for _, complete := range []bool{false, true} {
		w, err := Output(path).Stream(nil, std)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "new"); err != nil {
			t.Fatal(err)
		}
		holds(path, "old")
		holds(path+Partial, "new")
		if err := w.Done(complete); err != nil {
			t.Fatal(err)
		}
		if !complete {
			holds(path, "old")
			holds(path+Partial, "new")
			for _, text := range []string{said.String(), w.Kept} {
				if !strings.Contains(text, path+Partial) {
					t.Errorf("it says %q", text)
				}
			}
		}
	}
	holds(path, "new")
	if files, err := os.ReadDir(folder); err != nil || len(files) != 1 {
		t.Errorf("left: %v, %v", files, err)
	}
	// If no file has the name yet, the unfinished file already gets the final name.
	other := filepath.Join(folder, "other.ddtop")
	w, err := Output(other).Stream(nil, std)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "part"); err != nil {
		t.Fatal(err)
	}
	holds(other, "part")
	if err := w.Done(false); err != nil {
		t.Fatal(err)
	}
	holds(other, "part")
	if !strings.Contains(w.Kept, "is in "+other) {
		t.Errorf("it says %q", w.Kept)
	}
}

// TestOutputDescriptor: if a path such as /dev/stdout stands for a file that is already open, ddtop writes to this file
// and does not truncate it.
func TestOutputDescriptor(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	std := Streams{Out: io.Discard, Err: io.Discard}
	o := Output(fmt.Sprintf("/dev/fd/%d", f.Fd()))
	if err := o.Check("record", false, std); err != nil {
		t.Fatal(err)
	}
	if err := o.Write(t.Context(), std, func(w io.Writer) error { _, err := io.WriteString(w, "one "); return err }); err != nil {
		t.Fatal(err)
	}
	w, err := o.Stream(nil, std)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "two"); err != nil {
		t.Fatal(err)
	}
	if err := w.Done(true); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(f.Name()); err != nil || string(text) != "one two" {
		t.Errorf("%q, %v", text, err)
	}
}
