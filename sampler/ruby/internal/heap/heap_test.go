package heap

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// open reads the memory that was captured of a process, by the name of its file.
func open(t *testing.T, file string) (*Objects, *memtest.Pages) {
	t.Helper()
	var c struct {
		Version, Machine string
		JmpBuf           bool
		VM, Symbols      attach.Address
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file[:len(file)-len(".json")] + ".pages")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pages, err := memtest.ReadPages(f)
	if err != nil {
		t.Fatal(err)
	}
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
	return New(view.New(pages), p, c.VM, c.Symbols), pages
}

// TestNamesAreBounded: of the names in the memory of real processes, no more are kept than may be, and the account is right.
func TestNamesAreBounded(t *testing.T) {
	files, err := filepath.Glob("../../testdata/golden/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		o, pages := open(t, file)
		for _, limit := range []int{MaxKeptBytes, 500, 1} {
			o.MaxKept = limit
			o.Forget()
			named, most := 0, 0
			for _, s := range pages.Spans() {
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
						t.Fatalf("%s: %d bytes are kept, by the account %d, of %d", file, sum, o.kept, limit)
					}
				}
			}
			if named == 0 {
				t.Errorf("%s: no object has a class", file)
			}
		}
	}
}
