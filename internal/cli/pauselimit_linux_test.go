package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestPauseOfLimited: if a cgroup limits the CPU time of ddtop, ddtop refuses --pause and stops no process. If ddtop
// ran out of CPU time during a pause, the process would stay stopped. The error says for how long this could last.
func TestPauseOfLimited(t *testing.T) {
	dir := limitedCgroup(t)
	p := rubytest.One(t).Start(t, "puts 'ready'; $stdout.flush; $stdin.gets", rubytest.Options{})
	p.Expect(t, "ready")
	run := func(args ...string) result {
		out, err := exec.Command("sh", append([]string{"-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(dir, "inner", "cgroup.procs"), ddtop}, args...)...).CombinedOutput()
		code := 0
		if err != nil {
			code = err.(*exec.ExitError).ExitCode()
		}
		return result{code: code, err: string(out)}
	}
	for _, command := range []string{"stat", "dump", "heap"} {
		run(command, "-p", strconv.Itoa(p.PID), "--pause").want(t, 3, "--pause is refused", "50ms in each 100ms", dir, "stands still for up to 100ms more")
	}
	run("dump", "-p", strconv.Itoa(p.PID)).want(t, 0)
}

// limitedCgroup makes a cgroup that may use half of a CPU, and a cgroup named inner below it. It returns the folder of
// the first cgroup.
func limitedCgroup(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		left, right, _ := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) < 5 || len(r) < 3 {
			continue
		}
		var files map[string]string
		controllers, err := os.ReadFile(filepath.Join(l[4], "cgroup.subtree_control"))
		switch {
		case r[0] == "cgroup" && slices.Contains(strings.Split(r[2], ","), "cpu"):
			files = map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}
		case r[0] == "cgroup2" && err == nil && slices.Contains(strings.Fields(string(controllers)), "cpu"):
			files = map[string]string{"cpu.max": "50000 100000"}
		default:
			continue
		}
		dir := filepath.Join(l[4], fmt.Sprintf("ddtop-limit-%d", os.Getpid()))
		if err := os.MkdirAll(filepath.Join(dir, "inner"), 0o755); err != nil {
			rubytest.Skip(t, "a cgroup: %v", err)
		}
		t.Cleanup(func() {
			for _, d := range []string{filepath.Join(dir, "inner"), dir} {
				for end := time.Now().Add(rubytest.Timeout); os.Remove(d) != nil; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("%s can't be removed", d)
					}
				}
			}
		})
		for name, value := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
				rubytest.Skip(t, "limit the CPU: %v", err)
			}
		}
		return dir
	}
	rubytest.Skip(t, "no cgroups with the CPU controller are mounted")
	return ""
}
