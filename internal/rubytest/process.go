package rubytest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Timeout is how long Line, Expect, JSON and Wait wait before they fail the test. It is long enough for a machine that
// also compiles and has a busy disk. On such a machine, writing and syncing 192 MB took over three minutes.
const Timeout = 5 * time.Minute

// emulatedTimeout is used in place of Timeout for a Ruby in an emulator. Such a Ruby is ten times as slow.
const emulatedTimeout = 5 * Timeout

// Timeout returns how long tests wait for programs on this Ruby.
func (r Ruby) Timeout() time.Duration {
	if r.Emulator != "" {
		return emulatedTimeout
	}
	return Timeout
}

// maxUnread limits the lines of output that are kept until the test reads them. If there are more, the program blocks
// when it writes.
const maxUnread = 1 << 14

// Options describe how a program is started. The zero value is an ordinary start.
type Options struct {
	// Name is the script's file name. The default is script.rb. The program is started in the script's folder with
	// this relative name, so that a frame's path and absolute path differ.
	Name string
	// RubyArgs come before the script (for example --yjit), and Args after it.
	RubyArgs, Args []string
	// Env has variables as KEY=value. They are added to a small fixed environment: PATH, HOME, LANG=C.UTF-8. If the
	// Ruby has an emulator, the environment also has DDTOP_TEST_EMULATOR, the command of the emulator. A program that
	// starts Rubies itself must put this command before each of them.
	Env []string

	// OwnMounts gives the program a mount namespace of its own (Linux, root). No other process sees what it mounts.
	OwnMounts bool

	// Wrap is a program of the host, with its arguments, that is started in place of Ruby. It starts outside of
	// Ruby.Root, in the script's folder. Ruby's executable and Ruby's arguments are appended to Wrap's arguments, and
	// Wrap must run them in the Root. Process.PID is the PID of Wrap.
	Wrap []string
	// OwnPIDs gives the program a PID namespace of its own (Linux, root), in which it is process 1.
	OwnPIDs bool

	files map[string]string // further files to put into the script's folder, by name
}

// Process is a running program. At the end of the test, all processes of its process group are killed.
type Process struct {
	// PID is the process id as this test process sees it (in its own PID namespace).
	PID int
	// Ruby is the interpreter that runs the program.
	Ruby Ruby
	// Dir is the script's folder as the program sees it. HostDir is the same folder as the test sees it.
	Dir, HostDir string

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string
	stderr *tail
	exited chan struct{} // closed when the process has ended and Wait has returned
	stop   sync.Once
}

// Start writes the script into a new folder (inside the Ruby's root) and runs it. The test fails if the program cannot
// be started. If the start needs root and the test does not run as root, the test is skipped.
func (r Ruby) Start(t testing.TB, script string, o Options) *Process {
	t.Helper()
	if r.Root != "" && os.Geteuid() != 0 {
		Skip(t, "chroot into %s needs root", r.Name)
	}
	recordAtEnd(t, r)
	name := o.Name
	if name == "" {
		name = "script.rb"
	}
	hostDir, err := os.MkdirTemp(filepath.Join(r.Root, os.TempDir()), "ddtop-test-")
	if err != nil && r.Root != "" {
		// The new folder is in /tmp of the Ruby's root, because the folder in TMPDIR may not exist in the root.
		hostDir, err = os.MkdirTemp(filepath.Join(r.Root, "tmp"), "ddtop-test-")
	}
	if err != nil {
		t.Fatalf("a folder for %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(hostDir); err != nil {
			t.Errorf("remove the program's folder: %v", err)
		}
	})
	files := map[string]string{name: script}
	maps.Copy(files, o.files)
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(hostDir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := &Process{
		Ruby:    r,
		Dir:     strings.TrimPrefix(hostDir, r.Root),
		HostDir: hostDir,
		lines:   make(chan string, maxUnread),
		stderr:  &tail{},
		exited:  make(chan struct{}),
	}
	args := append(append(append([]string{}, o.RubyArgs...), name), o.Args...)
	program := r.Bin
	if r.Emulator != "" {
		program, args = r.Emulator, append([]string{r.Bin}, args...)
	}
	root, dir := r.Root, p.Dir
	if len(o.Wrap) > 0 {
		args = append(append(slices.Clone(o.Wrap[1:]), program), args...)
		program, root, dir = o.Wrap[0], "", hostDir
	}
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir = dir
	// TMPDIR is the script's folder. So the program's temporary files are removed together with the script, even if the
	// program is killed.
	p.cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=" + p.Dir, "LANG=C.UTF-8"}, o.Env...)
	if r.Emulator != "" {
		p.cmd.Env = append(p.cmd.Env, "DDTOP_TEST_EMULATOR="+r.Emulator)
	}
	p.cmd.SysProcAttr = sysProcAttr(root)
	if o.OwnMounts {
		ownMounts(p.cmd.SysProcAttr)
	}
	if o.OwnPIDs {
		ownPIDs(p.cmd.SysProcAttr)
	}
	p.cmd.Stderr = p.stderr
	// A child of the program may inherit stderr and keep it open after the program ends. With this delay, Wait does not
	// wait forever for stderr.
	p.cmd.WaitDelay = time.Second
	stdout, errOut := p.cmd.StdoutPipe()
	stdin, errIn := p.cmd.StdinPipe()
	if err := errors.Join(errOut, errIn, starter()(p.cmd)); err != nil {
		t.Fatalf("start %s: %v", r, err)
	}
	p.PID = p.cmd.Process.Pid
	p.stdin = stdin
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.readLines(stdout)
	}()
	go func() {
		<-read // Wait closes the pipe, so all output must be read first
		// Ignore the error of Wait: ProcessState also says how the process ended.
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.Stop(t)
		if t.Failed() {
			t.Logf("%s, pid %d, stderr:\n%s", r, p.PID, p.stderr)
		}
	})
	return p
}

func (p *Process) readLines(stdout io.Reader) {
	defer close(p.lines)
	r := bufio.NewReaderSize(stdout, 1<<16)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			p.lines <- strings.TrimRight(line, "\n")
		}
		if err != nil {
			return
		}
	}
}

// Line returns the next line of the program's output. The test fails if no line comes within the Ruby's Timeout, or if
// the program ends first.
func (p *Process) Line(t testing.TB) string {
	t.Helper()
	timer := time.NewTimer(p.Ruby.Timeout())
	defer timer.Stop()
	select {
	case line, ok := <-p.lines:
		if !ok {
			t.Fatalf("%s, pid %d ended where a line was expected; stderr:\n%s", p.Ruby, p.PID, p.stderr)
		}
		return line
	case <-timer.C:
		t.Fatalf("%s, pid %d printed no line for %v; stderr:\n%s", p.Ruby, p.PID, p.Ruby.Timeout(), p.stderr)
	}
	return ""
}

// Expect reads lines of the program's output until a line contains want, and returns this line.
func (p *Process) Expect(t testing.TB, want string) string {
	t.Helper()
	for {
		line := p.Line(t)
		if strings.Contains(line, want) {
			return line
		}
	}
}

// JSON reads lines of the program's output until a line is a JSON object or array. It decodes this line into v.
func (p *Process) JSON(t testing.TB, v any) {
	t.Helper()
	for {
		line := p.Line(t)
		if !strings.HasPrefix(line, "{") && !strings.HasPrefix(line, "[") {
			continue
		}
		if err := json.Unmarshal([]byte(line), v); err != nil {
			t.Fatalf("%s, pid %d: %v in %.200q", p.Ruby, p.PID, err, line)
		}
		return
	}
}

// Send writes one line to the program's standard input.
func (p *Process) Send(t testing.TB, line string) {
	t.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		t.Fatalf("%s, pid %d: write %q: %v; stderr:\n%s", p.Ruby, p.PID, line, err, p.stderr)
	}
}

// CloseStdin ends the program's standard input.
func (p *Process) CloseStdin(t testing.TB) {
	t.Helper()
	if err := p.stdin.Close(); err != nil {
		t.Fatalf("close standard input of pid %d: %v", p.PID, err)
	}
}

// Signal sends a signal to the process, and not to other processes of its group.
func (p *Process) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(p.PID, sig); err != nil {
		t.Fatalf("signal %v to pid %d: %v", sig, p.PID, err)
	}
}

// Wait waits until the program has ended by itself and returns its exit code. The code is -1 if a signal ended the
// program.
func (p *Process) Wait(t testing.TB) int {
	t.Helper()
	if !p.waitExited() {
		t.Fatalf("%s, pid %d did not end within %v; stderr:\n%s", p.Ruby, p.PID, p.Ruby.Timeout(), p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// waitExited waits until the process has ended, and reports whether it has. It drops unread lines, because the process
// cannot end while it writes into a full pipe.
func (p *Process) waitExited() bool {
	timer := time.NewTimer(p.Ruby.Timeout())
	defer timer.Stop()
	lines := p.lines
	for {
		select {
		case <-p.exited:
			return true
		case _, ok := <-lines:
			if !ok {
				lines = nil
			}
		case <-timer.C:
			return false
		}
	}
}

// Stderr returns what the program wrote to standard error, at most the last 64 KiB.
func (p *Process) Stderr() string { return p.stderr.String() }

// Stop kills the process group and waits for the process. It is called automatically at the end of the test. Calling
// it again does nothing.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.stop.Do(func() {
		// A process group exists until its last member ends. So this also kills children that live longer than the
		// program.
		if err := syscall.Kill(-p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("kill process group %d: %v", p.PID, err)
		}
		if !p.waitExited() {
			t.Errorf("pid %d was killed and did not end within %v", p.PID, p.Ruby.Timeout())
		}
	})
}

// starter starts all commands on one thread that lives until the test binary ends. A test binary that panics or times
// out runs no cleanup. So each started program asks the kernel to kill it when the thread that started it ends. Go may
// end any thread, except one to which a goroutine is locked (LockOSThread). Therefore starter locks its thread.
var starter = sync.OnceValue(func() func(*exec.Cmd) error {
	type request struct {
		cmd  *exec.Cmd
		done chan error
	}
	requests := make(chan request)
	go func() {
		runtime.LockOSThread()
		for r := range requests {
			r.done <- r.cmd.Start()
		}
	}()
	return func(cmd *exec.Cmd) error {
		r := request{cmd, make(chan error, 1)}
		requests <- r
		return <-r.done
	}
})

// StartTied starts a command that the kernel kills when the thread that started it ends (Pdeathsig, prctl(2)). This
// thread ends with the test binary, so the command does, too.
func StartTied(cmd *exec.Cmd) error { return starter()(cmd) }

// maxStderr limits how much of a program's standard error is kept, in bytes.
const maxStderr = 64 << 10

// tail keeps the last maxStderr bytes that are written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
	cut int
}

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, b...)
	if extra := len(w.buf) - maxStderr; extra > 0 {
		w.cut += extra
		w.buf = append(w.buf[:0], w.buf[extra:]...)
	}
	return len(b), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut > 0 {
		return fmt.Sprintf("(%d bytes before)\n%s", w.cut, w.buf)
	}
	return string(w.buf)
}
