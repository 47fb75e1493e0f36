package attach

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	free := exec.Command("true")
	if err := free.Run(); err != nil {
		t.Fatal(err)
	}
	zombie := exec.Command("true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer zombie.Wait()
	eventually(t, "the zombie", func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(zombie.Process.Pid) + "/stat")
		s, err2 := parseStat(text)
		return err == nil && err2 == nil && s.State == 'Z'
	})
	c := startHelper(t, "pages", nil)
	c.line(t)
	var thread int
	p := open(t, c.pid)
	eventually(t, "a second thread of a Go program", func() bool {
		tids, err := p.TIDs(nil)
		if err == nil && len(tids) > 1 {
			thread = int(tids[len(tids)-1])
		}
		return thread != 0
	})
	for _, test := range []struct {
		name string
		pid  int
		want error
		says string
	}{
		{"zero", 0, ErrNoProcess, "positive"},
		{"negative", -3, ErrNoProcess, "positive"},
		{"never there", 1<<22 + 1, ErrNoProcess, "ddtop ps"},
		{"ended", free.Process.Pid, ErrNoProcess, "ddtop ps"},
		{"itself", os.Getpid(), ErrSelf, "ddtop ps"},
		{"zombie", zombie.Process.Pid, ErrZombie, strconv.Itoa(os.Getpid())},
		{"thread", thread, ErrNoProcess, "ddtop -p " + strconv.Itoa(c.pid)},
	} {
		_, err := Open(test.pid)
		var te *TargetError
		if !errors.Is(err, test.want) || !errors.As(err, &te) || te.PID != test.pid {
			t.Errorf("%s: %v, want a TargetError that is %v", test.name, err, test.want)
			continue
		}
		if !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %q does not say %q", test.name, err, test.says)
		}
	}
}

func TestOpenOfAKernelThread(t *testing.T) {
	dirs, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		text, err := os.ReadFile(dir)
		if err != nil {
			continue
		}
		s, err := parseStat(text)
		if err != nil || s.Flags&pfKthread == 0 {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(pid); !errors.Is(err, ErrKernelThread) {
			t.Errorf("process %d: %v, want ErrKernelThread", pid, err)
		}
		return
	}
	t.Skip("no kernel thread is visible here")
}

func TestOpenDescribesTheProcess(t *testing.T) {
	before := time.Now().Add(-20 * time.Millisecond)
	cmd := exec.Command("sleep", "60")
	c := startCommand(t, cmd)
	// While the kernel runs exec, it changes the name first and the arguments last. So wait for the arguments.
	eventually(t, "sleep", func() bool {
		comm, err := os.ReadFile("/proc/" + strconv.Itoa(c.pid) + "/comm")
		if err != nil || string(comm) != "sleep\n" {
			return false
		}
		args, err := os.ReadFile("/proc/" + strconv.Itoa(c.pid) + "/cmdline")
		return err == nil && string(args) == "sleep\x0060\x00"
	})
	p := open(t, c.pid)
	if p.PID() != c.pid || p.Parent() != os.Getpid() || p.Title() != "sleep" || p.NamespacePID() != c.pid || p.inNamespace() {
		t.Errorf("PID %d PPID %d title %q namespace PID %d", p.PID(), p.Parent(), p.Title(), p.NamespacePID())
	}
	if filepath.Base(p.Exe()) != "sleep" && filepath.Base(p.Exe()) != "coreutils" {
		t.Errorf("exe %q", p.Exe())
	}
	args, err := p.CommandLine()
	if err != nil || !slices.Equal(args, []string{"sleep", "60"}) {
		t.Errorf("command line %q, %v", args, err)
	}
	started, err := p.StartedAt()
	if err != nil || started.Before(before) || started.After(time.Now()) {
		t.Errorf("started at %v, %v; not within [%v, now]", started, err, before)
	}
	tids, err := p.TIDs(nil)
	if err != nil || !slices.Equal(tids, []int32{int32(c.pid)}) {
		t.Errorf("tids %v, %v", tids, err)
	}
	if err := p.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
	if p.exitFD() < 0 {
		t.Error("no pidfd")
	}
	c.kill(t)
	if err := p.Check(); !errors.Is(err, ErrGone) {
		t.Errorf("Check after the end: %v, want ErrGone", err)
	}
	if _, err := p.Maps(); !errors.Is(err, ErrGone) {
		t.Errorf("Maps after the end: %v, want ErrGone", err)
	}
	if _, err := p.TIDs(nil); !errors.Is(err, ErrGone) {
		t.Errorf("TIDs after the end: %v, want ErrGone", err)
	}
	if _, err := p.CommandLine(); !errors.Is(err, ErrGone) {
		t.Errorf("CommandLine after the end: %v, want ErrGone", err)
	}
	if _, err := FindRuby(p); !errors.Is(err, ErrGone) {
		t.Errorf("FindRuby after the end: %v, want ErrGone", err)
	}
}

func TestCheckNoticesExecOfTheSameProgram(t *testing.T) {
	c := startHelper(t, "exec", nil)
	if got := c.line(t); got != "ready" {
		t.Fatal(got)
	}
	p := open(t, c.pid)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	c.address(t)
	if err := p.Check(); !errors.Is(err, ErrReplaced) {
		t.Errorf("after exec: %v, want ErrReplaced", err)
	}
	if err := p.stillTheProgram(); !errors.Is(err, ErrNotLoaded) {
		t.Errorf("opened across exec: %v, want ErrNotLoaded", err)
	}
	select {
	case <-p.Exited():
		t.Error("exec counts as an end")
	default:
	}
}

func TestExitedIsClosedAtTheEnd(t *testing.T) {
	for _, without := range []bool{false, true} {
		c := startHelper(t, "pages", nil)
		c.line(t)
		p := open(t, c.pid)
		if without {
			p.pidfd.Close()
			p.pidfd = nil
		}
		exited := p.Exited()
		select {
		case <-exited:
			t.Fatal("closed while it lives")
		case <-time.After(50 * time.Millisecond):
		}
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		// The test has not called Wait, so the process is a zombie. Exited must report that a zombie has ended.
		select {
		case <-exited:
		case <-time.After(time.Minute):
			t.Fatalf("without pidfd %t: no notice of the end", without)
		}
		if err := p.Check(); !errors.Is(err, ErrGone) {
			t.Errorf("Check of a zombie: %v, want ErrGone", err)
		}
	}
}

func TestCloseEndsTheWatchWithoutANotice(t *testing.T) {
	c := startHelper(t, "pages", nil)
	c.line(t)
	for _, without := range []bool{false, true} {
		p, err := Open(c.pid)
		if err != nil {
			t.Fatal(err)
		}
		if without {
			p.pidfd.Close()
			p.pidfd = nil
		}
		done := make(chan struct{})
		go func() {
			p.waitForExit()
			close(done)
		}()
		p.Close()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("without pidfd %t: the watch goes on after Close", without)
		}
		select {
		case <-p.exited:
			t.Errorf("without pidfd %t: Close counts as the end", without)
		default:
		}
	}
}

func TestNamespaceTIDs(t *testing.T) {
	needRoot(t)
	c := startHelper(t, "pages", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	})
	c.line(t)
	p := open(t, c.pid)
	if !p.inNamespace() || p.NamespacePID() != 1 {
		t.Errorf("in a namespace %t, PID there %d; want 1", p.inNamespace(), p.NamespacePID())
	}
	tid, err := p.NamespaceTID(int32(c.pid))
	if err != nil || tid != 1 {
		t.Errorf("the main thread is %d there, %v; want 1", tid, err)
	}
	if _, err := p.NamespaceTID(1 << 30); err == nil {
		t.Error("a thread that does not exist has a number")
	}
}

// TestCallOfAnEndedThread: CallFrom returns ErrThreadGone if a thread does not exist, and ErrGone if its process has
// ended. In both cases the file in /proc is missing.
func TestCallOfAnEndedThread(t *testing.T) {
	c := startHelper(t, "pages", nil)
	c.line(t)
	p := open(t, c.pid)
	const noThread = 1 << 30
	if _, _, err := p.CallFrom(noThread); !errors.Is(err, ErrThreadGone) || errors.Is(err, ErrGone) {
		t.Errorf("of a thread that is not there: %v, want ErrThreadGone", err)
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	if _, _, err := p.CallFrom(noThread); !errors.Is(err, ErrGone) {
		t.Errorf("of a process that has ended: %v, want ErrGone", err)
	}
}

func TestOpenWithoutPermission(t *testing.T) {
	needRoot(t)
	c := startHelper(t, "pages", nil)
	c.line(t)
	binary := copyOfMyself(t, "")
	nobody := func(cmd *exec.Cmd) {
		cmd.Path = binary
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	undumpable := startHelper(t, "undumpable", nobody)
	undumpable.line(t)
	own := startHelper(t, "pages", nobody)
	own.line(t)
	inGroup := startHelper(t, "pages", func(cmd *exec.Cmd) {
		cmd.Path = binary
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 1}}
	})
	inGroup.line(t)
	for _, test := range []struct {
		name string
		pid  int
		says []string
	}{
		{"another user's", c.pid, []string{"process " + strconv.Itoa(c.pid), ErrPermission.Error(), "belongs to user root", "SYS_PTRACE|sudo ddtop -p"}},
		{"protected", undumpable.pid, []string{ErrPermission.Error(), "protected against being read"}},
		{"another group's", inGroup.pid, []string{ErrPermission.Error(), "one 1, 1, 1) than we (65534)"}},
	} {
		got := startHelper(t, "open "+strconv.Itoa(test.pid), nobody).line(t)
		for _, want := range test.says {
			if !slices.ContainsFunc(strings.Split(want, "|"), func(s string) bool { return strings.Contains(got, s) }) {
				t.Errorf("%s: %q does not say %q", test.name, got, want)
			}
		}
	}
	got := startHelper(t, "open "+strconv.Itoa(own.pid), nobody).line(t)
	if !strings.HasPrefix(got, "opened ") && !strings.Contains(got, "Yama") {
		t.Errorf("one's own process: %q", got)
	}
}

func TestListShowsWhatItMayNotRead(t *testing.T) {
	needRoot(t)
	// The process has the title of a Ruby server. It belongs to another user, so the user who lists processes may not
	// read it.
	c := startHelper(t, "pages", func(cmd *exec.Cmd) { cmd.Args = []string{"puma 6.4.0 (tcp://0.0.0.0:3000) [secret]"} })
	c.line(t)
	binary := copyOfMyself(t, "")
	l := startHelper(t, "list", func(cmd *exec.Cmd) {
		cmd.Path = binary
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	})
	out, err := io.ReadAll(l.lines)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, strconv.Itoa(c.pid)+" ") {
			if !strings.Contains(line, " puma ") || !strings.Contains(line, ErrPermission.Error()) || strings.Contains(line, "secret") {
				t.Errorf("%q", line)
			}
			return
		}
	}
	t.Errorf("%d is not listed: %s", c.pid, out)
}

func TestProcessOfAReusedPIDIsAnother(t *testing.T) {
	c := startHelper(t, "pages", nil)
	c.line(t)
	p := open(t, c.pid)
	// with a pidfd, Check does not compare start times, because a pidfd never belongs to another process
	if p.pidfd != nil {
		if err := p.pidfd.Close(); err != nil {
			t.Fatal(err)
		}
		p.pidfd = nil
	}
	p.stat.StartTicks++
	if err := p.Check(); !errors.Is(err, ErrGone) {
		t.Errorf("with another start time: %v, want ErrGone", err)
	}
}

func TestReadableAnswersWithoutWaiting(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	if readable(fds[0]) {
		t.Error("an empty pipe is readable")
	}
	unix.Close(fds[1])
	if !readable(fds[0]) {
		t.Error("a closed pipe is not readable")
	}
}

// TestExecFromThread: if a thread other than the main one calls exec, the process looks like a zombie for a moment.
// ddtop must not conclude that the process has ended.
func TestExecFromThread(t *testing.T) {
	c := startHelper(t, "waits, execs 60", nil)
	c.line(t) // the process is no zombie yet, so Open can open it
	p, err := Open(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := c.stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 1)
	go func() {
		line, _ := c.lines.ReadString('\n')
		done <- line
	}()
	for checks := 0; ; checks++ {
		select {
		case line := <-done:
			if line != "done\n" {
				t.Fatalf("the helper said %q", line)
			}
			t.Logf("%d checks", checks)
			return
		case <-p.Exited():
			t.Fatal("it counts as ended")
		default:
		}
		if err := p.Check(); errors.Is(err, ErrGone) {
			t.Fatal(err)
		}
	}
}
