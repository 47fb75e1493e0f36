package cli_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestProgramInBackground: `ddtop -- command` starts a command. If the command's program goes into the background,
// ddtop reports this and follows the program until it ends. The command is a Ruby that becomes a daemon, or a shell
// that starts a Ruby and exits. ddtop ends with the exit code of the command.
func TestProgramInBackground(t *testing.T) {
	r := rubytest.One(t)
	daemon := rubyCommand(t, r, `Process.daemon(true, true); Thread.new { sleep }.name = "served"; sleep 2; exit!(3)`)
	shell := append([]string{"sh", "-c", `"$@" & exit 0`, "sh"}, rubyCommand(t, r, `Thread.new { sleep }.name = "served"; sleep 2`)...)
	for name, command := range map[string][]string{"daemon": daemon, "shell": shell} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, append([]string{"--"}, command...)...)
			if got.code != 0 || !strings.Contains(got.err, "went into the background") || !strings.Contains(got.err, "served") {
				t.Errorf("code %d, it said:\n%s", got.code, got.err)
			}
		})
	}
}

// TestBackgroundOutlivesDdtop: ddtop follows a program that went into the background. If SIGTERM ends ddtop, ddtop's
// exit code is 0, and the program keeps running.
func TestBackgroundOutlivesDdtop(t *testing.T) {
	folder := t.TempDir()
	command := rubyCommand(t, rubytest.One(t), `Process.daemon(true, true); puts Process.pid; $stdout.flush; Thread.new { sleep }.name = "served"; sleep`)
	cmd, _, _ := prepare(t.Context(), append([]string{"--"}, command...)...)
	// The output goes to files. With pipes the test would have to wait for the program, which keeps its output open
	// after the end of ddtop.
	files := map[string]*os.File{"out": nil, "err": nil}
	for name := range files {
		f, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[name] = f
	}
	cmd.Stdout, cmd.Stderr = files["out"], files["err"]
	said := func(name string) string {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return strings.Contains(said("err"), "went into the background") }, "it is followed")
	until(t, func() bool { return strings.HasSuffix(said("out"), "\n") }, "its own word of its PID")
	pid, err := strconv.Atoi(strings.TrimSpace(said("out")))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	// ddtop prints its message only when it already measures the program. So this signal does not come too early: a
	// signal before the first sample would end ddtop without a result.
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v: %.300s", err, said("err"))
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the program has ended with ddtop: %v", err)
	}
}
