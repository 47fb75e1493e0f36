package tracer

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/switches"
)

// followCat follows a process (cat) that waits for a line on its standard input. It is not a Ruby process, so the words
// in its memory cannot be read.
func followCat(t *testing.T) (f *Feed, in io.WriteCloser) {
	t.Helper()
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
	t.Cleanup(func() { in.Close(); _ = cat.Wait() })
	if f, err = Follow(unread(cat.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, in
}

// TestSilentRecordLeavesTheBell: a program can read the flags before the bell is set, and add its record only after
// Ring has checked the ring. So this record does not ring the bell. Even then, the next record must ring it.
func TestSilentRecordLeavesTheBell(t *testing.T) {
	f, in := followCat(t)
	send := func() {
		t.Helper()
		if _, err := in.Write([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
	}
	silent := func() bool { f.t.mu.Lock(); defer f.t.mu.Unlock(); return !f.t.ring.Empty() }
	send()
	for deadline := time.Now().Add(time.Minute); !silent(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no record within a minute")
		}
	}
	rang := make(chan struct{}, 1)
	f.t.bell.set(func() { rang <- struct{}{} })
	send()
	select {
	case <-rang:
	case <-time.After(time.Minute):
		t.Fatal("no record has rung within a minute")
	}
}

// TestQuiet: Quiet returns true while the process does nothing. After a record, it returns false until the record was
// drained and Counts was called. The first record rings the bell if the caller has called Ring.
func TestQuiet(t *testing.T) {
	f, in := followCat(t)
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
	until("quiet", func() bool { take(); counted(); return f.Quiet() }) // cat has started and waits
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
