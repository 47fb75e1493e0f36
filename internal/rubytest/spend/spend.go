// Package spend runs a program that uses a known amount of CPU time in known C functions. It compiles a Ruby extension
// (ext) for this, which every Ruby from 2.5 on can load.
package spend

import (
	_ "embed" // embeds the extension and the program
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

//go:embed ext/spend.c
var source string

//go:embed spend.rb
var program string

// Function is a function, or a kind of code, in which the program spends CPU time.
type Function int

// First and Second are functions of the extension, and one Ruby method calls both. Outside is a function that runs
// without the GVL. Deflate is libz's deflate, and Ruby is Ruby code. All is the total of the program's thread.
const (
	First Function = iota
	Second
	Outside
	Deflate
	Ruby
	All
	NumFunctions
)

// Names has the name of each Function on a stack: the symbol of the C function, or the label of the Ruby method.
var Names = [All]string{"spend_first", "spend_second", "spend_outside", "deflate", "Object#ruby"}

// Start starts the program, which uses no CPU time until Go is called. If there is no compiler, the test is skipped.
func Start(t *testing.T, r rubytest.Ruby, o rubytest.Options) *rubytest.Process {
	t.Helper()
	gcc := rubytest.Program(t, "gcc", "gcc libc6-dev")
	dir := t.TempDir()
	src, out := filepath.Join(dir, "spend.c"), filepath.Join(dir, "spend.so")
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-std=gnu11", "-O2", "-w", "-fPIC", "-shared", "-fvisibility=hidden", "-o", out, src}
	if text, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("compiling the extension: %v: %s", err, text)
	}
	so, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Start(t, program, o)
	p.Expect(t, "start")
	if err := os.WriteFile(filepath.Join(p.HostDir, "spend.so"), so, 0o755); err != nil {
		t.Fatal(err)
	}
	p.Send(t, "load")
	p.Expect(t, "ready")
	return p
}

// Go makes the program begin to use CPU time in its functions.
func Go(t *testing.T, p *rubytest.Process) {
	t.Helper()
	p.Send(t, "go")
	p.Expect(t, "going")
}

// Stop makes the program stop, and returns the CPU time that it spent in each function, in ns.
func Stop(t *testing.T, p *rubytest.Process) (ns [NumFunctions]int64) {
	t.Helper()
	p.Send(t, "stop")
	line := p.Line(t)
	var to []any
	for i := range ns {
		to = append(to, &ns[i])
	}
	if _, err := fmt.Sscan(line, to...); err != nil || strings.TrimSpace(line) == "" {
		t.Fatalf("%q: %v", line, err)
	}
	return ns
}
