package cli_test

import (
	"bufio"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestExactTimeNamespace: in a time namespace, a process has a clock that differs from the machine's. If the target's
// clock differs from ddtop's, ddtop must call nothing exact. The same is true if ddtop's own clock differs from the
// machine's.
func TestExactTimeNamespace(t *testing.T) {
	unshare := []string{"unshare", "--time", "--monotonic", "5000", "--fork", "--kill-child"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		rubytest.Skip(t, "a time namespace: %v: %s", err, out)
	}
	cmd := exec.Command(unshare[0], append(unshare[1:], rubyCommand(t, rubytest.One(t), "puts Process.pid; $stdout.flush; sleep")...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(line)
	r := run(t, "stat", "-p", pid, "-d", "300ms", "--exact")
	if !strings.Contains(r.err+r.out, "another time namespace") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	// In this part ddtop runs in a time namespace. So ddtop's clock differs from the machine's.
	p := rubytest.One(t).Start(t, "puts 'ready'; $stdout.flush; sleep", rubytest.Options{})
	p.Expect(t, "ready")
	moved, err := exec.Command(unshare[0], append(unshare[1:], ddtop, "stat", "-p", strconv.Itoa(p.PID), "-d", "300ms", "--exact")...).CombinedOutput()
	if !strings.Contains(string(moved), "ddtop runs in a time namespace whose clock is not the machine's") {
		t.Errorf("%v: %s", err, moved)
	}
}
