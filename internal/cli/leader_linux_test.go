package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// leaderEnds is a program whose first thread ends by pthread_exit when it gets a line of input. The other threads go
// on.
const leaderEnds = `require "fiddle"
$stdout.sync = true
Thread.new { Thread.current.name = "survivor"; x = 0; loop { 20_000.times { |i| x ^= i }; sleep 0.01 } }
Thread.new { Thread.current.name = "asleep"; sleep }
puts "up"
STDIN.gets
Fiddle::Function.new(Fiddle.dlopen(nil)["pthread_exit"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOID).call(nil)
`

// startLines starts a ddtop whose output the test reads while ddtop runs. The function next returns the next line. The
// function end waits until ddtop ends and returns its result.
func startLines(t *testing.T, args ...string) (cmd *exec.Cmd, next func() string, end func() result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	cmd, _, errs := prepare(ctx, args...)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(out)
	next = func() string {
		t.Helper()
		if !s.Scan() {
			t.Fatalf("%v prints nothing more; it said %q", args, finish(t, cmd, nil, errs).err)
		}
		return s.Text()
	}
	return cmd, next, func() result {
		for s.Scan() { // read the output to its end
		}
		return finish(t, cmd, nil, errs)
	}
}

// TestFirstThreadEnds: the first thread of a process ends, and the process goes on with its other threads. All commands
// of ddtop must still work. In the test the thread ends before ddtop attaches, or while ddtop measures.
func TestFirstThreadEnds(t *testing.T) {
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, leaderEnds, rubytest.Options{})
		p.Expect(t, "up")
		pid := strconv.Itoa(p.PID)
		_, next, end := startLines(t, "stat", "-p", pid, "--interval", "0.1", "--json")
		next()
		p.Send(t, "exit")
		waitForState(t, p.PID, "Z")
		for range 5 { // five lines, half a second: the fifth line begins after the thread's end
			next()
		}
		ps := run(t, "ps")
		if !strings.Contains(ps.out, "\n"+pid+" ") && !strings.HasPrefix(ps.out, pid+" ") {
			t.Errorf("ps does not have %s:\n%s", pid, ps.out)
		}
		d := run(t, "dump", "-p", pid)
		if d.code != 0 || !strings.Contains(d.out, `"survivor"`) || !strings.Contains(d.out, "Integer#times") && !strings.Contains(d.out, "Kernel#sleep") {
			t.Errorf("dump: code %d, %s\n%s", d.code, d.err, d.out)
		}
		says := "its native thread has ended, and Ruby does not know"
		if major, _ := r.Release(); major < 3 {
			// Ruby 2 stores no native thread ID, and libc forgets the ID of a thread that has ended
			says = "kernel not asked yet"
		}
		if !regexp.MustCompile(`(?m)^main #1 .*\n  unknown: ` + says + `$`).MatchString(d.out) {
			t.Errorf("dump does not say of the main thread that it is unknown: %s:\n%s", says, d.out)
		}
		if d := run(t, "doctor", "-p", pid); d.code != 0 || !strings.Contains(d.out, "process "+pid+" (script.rb) is read with") {
			t.Errorf("doctor: code %d, %s\n%s", d.code, d.err, d.out)
		}
		s := run(t, "stat", "-p", pid, "-d", "0.5", "--json")
		s.want(t, 0)
		var stat struct {
			Process struct {
				RSS int64 `json:"rss_bytes"`
			} `json:"process"`
		}
		if err := json.Unmarshal([]byte(s.out), &stat); err != nil {
			t.Fatal(err)
		}
		if stat.Process.RSS == 0 {
			t.Errorf("it has no memory:\n%s", s.out)
		}

		p.Signal(t, syscall.SIGKILL)
		end().want(t, 0, "exited")
	})
}

// TestFirstThreadEndsWithGVL: the first thread ends by pthread_exit while it holds the GVL. After this, no thread can
// get the GVL. `ddtop dump` must say so.
func TestFirstThreadEndsWithGVL(t *testing.T) {
	p := rubytest.One(t).Start(t, strings.Replace(leaderEnds, "Fiddle::TYPE_VOID)", "Fiddle::TYPE_VOID, need_gvl: true)", 1), rubytest.Options{})
	p.Expect(t, "up")
	p.Send(t, "exit")
	waitForState(t, p.PID, "Z")
	d := run(t, "dump", "-p", strconv.Itoa(p.PID))
	if d.want(t, 0); !strings.Contains(d.out, "stalled: its native thread has ended, and Ruby does not know, keeps the GVL for ever") {
		t.Errorf("dump does not say that the holder of the GVL has ended:\n%s", d.out)
	}
}

// TestHolderEnds: a thread that holds the GVL ends by pthread_exit while ddtop measures. It is not the first thread of
// the process. From then on, ddtop must count this thread as stalled and not as running.
func TestHolderEnds(t *testing.T) {
	p := rubytest.One(t).Start(t, `require "fiddle"
$stdout.sync = true
leave = Fiddle::Function.new(Fiddle.dlopen(nil)["pthread_exit"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOID, need_gvl: true)
Thread.new { STDIN.gets; leave.call(nil) }
puts "up"
sleep
`, rubytest.Options{})
	p.Expect(t, "up")
	_, next, end := startLines(t, "stat", "-p", strconv.Itoa(p.PID), "--interval", "0.1", "--json")
	next()
	next()
	p.Send(t, "exit")
	var line string
	for range 100 {
		var got struct {
			NS struct{ Running, Stalled int64 }
		}
		if line = next(); json.Unmarshal([]byte(line), &got) != nil {
			t.Fatal(line)
		}
		if got.NS.Stalled > 0 && got.NS.Running == 0 {
			line = ""
			break
		}
	}
	if line != "" {
		t.Errorf("the holder of the GVL is not stalled: %s", line)
	}
	p.Signal(t, syscall.SIGKILL)
	end()
}

// TestNoDescriptors: if a limit allows ddtop too few open files, its error says what the user can do about this. The
// test tries several limits, so that different steps of ddtop fail.
func TestNoDescriptors(t *testing.T) {
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	failed := 0
	for limit := uint64(11); limit <= 26; limit += 3 { // fewer are too few for Go's runtime
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd, out, errs := prepare(ctx, "dump", "-p", strconv.Itoa(p.PID))
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -n "$0"; exec "$@"`, strconv.FormatUint(limit, 10), cmd.Path}, cmd.Args[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r := finish(t, cmd, out, errs)
		if strings.Contains(r.err, "too many open files") {
			if failed++; !strings.Contains(r.err, "`ulimit -n 4096`") {
				t.Errorf("with %d files: %q", limit, r.err)
			}
		}
	}
	if failed == 0 {
		t.Error("all limits were enough")
	}
}

// TestEndsAreNotMistaken: if ddtop cannot open files, it must not conclude that the process has ended. ddtop goes on
// with the files that it has open. When the process really ends later, ddtop sees it.
func TestEndsAreNotMistaken(t *testing.T) {
	for name, args := range map[string][]string{"one": nil, "children": {"--children"}} {
		t.Run(name, func(t *testing.T) {
			p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
			p.Expect(t, "up")
			cmd, next, end := startLines(t, append([]string{"stat", "-p", strconv.Itoa(p.PID), "--interval", "0.1", "--json"}, args...)...)
			next()
			if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: 4096}, nil); err != nil {
				t.Fatal(err)
			}
			for range 25 { // ddtop checks once a second whether the process lives
				next()
			}
			p.Signal(t, syscall.SIGKILL)
			if name == "children" { // to see the end of a group, ddtop must open files in /proc again
				if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 4096}, nil); err != nil {
					t.Fatal(err)
				}
			}
			end().want(t, 0, "exited")
		})
	}
}

// TestTooFewDescriptors: if ddtop lacks file descriptors to read a process, it must not report that the process has
// ended or that reading is forbidden. The test allows at least eight descriptors, and two more for the poller of Go's
// runtime. With fewer, the runtime does not start.
func TestTooFewDescriptors(t *testing.T) {
	p := rubytest.One(t).Start(t, spinner, rubytest.Options{})
	p.Expect(t, "up")
	pid := strconv.Itoa(p.PID)
	for _, limit := range []int{11, 14, 20} {
		for _, args := range [][]string{{"dump", "-p", pid}, {"ps"}} {
			cmd, out, errs := prepare(t.Context(), args...)
			shell := append([]string{"/bin/sh", "-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(limit), ddtop}, args...)
			cmd.Path, cmd.Args = shell[0], shell
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			r := finish(t, cmd, out, errs)
			switch {
			case r.code == 0 && !strings.Contains(r.out, pid):
				t.Errorf("%d descriptors, %v: %d is missing: %s", limit, args, p.PID, r.out)
			case r.code != 0 && (!strings.Contains(r.err, "too many open files") || strings.Contains(r.err, attach.ErrGone.Error()) || strings.Contains(r.err, "sudo")):
				t.Errorf("%d descriptors, %v: code %d, %s", limit, args, r.code, r.err)
			}
		}
	}
}

// TestScreenSaysSinceWhenItIsNotRead: for a while, the kernel forbids ddtop to read the process. During this time, the
// screen shows since when the process is not read, in place of the word LIVE. Afterwards it shows LIVE again.
func TestScreenSaysSinceWhenItIsNotRead(t *testing.T) {
	if os.Geteuid() != 0 {
		rubytest.Skip(t, "becoming another user needs root")
	}
	p := rubytest.One(t).Start(t, `require "rbconfig"
Process::GID.change_privilege(65534)
Process::UID.change_privilege(65534)
exec(RbConfig.ruby, "-e", <<'CODE')
require "fiddle"
$stdout.sync = true
Thread.new { x = 0; loop { x += 1 } }
prctl = Fiddle::Function.new(Fiddle.dlopen(nil)["prctl"], [Fiddle::TYPE_INT] + [Fiddle::TYPE_LONG] * 4, Fiddle::TYPE_INT)
puts "up"
while line = STDIN.gets
  prctl.call(4, line.to_i, 0, 0, 0) # PR_SET_DUMPABLE
  puts "done"
end
CODE
`, rubytest.Options{})
	p.Expect(t, "up")
	x := changedInTerminal(t, func(cmd *exec.Cmd) {
		cmd.Dir, cmd.Env = "/", append(cmd.Env, "XDG_CONFIG_HOME=/nonexistent")
		cmd.SysProcAttr.Credential = nobody
	}, ddtop, "-p", strconv.Itoa(p.PID))
	x.see(t, "LIVE")
	p.Send(t, "0")
	p.Expect(t, "done")
	x.see(t, "not read since ")
	x.forget()
	x.see(t, "not read since ") // still there after the screen was drawn again
	if strings.Contains(x.text(), "LIVE") {
		t.Errorf("LIVE is on the screen: %s", tail(x))
	}
	x.forget()
	p.Send(t, "1")
	p.Expect(t, "done")
	x.see(t, "LIVE")
	x.press(t, "q")
	x.leaves(t, 0)
}
