package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// hostRuby returns an executable that runs the newest Ruby without chroot, as if it were installed on the host. If this
// Ruby is installed in a root folder of its own, the executable is a script. The script starts the Ruby with the loader
// and the libraries of this folder.
func hostRuby(t *testing.T) string {
	t.Helper()
	r := rubytest.One(t)
	if r.Root == "" {
		return r.Bin
	}
	one := func(pattern string) string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(r.Root, pattern))
		if err != nil || len(found) == 0 {
			rubytest.Skip(t, "%s has no %s: %v", r, pattern, err)
		}
		return found[0]
	}
	loader := one("lib64/ld-linux-*.so.*")
	libs := filepath.Dir(one("usr/lib/*/libc.so.6"))
	// A root folder can contain several releases of Ruby. So the path below it must name the release.
	major, minor := r.Release()
	pure := one(fmt.Sprintf("usr/lib/ruby/%d.%d.0", major, minor))
	native := one(fmt.Sprintf("usr/lib/*/ruby/%d.%d.0", major, minor))
	wrapper := filepath.Join(t.TempDir(), "ruby")
	script := fmt.Sprintf("#!/bin/sh\nRUBYLIB=%s:%s exec %s --library-path %s %s --disable-gems \"$@\"\n",
		pure, native, loader, libs, filepath.Join(r.Root, r.Bin))
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return wrapper
}

func TestDemoWithoutATerminal(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	r := run(t, "demo", "--ruby", hostRuby(t))
	if r.code != 0 {
		t.Fatalf("code %d, it said %q", r.code, r.err)
	}
	for _, want := range []string{
		"GVL", "http-1", "worker-1", "reports", "cache-refresher", "ddtop itself", // words in the table
		"Service#start_thread", "scheduler", // words in the dump
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in what it printed:\n%s", want, r.out)
		}
	}
}

func TestDemoOnTheScreen(t *testing.T) {
	t.Parallel()
	x := inTerminal(t, "demo", "--phase", "hog", "--ruby", hostRuby(t))
	x.see(t, "reports")
	x.see(t, "Service#start_thread") // the outermost frame, which no narrow box and no fold can hide
	x.press(t, "q")
	x.leaves(t, 0)
}
