package live

import (
	"fmt"
	"os"

	"github.com/ddtop/ddtop/sampler/bpf"
)

// checkClock refuses a process whose clock differs from the clock of the probes. Time namespaces shift CLOCK_MONOTONIC
// (time_namespaces(7)).
func checkClock(pid int) error {
	const help = "run ddtop in the same time namespace as the process, where that is the machine's own"
	if bpf.ClockMoved() {
		return fmt.Errorf("process %d: %w: ddtop runs in a time namespace whose clock is not the machine's, so that times of probes would be wrong: %s",
			pid, ErrExact, help)
	}
	own, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		return nil // a kernel before 5.6, without time namespaces
	}
	if its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/time", pid)); err == nil && its != own {
		return fmt.Errorf("process %d: %w: it runs in another time namespace (%s) than ddtop (%s), so that times would be wrong: %s",
			pid, ErrExact, its, own, help)
	}
	return nil
}
