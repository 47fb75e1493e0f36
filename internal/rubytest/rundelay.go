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

// RunDelay returns how long the threads of a process have waited for a CPU since they began, summed up. While a thread
// waits in the kernel's run queue, other threads have the CPUs. Threads that have ended do not count.
func RunDelay(t testing.TB, pid int) time.Duration {
	t.Helper()
	_, delay := schedstat(t, pid)
	return delay
}

// CPUTime returns how long the threads of a process have been on a CPU since they began, summed up. The kernel updates
// this time when a thread leaves its CPU, and at each tick of the kernel's clock. If the time does not grow, no thread
// has run for longer than such a tick. Threads that have ended do not count.
func CPUTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	cpu, _ := schedstat(t, pid)
	return cpu
}

// RunDelays returns, for each native thread of a process, how long it has waited for a CPU. RunDelay returns the sum of
// these times.
func RunDelays(t testing.TB, pid int) map[int32]time.Duration {
	t.Helper()
	delays := make(map[int32]time.Duration)
	eachSchedstat(t, pid, func(tid int32, _, delay time.Duration) { delays[tid] = delay })
	return delays
}

// schedstat returns the times that all threads of a process have been on a CPU (cpu), and have waited for one (delay).
func schedstat(t testing.TB, pid int) (cpu, delay time.Duration) {
	t.Helper()
	eachSchedstat(t, pid, func(_ int32, ran, waited time.Duration) { cpu, delay = cpu+ran, delay+waited })
	return cpu, delay
}

// eachSchedstat calls fn with the first two numbers of each thread's schedstat
// (Documentation/scheduler/sched-stats.rst).
func eachSchedstat(t testing.TB, pid int, fn func(tid int32, cpu, delay time.Duration)) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has just ended
		}
		var tid int32
		var ran, waited, turns int64
		if _, err := fmt.Sscan(filepath.Base(filepath.Dir(file)), &tid); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(text), &ran, &waited, &turns); err != nil {
			t.Fatalf("%s: %q: %v", file, text, err)
		}
		fn(tid, time.Duration(ran), time.Duration(waited))
	}
}

// Children returns the processes that a process has started and that still exist.
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
