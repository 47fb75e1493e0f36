package tracer

import (
	"os/exec"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/switches"
)

// TestQuiet: a Feed is quiet while its process does nothing. It is not quiet from the first record on, until that was
// taken and counted. The first record rings, if that was asked for.
func TestQuiet(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	cat := exec.CommandContext(t.Context(), "cat")
	in, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cat.Wait() }()
	f, err := Follow(Target{PID: cat.Process.Pid, ExecutionContext: -1 << 46, Before33: true}) // words that cannot be read
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Quiet() {
		t.Error("it is quiet before anything was counted")
	}
	records := 0
	take := func() {
		t.Helper()
		if err := f.DrainStacks(func(*bpf.Stack) {}); err != nil {
			t.Fatal(err)
		}
		if err := f.Drain(func(*switches.Record) { records++ }); err != nil {
			t.Fatal(err)
		}
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not within a minute", what)
			}
		}
	}
	counted := func() (lost uint64) {
		t.Helper()
		c, err := f.Counts()
		if err != nil {
			t.Fatal(err)
		}
		return c.Lost
	}
	until("quiet", func() bool { take(); counted(); return f.Quiet() }) // cat has started, and waits
	rang := make(chan struct{}, 2)
	for range 3 {
		records = 0
		f.Ring(func() { rang <- struct{}{} })
		if _, err := in.Write([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-rang:
		case <-time.After(time.Minute):
			t.Fatal("no record has rung within a minute")
		}
		if f.Quiet() {
			t.Error("it has rung, and there is no record")
		}
		if f.Ring(func() { rang <- struct{}{} }); len(rang) != 1 {
			t.Error("a record that waits does not ring at once")
		}
		<-rang
		until("the record is taken", func() bool { take(); return records > 0 })
		if f.Quiet() {
			t.Error("it is quiet before what was lost has been counted")
		}
		until("quiet again", func() bool { take(); lost := counted(); return f.Quiet() && lost == 0 })
		if len(rang) != 0 {
			t.Error("it rings again, and nothing was asked for")
		}
	}
}
