package rivals

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bareLoopEnv is an environment variable with a PID, a length of time and a rate in Hz. If it is set, this test binary
// runs no tests, but runs bareLoop with these values.
const bareLoopEnv = "DDTOP_BARE_LOOP"

func TestMain(m *testing.M) {
	var pid, rate int
	var length time.Duration
	if n, _ := fmt.Sscan(os.Getenv(bareLoopEnv), &pid, &length, &rate); n == 3 {
		if err := bareLoop(pid, length, rate); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// bareMeter returns a meter that measures bareLoop, so that benchmarks can compare bareLoop with a profiler.
func bareMeter(b *testing.B, name string, rate int) meter {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	return meter{name: name, said: saidByStat, command: func(pid int, length time.Duration, _ string) *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d", bareLoopEnv, pid, length, rate))
		return cmd
	}}
}

// bareLoop does the least that any sampler must do, as cheaply as Go allows. In each turn it sleeps, and then reads 16
// ranges of the process's heap, 512 bytes each. It prints its times in the format of `ddtop stat --json`.
func bareLoop(pid int, length time.Duration, rate int) error {
	const (
		ranges = 16
		size   = 512
		page   = 4096
	)
	heap, err := heapOf(pid)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return err
	}
	var local [ranges]unix.Iovec
	var remote [ranges]unix.RemoteIovec
	buf := make([]byte, ranges*size)
	for i := range local {
		local[i] = unix.Iovec{Base: &buf[i*size], Len: size}
		remote[i] = unix.RemoteIovec{Base: heap + uintptr(i*page), Len: size}
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	from, ticks := monotonic(), 0
	for next, end := from, from+length; next < end && len(interrupted) == 0; ticks++ {
		next += time.Second / time.Duration(rate)
		at := unix.NsecToTimespec(int64(next))
		unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&at)), 0, 0, 0)
		if _, _, errno := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(pid), uintptr(unsafe.Pointer(&local)), ranges,
			uintptr(unsafe.Pointer(&remote)), ranges, 0); errno != 0 {
			return errno
		}
	}
	until := monotonic()
	hertz := float64(ticks) / (until - from).Seconds()
	fmt.Printf(`{"start_monotonic_ns": %d, "end_monotonic_ns": %d, "samples": %d, "rate": {"lock": {"achieved": %g}, "stack": {"achieved": 0}}}`,
		int64(from), int64(until), ticks, hertz)
	return nil
}

// monotonic returns the time of CLOCK_MONOTONIC, the clock that ddtop uses for its own times.
func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // impossible: every Linux has CLOCK_MONOTONIC
	}
	return time.Duration(now.Nano())
}

// heapOf returns the address at which the process's heap begins.
func heapOf(pid int) (uintptr, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if from, _, ok := strings.Cut(line, "-"); ok && strings.HasSuffix(line, "[heap]\n") {
			at, err := strconv.ParseUint(from, 16, 64)
			return uintptr(at), err
		}
	}
	return 0, fmt.Errorf("process %d has no heap", pid)
}
