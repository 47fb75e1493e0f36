package live

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// inSecond is a program with a thread that sleeps and a main thread that computes. The main thread also forks a child.
const inSecond = `$stdout.sync = true
Thread.new { sleep }.name = "asleep"
child = fork { $stdin.read }
puts child
trap("TERM") { Process.kill("KILL", child); exit }
x = 0
loop { x += 1 }
`

// tasks lists the native threads of a process in the kernel's order, oldest first.
func tasks(t *testing.T, pid int) (tids []int32) {
	t.Helper()
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		tid, err := strconv.Atoi(name)
		if err != nil {
			t.Fatal(err)
		}
		tids = append(tids, int32(tid))
	}
	return tids
}

// tidsByName takes a sample and returns the sample's threads by name. The main thread has the empty name.
func tidsByName(t *testing.T, pid int) map[string]sampler.Thread {
	t.Helper()
	s, err := Open(t.Context(), pid, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x, err := s.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]sampler.Thread)
	for _, th := range x.Threads {
		info, _ := s.Dictionary().Thread(th.ID)
		name := info.Name
		if info.Main {
			name = ""
		}
		out[name] = th
	}
	return out
}

// TestRubyInTheSecondThread: Ruby's main thread is not the first thread of the process. ddtop must find the main
// thread's TID in this PID namespace, even if the process has PID 1 in a container. If this main thread forks a child,
// it is the first thread of the child.
func TestRubyInTheSecondThread(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		for name, own := range map[string]bool{"here": false, "container": true} {
			t.Run(name, func(t *testing.T) {
				if own && os.Geteuid() != 0 {
					rubytest.Skip(t, "a PID namespace needs root")
				}
				p := r.StartInSecondThread(t, inSecond, rubytest.Options{OwnPIDs: own})
				p.Line(t)
				truth := tasks(t, p.PID)
				if int(truth[0]) != p.PID || len(truth) < 3 {
					t.Fatalf("tasks %v of process %d", truth, p.PID)
				}
				got := tidsByName(t, p.PID)
				main := got[""]
				if main.TID != truth[1] {
					t.Errorf("the main thread has the tid %d, want %d; there are %v", main.TID, truth[1], truth)
				}
				if main.Kernel.Syscall == "pause" {
					t.Error("the main thread has the system call of the first one")
				}
				if asleep := got["asleep"].TID; asleep == main.TID || asleep == truth[0] || !slices.Contains(truth, asleep) {
					t.Errorf("the other thread has the tid %d; there are %v", asleep, truth)
				}
				child, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.PID, truth[1]))
				if err != nil {
					t.Fatal(err)
				}
				var pid int
				if _, err := fmt.Sscan(string(child), &pid); err != nil {
					t.Fatalf("children %q: %v", child, err)
				}
				if tid := tidsByName(t, pid)[""].TID; int(tid) != pid {
					t.Errorf("the main thread of the child %d has the tid %d", pid, tid)
				}
			})
		}
	})
}
