package cli_test

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestExactTimeNamespace: of a process whose clock is another one than ddtop's, or than the machine's, nothing is
// called exact.
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
	r := run(t, "stat", "-p", pid, "-d", "1s", "--exact")
	if !strings.Contains(r.err+r.out, "another time namespace") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
}
