package attach

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestListOnAFullMachine: once maxSilent processes have not answered, List asks no further process for its name. For
// all further processes it reports ErrNoAnswer. With fewer silent processes List continues, so one silent process does
// not hide the names of others.
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
	defer cmd.Wait() // the program ends when its standard input is closed
	defer in.Close()
	// The test measures no time, because a busy machine can delay any answer. Instead it sets the number of silent
	// processes to one below the limit. So lookAt must still ask the test's process, and finds out that it is not Ruby.
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
