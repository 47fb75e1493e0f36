package cli_test

import (
	"bytes"
	_ "embed" // for the program adversaries
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
)

// adversaries is a program that does what could make probes fail.
//
//go:embed testdata/exact/adversaries.rb
var adversaries string

// beside is a running `ddtop stat --exact` that follows a process until the method end is called.
type beside struct {
	cmd       *exec.Cmd
	out, errs *bytes.Buffer
}

func exactArgs(pid int) []string {
	return []string{"stat", strconv.Itoa(pid), "-d", "1h", "--exact", "--exact-cost", "off", "--json"}
}

// followExactly starts `ddtop stat --exact` for a process, and waits until ddtop has put its probes into the process.
func followExactly(t *testing.T, pid int) *beside {
	t.Helper()
	var b beside
	b.cmd, b.out, b.errs = prepare(t.Context(), exactArgs(pid)...)
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	rubytest.Probed(t, pid, true)
	return &b
}

// tooEarly reports whether ddtop ended after it had put in its probes, but before its first sample. This is no error:
// on a busy machine the first sample can be late.
func tooEarly(r result) bool {
	return r.code == 1 && (strings.Contains(r.err, "before anything was measured") || strings.Contains(r.err, "the reading was ended"))
}

// The method end sends ddtop the signal of ctrl-c, checks the result, and returns it. It returns nil if ddtop ended
// before its first sample.
func (b *beside) end(t *testing.T) *report.Stat {
	t.Helper()
	if err := b.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	got := finish(t, b.cmd, b.out, b.errs)
	if tooEarly(got) {
		return nil
	}
	got.want(t, 0)
	var stat report.Stat
	if err := json.Unmarshal([]byte(got.out), &stat); err != nil {
		t.Fatal(err)
	}
	x := stat.Exact
	if x == nil || x.Wrong || x.Ended != "" {
		t.Fatalf("%+v; it said %q", x, got.err)
	}
	if x.Turns == 0 { // ddtop began to measure after the program's last part
		rubytest.TooSeldom(t, "no turn was seen: %+v", x)
	}
	for _, g := range stat.GVL {
		if g.HeldShare > 1 {
			t.Errorf("%+v: one GVL has one holder", g)
		}
	}
	for i := range stat.Threads {
		th := &stat.Threads[i]
		if sum := th.NS.Sum(); sum > stat.DurationNS {
			t.Errorf("thread %d: its times come to %d ns of %d", th.ID, sum, stat.DurationNS)
		}
	}
	return &stat
}

// tasks returns the ids of the native threads of a process.
func tasks(t *testing.T, pid int) []string {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	var tids []string
	for _, e := range entries {
		tids = append(tids, e.Name())
	}
	return tids
}

// play lets the program adversaries run its parts one by one, and returns the lines that it prints. After each line,
// play calls the function during, unless it is nil.
func play(t *testing.T, p *rubytest.Process, during func()) (lines []string) {
	t.Helper()
	p.Send(t, "go")
	for {
		line := p.Line(t)
		if line == "over" {
			return lines
		}
		lines = append(lines, line)
		if during != nil {
			during()
		}
	}
}

// startAdversaries starts the program adversaries and waits until it is ready.
func startAdversaries(t *testing.T, r rubytest.Ruby, o rubytest.Options) *rubytest.Process {
	t.Helper()
	p := r.Start(t, adversaries, o)
	p.Expect(t, "ready")
	return p
}

// TestExactChangesNothing: the program adversaries does, with its threads, children and signals, what could make probes
// fail. With probes, it must print the same as without, and end well. ddtop must report no ended thread as waiting. The
// test also tries a second ddtop that follows the program, and stops the program or ddtop for a while.
func TestExactChangesNothing(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	for name, meanwhile := range map[string]func(t *testing.T, p *rubytest.Process, b *beside) (during func()){
		"alone": func(*testing.T, *rubytest.Process, *beside) func() { return nil },
		"two at once": func(t *testing.T, p *rubytest.Process, _ *beside) func() {
			var other *beside
			return func() {
				if other == nil {
					other = new(beside)
					other.cmd, other.out, other.errs = prepare(t.Context(), exactArgs(p.PID)...)
					if err := other.cmd.Start(); err != nil {
						t.Fatal(err)
					}
					return
				}
				// The second ddtop is killed at a random moment, and its probes are removed. The probes of the first
				// ddtop look the same, but must stay.
				if err := other.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = other.cmd.Wait() // ignore the error: it only says that ddtop was killed
				other = nil
				if rubytest.ChangedCode(t, p.PID) == 0 {
					t.Error("the end of one ddtop has taken the probes of another out")
				}
			}
		},
		"target stopped": func(t *testing.T, p *rubytest.Process, _ *beside) func() {
			return func() {
				p.Signal(t, syscall.SIGSTOP)
				p.Signal(t, syscall.SIGCONT)
			}
		},
		"ddtop stopped": func(t *testing.T, _ *rubytest.Process, b *beside) func() {
			stopped := false
			return func() {
				signal := syscall.SIGSTOP
				if stopped {
					signal = syscall.SIGCONT
				}
				stopped = !stopped
				if err := b.cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "alone" {
				rubytest.Long(t)
			}
			eachExact(t, func(t *testing.T, r rubytest.Ruby) {
				p := startAdversaries(t, r, rubytest.Options{})
				want := play(t, p, nil)
				p.Stop(t)
				if len(want) < 20 {
					t.Fatalf("%d parts: %q", len(want), want)
				}

				p = startAdversaries(t, r, rubytest.Options{})
				b := followExactly(t, p.PID)
				got := play(t, p, meanwhile(t, p, b))
				if err := b.cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				stat := b.end(t)
				if stat == nil {
					rubytest.TooSeldomNow(t, "it had not begun to measure by then: %s", b.errs)
				}
				for i, line := range got {
					if i >= len(want) || line != want[i] {
						t.Errorf("%q is not what it prints without probes", line)
					}
				}
				if len(got) != len(want) {
					t.Errorf("%d results, and %d without probes", len(got), len(want))
				}
				live := tasks(t, p.PID)
				for _, th := range stat.Threads {
					if th.Waits.InProgress > 0 && (th.Gone || th.TID == nil || !slices.Contains(live, strconv.Itoa(int(*th.TID)))) {
						t.Errorf("thread %d waits still, and has ended: %+v", th.ID, th)
					}
				}
				if n := rubytest.ChangedCode(t, p.PID); n != 0 {
					t.Errorf("%d bytes of its code are not the file's afterwards", n)
				}
				p.Send(t, "")
				if code := p.Wait(t); code != 0 {
					t.Errorf("it ended with %d: %s", code, p.Stderr())
				}
			})
		})
	}
}

// TestExactChildren: while ddtop follows a process, the process's code has ddtop's breakpoints. A child that is forked
// meanwhile has them too, in its copy of the memory. When ddtop ends or is killed, the children's code must be the same
// as in the file again. This includes a child that has not run since the fork.
func TestExactChildren(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		for name, signal := range map[string]syscall.Signal{"ended": syscall.SIGTERM, "killed": syscall.SIGKILL} {
			t.Run(name, func(t *testing.T) {
				// The second child is stopped before it takes a lock. So it reaches no probe until ddtop has ended.
				p := r.Start(t, `$stdout.sync = true
puts "ready"
$stdin.gets
busy = fork { 2.times.map { Thread.new { loop { sleep 0 } } }.each(&:join) }
still = fork { Process.kill(:STOP, $$); 2.times.map { Thread.new { 1000.times { sleep 0 } } }.each(&:join); exit!(6) }
Process.wait(still, Process::WUNTRACED)
puts busy, still
$stdin.gets
Process.kill(:CONT, still)
puts Process.wait2(still)[1].exitstatus
Process.kill(:KILL, busy)
$stdin.gets`, rubytest.Options{})
				p.Expect(t, "ready")
				b := followExactly(t, p.PID)
				p.Send(t, "")
				busy, err1 := strconv.Atoi(p.Line(t))
				still, err2 := strconv.Atoi(p.Line(t))
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				if err := b.cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				_ = b.cmd.Wait() // ignore the error: the signal has ended ddtop
				for _, pid := range []int{p.PID, busy, still} {
					rubytest.Probed(t, pid, false)
				}
				p.Send(t, "")
				if got := p.Line(t); got != "6" {
					t.Errorf("the child ended with %s", got)
				}
			})
		}
	})
}

// TestExactTracers: a debugger and a tracer of system calls stop threads anywhere, and the debugger also sets
// breakpoints. With ddtop's probes and such a tool, a process still prints the same. Its code is unchanged afterwards.
func TestExactTracers(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	for name, tool := range map[string]struct {
		command, pkg string
		args         []string
	}{
		"gdb":    {"gdb", "gdb", []string{"-p", "PID", "-batch", "-nx", "-ex", "break rb_native_mutex_unlock", "-ex", "continue 300", "-ex", "delete", "-ex", "detach"}},
		"strace": {"strace", "strace", []string{"-f", "-qq", "-o", "/dev/null", "-p", "PID"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := rubytest.Program(t, tool.command, tool.pkg)
			eachExact(t, func(t *testing.T, r rubytest.Ruby) {
				o := rubytest.Options{Args: []string{"kill_queued", "convoy", "condition", "timeouts"}}
				p := startAdversaries(t, r, o)
				want := play(t, p, nil)
				p.Stop(t)

				p = startAdversaries(t, r, o)
				b := followExactly(t, p.PID)
				args := slices.Clone(tool.args)
				args[slices.Index(args, "PID")] = strconv.Itoa(p.PID)
				cmd := exec.CommandContext(t.Context(), path, args...)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				got := play(t, p, nil)
				interrupted(cmd)
				if strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("with %s beside it prints\n%q, without\n%q\n%s", name, got, want, &out)
				}
				b.end(t)
				if n := rubytest.ChangedCode(t, p.PID); n != 0 {
					t.Errorf("%d bytes of its code are not the file's afterwards", n)
				}
			})
		})
	}
}

// interrupted sends signals to gdb or another program until it ends. One signal is not enough, because it is lost if it
// comes while gdb starts.
func interrupted(cmd *exec.Cmd) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = cmd.Wait() // ignore the error: strace ends by the signal
	}()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-over:
			return
		case <-again.C:
		}
	}
}

// TestExactElsewhere: in exact mode, ddtop can follow a process that has its own namespaces. It can also follow a
// process whose libruby file was replaced after the start, for example by the package manager. The code of both
// processes is unchanged afterwards.
func TestExactElsewhere(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	// moved is a script that runs the program with a copy of libruby, and then replaces the copy by another file.
	const moved = `libraries = RbConfig::CONFIG.values_at("libdir", "archlibdir").compact.flat_map { |dir| Dir[File.join(dir, "libruby*.so.*")] }
unless ENV["LD_LIBRARY_PATH"] || libraries.empty?
  libraries.each { |path| File.binwrite(File.basename(path), File.binread(path)) }
  exec({"LD_LIBRARY_PATH" => Dir.pwd}, RbConfig.ruby, $0, *ARGV)
end
libraries.each { |path| File.write("new", "not a library"); File.rename("new", File.basename(path)) }
`
	for name, c := range map[string]struct {
		before  string
		o       rubytest.Options
		deleted bool
	}{
		"namespaces": {"", rubytest.Options{OwnPIDs: true, OwnMounts: true}, false},
		"replaced":   {moved, rubytest.Options{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			eachExact(t, func(t *testing.T, r rubytest.Ruby) {
				c.o.Args = []string{"kill_queued", "forks", "convoy"}
				p := r.Start(t, c.before+adversaries, c.o)
				p.Expect(t, "ready")
				if maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.PID)); err != nil || strings.Contains(string(maps), "(deleted)") != c.deleted {
					t.Fatalf("what it has mapped: %v\n%s", err, maps)
				}
				b := followExactly(t, p.PID)
				if got := play(t, p, nil); len(got) != len(c.o.Args) {
					t.Errorf("%q", got)
				}
				b.end(t)
				if n := rubytest.ChangedCode(t, p.PID); n != 0 {
					t.Errorf("%d bytes of its code are not the file's afterwards", n)
				}
			})
		})
	}
}

// TestExactBecomesAnother: ddtop follows a process in exact mode until the process executes another Ruby program, or
// continues as a daemon in a child process. When ddtop has ended, neither the new program nor the daemon has
// breakpoints.
func TestExactBecomesAnother(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	for name, becomes := range map[string]string{
		"exec":   `exec RbConfig.ruby, "-e", "$stdout.sync = true; 2.times { Thread.new { loop { sleep 0 } } }; puts $$; $stdin.gets"`,
		"daemon": `Process.daemon(true, true); 2.times { Thread.new { loop { sleep 0 } } }; puts $$; $stdin.gets`,
	} {
		t.Run(name, func(t *testing.T) {
			eachExact(t, func(t *testing.T, r rubytest.Ruby) {
				p := r.Start(t, `$stdout.sync = true
2.times { Thread.new { loop { sleep 0.001 } } }
puts "ready"
$stdin.gets
`+becomes, rubytest.Options{})
				p.Expect(t, "ready")
				b := followExactly(t, p.PID)
				p.Send(t, "")
				pid, err := strconv.Atoi(p.Line(t))
				if err != nil {
					t.Fatal(err)
				}
				defer syscall.Kill(pid, syscall.SIGKILL) // a daemon is not in the process group that the test kills
				got := finish(t, b.cmd, b.out, b.errs)
				var stat report.Stat
				if tooEarly(got) || got.code == 4 && strings.Contains(got.err, "the process has ended") {
					t.Logf("it said %q", got.err)
				} else if err := json.Unmarshal([]byte(got.out), &stat); err != nil {
					t.Fatalf("%v; exit code %d, it said %q", err, got.code, got.err)
				} else if x := stat.Exact; x == nil || x.Wrong {
					t.Errorf("%+v; it said %q", x, got.err)
				} else if x.Turns == 0 {
					rubytest.TooSeldom(t, "no turn was seen: %+v", x)
				}
				if n := rubytest.ChangedCode(t, pid); n != 0 {
					t.Errorf("%d bytes of its code are not the file's afterwards", n)
				}
				p.Send(t, "") // checks that the program still runs
			})
		})
	}
}
