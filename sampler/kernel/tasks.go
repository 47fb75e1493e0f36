package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"syscall"

	"github.com/ddtop/ddtop/sampler"
)

// maxOpenFiles is the largest number of /proc files that one Tasks keeps open. A Tasks also keeps at most half of the
// files that ddtop may open. All other files are opened, read and closed each time. This takes 6 to 8 µs, while an open
// file takes 1 to 3 µs.
const maxOpenFiles = 3000

// idleUses decides when an open file is unused. A file is unused if idleUses × maxOpen files were read since its own
// last use.
const idleUses = 64

// Call is the system call that a thread is in.
type Call struct {
	// Name is the system call's name, the same on every machine that has the call ("read", "epoll_pwait"). A number
	// without a name is "syscall_NR". sampler.SyscallRunning means that the thread runs or is runnable.
	// sampler.SyscallNone means that it sleeps outside a system call (a page fault, a stop). sampler.SyscallEnded means
	// that it has ended.
	Name string
	// Args are the values of the registers for the call's arguments. Ignore the upper half of a 32-bit argument.
	Args [6]uint64
}

// These are the files of a thread that Tasks keeps open.
const (
	fileSchedstat = iota
	fileSyscall
	fileStat
	numFiles
)

var taskFileNames = [numFiles]string{"schedstat", "syscall", "stat"}

// openFile is a /proc file that is kept open. It is an element of a list that is sorted by the time of last use.
type openFile struct {
	fd         int
	tid        int32
	which      uint8
	lastUse    uint64
	prev, next *openFile
}

// Tasks reads what the kernel reports about a process's threads. Only one goroutine may use it, but another goroutine
// may call ResolveSockets. All tids belong to ddtop's own PID namespace (see Namespace).
type Tasks struct {
	pid     int
	dir     int // /proc/PID
	tasks   map[int32]*[numFiles]*openFile
	list    openFile // head of the ring of open files, most recently used first
	open    int
	maxOpen int
	uses    uint64
	buf     [512]byte
	names   *namer
	peers   *peers
	scratch pollScratch
}

// OpenTasks prepares to read the threads of a process. It stores their peers in dict. The *Error is ErrGone if there is
// no such process, and ErrUnsupported on systems other than Linux.
func OpenTasks(pid int, dict *sampler.Dictionary) (*Tasks, error) {
	path := fmt.Sprintf("/proc/%d", pid)
	dir, err := openDir(path)
	if err != nil {
		return nil, &Error{"open", path, err}
	}
	proc := newLiving(pid, dir)
	defer proc.close()
	foreign, err := is32Bit(proc, path)
	if err != nil {
		closeFD(dir)
		return nil, err
	}
	t := &Tasks{
		pid:     pid,
		dir:     dir,
		tasks:   make(map[int32]*[numFiles]*openFile),
		maxOpen: min(maxOpenFiles, OpenFileLimit()/2),
		names:   newNamer(machine(), foreign),
	}
	t.list.prev, t.list.next = &t.list, &t.list
	if t.peers, err = openPeers(pid, dir, dict); err != nil {
		closeFD(dir)
		return nil, err
	}
	return t, nil
}

// Close closes all descriptors. The caller must not call it while ResolveSockets runs.
func (t *Tasks) Close() error {
	for t.list.next != &t.list {
		t.drop(t.list.next)
	}
	t.peers.close()
	closeFD(t.dir)
	t.dir = noFD
	return nil
}

// CPU has the kernel's counters of a thread since its start (task/TID/schedstat). The kernel updates RanNS and DelayNS
// only from time to time. So if they have not changed, the thread may still have run. Turns changes at once when the
// thread gets a CPU.
type CPU struct {
	// RanNS is the thread's time on a CPU. While the thread runs, the kernel updates it every 1 to 10 ms (the kernel's
	// tick). DelayNS is how long the thread was runnable without a CPU. The kernel updates it when a wait for a CPU
	// ends. Both are in ns.
	RanNS, DelayNS int64
	// Turns is how often the thread got a CPU.
	Turns int64
}

// CPU returns a thread's counters.
func (t *Tasks) CPU(tid int32) (CPU, error) {
	b, err := t.read(tid, fileSchedstat)
	if err != nil {
		return CPU{}, err
	}
	cpu, ok := parseSchedstat(b)
	if !ok {
		return CPU{}, t.formatError(tid, fileSchedstat, b)
	}
	return cpu, nil
}

// Call returns the system call a thread is in (task/TID/syscall). It needs the permission of ptrace.
func (t *Tasks) Call(tid int32) (Call, error) {
	b, err := t.read(tid, fileSyscall)
	if err != nil {
		return Call{}, err
	}
	nr, args, ok := parseSyscall(b)
	if !ok {
		return Call{}, t.formatError(tid, fileSyscall, b)
	}
	switch nr {
	case callRunning:
		return Call{Name: sampler.SyscallRunning}, nil
	case callNone:
		return Call{Name: sampler.SyscallNone}, nil
	case callEnded:
		return Call{Name: sampler.SyscallEnded}, nil
	}
	return Call{Name: t.names.name(nr), Args: args}, nil
}

// StackPointer returns the stack pointer of a thread that sleeps. ok is false if the thread does not sleep or cannot
// be read.
func (t *Tasks) StackPointer(tid int32) (sp uint64, ok bool) {
	b, err := t.read(tid, fileSyscall)
	if err != nil {
		return 0, false
	}
	sp, _, ok = parseStanding(b)
	return sp, ok
}

// State returns a thread's state letter: R running or runnable, S asleep, D asleep and cannot be interrupted, T and t
// stopped, Z ended (task/TID/stat, proc(5)).
func (t *Tasks) State(tid int32) (byte, error) {
	b, err := t.read(tid, fileStat)
	if err != nil {
		return 0, err
	}
	s, ok := parseState(b)
	if !ok {
		return 0, t.formatError(tid, fileStat, b)
	}
	return s, nil
}

// List returns the tids of all native threads, the oldest first. It includes threads that run no Ruby thread.
func (t *Tasks) List() ([]int32, error) {
	return listNumbers(t.dir, "task", fmt.Sprintf("/proc/%d/task", t.pid), nil)
}

// Comm returns a native thread's name as the kernel has it, at most 15 bytes (task/TID/comm).
func (t *Tasks) Comm(tid int32) (string, error) {
	name := "task/" + strconv.Itoa(int(tid)) + "/comm"
	b, err := readWhole(t.dir, name, fmt.Sprintf("/proc/%d/%s", t.pid, name), t.buf[:])
	if err != nil {
		return "", err
	}
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	return string(b), nil
}

// Forget closes the files of a thread. If it is not called, the files are closed when others need their room.
func (t *Tasks) Forget(tid int32) {
	files := t.tasks[tid]
	if files == nil {
		return
	}
	for _, f := range files {
		if f != nil {
			t.drop(f)
		}
	}
	delete(t.tasks, tid)
}

// read reads a task's file into t.buf and returns the content. An open descriptor belongs to the same thread even if
// another thread gets its tid. If the thread has ended, the read fails with ESRCH. Then read opens the file of the
// thread that now has the tid.
func (t *Tasks) read(tid int32, which uint8) ([]byte, error) {
	t.uses++
	if files := t.tasks[tid]; files != nil && files[which] != nil {
		f := files[which]
		n, err := pread(f.fd, t.buf[:])
		if err == nil {
			f.lastUse = t.uses
			t.moveToFront(f)
			return t.buf[:n], nil
		}
		if !errors.Is(err, syscall.ESRCH) {
			return nil, t.errorOf("read", tid, which, err)
		}
		t.drop(f)
	}
	fd, err := openAt(t.dir, "task/"+strconv.Itoa(int(tid))+"/"+taskFileNames[which])
	if err != nil {
		t.Forget(tid)
		return nil, t.errorOf("open", tid, which, t.missing(tid, err))
	}
	n, err := pread(fd, t.buf[:])
	if err != nil {
		closeFD(fd)
		return nil, t.errorOf("read", tid, which, err)
	}
	t.keep(fd, tid, which)
	return t.buf[:n], nil
}

// missing distinguishes a thread that has ended from a kernel without the file (schedstat needs CONFIG_SCHED_INFO,
// syscall needs CONFIG_HAVE_ARCH_TRACEHOOK).
func (t *Tasks) missing(tid int32, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fd, statErr := openAt(t.dir, "task/"+strconv.Itoa(int(tid))+"/stat")
	if statErr != nil {
		return err
	}
	closeFD(fd)
	return ErrUnsupported
}

// keep keeps a file open if there is room. It makes room only by closing a file that was unused for so long that its
// thread has probably ended. If there is no room for all threads, only the files of some threads stay open. If keep
// always closed the oldest file, each file would be closed just before its next use.
func (t *Tasks) keep(fd int, tid int32, which uint8) {
	if t.open >= t.maxOpen {
		oldest := t.list.prev
		if oldest == &t.list || t.uses-oldest.lastUse < idleUses*uint64(t.maxOpen) {
			closeFD(fd)
			return
		}
		t.drop(oldest)
	}
	files := t.tasks[tid]
	if files == nil {
		files = new([numFiles]*openFile)
		t.tasks[tid] = files
	}
	f := &openFile{fd: fd, tid: tid, which: which, lastUse: t.uses}
	files[which] = f
	t.open++
	f.link(&t.list)
}

func (t *Tasks) drop(f *openFile) {
	closeFD(f.fd)
	f.unlink()
	t.open--
	files := t.tasks[f.tid]
	files[f.which] = nil
	if *files == [numFiles]*openFile{} {
		delete(t.tasks, f.tid)
	}
}

func (t *Tasks) moveToFront(f *openFile) {
	if t.list.next != f {
		f.unlink()
		f.link(&t.list)
	}
}

func (f *openFile) link(after *openFile) {
	f.prev, f.next = after, after.next
	after.next.prev = f
	after.next = f
}

func (f *openFile) unlink() {
	f.prev.next, f.next.prev = f.next, f.prev
}

func (t *Tasks) errorOf(op string, tid int32, which uint8, err error) error {
	return &Error{op, fmt.Sprintf("/proc/%d/task/%d/%s", t.pid, tid, taskFileNames[which]), err}
}

func (t *Tasks) formatError(tid int32, which uint8, b []byte) error {
	return t.errorOf("read", tid, which, fmt.Errorf("%w: %.80q", errFormat, b))
}

// readWhole opens, reads and closes a file that fits buf.
func readWhole(dir int, name, path string, buf []byte) ([]byte, error) {
	fd, err := openAt(dir, name)
	if err != nil {
		return nil, &Error{"open", path, err}
	}
	defer closeFD(fd)
	n, err := pread(fd, buf)
	if err != nil {
		return nil, &Error{"read", path, err}
	}
	return buf[:n], nil
}

// is32Bit reports whether a process's program is a 32-bit ELF file, whose system calls have other numbers.
func is32Bit(proc *living, path string) (bool, error) {
	var ident [5]byte
	fd, err := proc.open("exe")
	if err != nil {
		err = &Error{"open", path + "/exe", err}
	}
	if errors.Is(err, errPermission) {
		// If ddtop may not open exe, it may not read task/TID/syscall either. So it cannot give a call a wrong name.
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer closeFD(fd)
	n, err := pread(fd, ident[:])
	if err != nil {
		return false, &Error{"read", path + "/exe", err}
	}
	b := ident[:n]
	const elfClass32 = 1
	return len(b) == 5 && string(b[:4]) == "\x7fELF" && b[4] == elfClass32, nil
}
