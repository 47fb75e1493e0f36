package attach

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestListOnAFullMachine: a full machine makes List slow, but does not make a process silent. Only the number of silent
// processes ends List's questions, so one of them does not hide the names of the others.
func TestListOnAFullMachine(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ruby") // its name alone says what it is not
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
	defer cmd.Wait() // it ends with its input
	defer in.Close()
	// A full machine is why time is no measure: however long it took, this process answers and is asked.
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
