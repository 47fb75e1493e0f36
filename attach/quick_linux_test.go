package attach

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestAlive(t *testing.T) {
	c := startHelper(t, "exec", nil)
	if got := c.line(t); got != "ready" {
		t.Fatal(got)
	}
	p := open(t, c.pid)
	if p.pidfd == nil {
		t.Skip("the kernel has no pidfd")
	}
	if !p.Alive() {
		t.Error("it is not alive")
	}
	if _, err := c.stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	c.address(t)
	if !p.Alive() {
		t.Error("exec counts as an end")
	}
	exited := p.Exited()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-exited:
	case <-time.After(time.Minute):
		t.Fatal("no notice of the end")
	}
	// Not waited for: a zombie has ended, too.
	if p.Alive() {
		t.Error("a zombie is alive")
	}
	p.pidfd.Close()
	p.pidfd = nil
	if p.Alive() {
		t.Error("alive without a pidfd to tell")
	}
}

// TestQuickCalls: after a call that took long, calls are made in the usual way for a while, and both give what the kernel says.
func TestQuickCalls(t *testing.T) {
	var q QuickCalls
	sleep := func(d time.Duration) {
		t.Helper()
		ts := unix.NsecToTimespec(int64(d))
		if _, err := q.Call(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0); err != 0 {
			t.Fatal(err)
		}
	}
	if _, err := q.Call(unix.SYS_CLOSE, ^uintptr(0), 0, 0, 0, 0, 0); err != unix.EBADF {
		t.Errorf("close(-1): %v", err)
	}
	before := time.Now()
	sleep(2 * quickNS)
	if !q.slowUntil.After(before.Add(quickRest)) {
		t.Error("a call of 2 ms counts as quick")
	}
	q.slowUntil = time.Now().Add(time.Hour)
	until := q.slowUntil
	sleep(2 * quickNS)
	if q.slowUntil != until {
		t.Error("a call that was made in the usual way was timed")
	}
	if _, err := q.Call(unix.SYS_CLOSE, ^uintptr(0), 0, 0, 0, 0, 0); err != unix.EBADF {
		t.Errorf("close(-1): %v", err)
	}
}
