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

// dearPrograms are programs that make a tick of ddtop expensive, each in another way.
var dearPrograms = map[string]string{
	"500 threads that wake up": `500.times { Thread.new { loop { sleep 0.02 } } }`,
	"deep stacks that move": `def down(n, &b); n == 0 ? b.call : down(n - 1, &b); end
8.times { Thread.new { loop { down(1000 + rand(1000)) { 1000.times { rand } } } } }`,
	"threads that come and go": `4.times { Thread.new { loop { Array.new(20) { Thread.new { sleep 0.01 } }.each(&:join) } } }`,
	"code that is always new": `4.times { |i| Thread.new { n = 0; loop { n += 1; c = Class.new
100.times { |k| c.class_eval("def m#{i}_#{n}_#{k}(d); d == 0 ? (200.times { rand }) : m#{i}_#{n}_#{k}(d - 1); end"); c.new.send("m#{i}_#{n}_#{k}", 30) } } } }`,
}

// cpuClock returns the CPU time of another process in ns.
func cpuClock(t *testing.T, pid int) int64 {
	t.Helper()
	// The kernel computes the number of a process's CPU clock in this way (linux/posix-timers.h: MAKE_PROCESS_CPUCLOCK
	// with CPUCLOCK_SCHED).
	const sched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

// A frugal is a run of `ddtop stat` that may use at most the part share of a CPU.
type frugal struct {
	share float64
	flags []string

	cmd  *exec.Cmd
	done chan error // the result of decoding stat's output
	said struct {
		Self struct {
			Halved, Lowered bool
			Overhead        float64
		}
		Rate struct{ Lock, Stack struct{ Achieved float64 } }
	}
	fromNS int64
	began  time.Time
}

// start starts the run of stat, and waits until ddtop samples.
func (f *frugal) start(t *testing.T, pid int) {
	t.Helper()
	f.cmd = exec.CommandContext(t.Context(), ddtop, append([]string{"stat", "--json", "-d", "120s", "-p", strconv.Itoa(pid)}, f.flags...)...)
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.done = make(chan error, 1)
	go func() { f.done <- json.NewDecoder(out).Decode(&f.said) }()
	awaitRaised(t, f.cmd.Process.Pid, false)
	awaitSleeps(t, f.cmd.Process.Pid, 20) // the cost of attaching is not limited
	f.fromNS, f.began = cpuClock(t, f.cmd.Process.Pid), time.Now()
}

// end ends the run, and checks that its CPU time is within the limit.
func (f *frugal) end(t *testing.T) {
	t.Helper()
	took, wall := time.Duration(cpuClock(t, f.cmd.Process.Pid)-f.fromNS), time.Since(f.began)
	if err := f.cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := <-f.done; err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	// more is the CPU time, in seconds, that a run may use beyond its share. ddtop may save up the budget of half a
	// second, and overdraw it by half a second. One tick may be long, because ddtop stops the reading of stacks only
	// after 250 ms. In a plain stat, work outside of the ticks takes at most half of the budget. A lower sampling rate
	// does not reduce this work.
	more := 2*0.5*f.share + 0.25 + 0.5*f.share*10
	most := time.Duration(f.share*float64(wall) + more*1e9)
	t.Logf("%q: %.2f %% of a CPU, at most %.2f; %.0f Hz, stacks %.1f Hz, %+v", f.flags, 100*took.Seconds()/wall.Seconds(),
		100*most.Seconds()/wall.Seconds(), f.said.Rate.Lock.Achieved, f.said.Rate.Stack.Achieved, f.said.Self)
	if took > most {
		t.Errorf("%q: %v of CPU time in %v, more than %v", f.flags, took, wall, most)
	}
	if f.said.Self.Overhead != 0.03 {
		t.Errorf("%q: it says that it may take %g of a CPU", f.flags, f.said.Self.Overhead)
	}
}

// TestOverhead: ddtop uses no more CPU time than --overhead allows, whatever the target does. The kernel counts the CPU
// time of the whole ddtop process. Without --overhead, ddtop uses at most 6 %, even if the lowest quality costs more.
// Both runs watch the same program, which keeps all CPUs busy. Load on the machine cannot make the test fail, because
// it compares only CPU times that the budget controls.
func TestOverhead(t *testing.T) {
	const window = 10 * time.Second
	r := rubytest.One(t)
	for name, program := range dearPrograms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := r.Start(t, program+"\nputs 'ready'; $stdout.flush; $stdin.gets", rubytest.Options{Env: []string{"RUBY_THREAD_VM_STACK_SIZE=4194304"}})
			p.Expect(t, "ready")
			runs := []*frugal{{share: 0.03, flags: []string{"--overhead", "3%"}}, {share: 0.06}}
			for _, f := range runs {
				f.start(t, p.PID)
			}
			select {
			case <-time.After(window):
			case <-t.Context().Done():
				t.Fatal("the test's time is up")
			}
			for _, f := range runs {
				f.end(t)
			}
		})
	}
}
