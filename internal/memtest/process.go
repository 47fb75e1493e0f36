package memtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// Process is a real process that a test has captured: the address of its VM, and the memory that was read.
type Process struct {
	Version, Machine        string
	JmpBuf                  bool
	VM, MainThread, Symbols attach.Address
	Pages                   *Pages `json:"-"`
}

func (p *Process) setPages(pages *Pages) { p.Pages = pages }

// Golden is a captured process with some of its stacks. A test on any machine can decode these stacks again.
type Golden struct {
	Process
	Stacks []GoldenStack
}

// GoldenStack is one stack. Want has the frames that ddtop decoded from it while the process ran. Ruby itself reported
// the same frames. Used has the values on the VM stack that were read at the same time. Values is the address of the
// first value.
type GoldenStack struct {
	Thread           string
	End, CFP, Values attach.Address
	Frames, Used     []byte
	Want             []string
}

// Describe returns the frames of a stack as text. There is a line for each frame, with all that is known about it.
func Describe(dict *sampler.Dictionary, stack sampler.StackID) (lines []string) {
	for _, id := range dict.Frames(stack, nil) {
		f := dict.Frame(id)
		lines = append(lines, fmt.Sprintf("%s | %s | %s:%d from %d | %s | c=%t uncertain=%t", f.Label, f.Name, f.Path, f.Line, f.FirstLine,
			f.AbsolutePath, f.C, f.Uncertain))
	}
	return lines
}

// Load reads what Save wrote into a folder. Each process has two files: its memory (.pages) and a JSON file (.json).
// The type T of the JSON is a struct that embeds Process.
func Load[T any, P interface {
	*T
	setPages(*Pages)
}](t testing.TB, folder string) []P {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing is kept in %s: %v", folder, err)
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
		pages, err := ReadPages(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		g.setPages(pages)
		out = append(out, g)
	}
	return out
}

// Save writes a captured process into a folder, in the form that Load reads.
func Save(t *testing.T, folder, name string, g any, capture *Capture) {
	t.Helper()
	text, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var pages bytes.Buffer
	if err := capture.Pages().Write(&pages); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(folder, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{base + ".json": append(text, '\n'), base + ".pages": pages.Bytes()} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
