package kernel

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestFreezerHidden: a process is frozen, but its cgroups are not mounted. ddtop still finds that it is frozen, by the
// kernel function in which the main thread sleeps.
func TestFreezerHidden(t *testing.T) {
	for _, v2 := range []bool{true, false} {
		cmd := exec.Command("sleep", "3600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		f := rubytest.NewFreezer(t, cmd.Process.Pid, v2)
		p, err := OpenProc(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for _, hidden := range []bool{false, true} {
			if hidden {
				p.mounts = nil
				p.freezer.text = ""
			}
			for _, want := range []bool{false, true, false} {
				if want {
					f.Freeze(t)
				} else {
					f.Thaw(t)
				}
				// The cgroup's file shows a thread as frozen an instant before the thread sleeps. So the test waits
				// until the file and the thread's kernel function agree.
				until(t, fmt.Sprintf("v2 %v, hidden %v: frozen %v", v2, hidden, want), func() bool {
					got, err := p.Read(1)
					if err != nil {
						t.Fatal(err)
					}
					return got.Frozen == want && p.Frozen() == want
				})
			}
		}
		if !p.freezer.hidden {
			t.Errorf("v2 %v: its cgroups are mounted", v2)
		}
	}
}
