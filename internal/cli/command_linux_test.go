package cli_test

import (
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

func TestCommandsExitCodeIsPassedOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		code   int
	}{
		{"exit 0", 0}, {"exit 1", 1}, {"exit 7", 7}, {"exit 125", 125}, {"exit 255", 255},
		{"kill -TERM $$", 128 + 15}, {"kill -KILL $$", 128 + 9},
	} {
		if r := run(t, "--", "sh", "-c", c.script); r.code != c.code {
			t.Errorf("%s: code %d, want %d; it said %q", c.script, r.code, c.code, r.err)
		}
	}
}

// runUntilMeasured runs a command under ddtop until ddtop has measured the wanted number of Ruby VMs. On a busy
// machine, a short program can end before ddtop has found its VM. So the program runs longer in each try.
func runUntilMeasured(t *testing.T, vms int, command func(seconds string) []string) result {
	t.Helper()
	return runLonger(t, func(seconds string) []string { return append([]string{"--"}, command(seconds)...) },
		func(r result) bool { return strings.Count(r.err, "ddtop itself") == vms })
}

// runLonger runs ddtop repeatedly, each time for longer, until the function enough accepts the result. args returns the
// arguments for a run of the given number of seconds. If enough accepts no result, runLonger returns the last one.
func runLonger(t *testing.T, args func(seconds string) []string, enough func(result) bool) result {
	t.Helper()
	var r result
	for seconds := 1; seconds <= 64; seconds *= 4 {
		if r = run(t, args(strconv.Itoa(seconds))...); enough(r) {
			break
		}
	}
	return r
}

func TestCommandIsMeasuredOnEveryRuby(t *testing.T) {
	t.Parallel()
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel() // the test waits more than it computes, and does not depend on other tests
		got := runUntilMeasured(t, 1, func(seconds string) []string {
			return rubyCommand(t, r, `
				Thread.new { sleep }.name = "sleeper"
				finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + `+seconds+`
				x = 0
				x += 1 while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
				puts "printed"
				exit 7`)
		})
		if got.code != 7 || got.out != "printed\n" {
			t.Errorf("code %d, output %q", got.code, got.out)
		}
		for _, want := range []string{"sleeper", "GVL", "ddtop itself"} {
			if !strings.Contains(got.err, want) {
				t.Errorf("%q is not in the table:\n%s", want, got.err)
			}
		}
	})
}

func TestRubyBelowAShellIsFound(t *testing.T) {
	t.Parallel()
	ruby := rubytest.One(t)
	r := runUntilMeasured(t, 1, func(seconds string) []string {
		command := rubyCommand(t, ruby, `Thread.new { sleep }.name = "sleeper"; sleep `+seconds)
		// The "exit 9" keeps the shell alive as the parent. With a single command, the shell would replace itself by
		// this command.
		return append([]string{"sh", "-c", `"$@"; exit 9`, "sh"}, command...)
	})
	if r.code != 9 || !strings.Contains(r.err, "sleeper") {
		t.Errorf("code %d, it said %q", r.code, r.err)
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	script := `
		%w[INT TERM HUP USR1 USR2 QUIT].each { |s| trap(s) { puts s; $stdout.flush; exit!(40) if s == "QUIT" } rescue p s }
		puts "up"
		$stdout.flush
		sleep`
	command := rubyCommand(t, rubytest.One(t), script)
	cmd, _, errs := prepare(t.Context(), append([]string{"--"}, command...)...)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		buf := make([]byte, len(want)+1)
		if _, err := io.ReadFull(out, buf); err != nil || string(buf) != want+"\n" {
			t.Fatalf("read %q, %v; want %q; it said %s", buf, err, want, errs)
		}
	}
	expect("up")
	for _, s := range []struct {
		name   string
		signal syscall.Signal
	}{
		{"INT", syscall.SIGINT}, {"TERM", syscall.SIGTERM}, {"HUP", syscall.SIGHUP},
		{"USR1", syscall.SIGUSR1}, {"USR2", syscall.SIGUSR2},
	} {
		if err := cmd.Process.Signal(s.signal); err != nil {
			t.Fatal(err)
		}
		expect(s.name)
	}
	if err := cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	expect("QUIT")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 40 {
		t.Errorf("%v, code %d; it said %s", err, cmd.ProcessState.ExitCode(), errs)
	}
}

func TestEveryVMOfACommandIsMeasured(t *testing.T) {
	t.Parallel()
	r := rubytest.One(t)
	got := runUntilMeasured(t, 2, func(seconds string) []string {
		second := `Thread.new { sleep }.name = "second"; sleep ` + seconds + `; exit 6`
		return rubyCommand(t, r, `Thread.new { sleep }.name = "first"; sleep `+seconds+`; exec `+strconv.Quote(r.Bin)+`, "-e", `+strconv.Quote(second))
	})
	if got.code != 6 || strings.Count(got.err, "ddtop itself") != 2 {
		t.Errorf("code %d, it said %q", got.code, got.err)
	}
	before, after, _ := strings.Cut(got.err, "ddtop itself")
	if !strings.Contains(before, "first") || !strings.Contains(after, "second") {
		t.Errorf("the two VMs are not told apart: %s", got.err)
	}
}
