package ruby

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/sampler"
)

// anyExports has every variable.
type anyExports struct{}

func (anyExports) Exported(name string) (attach.Symbol, bool) {
	return attach.Symbol{Name: name}, true
}

// askAll resolves all that the reading of a process asks a table for.
func askAll(t *layout.Table, rel Release) error {
	vm := &VM{Table: t, Release: rel, Mem: new(memtest.Pages)}
	names, err := resolveNames(t, rel)
	if err != nil {
		return err
	}
	if _, err := resolveVM(t, rel); err != nil {
		return err
	}
	loadPathPlaceOf(vm)
	r, err := NewReader(vm, anyExports{}, 1, &Decoder{o: names, view: newView(vm.Mem)}, sampler.NewDictionary(), Options{})
	if err != nil {
		return err
	}
	r.gc = newGCReader(t, 1)
	_, err = newFiberFinder(r)
	return err
}

// TestTablesHoldWhatIsRead: each name that a table has is asked for on some release, and what is asked for under no name that
// any table has is at least the name of a field that some struct has.
func TestTablesHoldWhatIsRead(t *testing.T) {
	releases, err := layout.Releases()
	if err != nil {
		t.Fatal(err)
	}
	asked, known := make(map[string]bool), make(map[string]bool)
	leaf := func(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
	leaves := make(map[string]bool)
	for _, r := range releases {
		for _, jmpBuf := range []bool{false, true} {
			table, _, err := layout.For(r.Version, r.Machine, jmpBuf)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := parseRelease(r.Version)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range table.Names() {
				known[name], leaves[leaf(name)] = true, true
			}
			if err := askAll(table.Observed(func(name string) { asked[name] = true }), rel); err != nil {
				t.Errorf("%s: %v", table.Name, err)
			}
		}
	}
	for name := range known {
		if !asked[name] {
			t.Errorf("the tables have %s, which nothing asks for", name)
		}
	}
	for name := range asked {
		if !known[name] && !leaves[leaf(name)] {
			t.Errorf("no table has %s", name)
		}
	}
	if len(known) < 200 {
		t.Errorf("only %d names", len(known))
	}
}
