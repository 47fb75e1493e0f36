package attach

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestListOnAFullMachine: a machine that gives ddtop no CPU for longer than List's patience is no process that does not
// answer. All processes are still asked.
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
	late := lister{until: time.Now().Add(-time.Second)}
	if c, ok, err := late.lookAt(cmd.Process.Pid); ok || err != nil {
		t.Errorf("it was not asked: %+v, %v", c, err)
	}
	late.silent.Add(1) // one did not answer, so the others need not wait
	if c, ok, err := late.lookAt(cmd.Process.Pid); !ok || err != nil || !errors.Is(c.Err, ErrNoAnswer) {
		t.Errorf("beside one that does not answer: %+v, %v, %v", c, ok, err)
	}
}
