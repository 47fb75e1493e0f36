package kernel

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// The tests start this test binary a second time, as a helper process. Each thread of the helper blocks in one system
// call, and the helper reports on what it blocks. The tests compare this with what ddtop finds.

// blocked is the helper's report about one of its threads.
type blocked struct {
	Case string
	TID  int32
	// Comm is the name that the thread gave itself.
	Comm string
	// Call is the system call that the thread is about to make.
	Call string
	// FD, FDs and Child have the same meaning as in sampler.Kernel.
	FD, FDs, Child int32
	Peer           sampler.Peer
	// Pending is true if the socket is not connected yet, so that getpeername cannot name the other end.
	Pending bool
}

// helperEnv is the environment variable that says in which mode the helper process runs.
const helperEnv = "DDTOP_KERNEL_HELPER"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(helperEnv); mode {
	case "":
		os.Exit(m.Run())
	case "block":
		runBlocker()
	case "spin":
		for n := uint64(1); n != 0; n++ { // runs for hundreds of years
			spun = n
		}
	case "denied":
		runDenied()
	default:
		fmt.Fprintln(os.Stderr, "unknown helper mode", mode)
		os.Exit(1)
	}
}

// startHelper starts the helper process and returns it, with its output.
func startHelper(t testing.TB, mode string, attr *syscall.SysProcAttr, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), helperEnv+"="+mode, "DDTOP_KERNEL_DIR="+t.TempDir(), "GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	// The helper ends when its standard input is closed. So it also ends if the test process is killed.
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

// startBlocker starts the helper in the mode in which its threads block, and returns its report about them.
func startBlocker(t testing.TB, attr *syscall.SysProcAttr) (*exec.Cmd, []blocked) {
	t.Helper()
	cmd, out := startHelper(t, "block", attr)
	var all []blocked
	if err := json.NewDecoder(out).Decode(&all); err != nil {
		t.Fatalf("reading what the helper says: %v", err)
	}
	return cmd, all
}

// processMemory reads another process's memory. Only tests use this type.
type processMemory struct{ pid int }

func (m processMemory) Read(addr attach.Address, buf []byte) error {
	local := []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: len(buf)}}
	n, err := unix.ProcessVMReadv(m.pid, local, remote, 0)
	if err == nil && n != len(buf) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (m processMemory) ReadBatch(ranges []attach.Range) (int, error) {
	for i := range ranges {
		ranges[i].Failed = m.Read(ranges[i].Addr, ranges[i].Buf) != nil
	}
	return len(ranges), nil
}

// must returns v. If err is an error, it ends the helper with a message.
func must[T any](v T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "helper:", err)
		os.Exit(1)
	}
	return v
}

func must0(err error) { must(0, err) }

// blocker starts the helper's blocking threads, and collects what they wait for.
type blocker struct {
	dir string
	all []blocked
}

// block starts a thread that adds b to the report and then calls wait, which must not return.
func (h *blocker) block(b blocked, wait func()) {
	tid := make(chan int32)
	b.Comm = fmt.Sprintf("t%d %.10s", len(h.all), b.Case)
	if b.Case == "odd name" {
		b.Comm = ") R 1 (a\n) Z"
	}
	go func() {
		runtime.LockOSThread()
		must0(unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(must(unix.BytePtrFromString(b.Comm)))), 0, 0, 0))
		tid <- int32(unix.Gettid())
		for {
			wait() // called again if a signal of Go's runtime has interrupted it
		}
	}()
	b.TID = <-tid
	h.all = append(h.all, b)
}

func (h *blocker) pipe() (r, w int) {
	var p [2]int
	must0(unix.Pipe2(p[:], unix.O_CLOEXEC))
	return p[0], p[1]
}

func runBlocker() {
	h := &blocker{dir: os.Getenv("DDTOP_KERNEL_DIR")}
	h.plain()
	h.many()
	h.sockets()
	h.others()
	must0(json.NewEncoder(os.Stdout).Encode(h.all))
	io.Copy(io.Discard, os.Stdin) // returns when the test ends
	os.Exit(0)
}

// plain starts threads that block in calls on one descriptor that is not a socket.
func (h *blocker) plain() {
	buf := make([]byte, 1<<20)
	link := func(fd int) string { return must(os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))) }
	reads := func(name string, fd int, kind sampler.PeerKind) {
		h.block(blocked{Case: name, Call: "read", FD: int32(fd), FDs: 1, Peer: sampler.Peer{Kind: kind, Path: link(fd)}},
			func() { unix.Read(fd, make([]byte, 8)) })
	}
	r, _ := h.pipe()
	reads("pipe", r, sampler.PeerPipe)
	reads("eventfd", must(unix.Eventfd(0, unix.EFD_CLOEXEC)), sampler.PeerEventFD)
	reads("timerfd", must(unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)), sampler.PeerTimerFD)
	fifo := filepath.Join(h.dir, "fifo")
	must0(unix.Mkfifo(fifo, 0o600))
	reads("fifo", must(unix.Open(fifo, unix.O_RDWR|unix.O_CLOEXEC, 0)), sampler.PeerPipe)
	ptmx := must(unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0))
	must0(unix.IoctlSetPointerInt(ptmx, unix.TIOCSPTLCK, 0))
	pts := must(unix.Open(fmt.Sprintf("/dev/pts/%d", must(unix.IoctlGetInt(ptmx, unix.TIOCGPTN))), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0))
	reads("terminal", pts, sampler.PeerTTY)
	r, _ = h.pipe()
	reads("odd name", r, sampler.PeerPipe)

	_, w := h.pipe()
	h.block(blocked{Case: "full pipe", Call: "write", FD: int32(w), FDs: 1, Peer: sampler.Peer{Kind: sampler.PeerPipe, Path: link(w)}},
		func() { unix.Write(w, buf) })

	locked := filepath.Join(h.dir, "lock")
	a := must(unix.Open(locked, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600))
	b := must(unix.Open(locked, unix.O_RDWR|unix.O_CLOEXEC, 0))
	must0(unix.Flock(a, unix.LOCK_EX))
	h.block(blocked{Case: "flock", Call: "flock", FD: int32(b), FDs: 1, Peer: sampler.Peer{Kind: sampler.PeerFile, Path: locked}},
		func() { unix.Flock(b, unix.LOCK_EX) })
}

// many starts threads that block in calls on several descriptors, such as poll.
func (h *blocker) many() {
	ev := must(unix.Eventfd(0, unix.EFD_CLOEXEC))
	ev2 := must(unix.Eventfd(0, unix.EFD_CLOEXEC))
	evPeer := sampler.Peer{Kind: sampler.PeerEventFD, Path: "anon_inode:[eventfd]"}
	pipes := make([]int, 40)
	for i := range pipes {
		pipes[i], _ = h.pipe()
	}
	pipePeer := func(fd int) sampler.Peer {
		return sampler.Peer{Kind: sampler.PeerPipe, Path: must(os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)))}
	}
	poll := func(fds ...int) []unix.PollFd {
		out := make([]unix.PollFd, len(fds))
		for i, fd := range fds {
			out[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		}
		return out
	}
	set := poll(pipes...)
	pollCall, wait := "ppoll", func() { unix.Ppoll(set, nil, nil) }
	if runtime.GOARCH == "amd64" {
		const sysPoll = 7 // x86_64 only
		pollCall = "poll"
		wait = func() { unix.Syscall(sysPoll, uintptr(unsafe.Pointer(&set[0])), uintptr(len(set)), ^uintptr(0)) }
	}
	h.block(blocked{Case: "poll", Call: pollCall, FD: int32(pipes[0]), FDs: 40, Peer: pipePeer(pipes[0])}, wait)
	mixed := poll(-1, ev, pipes[3])
	h.block(blocked{Case: "ppoll with an eventfd", Call: "ppoll", FD: int32(pipes[3]), FDs: 2, Peer: pipePeer(pipes[3])},
		func() { unix.Ppoll(mixed, nil, nil) })
	sleep := poll(ev, ev2)
	h.block(blocked{Case: "ppoll on eventfds", Call: "ppoll", FD: int32(ev), FDs: 2, Peer: evPeer},
		func() { unix.Ppoll(sleep, nil, nil) })
	big := poll(make([]int, 3000)...)
	for i := range big {
		big[i].Fd = int32(pipes[5])
	}
	h.block(blocked{Case: "ppoll of 3000", Call: "ppoll", FD: int32(pipes[5]), FDs: 3000, Peer: pipePeer(pipes[5])},
		func() { unix.Ppoll(big, nil, nil) })

	h.block(blocked{Case: "pselect6", Call: "pselect6", FD: int32(pipes[10]), FDs: 3, Peer: pipePeer(pipes[10])},
		func() {
			var rd, wr, ex unix.FdSet // the kernel writes to these sets
			rd.Set(pipes[10])
			rd.Set(pipes[30])
			ex.Set(pipes[12])
			unix.Pselect(pipes[30]+1, &rd, &wr, &ex, nil, nil)
		})

	ep := must(unix.EpollCreate1(unix.EPOLL_CLOEXEC))
	must0(unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, pipes[1], &unix.EpollEvent{Events: unix.EPOLLIN}))
	h.block(blocked{Case: "epoll", Call: "epoll_pwait", FD: int32(ep), FDs: 1, Peer: sampler.Peer{Kind: sampler.PeerEpoll, Path: "anon_inode:[eventpoll]"}},
		func() {
			var e [1]unix.EpollEvent
			unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&e)), 1, ^uintptr(0), 0, 0)
		})
}

// tcpPair makes a TCP connection. It returns the client's descriptor, in blocking mode, and the addresses of both ends.
func tcpPair(network, addr string) (client int, clientAddr, serverAddr net.Addr, ok bool) {
	l, err := net.Listen(network, addr)
	if err != nil {
		return 0, nil, nil, false
	}
	c := must(net.Dial(network, l.Addr().String()))
	must(l.Accept())
	fd := dupBlocking(c.(syscall.Conn))
	return fd, c.LocalAddr(), c.RemoteAddr(), true
}

// dupBlocking returns a duplicate of a Go connection's descriptor in blocking mode, so that reading it blocks a thread.
func dupBlocking(c syscall.Conn) int {
	raw := must(c.SyscallConn())
	out := -1
	must0(raw.Control(func(fd uintptr) { out = must(unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)) }))
	must0(unix.SetNonblock(out, false))
	keepOpen = append(keepOpen, c)
	return out
}

// keepOpen has the Go objects that own descriptors. Without it, Go would close the descriptors while the helper's
// threads wait for them.
var keepOpen []any

func (h *blocker) sockets() {
	recv := func(name string, fd int, p sampler.Peer) {
		h.block(blocked{Case: name, Call: "recvfrom", FD: int32(fd), FDs: 1, Peer: p},
			func() { unix.Recvfrom(fd, make([]byte, 8), 0) })
	}
	if fd, local, remote, ok := tcpPair("tcp4", "127.0.0.1:0"); ok {
		recv("tcp", fd, sampler.Peer{Kind: sampler.PeerTCP, Local: local.String(), Remote: remote.String()})
	}
	if fd, local, remote, ok := tcpPair("tcp6", "[::1]:0"); ok {
		recv("tcp6", fd, sampler.Peer{Kind: sampler.PeerTCP, Local: local.String(), Remote: remote.String()})
	}
	// This connection has a well-known port, for which ddtop must name the service. Only this test uses its address.
	if fd, local, remote, ok := tcpPair("tcp4", fmt.Sprintf("127.%d.%d.1:5432", 1+os.Getpid()>>8&0x7f, os.Getpid()&0xff)); ok {
		recv("service", fd, sampler.Peer{Kind: sampler.PeerTCP, Local: local.String(), Remote: remote.String(), Service: "PostgreSQL"})
	}
	udp := must(net.Dial("udp4", "127.0.0.1:53"))
	recv("udp", dupBlocking(udp.(syscall.Conn)), sampler.Peer{Kind: sampler.PeerUDP, Local: udp.LocalAddr().String(),
		Remote: "127.0.0.1:53", Service: "DNS"})

	path := filepath.Join(h.dir, ".s.PGSQL.5432")
	ul := must(net.Listen("unix", path))
	uc := must(net.Dial("unix", path))
	us := must(ul.Accept())
	recv("unix client", dupBlocking(uc.(syscall.Conn)), sampler.Peer{Kind: sampler.PeerUnix, Remote: path, Service: "PostgreSQL"})
	recv("unix server", dupBlocking(us.(syscall.Conn)), sampler.Peer{Kind: sampler.PeerUnix, Local: path})
	abstract := fmt.Sprintf("@ddtop-test-%d", os.Getpid())
	al := must(net.Listen("unix", abstract))
	ac := must(net.Dial("unix", abstract))
	keepOpen = append(keepOpen, al)
	recv("unix abstract", dupBlocking(ac.(syscall.Conn)), sampler.Peer{Kind: sampler.PeerUnix, Remote: abstract})

	l := must(net.Listen("tcp4", "127.0.0.1:0"))
	lfd := dupBlocking(l.(syscall.Conn))
	h.block(blocked{Case: "accept", Call: "accept4", FD: int32(lfd), FDs: 1, Peer: sampler.Peer{Kind: sampler.PeerListener, Local: l.Addr().String()}},
		func() { unix.Accept4(lfd, unix.SOCK_CLOEXEC) })
	h.connects()
}

// connects starts a thread that blocks in connect. The listener's queue is full, so the kernel drops the packets, and
// the connection is never made.
func (h *blocker) connects() {
	listener := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	must0(unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must0(unix.Listen(listener, 0))
	addr := must(unix.Getsockname(listener)).(*unix.SockaddrInet4)
	remote := fmt.Sprintf("127.0.0.1:%d", addr.Port)
	for {
		s := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0))
		if err := unix.Connect(s, addr); err != nil && err != unix.EINPROGRESS {
			must0(err)
		}
		set := []unix.PollFd{{Fd: int32(s), Events: unix.POLLOUT}}
		if n, _ := unix.Poll(set, 300); n == 0 {
			local := must(unix.Getsockname(s)).(*unix.SockaddrInet4)
			h.block(blocked{Case: "poll for a connection", Call: "ppoll", FD: int32(s), FDs: 1, Pending: true,
				Peer: sampler.Peer{Kind: sampler.PeerTCP, Remote: remote, Local: fmt.Sprintf("127.0.0.1:%d", local.Port)}},
				func() { unix.Ppoll(set, nil, nil) })
			break
		}
	}
	s := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	h.block(blocked{Case: "connect", Call: "connect", FD: int32(s), FDs: 1, Peer: sampler.Peer{Kind: sampler.PeerTCP, Remote: remote}},
		func() { unix.Connect(s, addr) })
}

// others starts threads that block in calls without a descriptor.
func (h *blocker) others() {
	none := func(name, call string, wait func()) {
		h.block(blocked{Case: name, Call: call, FD: -1}, wait)
	}
	hour := unix.Timespec{Sec: 3600}
	none("nanosleep", "nanosleep", func() { unix.Nanosleep(&hour, nil) })
	none("clock_nanosleep", "clock_nanosleep", func() { unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &hour, nil) })
	word := new(uint32)
	none("futex", "futex", func() { unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 0, 0, 0, 0, 0) })
	none("running", sampler.SyscallRunning, func() {})
	if wait, ok := pageFault(); ok {
		none("page fault", sampler.SyscallNone, wait)
	}

	child := exec.Command("sleep", "3600")
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the kernel sends Pdeathsig when the thread that forked ends
	must0(child.Start())
	pid := child.Process.Pid
	h.block(blocked{Case: "wait4", Call: "wait4", FD: -1, Child: int32(pid)}, func() { unix.Wait4(pid, nil, 0, nil) })
	h.block(blocked{Case: "wait4 any", Call: "wait4", FD: -1, Child: -1}, func() { unix.Wait4(-1, nil, 0, nil) })
	h.block(blocked{Case: "waitid", Call: "waitid", FD: -1, Child: int32(pid)},
		func() { unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) })
	if pidfd, err := unix.PidfdOpen(pid, 0); err == nil {
		path := must(os.Readlink(fmt.Sprintf("/proc/self/fd/%d", pidfd)))
		h.block(blocked{Case: "waitid of a pidfd", Call: "waitid", FD: int32(pidfd), FDs: 1, Child: int32(pid), Peer: sampler.Peer{Kind: sampler.PeerOther, Path: path}},
			func() { unix.Waitid(unix.P_PIDFD, pidfd, nil, unix.WEXITED|unix.WNOWAIT, nil) })
	}
}

// pageFault returns a function that touches memory whose pages a userfaultfd has to provide. No code provides the
// pages, so the function blocks. ok is false if the kernel has no userfaultfd.
func pageFault() (wait func(), ok bool) {
	const (
		uffdioAPI      = 0xc018aa3f // _IOWR(0xaa, 0x3f, struct uffdio_api)
		uffdioRegister = 0xc020aa00 // _IOWR(0xaa, 0x00, struct uffdio_register)
		apiVersion     = 0xaa
		modeMissing    = 1
	)
	fd, _, e := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if e != 0 {
		return nil, false
	}
	api := [3]uint64{apiVersion}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, fd, uffdioAPI, uintptr(unsafe.Pointer(&api))); e != 0 {
		return nil, false
	}
	page := must(unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS))
	reg := [4]uint64{uint64(uintptr(unsafe.Pointer(&page[0]))), uint64(len(page)), modeMissing}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, fd, uffdioRegister, uintptr(unsafe.Pointer(&reg))); e != 0 {
		return nil, false
	}
	return func() { faulted += page[0] }, true
}

// faulted gets the byte that the test reads, so that the compiler does not remove the read.
var faulted byte

// runDenied changes to an unprivileged user, and reports what this user may read of the given process.
func runDenied() {
	var pid int
	must(fmt.Sscan(os.Args[1], &pid))
	must0(syscall.Setgid(65534))
	must0(syscall.Setuid(65534))
	out := map[string]string{}
	tasks, err := OpenTasks(pid, sampler.NewDictionary())
	out["open"] = fmt.Sprint(err)
	if err == nil {
		_, err := tasks.CPU(int32(pid))
		out["cpu"] = fmt.Sprint(err)
		_, err = tasks.Call(int32(pid))
		out["call"] = fmt.Sprint(err)
		out["denied"] = fmt.Sprint(strings.Contains(fmt.Sprint(err), "CAP_SYS_PTRACE"))
	}
	must0(json.NewEncoder(os.Stdout).Encode(out))
}

// until calls f until f returns true, for at most a minute.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if f() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after a minute still not: %s", what)
		}
	}
}

// spun is changed by the loop of the helper that uses a CPU, so that the compiler does not remove the loop.
var spun uint64
