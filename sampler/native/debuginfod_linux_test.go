package native_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach/debuginfod"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestNamesFromDebuginfod: the functions of a stripped program have no names at first, and reading does not wait for a
// debuginfod server. When the program's debug file has arrived from the server, the functions have the names in it.
func TestNamesFromDebuginfod(t *testing.T) {
	dir := t.TempDir()
	for _, command := range [][]string{
		{rubytest.Program(t, "gcc", "gcc libc6-dev"), "-O1", "-fno-optimize-sibling-calls", "-Wl,--build-id", "-o", "whole", "testdata/nameless.c"},
		{rubytest.Program(t, "objcopy", "binutils"), "--only-keep-debug", "whole", "debug"},
		{"objcopy", "--strip-all", "whole", "program"},
	} {
		for i, word := range command {
			if word == "whole" || word == "debug" || word == "program" {
				command[i] = filepath.Join(dir, word)
			}
		}
		if text, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, text)
		}
	}
	send := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-send:
		case <-r.Context().Done():
		}
		http.ServeFile(w, r, filepath.Join(dir, "debug"))
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	t.Setenv(debuginfod.URLs, server.URL)
	t.Setenv(debuginfod.Cache, filepath.Join(dir, "cache"))
	client, err := debuginfod.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)

	cmd := exec.Command(filepath.Join(dir, "program"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := rubytest.StartTied(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	s := openStacks(t, cmd.Process.Pid)
	names := func() (list []string) {
		for until := time.Now().Add(rubytest.Timeout); time.Now().Before(until); {
			if _, stack, ok := s.read(t, int32(cmd.Process.Pid)); ok {
				for _, f := range s.space.Names(stack.Frames) {
					if f.Library == "program" {
						list = append(list, f.Name)
					}
				}
				return list
			}
		}
		t.Fatal("the program never waits")
		return nil
	}
	s.space.Debug = client
	if got := names(); !slices.Equal(got, []string{"", "", "", ""}) { // the functions inner, outer, main and _start
		t.Errorf("before the server has answered: %q", got)
	}
	close(send)
	client.Wait(t.Context(), rubytest.Timeout)
	want := []string{"inner_nameless", "outer_nameless", "main", "_start"}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q; %s", got, want, client.Missing(func(name string) string { return name }))
	}
}
