package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// startNameless starts a Ruby with two threads that wait in functions of a stripped library. One is the main thread. C
// code made the other one, so Ruby does not know it. A server offers the debug file of the library, with the names of
// these functions. asked counts the requests to this server.
func startNameless(t *testing.T) (p *rubytest.Process, asked *atomic.Int32) {
	t.Helper()
	dir := t.TempDir()
	const code = "#include <pthread.h>\n#include <unistd.h>\n" +
		"static void *hidden_worker(void *x) { for (;;) pause(); }\n" +
		"__attribute__((noinline)) static int hidden_wait(void) { char c; return read(0, &c, 1) + 1; }\n" +
		"int start(void) { pthread_t id; pthread_create(&id, 0, hidden_worker, 0); " +
		"return write(1, \"ready\\n\", 6) + hidden_wait(); }\n"
	if err := os.WriteFile(filepath.Join(dir, "own.c"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"gcc", "-g", "-shared", "-fPIC", "-pthread", "-Wl,--build-id=0x0123456789abcdef", "-o", "whole", "own.c"},
		{"objcopy", "--only-keep-debug", "whole", "debug"},
		{"objcopy", "--strip-all", "whole", "own.so"},
	} {
		cmd := exec.Command(rubytest.Program(t, command[0], "gcc libc6-dev binutils"), command[1:]...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, text)
		}
	}
	asked = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path != "/buildid/0123456789abcdef/debuginfo" {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, filepath.Join(dir, "debug"))
	}))
	t.Cleanup(s.Close)
	t.Setenv("DEBUGINFOD_URLS", s.URL+"/?token=secret")
	t.Setenv("DEBUGINFOD_CACHE_PATH", filepath.Join(dir, "cache"))
	p = rubytest.One(t).Start(t, `
		require "fiddle"
		$stdin.gets
		Fiddle::Function.new(Fiddle.dlopen(File.expand_path("own.so"))["start"], [], Fiddle::TYPE_INT).call
	`, rubytest.Options{})
	library, err := os.ReadFile(filepath.Join(dir, "own.so"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.HostDir, "own.so"), library, 0o644); err != nil {
		t.Fatal(err)
	}
	p.Send(t, "go on")
	p.Expect(t, "ready")
	return p, asked
}

// TestDumpAsksDebuginfod: with --debuginfod, dump downloads the debug file of a stripped library from a server. It then
// shows the names of the library's functions. Without the flag, ddtop sends no request. Messages do not show secrets
// that are in DEBUGINFOD_URLS.
func TestDumpAsksDebuginfod(t *testing.T) {
	p, asked := startNameless(t)
	dump := func(want string, more ...string) result {
		t.Helper()
		for until := time.Now().Add(rubytest.Timeout); ; {
			r := run(t, append([]string{"dump", "-p", strconv.Itoa(p.PID)}, more...)...)
			r.want(t, 0)
			if strings.Contains(r.out, want) {
				return r
			}
			if time.Now().After(until) {
				t.Fatalf("no %q in\n%s%s", want, r.out, r.err)
			}
		}
	}
	dump("at own (1 function)")
	if asked.Load() != 0 {
		t.Error("a server was asked without --debuginfod")
	}
	r := dump("at hidden_worker [own]", "--debuginfod")
	if asked.Load() == 0 || strings.Contains(r.err, "secret") || strings.Contains(r.err, "as own ") {
		t.Errorf("asked %d times: %s", asked.Load(), r.err)
	}
	t.Setenv("DEBUGINFOD_URLS", "ftp://secret@host")
	refused := run(t, "dump", "-p", strconv.Itoa(p.PID), "--debuginfod")
	if refused.want(t, 2, "DEBUGINFOD_URLS"); strings.Contains(refused.err, "secret") {
		t.Error(refused.err)
	}
}

// TestStatReadsStaysAgain: a thread waits in C functions of a stripped library. The library's debug file arrives only
// after the thread's stack was read. stat still names the functions, because it reads the stack again. ddtop reads the
// native stack of a thread that stays in one place after one second, and again after another second. Without a free CPU
// this takes longer, so the test measures for 8 s.
func TestStatReadsStaysAgain(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	p, _ := startNameless(t)
	r := run(t, "stat", "-p", strconv.Itoa(p.PID), "-d", "8s", "--debuginfod")
	if r.want(t, 0); !strings.Contains(r.out, "hidden_wait") {
		rubytest.TooSeldom(t, "no hidden_wait in\n%s%s", r.out, r.err)
	}
}
