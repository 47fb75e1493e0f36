package cli_test

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// dearPrograms make a tick dear, each in another way.
var dearPrograms = map[string]string{
	"500 threads that wake up": `500.times { Thread.new { loop { sleep 0.02 } } }`,
	"deep stacks that move": `def down(n, &b); n == 0 ? b.call : down(n - 1, &b); end
8.times { Thread.new { loop { down(1000 + rand(1000)) { 1000.times { rand } } } } }`,
	"threads that come and go": `4.times { Thread.new { loop { Array.new(20) { Thread.new { sleep 0.01 } }.each(&:join) } } }`,
	"code that is always new": `4.times { |i| Thread.new { n = 0; loop { n += 1; c = Class.new
100.times { |k| c.class_eval("def m#{i}_#{n}_#{k}(d); d == 0 ? (200.times { rand }) : m#{i}_#{n}_#{k}(d - 1); end"); c.new.send("m#{i}_#{n}_#{k}", 30) } } } }`,
}

// cpuClock reads the CPU time of another process in ns.
func cpuClock(t *testing.T, pid int) int64 {
	t.Helper()
	// The clock of a process by its id (linux/posix-timers.h: MAKE_PROCESS_CPUCLOCK with CPUCLOCK_SCHED).
	const sched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

// TestOverhead: whatever it looks at, ddtop takes no more CPU time than was asked for, by the kernel's count of the
// whole process. What is compared is what the budget controls, so that no load on the machine makes it fail.
func TestOverhead(t *testing.T) { takesNoMore(t, 0.03, "--overhead", "3%") }

// TestOverheadForQuality: unless a share was asked for, ddtop takes no more than 6 %, however expensive the least
// quality is.
func TestOverheadForQuality(t *testing.T) { takesNoMore(t, 0.06) }

// takesNoMore checks that ddtop, with some flags, takes a share of a CPU at most.
func takesNoMore(t *testing.T, share float64, flags ...string) {
	const window = 10 * time.Second
	// more is a burst that was saved up and one that is overdrawn, half a second's each, and one tick: reading stacks
	// ends after 250 ms. Beside the ticks is what no rate lowers, half of the budget at most for what does nothing but
	// stat.
	more := 2*0.5*share + 0.25 + 0.5*share*10
	r := rubytest.One(t)
	for name, program := range dearPrograms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := r.Start(t, program+"\nputs 'ready'; $stdout.flush; $stdin.gets", rubytest.Options{Env: []string{"RUBY_THREAD_VM_STACK_SIZE=4194304"}})
			p.Expect(t, "ready")
			cmd := exec.CommandContext(t.Context(), ddtop, append([]string{"stat", "--json", "-d", "120s", "-p", strconv.Itoa(p.PID)}, flags...)...)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var said struct {
				Self struct {
					Halved, Lowered bool
					Overhead        float64
				}
				Rate struct{ Lock, Stack struct{ Achieved float64 } }
			}
			done := make(chan error, 1)
			go func() { done <- json.NewDecoder(out).Decode(&said) }()
			pause := func(d time.Duration) {
				select {
				case <-time.After(d):
				case <-t.Context().Done():
					t.Fatal("the test's time is up")
				}
			}
			awaitRaised(t, cmd.Process.Pid, false)
			awaitSleeps(t, cmd.Process.Pid, 20) // what attaching takes is not limited
			from, began := cpuClock(t, cmd.Process.Pid), time.Now()
			pause(window)
			took, wall := time.Duration(cpuClock(t, cmd.Process.Pid)-from), time.Since(began)
			if err := cmd.Process.Signal(unix.SIGINT); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			most := time.Duration(share*float64(wall) + more*1e9)
			t.Logf("%.2f %% of a CPU, at most %.2f; %.0f Hz, stacks %.1f Hz, %+v", 100*took.Seconds()/wall.Seconds(),
				100*most.Seconds()/wall.Seconds(), said.Rate.Lock.Achieved, said.Rate.Stack.Achieved, said.Self)
			if took > most {
				t.Errorf("%v of CPU time in %v, more than %v", took, wall, most)
			}
			if said.Self.Overhead != 0.03 {
				t.Errorf("it says that it may take %g of a CPU", said.Self.Overhead)
			}
		})
	}
}
