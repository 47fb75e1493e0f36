package rivals

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// costPrograms are what BenchmarkCost attaches to. Each says "up" when its threads run.
var costPrograms = []struct{ name, script string }{
	{"idle", costScript(0, 10, 1)},
	{"10", costScript(2, 8, 0.05)},
	{"100", costScript(2, 98, 0.05)},
	{"500", costScript(2, 498, 0.02)},
}

// costScript is a program of threads 30 frames deep: some compute, the others wake up every so many seconds.
func costScript(computing, sleeping int, seconds float64) string {
	return fmt.Sprintf(`
def deep(n, &work)
  n == 0 ? work.call : deep(n - 1, &work)
end
%d.times { Thread.new { deep(30) { loop { 1000.times { } } } } }
%d.times { Thread.new { deep(30) { loop { sleep %g } } } }
puts "up"
$stdout.flush
$stdin.gets
`, computing, sleeping, seconds)
}

const (
	// costPairs is how often each command is measured, in turns with the others.
	costPairs = 5
	// costSeconds is how long.
	costSeconds = 4
)

// BenchmarkCost measures ddtop's own CPU time on programs of 10, 100 and 500 threads, beside a loop that only sleeps and reads a
// thousand times a second (bareLoop): what is above that, ddtop makes of it. DDTOP_BENCH_BEFORE names an older ddtop to measure along.
func BenchmarkCost(b *testing.B) {
	own := buildOwn(b)
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	stat := func(name, path string, args ...string) profiler {
		return profiler{name: name, command: func(pid, seconds int, _ string) *exec.Cmd {
			return exec.Command(path, append([]string{"stat", "--pid", strconv.Itoa(pid), "--duration", fmt.Sprintf("%ds", seconds)}, args...)...)
		}}
	}
	all := []profiler{
		{name: "bare-loop", command: func(pid, seconds int, _ string) *exec.Cmd {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", bareLoopEnv, pid, seconds))
			return cmd
		}},
		stat("ddtop", own),
		stat("ddtop-stacks-alone", own, "--lock-rate", "100"),
	}
	if before := os.Getenv("DDTOP_BENCH_BEFORE"); before != "" {
		all = append(all, stat("before", before), stat("before-stacks-alone", before, "--lock-rate", "100"))
	}
	ruby := rubytest.All(b)[0]
	for _, program := range costPrograms {
		b.Run(program.name, func(b *testing.B) {
			p := ruby.Start(b, program.script, rubytest.Options{})
			p.Expect(b, "up")
			for range b.N {
				costs := make([][]float64, len(all))
				for range costPairs {
					for i, c := range all {
						costs[i] = append(costs[i], costOf(b, c, p.PID))
					}
				}
				for i, c := range all {
					b.ReportMetric(median(costs[i]), c.name+"-%")
				}
				b.ReportMetric(0, "ns/op") // a run's length is chosen, not measured
			}
		})
	}
}

// costOf is what a profiler uses of a CPU, in percent, once it samples.
func costOf(b *testing.B, p profiler, pid int) float64 {
	b.Helper()
	cmd := p.command(pid, 2*attachSeconds+costSeconds, "")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	time.Sleep(attachSeconds * time.Second)
	cpu, begin := cpuTime(b, cmd.Process.Pid), time.Now()
	time.Sleep(costSeconds * time.Second)
	used, took := cpuTime(b, cmd.Process.Pid)-cpu, time.Since(begin)
	if err := cmd.Process.Kill(); err != nil {
		b.Fatal(err)
	}
	_ = cmd.Wait() // killed
	return 100 * used.Seconds() / took.Seconds()
}

// buildOwn builds ddtop as it is released.
func buildOwn(b *testing.B) string {
	b.Helper()
	own := filepath.Join(b.TempDir(), "ddtop")
	cmd := exec.Command("go", "build", "-o", own, "../..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("building ddtop: %v\n%s", err, out)
	}
	return own
}

// bareLoopEnv, when set to a PID and a number of seconds, makes this test's program a bare loop.
const bareLoopEnv = "DDTOP_BARE_LOOP"

func TestMain(m *testing.M) {
	var pid, seconds int
	if n, _ := fmt.Sscan(os.Getenv(bareLoopEnv), &pid, &seconds); n == 2 {
		if err := bareLoop(pid, time.Duration(seconds)*time.Second); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// bareLoop sleeps and reads 16 ranges of the process's heap, 512 bytes each, a thousand times a second: the least that a sampler
// at ddtop's rate does, made as cheaply as Go allows.
func bareLoop(pid int, length time.Duration) error {
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
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	for next, end := now.Nano(), now.Nano()+int64(length); next < end; {
		next += int64(time.Millisecond)
		at := unix.NsecToTimespec(next)
		unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&at)), 0, 0, 0)
		if _, _, errno := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(pid), uintptr(unsafe.Pointer(&local)), ranges,
			uintptr(unsafe.Pointer(&remote)), ranges, 0); errno != 0 {
			return errno
		}
	}
	return nil
}

// heapOf is where the process's heap begins.
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
