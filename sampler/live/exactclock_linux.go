package live

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// checkClock refuses a process that has another clock than the kernel gives to probes. A time namespace moves CLOCK_MONOTONIC for those in
// it (time_namespaces(7)): what probes note has the machine's own, and what ddtop reads has that of its namespace.
func checkClock(pid int) error {
	const help = "run ddtop in the same time namespace as the process, where that is the machine's own"
	if moved, err := monotonicMoved(); err == nil && moved {
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

// monotonicMoved reports whether ddtop's own CLOCK_MONOTONIC is not the machine's: /proc/self/timens_offsets has lines of a clock's
// name, seconds and nanoseconds.
func monotonicMoved() (bool, error) {
	b, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return false, err
	}
	return offsetOf(string(b), "monotonic") != 0, nil
}

// offsetOf is a clock's offset in ns; 0 where there is none.
func offsetOf(offsets, clock string) int64 {
	for line := range strings.Lines(offsets) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == clock {
			seconds, _ := strconv.ParseInt(f[1], 10, 64)
			ns, _ := strconv.ParseInt(f[2], 10, 64)
			return seconds*1e9 + ns
		}
	}
	return 0
}
