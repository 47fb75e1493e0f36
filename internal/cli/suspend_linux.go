package cli

import (
	"bytes"
	"fmt"
	"os"
)

// processOf reads a process's parent, group and session from /proc/PID/stat.
func processOf(pid int) (parent, group, session int, err error) {
	var state string
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, 0, err
	}
	// The name, in brackets, can hold anything.
	if _, err := fmt.Sscanf(string(b[bytes.LastIndexByte(b, ')')+1:]), " %1s %d %d %d", &state, &parent, &group, &session); err != nil {
		return 0, 0, 0, fmt.Errorf("reading /proc/%d/stat: %w", pid, err)
	}
	return parent, group, session, nil
}
