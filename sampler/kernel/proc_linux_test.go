package kernel

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler"
)

// TestProc: the CPU time and the page faults of the test process agree with getrusage. When the test maps memory, the
// memory that ddtop reads grows by about the same size.
func TestProc(t *testing.T) {
	p, err := OpenProc(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	read := func() sampler.Proc {
		out, err := p.Read(7)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
	}
	before := rusage(t)
	got := read()
	after := rusage(t)
	const slack = 40e6 // stat counts in units of 10 ms, and splits ticks between user and system
	cpu := got.UserNS + got.SystemNS
	if low, high := before.Utime.Nano()+before.Stime.Nano(), after.Utime.Nano()+after.Stime.Nano(); cpu < low-slack || cpu > high+slack {
		t.Errorf("CPU %d, getrusage says %d to %d", cpu, low, high)
	}
	if got.MajorFaults < before.Majflt || got.MajorFaults > after.Majflt {
		t.Errorf("major faults %d, getrusage says %d to %d", got.MajorFaults, before.Majflt, after.Majflt)
	}
	if got.AtNS != 7 {
		t.Errorf("AtNS %d", got.AtNS)
	}
	const size = 64 << 20
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	grown := read().RSSBytes - got.RSSBytes
	if err := unix.Munmap(b); err != nil {
		t.Fatal(err)
	}
	// The Go runtime may release some memory during the test, so the growth is not exact.
	if grown < size-8<<20 || grown > size+32<<20 {
		t.Errorf("%d bytes were touched and RSS grew by %d", size, grown)
	}
	if n := testing.AllocsPerRun(20, func() { p.Read(1) }); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
}

// TestProcStopped: ddtop reports whether a process is stopped. The test stops a process, and later continues it. Each
// time it waits with wait4 until the kernel has stopped or continued the process.
func TestProcStopped(t *testing.T) {
	cmd := exec.Command("sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	defer cmd.Wait()
	defer cmd.Process.Kill()
	p, err := OpenProc(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, c := range []struct {
		signal unix.Signal
		await  int
		want   bool
	}{{unix.SIGSTOP, unix.WUNTRACED, true}, {unix.SIGCONT, unix.WCONTINUED, false}} {
		if err := unix.Kill(pid, c.signal); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Wait4(pid, nil, c.await, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := p.Read(1); err != nil || got.Stopped != c.want {
			t.Errorf("after %v: stopped %v, %v", c.signal, got.Stopped, err)
		}
	}
}

func rusage(t *testing.T) unix.Rusage {
	t.Helper()
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		t.Fatal(err)
	}
	return ru
}

func TestReadSelf(t *testing.T) {
	before := rusage(t)
	s, err := ReadSelf()
	if err != nil {
		t.Fatal(err)
	}
	after := rusage(t)
	if low, high := before.Utime.Nano()+before.Stime.Nano(), after.Utime.Nano()+after.Stime.Nano(); s.CPUNS < low || s.CPUNS > high {
		t.Errorf("CPU %d, getrusage says %d to %d", s.CPUNS, low, high)
	}
	if s.MaxRSSBytes < 1<<20 || s.MaxRSSBytes > after.Maxrss*1024 {
		t.Errorf("peak memory %d, getrusage says %d", s.MaxRSSBytes, after.Maxrss*1024)
	}
}

// TestNamespace: ddtop can read a process that runs in another PID namespace than ddtop itself.
func TestNamespace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a PID namespace")
	}
	cmd, all := startBlocker(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID})
	ns, err := OpenNamespace(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if ns.translatesNothing() {
		t.Fatal("the process is in a PID namespace of its own")
	}
	tasks, _ := openTasks(t, cmd.Process.Pid)
	for _, b := range all {
		host, ok := ns.Host(b.TID)
		if !ok || host == b.TID {
			t.Errorf("Host(%d) is %d, %v", b.TID, host, ok)
			continue
		}
		if comm, err := tasks.Comm(host); err != nil || comm != b.Comm {
			t.Errorf("thread %d is %q, %v; it says %q", b.TID, comm, err, b.Comm)
		}
	}
	if host, ok := ns.Host(1 << 29); ok {
		t.Errorf("a tid that no thread has is %d", host)
	}
	host, _ := ns.Host(all[0].TID)
	ns.forget(host)
	until(t, "the forgotten tid to be found again", func() bool {
		again, ok := ns.Host(all[0].TID)
		return ok && again == host
	})

	same, err := OpenNamespace(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer same.Close()
	if host, ok := same.Host(4711); !same.translatesNothing() || !ok || host != 4711 {
		t.Errorf("ddtop's own namespace: %d, %v", host, ok)
	}
	if _, ok := same.Host(0); ok {
		t.Error("0 is not a tid")
	}
}

// TestThrottling: a process spins, and the cgroup above its own limits it to a twentieth of a CPU. ddtop reports the
// same throttling as this cgroup's file.
func TestThrottling(t *testing.T) {
	dir, v2 := makeCPUCgroup(t)
	cmd, _ := startHelper(t, "spin", nil)
	p, err := OpenProc(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	read := func() sampler.Proc {
		t.Helper()
		got, err := p.Read(1)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := read(); got.Periods != 0 {
		t.Skipf("this machine limits the tests' own CPU: %+v", got)
	}
	// The process runs in an inner cgroup without a limit of its own. ddtop must find the limit of the outer cgroup.
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(inner) })
	write(t, filepath.Join(inner, "cgroup.procs"), fmt.Sprint(cmd.Process.Pid))
	until(t, "the process to be throttled 5 times", func() bool { return read().ThrottledPeriods >= 5 })
	before := cpuStatFile(t, dir)
	got := read()
	after := cpuStatFile(t, dir)
	name, unit := "throttled_time", int64(1)
	if v2 {
		name, unit = "throttled_usec", 1000
	}
	for _, c := range []struct {
		name        string
		got, lo, hi int64
	}{
		{"periods", got.Periods, before["nr_periods"], after["nr_periods"]},
		{"throttled periods", got.ThrottledPeriods, before["nr_throttled"], after["nr_throttled"]},
		{"throttled ns", got.ThrottledNS, before[name] * unit, after[name] * unit},
	} {
		if c.got < c.lo || c.got > c.hi || c.got == 0 {
			t.Errorf("%s: %d, cpu.stat says %d to %d", c.name, c.got, c.lo, c.hi)
		}
	}
	if levels := p.group.cgroup.levels; len(levels) == 0 || !strings.HasSuffix(levels[0].path, "/inner/cpu.stat") {
		t.Errorf("the levels of its cgroup are %v", levels)
	}
	cmd.Process.Kill()
	cmd.Wait()
}

// makeCPUCgroup makes a cgroup with a CPU limit of 5 ms in 100 ms. If the kernel refuses, it skips the test with the
// reason.
func makeCPUCgroup(t *testing.T) (dir string, v2 bool) {
	t.Helper()
	b, err := readFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	text, err := readFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	m, cgPath, ok := findCPUCgroup(cgroupMounts(b), string(text))
	if !ok {
		t.Skip("no cgroup hierarchy with the CPU controller is mounted")
	}
	rel, _ := m.below(cgPath)
	dir = filepath.Join(m.point, rel, fmt.Sprintf("ddtop-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	t.Cleanup(func() {
		until(t, dir+" to be removed", func() bool { return os.Remove(dir) == nil })
	})
	files := map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "5000"}
	if m.v2 {
		files = map[string]string{"cpu.max": "5000 100000"}
	}
	for name, value := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
			t.Skipf("no CPU limit can be set: %v", err)
		}
	}
	return dir, m.v2
}

func write(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

func cpuStatFile(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]int64{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var name string
		var n int64
		if _, err := fmt.Sscan(sc.Text(), &name, &n); err != nil {
			t.Fatal(err)
		}
		out[name] = n
	}
	return out
}

// TestSyscallTable: ddtop's table for this machine has the same numbers of system calls as Go itself.
func TestSyscallTable(t *testing.T) {
	want := map[string]int{"read": unix.SYS_READ, "ppoll": unix.SYS_PPOLL, "pselect6": unix.SYS_PSELECT6, "futex": unix.SYS_FUTEX,
		"wait4": unix.SYS_WAIT4, "waitid": unix.SYS_WAITID, "epoll_pwait": unix.SYS_EPOLL_PWAIT, "recvfrom": unix.SYS_RECVFROM,
		"accept4": unix.SYS_ACCEPT4, "connect": unix.SYS_CONNECT, "io_uring_enter": unix.SYS_IO_URING_ENTER,
		"clock_nanosleep": unix.SYS_CLOCK_NANOSLEEP, "flock": unix.SYS_FLOCK, "process_vm_readv": unix.SYS_PROCESS_VM_READV}
	n := newNamer(map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH], false)
	for name, nr := range want {
		if got := n.name(int64(nr)); got != name {
			t.Errorf("number %d is %q, Go says %q", nr, got, name)
		}
	}
}

// TestForeignCalls: the system calls of a 32-bit program have other numbers. ddtop must not name them as 64-bit calls.
func TestForeignCalls(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs a machine that runs 386 programs")
	}
	bin := filepath.Join(t.TempDir(), "reads")
	if err := os.WriteFile(bin, reader386(t), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("no 386 program can be run: %v", err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	tasks, _ := openTasks(t, cmd.Process.Pid)
	const read386 = "syscall_3" // 3 is read(2) for 32-bit programs, and close(2) on x86_64
	until(t, "the program to block in read", func() bool {
		tids, err := tasks.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, tid := range tids {
			if c, err := tasks.Call(tid); err == nil && c.Name == read386 {
				return true
			}
		}
		return false
	})
}

// reader386 returns a 32-bit program that reads a byte from standard input and exits. It is an ELF file of one segment.
// The test does not build it with the Go command, because this takes a minute if Go's build cache is empty.
func reader386(t *testing.T) []byte {
	t.Helper()
	const base, headers = 0x08048000, 52 + 32
	code := []byte{
		0xb8, 3, 0, 0, 0, // mov eax, 3 (read)
		0x31, 0xdb, // xor ebx, ebx
		0x89, 0xe1, // mov ecx, esp
		0xba, 1, 0, 0, 0, // mov edx, 1
		0xcd, 0x80, // int 0x80
		0xb8, 1, 0, 0, 0, // mov eax, 1 (exit)
		0xcd, 0x80,
	}
	size := uint32(headers + len(code))
	head := elf.Header32{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_386), Version: 1, Entry: base + headers, Phoff: 52,
		Ehsize: 52, Phentsize: 32, Phnum: 1, Shentsize: 40}
	copy(head.Ident[:], []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB), 1})
	segment := elf.Prog32{Type: uint32(elf.PT_LOAD), Vaddr: base, Paddr: base, Filesz: size, Memsz: size,
		Flags: uint32(elf.PF_R | elf.PF_X), Align: 0x1000}
	var b bytes.Buffer
	for _, part := range []any{head, segment, code} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func BenchmarkProc(b *testing.B) {
	p, err := OpenProc(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Read(1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadSelf(b *testing.B) {
	for b.Loop() {
		if _, err := ReadSelf(); err != nil {
			b.Fatal(err)
		}
	}
}
