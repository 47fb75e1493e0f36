package ruby

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

var update = flag.Bool("update", false, "capture testdata/golden from real Rubies anew")

// golden is what was captured of a real process: enough to decode its stacks again, anywhere.
type golden struct {
	Version, Machine        string
	JmpBuf                  bool
	VM, MainThread, Symbols attach.Address
	Stacks                  []goldenStack
	pages                   *attach.Pages
}

// goldenStack is one stack and what it was decoded to while the process lived, held against Ruby's own word then.
type goldenStack struct {
	Thread           string
	End, CFP, Values attach.Address
	Frames, Used     []byte
	Want             []string
}

func (s *goldenStack) raw() RawStack {
	return RawStack{End: s.End, CFP: s.CFP, Frames: s.Frames, Values: s.Used, ValuesAt: s.Values}
}

// goldenThreads are the threads of the parked program that are captured: one of each kind of thing to read.
var goldenThreads = []string{
	"block in block", "alias with blocks", "define_method with block", "default keyword", "rescue in block",
	"nested rescue", "eval", "symbol to_proc", "splat and keywords", "interpolation",
}

func (g *golden) open(mem attach.Memory) (*Decoder, *sampler.Dictionary, error) {
	table, _, err := layout.For(g.Version, g.Machine, g.JmpBuf)
	if err != nil {
		return nil, nil, err
	}
	release, err := ParseRelease(g.Version)
	if err != nil {
		return nil, nil, err
	}
	vm := newVM(mem, table, g.Version, release)
	vm.Addr, vm.MainThread, vm.Symbols = g.VM, g.MainThread, g.Symbols
	dict := sampler.NewDictionary()
	d, err := NewDecoder(vm, dict)
	return d, dict, err
}

// describe decodes a stack into lines of text.
func describe(d *Decoder, dict *sampler.Dictionary, raw *RawStack) ([]string, error) {
	id, info, err := d.Decode(raw)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range dict.Frames(id, nil) {
		f := dict.Frame(f)
		out = append(out, fmt.Sprintf("%s | %s | %s:%d from %d | %s | c=%t uncertain=%t", f.Label, f.Name, f.Path, f.Line, f.FirstLine,
			f.AbsolutePath, f.C, f.Uncertain))
	}
	if info.Frames != len(out) || info.FailedNames != 0 {
		return out, fmt.Errorf("%d frames, %d of them without a name", info.Frames, info.FailedNames)
	}
	return out, nil
}

// TestGolden decodes what was captured of real processes on Debian's Rubies; with -update it captures them anew.
func TestGolden(t *testing.T) {
	if *update {
		rubytest.Each(t, captureGolden)
	}
	goldens := loadGoldens(t)
	if len(goldens) < 4 {
		t.Errorf("%d captured processes only", len(goldens))
	}
	for _, g := range goldens {
		t.Run(g.Version, func(t *testing.T) {
			d, dict, err := g.open(g.pages)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range g.Stacks {
				raw := s.raw()
				got, err := describe(d, dict, &raw)
				if err != nil {
					t.Errorf("%s: %v", s.Thread, err)
				}
				if !slices.Equal(got, s.Want) {
					t.Errorf("%s: got\n%q\nwant\n%q", s.Thread, got, s.Want)
				}
			}
		})
	}
}

func loadGoldens(t testing.TB) []*golden {
	t.Helper()
	files, err := filepath.Glob("testdata/golden/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var out []*golden
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		g := new(golden)
		if err := json.Unmarshal(text, g); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f, err := os.Open(name[:len(name)-len(".json")] + ".pages")
		if err != nil {
			t.Fatal(err)
		}
		g.pages, err = attach.ReadPages(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, g)
	}
	return out
}

func captureGolden(t *testing.T, r rubytest.Ruby) {
	p, truth := r.StartParked(t, rubytest.Options{})
	live := openTarget(t, p.PID)
	compareThreads(t, live, truth, true)
	if t.Failed() {
		return
	}
	g := &golden{Version: live.vm.Version, Machine: live.mod.Machine, JmpBuf: live.mod.JmpBuf(),
		VM: live.vm.Addr, MainThread: live.vm.MainThread, Symbols: live.vm.Symbols}
	capture := attach.NewCapture(live.proc)
	d, dict, err := g.open(capture)
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range live.threads(t) {
		name := live.name(t, thread)
		raw, ok := live.threadStack(t, thread, true)
		if !ok || !slices.Contains(goldenThreads, name) {
			continue
		}
		want, err := describe(d, dict, &raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		g.Stacks = append(g.Stacks, goldenStack{name, raw.End, raw.CFP, raw.ValuesAt, raw.Frames, raw.Values, want})
	}
	if len(g.Stacks) != len(goldenThreads) {
		t.Fatalf("%d threads of %d", len(g.Stacks), len(goldenThreads))
	}
	text, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var pages bytes.Buffer
	if err := capture.Pages().Write(&pages); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join("testdata", "golden", g.Version)
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{base + ".json": append(text, '\n'), base + ".pages": pages.Bytes()} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
