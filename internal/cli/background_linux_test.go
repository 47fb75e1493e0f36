package cli_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// background is a ddtop that has started a program, which went into the background.
type background struct {
	*exec.Cmd
	// pid is the process in the background.
	pid int
	// errs is the path of ddtop's standard error.
	errs string
}

// inBackground starts `ddtop -- command`. It returns when ddtop follows the program in the background and the program
// has printed its process ID.
func inBackground(t *testing.T, command []string) background {
	t.Helper()
	folder := t.TempDir()
	out := filepath.Join(folder, "out")
	b := background{errs: filepath.Join(folder, "err")}
	b.Cmd, _, _ = prepare(t.Context(), append([]string{"--"}, command...)...)
	// The output goes to files. With pipes, Wait would also wait for the program in the background, which keeps its
	// output open.
	for path, to := range map[string]*io.Writer{out: &b.Stdout, b.errs: &b.Stderr} {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		*to = f
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return strings.Contains(contents(t, b.errs), "went into the background") }, "it is followed")
	until(t, func() bool { return strings.HasSuffix(contents(t, out), "\n") }, "its own word of its PID")
	var err error
	if b.pid, err = strconv.Atoi(strings.TrimSpace(contents(t, out))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(b.pid, syscall.SIGKILL) })
	return b
}

// contents returns the contents of a file.
func contents(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestProgramInBackground: `ddtop -- command` starts a command. If the command's program goes into the background,
// ddtop reports this and follows the program until it ends. The command is a Ruby that becomes a daemon, or a shell
// that starts a Ruby and exits. ddtop ends with the exit code of the command.
func TestProgramInBackground(t *testing.T) {
	r := rubytest.One(t)
	// The Ruby ends a second after ddtop has reported it, so that ddtop sees its thread on any machine.
	const serve = `Thread.new { sleep }.name = "served"; trap("USR1") { Thread.new { sleep 1; exit!(3) } }; puts Process.pid; $stdout.flush; sleep`
	for name, command := range map[string][]string{
		"daemon": rubyCommand(t, r, "Process.daemon(true, true); "+serve),
		"shell":  append([]string{"sh", "-c", `"$@" & exit 0`, "sh"}, rubyCommand(t, r, serve)...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := inBackground(t, command)
			if err := syscall.Kill(b.pid, syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			if err := b.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
			if got := contents(t, b.errs); !strings.Contains(got, "served") || strings.Contains(got, "nothing was measured") {
				t.Errorf("it said:\n%s", got)
			}
		})
	}
}

// TestBackgroundOutlivesDdtop: ddtop follows a program that went into the background. If SIGTERM ends ddtop, ddtop's
// exit code is 0, and the program keeps running.
func TestBackgroundOutlivesDdtop(t *testing.T) {
	b := inBackground(t, rubyCommand(t, rubytest.One(t),
		`Process.daemon(true, true); puts Process.pid; $stdout.flush; Thread.new { sleep }.name = "served"; sleep`))
	// ddtop prints its message only when it already measures the program. So this signal does not come too early: a
	// signal before the first sample would end ddtop without a result.
	if err := b.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(); err != nil {
		t.Errorf("it ended with %v: %.300s", err, contents(t, b.errs))
	}
	if err := syscall.Kill(b.pid, 0); err != nil {
		t.Errorf("the program has ended with ddtop: %v", err)
	}
}
