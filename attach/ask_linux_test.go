package attach

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAskWaitsForWhatLacksACPU: if the function that Ask calls computes, Ask waits longer than its patience. On a busy
// machine any computation can take longer than the patience. If the function blocks in the kernel, or waits for another
// goroutine, Ask returns ErrNoAnswer.
func TestAskWaitsForWhatLacksACPU(t *testing.T) {
	t.Parallel()
	const patience = 40 * time.Millisecond
	n, err := ask(1, patience, "computing", func() (n int, _ error) {
		var from, now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &from); err != nil {
			return 0, err
		}
		// Compute until the thread's CPU time is 1.25 times the constant patience. This is longer than Ask waits for a
		// blocked call. Even with a 16th of a CPU, the computation ends before Ask gives up.
		for now = from; now.Nano() < from.Nano()+int64(patience+patience/4); n++ {
			if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	if n == 0 || err != nil {
		t.Errorf("a question that computes: %d, %v", n, err)
	}
	within := make(chan struct{})
	n, err = ask(1, patience, "waiting for another goroutine", func() (int, error) {
		<-within
		return 1, nil
	})
	if n != 0 || !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a question that is never answered: %d, %v", n, err)
	}
	close(within)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fd := int(r.Fd()) // Fd makes the pipe blocking, so unix.Read waits in the kernel
	began := time.Now()
	n, err = ask(1, patience, "reading a pipe", func() (int, error) { return unix.Read(fd, make([]byte, 1)) })
	if n != 0 || !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a question that blocks in the kernel: %d, %v after %v", n, err, time.Since(began))
	}
	w.Close()
}

// TestLacksCPU: lacksCPU returns true for a thread that has not begun. It returns false for a thread that waits in the
// kernel, and for a TID that belongs to no thread.
func TestLacksCPU(t *testing.T) {
	t.Parallel()
	if !lacksCPU(0) || lacksCPU(1<<22+1) {
		t.Error("a thread that has not begun, or one that there is not")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fd, tid, done := int(r.Fd()), make(chan int32), make(chan struct{})
	OnOwnThread(func() {
		defer close(done)
		tid <- ownTID()
		_, _ = unix.Read(fd, make([]byte, 1))
	})
	blocked := <-tid
	for deadline := time.Now().Add(time.Minute); lacksCPU(blocked); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a thread that reads a pipe lacks a CPU")
		}
	}
	w.Close()
	<-done
}
