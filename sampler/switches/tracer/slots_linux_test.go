package tracer

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler/switches"
)

// startAs starts cat as a process with the given PID, and returns its standard input. Another process may get the PID
// first, so startAs tries a few times.
func startAs(t *testing.T, pid int) (in io.Writer) {
	t.Helper()
	for range 100 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Skip("no process can be given a number here: ", err)
		}
		c := exec.CommandContext(t.Context(), "cat")
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		end := func() { in.Close(); _ = c.Wait() }
		if c.Process.Pid == pid {
			t.Cleanup(end)
			return in
		}
		end()
	}
	t.Skipf("process number %d is in use", pid)
	return nil
}

// TestOneSlot: the PIDs of two processes belong to the same slot. While a process's Feed is open, the Feed gets
// records, even if the other process's Feed is closed. The test must start processes with chosen PIDs, because no
// cheaper test can do the same.
func TestOneSlot(t *testing.T) {
	first, in := followCat(t)
	most, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(most)))
	if err != nil {
		t.Fatal(err)
	}
	pid := first.target.PID + slots
	if pid >= n {
		pid = first.target.PID - slots
	}
	other := startAs(t, pid)
	// records wakes up a process 20 times, and returns how many records the Feed f has from this time.
	records := func(f *Feed, process io.Writer) (n int) {
		t.Helper()
		for range 20 {
			if _, err := io.WriteString(process, "x\n"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			if err := f.Drain(func(*switches.Record) { n++ }); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	for deadline := time.Now().Add(time.Minute); records(first, in) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no record within a minute")
		}
	}
	second, err := Follow(unread(pid))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	for deadline := time.Now().Add(time.Minute); records(second, other) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no record of the second process within a minute")
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); records(second, other) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no record of the second process within a minute after the first Feed was closed")
		}
	}
}

// BenchmarkOtherSwitch measures by how much ddtop slows down thread switches of a process that it does not follow. Two
// threads on one CPU wake each other up. Each round measures their switches twice: while ddtop follows another process,
// and without ddtop. The result is the median of the rounds' differences. It also contains the cost of the program that
// ddtop runs at each wake-up.
func BenchmarkOtherSwitch(b *testing.B) {
	if err := Check(); err != nil {
		b.Skip(err)
	}
	cat := exec.CommandContext(b.Context(), "sleep", "1h")
	if err := cat.Start(); err != nil {
		b.Fatal(err)
	}
	const rounds, turns = 41, 100_000
	for b.Loop() {
		var more, without []float64
		for range rounds {
			none := pingPong(b, turns)
			f, err := Follow(unread(cat.Process.Pid))
			if err != nil {
				b.Fatal(err)
			}
			with := pingPong(b, turns)
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
			more, without = append(more, with-none), append(without, none)
		}
		slices.Sort(more)
		slices.Sort(without)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(more[rounds/2], "more-ns")
		b.ReportMetric(more[rounds/2-6], "more-low-ns") // lower end of the 95 % interval for the median of 41 rounds
		b.ReportMetric(more[rounds/2+6], "more-high-ns")
		b.ReportMetric(without[rounds/2], "without-ns")
	}
}

// pingPong returns how long one switch between two threads takes, in ns. turns is how often the threads wake each other
// up, with two switches each time.
func pingPong(b *testing.B, turns int) float64 {
	b.Helper()
	var there, back [2]int
	for _, p := range []*[2]int{&there, &back} {
		if err := unix.Pipe(p[:]); err != nil {
			b.Fatal(err)
		}
		defer unix.Close(p[0])
		defer unix.Close(p[1])
	}
	var cpu unix.CPUSet
	cpu.Set(0)
	// play runs in a native thread of its own. The thread ends when play returns.
	play := func(from, to int, first bool, done chan<- error) {
		runtime.LockOSThread()
		if err := unix.SchedSetaffinity(0, &cpu); err != nil {
			done <- fmt.Errorf("choosing a CPU: %w", err)
			return
		}
		buf := []byte{0}
		for range turns {
			if first {
				_, _ = unix.Write(to, buf)
			}
			for {
				if _, err := unix.Read(from, buf); err == nil {
					break
				} else if err != unix.EINTR {
					done <- err
					return
				}
			}
			if !first {
				_, _ = unix.Write(to, buf)
			}
		}
		done <- nil
	}
	done := make(chan error)
	began := time.Now()
	go play(there[0], back[1], false, done)
	go play(back[0], there[1], true, done)
	for range 2 {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	return float64(time.Since(began).Nanoseconds()) / float64(2*turns)
}
