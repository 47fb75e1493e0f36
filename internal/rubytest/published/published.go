// Package published starts Ruby programs that publish the ids of spans (units of tracing), as the native code of
// tracers does. A reader in another process can find these ids. The package compiles a Ruby extension (ext) for this,
// which every Ruby from 2.5 on can load.
package published

import (
	_ "embed" // embeds the extension and the program
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

//go:embed ext/published.c
var source string

//go:embed published.rb
var program string

// Span is what a thread publishes: the id of its current span and the id of the root span, in decimal. "0" means that
// the thread publishes nothing.
type Span struct{ ID, Root string }

// Start starts the program with the argument in o, "parked" or "race". flags are flags of the compiler: they decide how
// the compiled code accesses the thread-local variable that has the span. The test is skipped if there is no compiler.
func Start(t *testing.T, r rubytest.Ruby, o rubytest.Options, flags ...string) *rubytest.Process {
	t.Helper()
	p := Prepare(t, r, o, flags...)
	p.Send(t, "go")
	return p
}

// Prepare is like Start, but the program publishes nothing until the test sends it a line.
func Prepare(t *testing.T, r rubytest.Ruby, o rubytest.Options, flags ...string) *rubytest.Process {
	t.Helper()
	gcc := rubytest.Program(t, "gcc", "gcc libc6-dev")
	dir := t.TempDir()
	src, out := filepath.Join(dir, "published.c"), filepath.Join(dir, "published.so")
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	// Ruby's own headers have declarations without a prototype, which C23 forbids. So the extension is compiled as C11.
	args := append([]string{"-std=gnu11", "-O2", "-w", "-fPIC", "-shared", "-fvisibility=hidden"}, flags...)
	if text, err := exec.Command(gcc, append(args, "-o", out, src)...).CombinedOutput(); err != nil {
		t.Fatalf("compiling the extension: %v: %s", err, text)
	}
	so, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Start(t, program, o)
	p.Expect(t, "start")
	if err := os.WriteFile(filepath.Join(p.HostDir, "published.so"), so, 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}
