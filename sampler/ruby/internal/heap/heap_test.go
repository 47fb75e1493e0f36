package heap

import (
	"testing"

	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// open returns the Objects of a captured process.
func open(t *testing.T, c *memtest.Process) *Objects {
	t.Helper()
	release, err := places.ParseRelease(c.Version)
	if err != nil {
		t.Fatal(err)
	}
	table, _, err := layout.For(c.Version, c.Machine, c.JmpBuf)
	if err != nil {
		t.Fatal(err)
	}
	p := new(Places)
	if err := places.Resolve(table, release, p); err != nil {
		t.Fatal(err)
	}
	if err := p.Complete(release); err != nil {
		t.Fatal(err)
	}
	return New(view.New(c.Pages), p, c.VM, c.Symbols)
}

// TestNamesAreBounded reads the names of real processes. The cache must keep names only up to its limit, and its count
// of their bytes must be right.
func TestNamesAreBounded(t *testing.T) {
	for _, g := range memtest.Load[memtest.Golden](t, "../code/testdata/golden") {
		o := open(t, &g.Process)
		for _, limit := range []int{MaxKeptBytes, 500, 1} {
			o.MaxKept = limit
			o.Forget()
			named, most := 0, 0
			for _, s := range g.Pages.Spans() {
				for at := (s.Start + 7) &^ 7; at < s.End; at += 8 {
					if name, ok := o.ClassName(uint64(at)); ok {
						named += len(name)
					}
					sum := 0
					for _, name := range o.idNames {
						sum += keptEntry + len(name)
						most = max(most, len(name))
					}
					for _, c := range o.classNames {
						sum += keptEntry + len(c.name)
						most = max(most, len(c.name))
					}
					if sum != o.kept || o.kept > max(limit, keptEntry+most) /* the last one read */ {
						t.Fatalf("%s: %d bytes are kept, by the account %d, of %d", g.Version, sum, o.kept, limit)
					}
				}
			}
			if named == 0 {
				t.Errorf("%s: no object has a class", g.Version)
			}
		}
	}
}
