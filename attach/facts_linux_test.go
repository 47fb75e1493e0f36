package attach

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCPUs: a process with an affinity of one CPU may use one, whatever ddtop itself may use.
func TestCPUs(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
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
