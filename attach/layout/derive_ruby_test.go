package layout

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// rubyFile returns the file that contains a Ruby's VM: its libruby, or the ruby program itself.
func rubyFile(t *testing.T, r rubytest.Ruby) string {
	t.Helper()
	bin := filepath.Join(r.Root, r.Bin)
	for _, pattern := range []string{"../lib/libruby*.so.*.*.*", "../lib/*/libruby*.so.*.*.*"} {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(bin), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if info, err := os.Lstat(f); err == nil && info.Mode().IsRegular() && strings.Contains(f, r.Version) {
				return f
			}
		}
	}
	return bin
}

// TestDeriveRuby: for every Ruby that was built with -g, each derived field and constant equals the embedded table of
// its release.
func TestDeriveRuby(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		m, err := mapped.OpenFile(rubyFile(t, r))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		version, err := m.FileVersion()
		if err != nil {
			t.Fatal(err)
		}
		if version != r.Version {
			t.Errorf("the file says %s, Ruby %s", version, r.Version)
		}
		debug, err := m.DebugFile()
		if err != nil {
			rubytest.Skip(t, "it was built without debug information")
		}
		info, err := ReadDebugInfo(t.Context(), debug.ELF)
		if err != nil {
			t.Fatal(err)
		}
		known, match, err := For(version, m.Machine, m.JmpBuf())
		if err != nil {
			t.Fatal(err)
		}
		// Derive copies values that the debug information lacks from a base table. The result is compared with the
		// table of this release. So the base table must be another release's.
		if !hasUnit(t, info, "vm.c") {
			rubytest.Skip(t, "its C part was built without debug information: only a JIT's Rust has some")
		}
		d, err := Derive(t.Context(), info, DeriveOptions{Release: version, Machine: m.Machine})
		if err != nil {
			t.Fatal(err)
		}
		if d.Table.JmpBuf != m.JmpBuf() {
			t.Errorf("jmp_buf is %t in the debug information, %t by the symbols", d.Table.JmpBuf, m.JmpBuf())
		}
		if !match.Exact {
			t.Errorf("no exact table: %s", match.Note)
		}
		for _, diff := range Differences(d.Table, known) {
			t.Error(diff)
		}
		for name := range known.sizes {
			if !d.Table.hasStruct(name) && !slices.Contains(elsewhere, name) {
				t.Errorf("struct %s was not found", name)
			}
		}
		macros := 0
		for name := range known.constants {
			if _, ok := d.Table.Constant(name); !ok {
				macros++
			}
		}
		for _, name := range []string{"tLAST_OP_ID", "RUBY_FL_SINGLETON", "FIBER_CREATED"} {
			if _, ok := d.Table.Constant(name); !ok {
				t.Errorf("constant %s was not found", name)
			}
		}
		structs, fields, constants := d.Table.Counts()
		rubytest.Report(t, "%s: %d structs, %d fields, %d constants derived from %d of %d units, as the embedded table; %d constants are macros",
			r, structs, fields, constants, d.Units, d.Total, macros)
	})
}

// hasUnit reports whether the debug information describes a source file.
func hasUnit(t *testing.T, info *DebugInfo, name string) bool {
	t.Helper()
	s := &scan{ctx: t.Context(), reader: info.data.Reader()}
	units, err := s.units(info.units)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(units, func(u unit) bool { return u.name == name })
}
