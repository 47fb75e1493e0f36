package attach

import (
	"io"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCPUs: if the affinity of a process allows one CPU, CPUs returns one, however many CPUs ddtop itself may use.
func TestCPUs(t *testing.T) {
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
	defer func() {
		_ = in.Close()
		_ = cmd.Wait()
	}()
	// Start can return before the kernel has mapped the program. The program's answer proves that it is mapped.
	if _, err := io.WriteString(in, "up\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(cmd.Process.Pid, &all); err != nil {
		t.Fatal(err)
	}
	p, err := Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := p.CPUs(); got != all.Count() {
		t.Errorf("%d CPUs before, want %d", got, all.Count())
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(cmd.Process.Pid, &one); err != nil {
		t.Fatal(err)
	}
	if got := p.CPUs(); got != 1 {
		t.Errorf("%d CPUs, want 1", got)
	}
}
