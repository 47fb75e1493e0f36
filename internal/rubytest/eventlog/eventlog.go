// Package eventlog gives tests the truth about the GVL: when each thread held it and waited for it. The package has a
// small C extension that logs Ruby's own thread events (3.2 and later) and the garbage collector's events. The package
// also reads this log. The extension is compiled by the host's C compiler when a test needs it.
//
// The events are not exact (docs/internals/threads.md#rubys-thread-events). SUSPENDED comes a few microseconds before
// the GVL is released, and READY a few microseconds before the thread queues. Ruby 3.2 sends no SUSPENDED when a time
// slice ends. So on 3.2 the time from the end of a time slice to READY counts as running.
package eventlog

import (
	_ "embed" // embeds the extension's source
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

//go:embed ext/eventlog.c
var source string

// Env returns the environment variables with which a program logs events into a file. The file is relative to the
// program's folder.
func Env(file string) []string {
	// Development builds of Ruby refuse an extension that was built for another ABI. This extension fits every ABI (see
	// its source), so the check is switched off.
	return []string{"EVENTLOG_FILE=" + file, "RUBY_ABI_CHECK=0"}
}

// ThreadEvents reports whether a Ruby sends thread events (3.2 and later). The logs of older Rubies have only the
// collector's events.
func ThreadEvents(r rubytest.Ruby) bool { return r.AtLeast(3, 2) }

// build compiles the extension, once per test binary.
var build = sync.OnceValues(func() (so []byte, err error) {
	cc, err := compiler()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ddtop-eventlog-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := os.RemoveAll(dir); err == nil {
			err = e
		}
	}()
	src, out := filepath.Join(dir, "eventlog.c"), filepath.Join(dir, "eventlog.so")
	if err := os.WriteFile(src, []byte(source), 0o644); err != nil {
		return nil, err
	}
	// Ruby's own headers have declarations without a prototype, which C23 does not allow. So the extension is compiled
	// as C11.
	cmd := exec.Command(cc, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-o", out, src)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling the event log: %s: %w:\n%s", strings.Join(cmd.Args, " "), err, text)
	}
	return os.ReadFile(out)
})

// errNoCompiler means that this machine has no C compiler. The test is then skipped.
type errNoCompiler struct{}

func (errNoCompiler) Error() string { return "no C compiler (cc or gcc) for the event log" }

func compiler() (string, error) {
	for _, name := range []string{"cc", "gcc"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoCompiler{}
}

// Install puts the extension eventlog.so into a folder. A program in this folder can require "./eventlog". The test is
// skipped if there is no C compiler.
func Install(t testing.TB, dir string) {
	t.Helper()
	so, err := build()
	if _, none := err.(errNoCompiler); none {
		rubytest.Skip(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "eventlog.so"), so, 0o755); err != nil {
		t.Fatal(err)
	}
}
