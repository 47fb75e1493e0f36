//go:build verify

package accuracy

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a bare loop reads in a tick: about as many pieces as a lock tick of ddtop does with ten threads.
const (
	barePieces = 16
	barePiece  = 256 // bytes
	// bareApart is how far apart they are: pieces that lie side by side are still pinned one by one.
	bareApart = 512
)

// The sampling thread's own settings (sampler/live), so that a bare loop wakes up as it does.
const (
	bareNice    = -10
	bareSliceNS = 100_000
)

// bare runs a loop on a thread of its own for about d that does nothing at the given rate, in Hz, but sleep until the next
// tick and, where from is not 0, read barePieces of a process's memory from there in one process_vm_readv. That is what the machine itself charges for waking up so often: a system call and a timer
// are several times dearer on one virtual machine than on another, and what ddtop takes can only be judged beside it.
func bare(t *testing.T, rate float64, d time.Duration, pid int, from uintptr) cost {
	t.Helper()
	type result struct {
		cost
		err error
	}
	done := make(chan result, 1)
	go func() {
		// Never unlocked: the thread, whose scheduling is changed, ends with the goroutine.
		runtime.LockOSThread()
		c, err := bareLoop(int64(1e9/rate), d, pid, from)
		done <- result{c, err}
	}()
	r := <-done
	if r.err != nil {
		t.Errorf("a bare loop at %g Hz: %v", rate, r.err)
	}
	return r.cost
}

// cost is CPU time and the ticks made with it in a length of time, both in ns.
type cost struct {
	cpu, wall int64
	ticks     float64
}

func (c *cost) add(d cost) {
	c.cpu, c.wall, c.ticks = c.cpu+d.cpu, c.wall+d.wall, c.ticks+d.ticks
}

// percent is the share of a CPU.
func (c cost) percent() float64 { return 100 * float64(c.cpu) / float64(c.wall) }

// perTick is the CPU time of a tick in µs: on a busy machine a bare loop and ddtop may be late for different numbers of ticks.
func (c cost) perTick() float64 { return float64(c.cpu) / c.ticks / 1e3 }

func bareLoop(interval int64, d time.Duration, pid int, from uintptr) (cost, error) {
	tid := unix.Gettid()
	// Those that are refused are refused to ddtop as well.
	_ = unix.Setpriority(unix.PRIO_PROCESS, tid, bareNice)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	if a, err := unix.SchedGetAttr(tid, 0); err == nil {
		_ = unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: a.Policy, Nice: a.Nice, Runtime: bareSliceNS}, 0)
	}
	var buf [barePieces * bareApart]byte
	var local [barePieces]unix.Iovec
	var remote [barePieces]unix.RemoteIovec
	for i := range local {
		local[i].Base = &buf[i*bareApart]
		local[i].SetLen(barePiece)
		remote[i] = unix.RemoteIovec{Base: from + uintptr(i*bareApart), Len: barePiece}
	}
	now, cpu := clockNS(unix.CLOCK_MONOTONIC), clockNS(unix.CLOCK_THREAD_CPUTIME_ID)
	next, end := now, now+int64(d)
	begun, ticks := now, 0
	for ; now < end; ticks++ {
		if next += interval; next < now {
			next = now + interval // late ticks are left out, as ddtop's are
		}
		ts := unix.NsecToTimespec(next)
		for {
			_, _, errno := syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
				uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
			if errno != unix.EINTR {
				break
			}
		}
		if from != 0 {
			n, _, errno := syscall.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(pid), uintptr(unsafe.Pointer(&local[0])), barePieces,
				uintptr(unsafe.Pointer(&remote[0])), barePieces, 0)
			if errno != 0 || n != barePieces*barePiece {
				return cost{}, fmt.Errorf("process_vm_readv of %d bytes of process %d at %#x: %d bytes, %w", barePieces*barePiece, pid, from, n, errno)
			}
		}
		now = clockNS(unix.CLOCK_MONOTONIC)
	}
	return cost{clockNS(unix.CLOCK_THREAD_CPUTIME_ID) - cpu, now - begun, float64(ticks)}, nil
}

func clockNS(clock int32) int64 {
	var ts unix.Timespec
	if unix.ClockGettime(clock, &ts) != nil {
		return 0 // can't fail with these clocks
	}
	return ts.Nano()
}

// heapOf is the address of a process's heap, which Ruby has used from its start.
func heapOf(t *testing.T, pid int) uintptr {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if !strings.HasSuffix(s.Text(), "[heap]") {
			continue
		}
		var at uintptr
		if _, err := fmt.Sscanf(s.Text(), "%x-", &at); err != nil {
			t.Fatalf("%q: %v", s.Text(), err)
		}
		return at
	}
	t.Fatal(errors.Join(fmt.Errorf("process %d has no heap", pid), s.Err()))
	return 0
}
