package servertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// startTimeout limits how long a test waits for a server's first answer. On a busy machine, Rails takes tens of seconds
// to start.
const startTimeout = 5 * time.Minute

// retryEvery is the time between two attempts to reach a server that is starting.
const retryEvery = 50 * time.Millisecond

// FreePort returns a port of 127.0.0.1 that was free a moment ago: no process listened on it.
func FreePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// tempDir makes a folder below /tmp. The folder of t.TempDir cannot be used: its path is too long for a socket, and
// other users cannot open it.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ddtop-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// start runs a server in a process group of its own, and kills the group at the end of the test. The server's output
// goes to the file "said" in its folder. If the test fails, the output is also in the test's log.
func start(t testing.TB, cmd *exec.Cmd) (pid int) {
	t.Helper()
	path := filepath.Join(tempDir(t), "said")
	said, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // the error says that the server was killed
		if t.Failed() {
			text, err := os.ReadFile(path)
			t.Logf("%v said:\n%s%s", cmd.Args, text, errorText(err))
		}
	})
	return cmd.Process.Pid
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (%v)", err)
}

// await calls the function ready until ready returns nil.
func await(t testing.TB, what string, ready func() error) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		err := ready()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in %v: %v", what, startTimeout, err)
		}
		select {
		case <-time.After(retryEvery):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}
