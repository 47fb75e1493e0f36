package cli_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// named starts a Ruby that sets its own process title. The title begins with a name, and more words may follow.
func named(t *testing.T, title string) *rubytest.Process {
	t.Helper()
	p := rubytest.One(t).Start(t, "Process.setproctitle("+strconv.Quote(title)+")\n"+spinner, rubytest.Options{})
	p.Expect(t, "up")
	return p
}

// unlike returns a name that no other process of the machine has.
func unlike(t *testing.T, word string) string {
	return word + strconv.Itoa(os.Getpid())
}

// TestProcessesByTheirNames: a word after a command selects the process whose name contains the word. A PID after a
// command selects its process, even without -p.
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

// namedCluster starts a master with two worker processes. The titles of the workers describe them. The second worker is
// busy.
func namedCluster(t *testing.T, name string) *rubytest.Process {
	t.Helper()
	p := rubytest.One(t).Start(t, `
		Process.setproctitle("`+name+` 6.4 (tcp://haddock) [app]")
		master = $$
		2.times do |i|
			fork do
				Process.setproctitle("`+name+`: cluster worker #{i}: #{master} [app]")
				Thread.new { i == 1 ? loop { 1000.times { |x| x * x } } : sleep }
				$stdout.sync = true
				puts "up"
				sleep 0.1 while Process.ppid == master
			end
		end
		$stdin.read`, rubytest.Options{})
	p.Expect(t, "up")
	p.Expect(t, "up")
	return p
}

// TestNameOfACluster: if the only processes with a name are one master and its workers (a cluster), the name selects
// all of them. ddtop measures the workers together, and the output shows their numbers.
func TestNameOfACluster(t *testing.T) {
	t.Parallel()
	name := unlike(t, "fleet")
	p := namedCluster(t, name)
	said := "process " + strconv.Itoa(p.PID) + ": " + name + " master and 2 processes below it"
	processes := []string{
		"── " + name + " master  pid " + strconv.Itoa(p.PID) + " ──",
		"── " + name + " w0  pid ", "── " + name + " w1  pid ",
	}
	for _, args := range [][]string{
		{"dump", name}, {"stat", name, "-d", "0.3"}, {"stat", "haddock", name, "-d", "0.3", "--children"},
	} {
		r := run(t, args...)
		r.want(t, 0, said)
		for _, want := range processes {
			if strings.Count(r.out, want) != 1 {
				t.Errorf("%v: not one %q in\n%s", args, want, r.out)
			}
		}
		if sum := strings.Contains(r.out, "\nall 3 processes "); sum != (args[0] == "stat") {
			t.Errorf("%v: a sum of all is %t", args, sum)
		}
	}
	for _, format := range []string{"pprof", "collapsed", "speedscope", "svg", "callgrind", "html", "firefox", "chrome"} {
		file := filepath.Join(t.TempDir(), "out")
		run(t, "record", name, "-d", "0.3", "-o", file, "--format", format).want(t, 0, said)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if format != "pprof" && !strings.Contains(string(text), name+" w1") {
			t.Errorf("%s: the busy worker is not in %d bytes", format, len(text))
		}
	}
	run(t, "doctor", name).want(t, 0, "process "+strconv.Itoa(p.PID)+": "+name+" master")
	r := run(t, "stat", "-p", strconv.Itoa(p.PID), "-d", "0.3")
	r.want(t, 0, "("+name+" master) runs the same program in 2 more below it: --children")

	x := inTerminal(t, name)
	x.see(t, "3 processes")
	x.see(t, name+" w1")
	x.press(t, "q")
	x.leaves(t, 0)
}

// TestProcessesOfOneName: if two masters with workers have the same name, ddtop without a terminal refuses the name and
// lists the processes of both. With --children it takes all of them.
func TestProcessesOfOneName(t *testing.T) {
	t.Parallel()
	name := unlike(t, "armada")
	p, other := namedCluster(t, name), namedCluster(t, name)
	pid := strconv.Itoa(p.PID)
	r := run(t, "stat", name)
	r.want(t, 2, "6 Ruby processes have", pid+" "+name+" master", "(below "+pid+")",
		strconv.Itoa(other.PID)+" "+name+" master", "ddtop stat "+name+" --children")
	if r.out != "" || strings.Count(r.err, " (below ") != 4 {
		t.Errorf("it printed %q, %q", r.out, r.err)
	}
	r = run(t, "dump", name, "--children")
	r.want(t, 0)
	if n := strings.Count(r.out, "── "+name); n != 6 {
		t.Errorf("%d of the six processes in\n%s", n, r.out)
	}

	x := inTerminal(t, name)
	x.see(t, "6 of ")
	x.see(t, "worker 1")
	x.see(t, "with 2 processes below (--children)")
	x.press(t, "\t")
	x.see(t, "all processes") // this is view 8
	x.press(t, "q")
	x.leaves(t, 0)
}

// TestScreenOfAMaster: the screen of a master process shows that it has workers. The tab key leads to their screens.
func TestScreenOfAMaster(t *testing.T) {
	t.Parallel()
	name := unlike(t, "galley")
	p := namedCluster(t, name)
	x := inTerminal(t, "-p", strconv.Itoa(p.PID))
	x.see(t, "2 workers below, tab watches them")
	x.see(t, name+" master")
	x.press(t, "\t")
	x.see(t, "3 processes")
	x.see(t, name+" w1")
	x.press(t, "q")
	x.leaves(t, 0)
}

// TestListIsATree: in the list of processes, the workers of a master are below the master. The worker that takes the
// most CPU time comes first.
func TestListIsATree(t *testing.T) {
	t.Parallel()
	name := unlike(t, "convoy")
	p := namedCluster(t, name)
	type process struct {
		PID, PPID int
		Name      string
		Worker    *int
		CPU       *float64
		RSSBytes  *int64 `json:"rss_bytes"`
	}
	var list []process
	until(t, func() bool { // on a busy machine the busy worker may get no CPU for a while
		r := run(t, "ps", "--json")
		r.want(t, 0)
		list = nil
		if err := json.Unmarshal([]byte(r.out), &list); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(x process) bool { return x.PID == p.PID })
		if i < 0 {
			t.Fatalf("%d is not in %s", p.PID, r.out)
		}
		list = list[i:min(i+3, len(list))]
		return len(list) == 3 && list[1].CPU != nil && *list[1].CPU > 0
	}, "the busy worker takes CPU time")
	for i, want := range []string{name + " master", name + " w1", name + " w0"} {
		x := list[i]
		placed := i == 0 || x.PPID == p.PID && x.Worker != nil && *x.Worker == 2-i
		if x.Name != want || x.RSSBytes == nil || *x.RSSBytes < 1<<20 || !placed {
			t.Errorf("%d: %+v, want %s", i, x, want)
		}
	}
	r := run(t, "ps")
	row := psRow(t, r.out, list[1].PID)
	if !strings.Contains(row, "└ "+name+" w1") || !strings.Contains(row, " MB ") || !strings.Contains(row, " % ") {
		t.Errorf("ps has the row %q", row)
	}
}

// TestListOfProcesses: in the list of processes, typing filters the list, and the enter key opens a process. The user
// can leave the list without choosing a process. Without a terminal, ddtop prints the list.
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

// fakeSudo makes a folder with a program "sudo" and a folder for settings. The program imitates sudo: it only prints
// its arguments and the variables that it got.
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

// TestSudoIsOffered: if a user may not read a process but root may, ddtop offers to run the same command with sudo.
// Without a terminal, it only prints the command.
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

// mayBecomeRoot reports whether a set-user-ID program, such as sudo, would have the right to read any process if it
// started here.
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

// TestTheOnlyRubyIsAttachedTo: if there is only one Ruby process, as in most containers, ddtop without arguments
// attaches to it and says so.
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

// TestCompletionOffersProcesses: for a command that accepts a process, the shell's completion offers the PIDs of Ruby
// processes with their titles.
func TestCompletionOffersProcesses(t *testing.T) {
	t.Parallel()
	name := unlike(t, "completed")
	p := named(t, name)
	want := strconv.Itoa(p.PID) + "\t" + name + "\n"
	for _, words := range [][]string{{"dump", ""}, {"stat", "-p", ""}, {"record", ""}, {"doctor", ""}, {""}} {
		// On a busy machine a list may show the name of a program instead of its title (attach.List). So the test tries
		// again.
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
