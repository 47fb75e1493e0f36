package rubytest

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// NeedLibrary skips a test of a process, which has to be running its program, whose Ruby is a single file, without a library libruby.
func NeedLibrary(t testing.TB, p *Process) {
	t.Helper()
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/maps")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(maps), "libruby") {
		Skip(t, "this Ruby has no libruby: it is a single file")
	}
}
