package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// passengers is the number of processes that Passenger runs for the application.
const passengers = 2

// passenger returns the command that starts the server Passenger for the program in a folder. Passenger runs without
// nginx.
func passenger(t testing.TB, dir, app, port string) *exec.Cmd {
	t.Helper()
	program := rubytest.Program(t, "passenger", "passenger")
	if err := os.Mkdir(filepath.Join(dir, "public"), 0o755); err != nil {
		t.Fatal(err)
	}
	number := strconv.Itoa(passengers)
	return exec.Command(program, "start", "--engine", "builtin", "--address", "127.0.0.1", "--port", port, "--environment", "production", "--rackup", app+".ru",
		"--max-pool-size", number, "--min-instances", number, "--disable-security-update-check", "--log-file", filepath.Join(dir, "passenger.log"), "--pid-file", filepath.Join(dir, "passenger.pid"))
}

// awaitPassenger waits until Passenger has started the processes that run the program in a folder. It returns their
// PIDs. These processes have a session of their own, so they survive if the test kills Passenger's process group. At
// the end of the test, awaitPassenger stops Passenger and waits until the processes have ended.
func awaitPassenger(t testing.TB, pid int, dir string) (pids []int) {
	t.Helper()
	t.Cleanup(func() {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		// The test's context has already ended here, so this code cannot use the function await.
		for deadline := time.Now().Add(startTimeout); len(titled("Passenger RubyApp: "+dir)) > 0; time.Sleep(retryEvery) {
			if time.Now().After(deadline) {
				t.Errorf("Passenger's processes are still there %v after SIGTERM", startTimeout)
				return
			}
		}
	})
	// A process that starts a program has a copy with the same title for a moment. So wait until the processes stay the
	// same.
	await(t, "Passenger has its processes", func() error {
		before := pids
		pids = titled("Passenger RubyApp: " + dir)
		if len(pids) != passengers || !slices.Equal(pids, before) {
			return fmt.Errorf("%d of %d", len(pids), passengers)
		}
		return nil
	})
	return pids
}

// titled returns the processes whose titles begin with the text begin.
func titled(begin string) (pids []int) {
	// Glob fails only if the pattern is malformed.
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range list {
		// A process that has ended has no title, so its file is empty.
		if text, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(text), begin) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
