package ruby

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

// captured is what was kept of a real process: its VM's place, and the memory that was read of it.
type captured struct {
	Version, Machine        string
	JmpBuf                  bool
	VM, MainThread, Symbols attach.Address
	pages                   *memtest.Pages
}

func capturedOf(live *target) captured {
	return captured{Version: live.vm.Version, Machine: live.mod.Machine, JmpBuf: live.mod.JmpBuf(),
		VM: live.vm.Addr, MainThread: live.vm.MainThread, Symbols: live.vm.Symbols}
}

// decoder makes a Decoder of the process, as if it lived, with its memory in mem.
func (c *captured) decoder(mem attach.Memory) (*Decoder, *sampler.Dictionary, error) {
	table, _, err := layout.For(c.Version, c.Machine, c.JmpBuf)
	if err != nil {
		return nil, nil, err
	}
	release, err := places.ParseRelease(c.Version)
	if err != nil {
		return nil, nil, err
	}
	vm, err := newVM(mem, table, c.Version, release)
	if err != nil {
		return nil, nil, err
	}
	vm.Addr, vm.MainThread, vm.Symbols = c.VM, c.MainThread, c.Symbols
	dict := sampler.NewDictionary()
	return NewDecoder(vm, dict), dict, nil
}

func (c *captured) setPages(p *memtest.Pages) { c.pages = p }

// loadCaptured reads what is kept below testdata/FOLDER: of each process its memory (.pages) and a T, which has a captured.
func loadCaptured[T any, P interface {
	*T
	setPages(*memtest.Pages)
}](t testing.TB, folder string) []P {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out []P
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		g := P(new(T))
		if err := json.Unmarshal(text, g); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f, err := os.Open(name[:len(name)-len(".json")] + ".pages")
		if err != nil {
			t.Fatal(err)
		}
		pages, err := memtest.ReadPages(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		g.setPages(pages)
		out = append(out, g)
	}
	return out
}

// writeCaptured writes what loadCaptured reads.
func writeCaptured(t *testing.T, folder, version string, g any, capture *memtest.Capture) {
	t.Helper()
	text, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var pages bytes.Buffer
	if err := capture.Pages().Write(&pages); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join("testdata", folder, version)
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{base + ".json": append(text, '\n'), base + ".pages": pages.Bytes()} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
