package attach

import (
	"testing"
	"time"
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
	// The test has not called Wait, so the process is a zombie. A zombie has ended.
	if p.Alive() {
		t.Error("a zombie is alive")
	}
	p.pidfd.Close()
	p.pidfd = nil
	if p.Alive() {
		t.Error("alive without a pidfd to tell")
	}
}
