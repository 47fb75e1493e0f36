package rubytest

import (
	_ "embed"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed host/second.c
var secondSource []byte

// StartInSecondThread starts a program in which Ruby runs in a second native thread, while the first waits in pause(2).
// This resembles a host program that embeds Ruby.
func (r Ruby) StartInSecondThread(t testing.TB, script string, o Options) *Process {
	t.Helper()
	return r.StartPreloaded(t, script, o, secondSource)
}

// StartPreloaded starts a program with a preloaded library (LD_PRELOAD), which replaces functions of other libraries.
// source is the library's C code.
func (r Ruby) StartPreloaded(t testing.TB, script string, o Options, source []byte) *Process {
	t.Helper()
	if r.Emulator != "" {
		Skip(t, "the library is built for this machine, and %s runs in an emulator", r)
	}
	dir := t.TempDir()
	file, library := filepath.Join(dir, "first.c"), filepath.Join(dir, "first.so")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		t.Fatal(err)
	}
	gcc := exec.Command(Program(t, "gcc", "gcc libc6-dev"), "-O1", "-w", "-shared", "-fPIC", "-nostdlib", "-fno-stack-protector", "-o", library, file)
	if text, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", gcc, err, text)
	}
	content, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"first.so": string(content)}
	maps.Copy(files, o.files)
	o.files, o.Env = files, append([]string{"LD_PRELOAD=./first.so"}, o.Env...)
	return r.Start(t, script, o)
}
