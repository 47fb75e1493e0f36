package kernel

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
)

// TestBirths: after a child has started, two calls of Since return its PID with its parent. A third call does not
// return it. A thread does not count as a child.
func TestBirths(t *testing.T) {
	var b Births
	now := int64(1)
	for range 2 {
		if _, all := b.Since(now); !all {
			t.Error("the first two calls know new processes")
		}
	}
	// If the machine starts very many tasks at once, Since does not return the new processes, but all = true. Then the
	// test tries again.
	until(t, "a child to be found", func() bool {
		b.Since(now) // skips the PIDs of the test's own threads
		cmd := exec.Command("sleep", "3600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		want := Born{PID: cmd.Process.Pid, Parent: os.Getpid()}
		first, all := b.Since(now)
		again, more := b.Since(now)
		for _, x := range slices.Concat(first, again) {
			if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(x.PID)); err == nil {
				t.Errorf("thread %d is called a process", x.PID)
			}
		}
		if all || more {
			return false
		}
		if !slices.Contains(first, want) || !slices.Contains(again, want) {
			t.Errorf("%v, %v: without %v", first, again, want)
		}
		if third, all := b.Since(now); !all && slices.Contains(third, want) {
			t.Errorf("a third call has it, too: %v", third)
		}
		return true
	})
	if _, all := b.Since(now + birthsNS); !all {
		t.Error("each process is not asked for its children in time")
	}
}
