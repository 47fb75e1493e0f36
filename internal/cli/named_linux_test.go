package cli_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// named starts a Ruby that calls itself by a title, which has other words behind its name.
func named(t *testing.T, title string) *rubytest.Process {
	t.Helper()
	p := rubytest.One(t).Start(t, "Process.setproctitle("+strconv.Quote(title)+")\n"+spinner, rubytest.Options{})
	p.Expect(t, "up")
	return p
}

// unlike is a name that no other process of the machine has.
func unlike(t *testing.T, word string) string {
	return word + strconv.Itoa(os.Getpid())
}

// A word behind a command's name stands for the process that has it in its name, and for -p and its PID.
func TestProcessesByTheirNames(t *testing.T) {
	t.Parallel()
	name := unlike(t, "Fishmonger")
	p := named(t, name+" 6.4 (tcp://haddock) [app]")
	pid := strconv.Itoa(p.PID)
	for _, words := range []string{pid, name, strings.ToLower(name[2:]), "haddock " + name} {
		for _, args := range [][]string{
			{"dump", "--json"}, {"stat", "-d", "0.2", "--overhead", "off", "--json"}, {"record", "-d", "0.2", "--overhead", "off", "-o", "-", "--format", "collapsed"},
		} {
			args = append(args, strings.Fields(words)...)
			r := run(t, args...)
			r.want(t, 0)
			if args[0] != "record" && !strings.Contains(r.out, `"pid": `+pid) {
				t.Errorf("%v printed %.200s", args, r.out)
			}
			said := strings.Contains(r.err, "process "+pid+": "+name)
			if said != (words != pid) {
				t.Errorf("%v said %q", args, r.err)
			}
		}
	}
	r := run(t, "dump", "--redact", name)
	r.want(t, 0)
	if strings.Contains(r.out+r.err, "haddock") || strings.Contains(r.err, name) {
		t.Errorf("with --redact it says %s%s", r.err, r.out)
	}
}

// A name that several processes have is refused without a terminal, with a list of them; --children takes all below
// one.
func TestProcessesOfOneName(t *testing.T) {
	t.Parallel()
	name := unlike(t, "fleet")
	p := rubytest.One(t).Start(t, `
		Process.setproctitle("`+name+` master")
		master = $$
		2.times { |i| fork { Process.setproctitle("`+name+`: worker #{i}"); $stdout.sync = true; puts "up"; sleep 0.1 while Process.ppid == master } }
		$stdin.read`, rubytest.Options{})
	p.Expect(t, "up")
	p.Expect(t, "up")
	r := run(t, "stat", name)
	r.want(t, 2, "3 Ruby processes have", strconv.Itoa(p.PID)+" "+name, "(below "+strconv.Itoa(p.PID)+")", "ddtop stat "+name+" --children")
	if r.out != "" || strings.Count(r.err, " (below ") != 2 {
		t.Errorf("it printed %q, %q", r.out, r.err)
	}
	r = run(t, "dump", name, "--children")
	r.want(t, 0)
	if n := strings.Count(r.out, name); n < 3 {
		t.Errorf("%d of the three processes in\n%s", n, r.out)
	}

	x := inTerminal(t, name)
	x.see(t, "3 of ")
	x.see(t, "worker 1")
	x.see(t, "with 2 processes below (--children)")
	x.press(t, "\t")
	x.see(t, "all processes") // view 8
	x.press(t, "q")
	x.leaves(t, 0)
}

// The list is moved in with arrows, filtered by typing and left without a process.
func TestListOfProcesses(t *testing.T) {
	t.Parallel()
	name := unlike(t, "lister")
	p := named(t, name+" one")
	named(t, name+" other")
	x := inTerminal(t)
	x.see(t, "Ruby processes")
	x.press(t, name)
	x.see(t, "2 of ")
	x.press(t, " one")
	x.see(t, "1 of ")
	x.press(t, "\r")
	x.see(t, "Integer#times")
	x.see(t, strconv.Itoa(p.PID))
	x.press(t, "q")
	x.leaves(t, 0)

	for _, way := range []string{"q", "\x1b", "\x03"} {
		x = inTerminal(t)
		x.see(t, "Ruby processes")
		x.press(t, way)
		x.leaves(t, 0)
	}
	x = inTerminal(t, "stat", name)
	x.see(t, "2 of ")
	x.press(t, "\x03")
	x.leaves(t, 1)

	r := run(t)
	r.want(t, 2, "without a terminal")
	if row := psRow(t, r.out, p.PID); !strings.Contains(row, name) {
		t.Errorf("without a terminal the list has %s", row)
	}
}

// fakeSudo puts a program "sudo" into a folder that prints its arguments and what it was given of the settings.
func fakeSudo(t *testing.T) (path string) {
	t.Helper()
	folder, err := os.MkdirTemp("/tmp", "ddtop-sudo-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	script := "#!/bin/sh\necho \"SUDO $* COLORS=$COLORTERM SETTINGS=$XDG_CONFIG_HOME END\"\nexit 7\n"
	for _, err := range []error{os.Chmod(folder, 0o755), os.WriteFile(filepath.Join(folder, "sudo"), []byte(script), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(folder, "settings", "ddtop"), 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Who may not read a process, and could as root, is offered to run the same with sudo.
func TestSudoIsOffered(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		rubytest.Skip(t, "becoming another user needs root")
	}
	if !mayBecomeRoot(t) {
		rubytest.Skip(t, "nobody can get CAP_SYS_PTRACE here: it is not in the bounding set, or no_new_privs is set")
	}
	name := unlike(t, "locked")
	p := named(t, name+" up")
	pid := strconv.Itoa(p.PID)
	folder := fakeSudo(t)
	asNobody := func(cmd *exec.Cmd) {
		cmd.Dir = "/"
		cmd.Env = append(cmd.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "XDG_CONFIG_HOME="+filepath.Join(folder, "settings"), "COLORTERM=truecolor", "NO_COLOR=")
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = new(syscall.SysProcAttr)
		}
		cmd.SysProcAttr.Credential = nobody
	}
	for _, c := range []struct{ args, again string }{
		{"-p " + pid, "-p " + pid}, {"stat " + name + " -d 5", "stat -d 5 -p " + pid}, {"dump " + pid, "dump " + pid},
	} {
		x := changedInTerminal(t, asNobody, ddtop, strings.Fields(c.args)...)
		x.see(t, "run it with sudo? [Y/n] ")
		if !strings.Contains(x.text(), "belongs to user root") {
			t.Errorf("it does not say why: %s", tail(x))
		}
		x.press(t, "\n")
		x.see(t, "END")
		if got := x.text(); !strings.Contains(got, "--preserve-env=") || !strings.Contains(got, "-- "+ddtop+" "+c.again+" COLORS=truecolor") {
			t.Errorf("%s: sudo got %s, want %s", c.args, tail(x), c.again)
		}
		x.leaves(t, 7)
	}
	x := changedInTerminal(t, asNobody, ddtop, "-p", pid)
	x.see(t, "[Y/n] ")
	x.press(t, "n\n")
	x.leaves(t, 3)
	if strings.Contains(x.text(), "SUDO") {
		t.Error("sudo was run")
	}

	cmd, out, errs := prepare(t.Context(), "stat", name, "-d", "5s")
	asNobody(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if r := finish(t, cmd, out, errs); r.code != 3 || !strings.Contains(r.err, "`sudo ddtop stat -d 5s -p "+pid+"`") {
		t.Errorf("without a terminal: code %d, it said %s", r.code, r.err)
	}
}

// mayBecomeRoot reports whether a set-user-ID program started here could read any process.
func mayBecomeRoot(t *testing.T) bool {
	t.Helper()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bounding, free := uint64(0), true
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch value = strings.TrimSpace(value); key {
		case "CapBnd":
			if bounding, err = strconv.ParseUint(value, 16, 64); err != nil {
				t.Fatal(err)
			}
		case "NoNewPrivs":
			free = value == "0"
		}
	}
	return free && bounding&(1<<19) != 0
}

// Where there is one Ruby process only, as in most containers, ddtop alone attaches to it, and says so.
func TestTheOnlyRubyIsAttachedTo(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		rubytest.Skip(t, "a PID namespace of its own needs root")
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		rubytest.Skip(t, "there is no program unshare (Debian's util-linux)")
	}
	if out, err := exec.Command(unshare, "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		rubytest.Skip(t, "a PID namespace of its own is not allowed here: %s", out)
	}
	command := rubyCommand(t, rubytest.One(t), `Thread.new { x = 0; loop { 1000.times { x += 1 } } }; sleep`)
	script := `"$@" & until ` + ddtop + ` ps | grep -q yes; do sleep 0.1; done; exec ` + ddtop
	x := programInTerminal(t, unshare, append([]string{"--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh"}, command...)...)
	x.see(t, "the only Ruby process here")
	x.see(t, "Integer#times")
	x.press(t, "q")
	x.leaves(t, 0)
}

// TestCompletionOffersProcesses: where a command takes a process, a shell is offered the PIDs of Ruby processes with
// their titles.
func TestCompletionOffersProcesses(t *testing.T) {
	t.Parallel()
	name := unlike(t, "completed")
	p := named(t, name)
	want := strconv.Itoa(p.PID) + "\t" + name + "\n"
	for _, words := range [][]string{{"dump", ""}, {"stat", "-p", ""}, {"record", ""}, {"doctor", ""}, {""}} {
		// Where the machine has no time for it, a list has programs' names for titles (attach.List).
		for deadline := time.Now().Add(rubytest.Timeout); ; {
			r := run(t, append([]string{"__complete"}, words...)...)
			if r.code == 0 && strings.Contains(r.out, want) {
				break
			}
			if r.code != 0 || time.Now().After(deadline) {
				t.Fatalf("%q: code %d, no %q in\n%s", words, r.code, want, r.out)
			}
		}
	}
}
