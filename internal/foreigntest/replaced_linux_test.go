package foreigntest

import (
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestReplacedLibrary: an upgrade has replaced the file of Ruby's library while the Ruby runs. ddtop must open the old
// file through /proc/PID/map_files. Without the rights to do so, ddtop must read the library's image in the process's
// memory.
func TestReplacedLibrary(t *testing.T) {
	rubytest.Long(t)
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		if r.Root == "" {
			return // Ruby may have no library of its own: its code may be in the program
		}
		library, _ := libraryOf(t, r)
		soname := soName(t, library)
		// The Ruby uses a copy of its library in this folder, because the dynamic linker searches this folder first. So
		// the test can replace the copy.
		dir, err := os.MkdirTemp(filepath.Join(r.Root, "tmp"), "ddtop-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		own := filepath.Join(dir, soname)
		copyFile(t, library, own)
		p, truth := r.StartParked(t, rubytest.Options{Env: []string{"LD_LIBRARY_PATH=/tmp/" + filepath.Base(dir)}})
		// Replace the library as dpkg does: write a new file, and rename it to the name of the old file.
		if err := os.WriteFile(own+".dpkg-new", []byte("the library of another release"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(own+".dpkg-new", own); err != nil {
			t.Fatal(err)
		}
		said := filepath.Join(t.TempDir(), askFile)
		text, err := json.Marshal(truth)
		if err == nil {
			err = os.WriteFile(said, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, look := range []struct {
			mode       string
			fromMemory bool
		}{{"look", false}, {"drop", true}} {
			f := runHelper(t, look.mode, itoa(p.PID), said)
			f.report(t, look.mode)
			if !f.Deleted || f.FromMemory != look.fromMemory {
				t.Errorf("%s: deleted %t, from memory %t; want true, %t", look.mode, f.Deleted, f.FromMemory, look.fromMemory)
			}
		}
	})
}

// soName returns the name (DT_SONAME) by which programs ask the dynamic linker for a library.
func soName(t *testing.T, library string) string {
	t.Helper()
	f, err := elf.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names, err := f.DynString(elf.DT_SONAME)
	if err != nil || len(names) != 1 {
		t.Fatalf("the name of %s: %v, %v", library, names, err)
	}
	return names[0]
}
