package cli_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestStoppedProcess: if a process is stopped (SIGSTOP) while no thread holds the GVL, its threads look as if they only
// wait. dump and stat must say that the process is stopped.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	p, _ := rubytest.One(t).StartParked(t, rubytest.Options{})
	pid := strconv.Itoa(p.PID)
	const words = "the process is stopped: a signal (SIGSTOP, SIGTSTP) or a debugger"
	said := func() (dump, stat bool) {
		t.Helper()
		var d struct{ Stopped *bool }
		var s struct{ Process struct{ Stopped *bool } }
		r := run(t, "dump", "-p", pid, "--json")
		r.want(t, 0)
		if err := json.Unmarshal([]byte(r.out), &d); err != nil || d.Stopped == nil {
			t.Fatal(err, r.out)
		}
		r = run(t, "stat", "-p", pid, "-d", "500ms", "--json")
		r.want(t, 0)
		if err := json.Unmarshal([]byte(r.out), &s); err != nil || s.Process.Stopped == nil {
			t.Fatal(err, r.out)
		}
		return *d.Stopped, *s.Process.Stopped
	}
	if dump, stat := said(); dump || stat {
		t.Errorf("it runs; stopped: dump %v, stat %v", dump, stat)
	}
	p.Signal(t, syscall.SIGSTOP)
	for end := time.Now().Add(rubytest.Timeout); ; { // try again: to stop, each thread of the process needs a CPU
		dump, stat := said()
		if dump && stat {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it is stopped; dump %v, stat %v", dump, stat)
		}
	}
	for _, args := range [][]string{{"dump"}, {"stat", "-d", "500ms"}} {
		if r := run(t, append(args, "-p", pid)...); !strings.Contains(r.out, words) {
			t.Errorf("%v does not say that it is stopped:\n%s", args, r.out)
		}
	}
	p.Signal(t, syscall.SIGCONT)
}
