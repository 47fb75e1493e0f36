package attach

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestListOnAFullMachine: List still asks a process for its name if fewer than maxSilent processes have not answered.
// From maxSilent on it asks no more, and reports ErrNoAnswer. So one silent process does not hide the names of others.
func TestListOnAFullMachine(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ruby") // only its name looks like Ruby
	from, err := os.Open("/bin/cat")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() // the program ends with its input
	defer in.Close()
	// A full machine can delay any answer, so the test measures no time. One silent process fewer than the limit:
	// lookAt must ask this process, which answers that it is no Ruby.
	beside := new(lister)
	beside.silent.Store(maxSilent - 1)
	if c, ok, err := beside.lookAt(cmd.Process.Pid); ok || err != nil {
		t.Errorf("it was not asked: %+v, %v", c, err)
	}
	beside.silent.Add(1)
	if c, ok, err := beside.lookAt(cmd.Process.Pid); !ok || err != nil || !errors.Is(c.Err, ErrNoAnswer) {
		t.Errorf("beside %d that do not answer: %+v, %v, %v", maxSilent, c, ok, err)
	}
}
