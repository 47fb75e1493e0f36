package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// commandsOnPID returns all commands that take a process, each with the further arguments that it needs.
func commandsOnPID(pid int) [][]string {
	p := strconv.Itoa(pid)
	return [][]string{
		{"dump", "-p", p},
		{"dump", "-p", p, "--json"},
		{"stat", "-p", p, "-d", "1s"},
		{"record", "-p", p, "-d", "1s", "-o", os.DevNull + "-not-reached"},
	}
}

// refused checks that every command fails on the process with the given exit code, and that its error has the texts.
func refused(t *testing.T, pid, code int, texts ...string) {
	t.Helper()
	for _, args := range commandsOnPID(pid) {
		r := run(t, args...)
		r.want(t, code, append(texts, strconv.Itoa(pid))...)
		if r.out != "" {
			t.Errorf("%v printed %q", args, r.out)
		}
	}
}

func TestNoSuchProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	refused(t, cmd.Process.Pid, 4, "no such process", "ddtop ps")
}

func TestGoProgram(t *testing.T) {
	t.Parallel()
	refused(t, os.Getpid(), 4, "not a CRuby process")
}

func TestKernelThread(t *testing.T) {
	t.Parallel()
	const kthreadd = 2
	if name, err := os.ReadFile("/proc/2/comm"); err != nil || string(name) != "kthreadd\n" {
		rubytest.Skip(t, "process 2 is no kernel thread here (a PID namespace)")
	}
	refused(t, kthreadd, 4, "kernel thread")
}

func TestZombie(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	// cat closes its output when it ends. It is then a zombie until the call of Wait. The test needs a zombie.
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
	waitForState(t, cmd.Process.Pid, "Z")
	refused(t, cmd.Process.Pid, 4, "zombie")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// waitForState waits until the kernel reports this state for a process (/proc/PID/stat, field 3).
func waitForState(t *testing.T, pid int, state string) {
	t.Helper()
	until(t, func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(text), ") "+state+" ")
	}, "process %d in state %s", pid, state)
}

func TestAnotherUsersProcess(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		rubytest.Skip(t, "becoming another user needs root")
	}
	p := rubytest.One(t).Start(t, "$stdout.sync = true\nputs 'up'\nSTDIN.read\n", rubytest.Options{})
	p.Expect(t, "up")
	for _, args := range commandsOnPID(p.PID) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		cmd, out, errs := prepare(ctx, args...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: nobody}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r := finish(t, cmd, out, errs)
		cancel()
		if args[0] == "record" {
			// `ddtop record` cannot write its file in this folder. It reports this before it reads the process.
			r.want(t, 1, "can't be written")
			continue
		}
		r.want(t, 3, "no permission", strconv.Itoa(p.PID), "belongs to user root")
		// ddtop's advice depends on where the test runs. It is either to use sudo, or to add a capability.
		if !strings.Contains(r.err, "sudo") && !strings.Contains(r.err, "SYS_PTRACE") {
			t.Errorf("it does not say how to fix it: %s", r.err)
		}
	}

	cmd, out, errs := prepare(t.Context(), "ps")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: nobody}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := finish(t, cmd, out, errs)
	if row := psRow(t, r.out, p.PID); !strings.Contains(row, " no ") {
		t.Errorf("ps as nobody says %s", row)
	}
	// `ddtop ps` prints why it cannot read processes of root. This text must be below the table, and only once for all
	// of them.
	said := regexp.MustCompile(`(?m)^(?:not readable|(?:\d+, )*` + strconv.Itoa(p.PID) + `(?:, \d+)*): no permission to read the process: it belongs to user root`)
	if n := len(said.FindAllString(r.out, -1)); n != 1 || strings.Count(r.out, "belongs to user root") > strings.Count(r.out, "\n\n") {
		t.Errorf("ps as nobody says %d times why not:\n%s", n, r.out)
	}
}

// psRow returns the row of a process in the table of `ddtop ps`.
func psRow(t *testing.T, table string, pid int) (row string) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(table))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 0 && fields[0] == strconv.Itoa(pid) {
			return lines.Text()
		}
	}
	t.Errorf("process %d is not in\n%s", pid, table)
	return ""
}

func TestProcessThatEndsDuringStat(t *testing.T) {
	t.Parallel()
	p := rubytest.One(t).Start(t, "$stdout.sync = true\nThread.new { loop {} }\nputs 'up'\nSTDIN.read\nexit 3\n", rubytest.Options{})
	p.Expect(t, "up")
	cmd, out, errs := prepare(t.Context(), "stat", "-p", strconv.Itoa(p.PID), "-d", "60s", "--overhead", "off", "--json")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitTicks(t, cmd.Process.Pid)
	p.CloseStdin(t)
	r := finish(t, cmd, out, errs)
	if r.code != 0 || !strings.Contains(r.err, "exited") || !strings.Contains(r.err, "measured until then") {
		t.Errorf("code %d, it said %q", r.code, r.err)
	}
	checkStat(t, p.PID, r.out)
}
