package rubytest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RunDelay is how long in all a process's threads have stood in the kernel's run queue since they began: what other programs on
// the machine took from it. It is the second number of schedstat (Documentation/scheduler/sched-stats.rst). Threads that have
// ended are not in it.
func RunDelay(t testing.TB, pid int) time.Duration {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has just ended
		}
		var cpu, delay, turns int64
		if _, err := fmt.Sscan(string(text), &cpu, &delay, &turns); err != nil {
			t.Fatalf("%s: %q: %v", file, text, err)
		}
		sum += time.Duration(delay)
	}
	return sum
}

// Children are the processes that a process has started and that are still there.
func Children(t testing.TB, pid int) []int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has just ended
		}
		for _, word := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				t.Fatalf("%s: %q: %v", file, text, err)
			}
			out = append(out, child)
		}
	}
	return out
}
