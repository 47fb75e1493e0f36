package attach

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/rubytest"
)

const debugSource = `static long hidden_variable = 7; long shown(void) { return hidden_variable++; }`

// buildSeparate compiles a library, and moves its debug information to the file library.debug, as distributions do.
func buildSeparate(t *testing.T, flags ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "library.c"), []byte(debugSource), 0o600); err != nil {
		t.Fatal(err)
	}
	packages := map[string]string{"gcc": "gcc libc6-dev", "objcopy": "binutils"}
	for _, command := range [][]string{
		append([]string{"gcc", "-g", "-shared", "-fPIC", "-o", "whole.so", "library.c"}, flags...),
		{"objcopy", "--only-keep-debug", "whole.so", "library.debug"},
		{"objcopy", "--strip-all", "--add-gnu-debuglink=library.debug", "whole.so", "library.so"},
	} {
		c := exec.Command(rubytest.Program(t, command[0], packages[command[0]]), command[1:]...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	return dir
}

func openIn(t *testing.T, path string, roots ...string) *Module {
	t.Helper()
	m, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	for _, root := range roots {
		m.Roots = append(m.Roots, mapped.OwnRoot(root))
	}
	return m
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestDebugFile: a separate debug file can be in several places, and is found in each of them. The module then has the
// symbols that strip has removed from the library.
func TestDebugFile(t *testing.T) {
	for name, test := range map[string]struct {
		flags []string
		place func(dir, root, id string) string
	}{
		"build id": {nil, func(_, root, id string) string {
			return filepath.Join(root, mapped.DebugFolder, ".build-id", id[:2], id[2:]+".debug")
		}},
		"beside":           {[]string{"-Wl,--build-id=none"}, func(dir, _, _ string) string { return filepath.Join(dir, "library.debug") }},
		".debug":           {[]string{"-Wl,--build-id=none"}, func(dir, _, _ string) string { return filepath.Join(dir, ".debug", "library.debug") }},
		"below the folder": {[]string{"-Wl,--build-id=none"}, func(dir, root, _ string) string { return filepath.Join(root, mapped.DebugFolder, dir, "library.debug") }},
	} {
		t.Run(name, func(t *testing.T) {
			dir, root := buildSeparate(t, test.flags...), t.TempDir()
			own, err := OpenFile(filepath.Join(dir, "whole.so"))
			if err != nil {
				t.Fatal(err)
			}
			defer own.Close()
			want, ok := own.Symbol("hidden_variable")
			if f, err := own.DebugFile(); !ok || err != nil || f.Separate || f.Path != own.Path {
				t.Fatalf("its own: %+v, %v", f, err)
			}
			place := test.place(dir, root, own.BuildID+"0000")
			if own.BuildID != "" {
				place = test.place(dir, root, own.BuildID)
			}
			move(t, filepath.Join(dir, "library.debug"), filepath.Join(dir, "elsewhere"))
			move(t, filepath.Join(dir, "elsewhere"), place)
			m := openIn(t, filepath.Join(dir, "library.so"), t.TempDir(), root, "/")
			f, err := m.DebugFile()
			if err != nil || !f.Separate || f.Path != place && f.Path != filepath.Join("/", place) {
				t.Fatalf("%+v, %v, want %s", f, err, place)
			}
			if got, ok := m.Symbol("hidden_variable"); !ok || got != want {
				t.Errorf("the symbol: %+v, %t, want %+v", got, ok, want)
			}
			if m.HasDWARF() || !m.Stripped() {
				t.Error("the library itself is not stripped")
			}
		})
	}
}

// TestDebugFileOfAnother: a debug file of another build is refused, whatever its name.
func TestDebugFileOfAnother(t *testing.T) {
	for _, flags := range [][]string{{"-Wl,--build-id=none"}, nil} {
		dir, other := buildSeparate(t, flags...), buildSeparate(t, append(flags, "-O2", "-Dhidden_variable=other")...)
		move(t, filepath.Join(other, "library.debug"), filepath.Join(dir, "library.debug"))
		m := openIn(t, filepath.Join(dir, "library.so"))
		if id := m.BuildID; id != "" {
			root := t.TempDir()
			move(t, filepath.Join(dir, "library.debug"), filepath.Join(root, mapped.DebugFolder, ".build-id", id[:2], id[2:]+".debug"))
			m.Roots = []mapped.DebugRoot{mapped.OwnRoot(root)}
		}
		if f, err := m.DebugFile(); !errors.Is(err, mapped.ErrNoDebugFile) {
			t.Errorf("%v: %+v, %v", flags, f, err)
		}
		if _, ok := m.Symbol("other"); ok {
			t.Error("a symbol of another build")
		}
		if _, ok := m.Symbol("shown"); !ok {
			t.Error("what is exported is lost")
		}
	}
}
