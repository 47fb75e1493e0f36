package attach

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// helperMode is an environment variable. If it is set, this test binary runs as a target for tests instead of running
// tests.
const helperMode = "DDTOP_ATTACH_HELPER"

// livePage is the page size of this machine in bytes: 4, 16 or 64 kB on arm64.
var livePage = Address(os.Getpagesize())

func TestMain(m *testing.M) {
	if mode := os.Getenv(helperMode); mode != "" {
		if err := helper(mode); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func helper(mode string) error {
	switch {
	case mode == "pages":
		// Three pages have known bytes. Then a mapping of an empty file replaces the middle page, so that this page
		// cannot be read.
		mem, err := unix.Mmap(-1, 0, 3*int(livePage), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		for i := range mem {
			mem[i] = pattern(i)
		}
		base := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
		empty, err := unix.MemfdCreate("empty", 0)
		if err != nil {
			return err
		}
		if _, _, errno := unix.Syscall6(unix.SYS_MMAP, base+uintptr(livePage), uintptr(livePage), unix.PROT_READ,
			unix.MAP_SHARED|unix.MAP_FIXED, uintptr(empty), 0); errno != 0 {
			return errno
		}
		fmt.Println(base)
	case mode == "exec":
		fmt.Println("ready")
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return err
		}
		if err := os.Setenv(helperMode, "pages"); err != nil {
			return err
		}
		return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	case strings.HasPrefix(mode, "waits, execs "):
		fmt.Println("ready")
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return err
		}
		return helper(strings.TrimPrefix(mode, "waits, "))
	case strings.HasPrefix(mode, "execs "):
		// The helper calls exec the given number of times. It does so from a thread other than the main one, while
		// further threads are alive.
		n, err := strconv.Atoi(mode[6:])
		if err != nil {
			return err
		}
		if n == 0 {
			fmt.Println("done")
			break
		}
		if err := os.Setenv(helperMode, fmt.Sprintf("execs %d", n-1)); err != nil {
			return err
		}
		failed := make(chan error)
		for range 4 {
			go func() {
				runtime.LockOSThread()
				if unix.Gettid() == os.Getpid() {
					select {} // the main thread waits
				}
				failed <- syscall.Exec("/proc/self/exe", os.Args, os.Environ())
			}()
		}
		return <-failed
	case strings.HasPrefix(mode, "churn "):
		// Some threads wait, others begin and end, and a thread other than the main one calls exec. The new program
		// does the same, and so on forever. Each program prints a line.
		n, err := strconv.Atoi(mode[6:])
		if err != nil {
			return err
		}
		return churn(n)
	case mode == "undumpable":
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
		fmt.Println("ready")
	case mode == "list":
		list, err := List(context.Background())
		if err != nil {
			return err
		}
		for _, c := range list {
			fmt.Println(c.PID, c.Version, c.Title, c.Err)
		}
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return err
		}
		_, peak, _ := strings.Cut(string(status), "VmHWM:")
		peak, _, _ = strings.Cut(peak, "\n")
		fmt.Println("peak", peak)
		return nil
	case strings.HasPrefix(mode, "map "):
		f, err := os.Open(mode[4:])
		if err != nil {
			return err
		}
		if _, err := unix.Mmap(int(f.Fd()), 0, int(livePage), unix.PROT_READ, unix.MAP_PRIVATE); err != nil {
			return err
		}
		fmt.Println("mapped")
	case strings.HasPrefix(mode, "open "):
		pid, err := strconv.Atoi(mode[5:])
		if err != nil {
			return err
		}
		p, err := Open(pid)
		if err != nil {
			return err
		}
		fmt.Println("opened", p.Exe())
		return nil
	default:
		return fmt.Errorf("no helper %q", mode)
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// churn runs n threads that wait, and one thread that starts and ends others. Then a thread other than the main one
// calls exec with the same program.
func churn(n int) error {
	fmt.Println("again")
	waits := make(chan error)
	for range n {
		go func() {
			runtime.LockOSThread()
			var fds [2]int
			if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
				waits <- err
				return
			}
			waits <- nil
			_, err := unix.Read(fds[0], make([]byte, 1))
			waits <- err
		}()
	}
	for range n {
		if err := <-waits; err != nil {
			return err
		}
	}
	go func() {
		for {
			ended := make(chan struct{})
			go func() {
				runtime.LockOSThread() // the goroutine ends without unlocking, so its OS thread ends, too
				close(ended)
			}()
			<-ended
		}
	}()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			go func() { // this goroutine keeps the main thread, so exec is called from another thread
				runtime.LockOSThread()
				failed <- syscall.Exec("/proc/self/exe", os.Args, os.Environ())
			}()
			select {}
		}
		failed <- syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}()
	return <-failed
}

// child is a running helper.
type child struct {
	pid   int
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

// startHelper starts this test binary in a helper mode. The helper ends with the test.
func startHelper(t *testing.T, mode string, change func(*exec.Cmd)) *child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperMode+"="+mode)
	if change != nil {
		change(cmd)
	}
	return startCommand(t, cmd)
}

func startCommand(t *testing.T, cmd *exec.Cmd) *child {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %v: %v", cmd.Args, err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &child{pid: cmd.Process.Pid, cmd: cmd, stdin: stdin, lines: bufio.NewReader(stdout)}
}

func (c *child) line(t *testing.T) string {
	t.Helper()
	s, err := c.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("reading the helper's line: %v after %q", err, s)
	}
	return strings.TrimSuffix(s, "\n")
}

// address reads an address from the helper's next line.
func (c *child) address(t *testing.T) Address {
	t.Helper()
	n, err := strconv.ParseUint(c.line(t), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return Address(n)
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.cmd.Wait()
}

func open(t *testing.T, pid int) *Process {
	t.Helper()
	var p *Process
	var err error
	// Within exec, the kernel sets the new name (comm, exe) before the new auxiliary vector. In between, Open returns
	// an error that asks to try again.
	eventually(t, "the end of exec", func() bool {
		p, err = Open(pid)
		return !errors.Is(err, ErrNotLoaded)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// copyOfMyself copies this test binary to a place where all users may run it.
func copyOfMyself(t *testing.T, to string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if to == "" {
		dir, err := os.MkdirTemp("", "ddtop-attach-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(dir, "helper")
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// eventually waits until done returns true. After ten seconds it fails the test.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 60 s", what)
		}
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// pattern returns byte i of the memory that tests read.
func pattern(i int) byte { return byte(i*7 + i/256) }
