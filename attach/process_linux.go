package attach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/safefile"
)

// These constants limit what ddtop reads from /proc. maxMapsFile limits the size of the list of mappings, in bytes. A
// process can have as many mappings as vm.max_map_count allows, 65,530 by default, each with a path of 4 KB.
// maxProcFile limits the size of other files, in bytes. The command line has a limit of its own, because it can have
// 2 MB. maxThreads limits the number of threads.
const (
	maxMapsFile = 16 << 20
	maxProcFile = 1 << 20 // any other file, except the command line (maxArguments)
	maxThreads  = 1 << 20
)

// Process is a live process that may be read. It is a Memory. Any goroutine may call its methods, but a lock lets only
// one goroutine at a time read memory.
//
// A Process holds a descriptor of /proc/PID and, if the kernel has pidfds (5.3), a pidfd. So its results are never
// about another process that got the same PID.
type Process struct {
	facts
	// gate limits how long calls on the process's files can block ddtop.
	gate safefile.Gate
}

// procFolder gives access to a process's memory and its folder in /proc. It also checks whether the process still
// exists.
type procFolder struct {
	liveMemory
	stat   processStat
	status processStatus
	dir    *os.File
	random [16]byte
	// randomAt is the address of the 16 random bytes that the kernel makes at each exec (AT_RANDOM). If they have
	// changed, the process has called exec.
	randomAt Address
	pidfd    *os.File

	watch  sync.Once
	exited chan struct{}
	closed chan struct{}
	once   sync.Once
}

// fileID identifies a file by its device and inode number.
type fileID struct{ dev, ino uint64 }

// Open prepares a process for reading. It does not stop the process, and changes nothing in it. The process must exist
// and have memory, and ddtop must be allowed to read it. The error is a *TargetError that wraps ErrNoProcess,
// ErrZombie, ErrGone, ErrKernelThread, ErrSelf, ErrPermission, ErrNotRuby (a 32-bit program), ErrNotLoaded (within
// exec: try again), ErrNoAnswer or ErrExhausted.
func Open(pid int) (*Process, error) {
	p, err := openProcess(pid)
	if err != nil {
		return nil, err
	}
	if err := p.tryReading(); err != nil {
		p.letGo(err)
		return nil, err
	}
	return p, nil
}

// letGo closes p after the error err. If err says that the process did not answer, Close could block, so letGo calls it
// in the background.
func (p *Process) letGo(err error) {
	if errors.Is(err, ErrNoAnswer) {
		go p.Close() // Close waits for calls that have not returned
		return
	}
	p.Close()
}

// openProcess does the first part of Open, which needs no permission to read the process.
func openProcess(pid int) (*Process, error) {
	fail := func(kind error, cause, help string, err error) (*Process, error) {
		return nil, &TargetError{PID: pid, Kind: kind, Cause: cause, Help: help, Err: err}
	}
	if pid <= 0 {
		return fail(ErrNoProcess, "a PID is a positive number", "", nil)
	}
	if pid == os.Getpid() {
		return fail(ErrSelf, "", "Give the PID of a Ruby process; `ddtop ps` lists them.", nil)
	}
	dir, err := os.Open("/proc/" + strconv.Itoa(pid))
	if errors.Is(err, os.ErrNotExist) {
		if errors.Is(unix.Kill(pid, 0), unix.EPERM) {
			return nil, hiddenProcess(pid, nil)
		}
		return fail(ErrNoProcess, "", "`ddtop ps` lists the Ruby processes of this machine.", nil)
	}
	if errors.Is(err, unix.EPERM) {
		return nil, hiddenProcess(pid, fmt.Errorf("opening its folder in /proc: %w", unix.EPERM))
	}
	if isExhausted(err) {
		return nil, exhausted(pid, "opening its folder in /proc", err)
	}
	if err != nil {
		return fail(ErrPermission, "opening its folder in /proc", fmt.Sprintf("Run `sudo ddtop -p %d`.", pid), err)
	}
	p := &Process{facts: facts{opened: time.Now(), procFolder: procFolder{liveMemory: liveMemory{pid: pid}, dir: dir,
		exited: make(chan struct{}), closed: make(chan struct{})}}}
	p.another = p.openMemory
	if err := p.describe(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// describe reads what every user may know about a process.
func (p *procFolder) describe() error {
	fail := func(kind error, cause, help string, err error) error {
		return &TargetError{PID: p.pid, Kind: kind, Cause: cause, Help: help, Err: err}
	}
	text, err := p.readProc("stat")
	if err != nil {
		if isGone(err) {
			return fail(ErrGone, "it ended while we looked", "", nil)
		}
		if isExhausted(err) {
			return exhausted(p.pid, "reading its stat in /proc", err)
		}
		return fail(ErrPermission, "reading its stat in /proc", fmt.Sprintf("Run `sudo ddtop -p %d`.", p.pid), err)
	}
	if p.stat, err = parseStat(text); err != nil {
		return fmt.Errorf("/proc/%d/stat: %w", p.pid, err)
	}
	if text, err = p.readProc("status"); err == nil {
		p.status = parseStatus(text)
	} else if isExhausted(err) {
		return exhausted(p.pid, "reading its status in /proc", err)
	}
	switch {
	case p.status.TGID != 0 && p.status.TGID != p.pid:
		return fail(ErrNoProcess, fmt.Sprintf("%d is a thread of process %d", p.pid, p.status.TGID),
			fmt.Sprintf("Use `ddtop -p %d`.", p.status.TGID), nil)
	case p.stat.ended() && p.allEnded():
		return fail(ErrZombie, fmt.Sprintf("it has ended; its parent, process %d, has not asked for its exit code yet", p.stat.PPID), "", nil)
	case p.stat.Flags&pfKthread != 0:
		return fail(ErrKernelThread, p.stat.Comm, "", nil)
	}
	return nil
}

// tryReading does the part of Open that needs permission to read the memory. It reads a few bytes of memory. It also
// remembers which program runs, so that later calls can notice an exec.
func (p *Process) tryReading() error {
	exe, err := p.readlink("exe")
	if err != nil {
		return p.refused("reading the link to its program", err)
	}
	p.exe = strings.TrimSuffix(exe, " (deleted)")
	const program, vector, memory = "looking at its program", "reading its auxiliary vector", "reading its memory"
	if p.exeID, err = Ask(p.pid, program, func() (fileID, error) { return p.fileID("exe") }); err != nil {
		return p.refused(program, err)
	}
	if p.randomAt, err = Ask(p.pid, vector, p.findRandom); err != nil {
		return p.refused(vector, err)
	}
	// If the process's memory is locked, reading it blocks. CommandLine then returns ErrNoAnswer, so call it before
	// ddtop reads memory. A thread of ddtop that waits in CommandLine can be killed. A thread that waits in
	// process_vm_readv(2) ignores signals, so ddtop could not even exit (mm/process_vm_access.c,
	// process_vm_rw_single_vec).
	if _, err := p.CommandLine(); errors.Is(err, ErrNoAnswer) {
		return err
	}
	p.random, err = Ask(p.pid, memory, func() (random [16]byte, err error) {
		err = p.probe(p.randomAt, random[:])
		return random, err
	})
	if err != nil {
		return p.refused(memory, err)
	}
	if err := p.stillTheProgram(); err != nil {
		return err
	}
	p.openPIDFD()
	return nil
}

// stillTheProgram returns ErrNotLoaded if the process has called exec while ddtop opened it. In this case ddtop has
// read parts of two programs.
func (p *Process) stillTheProgram() error {
	const program, vector = "looking at its program again", "reading its auxiliary vector again"
	exeID, err := Ask(p.pid, program, func() (fileID, error) { return p.fileID("exe") })
	if err != nil {
		return p.refused(program, err)
	}
	randomAt, err := Ask(p.pid, vector, p.findRandom)
	if err != nil {
		return p.refused(vector, err)
	}
	if exeID != p.exeID || randomAt != p.randomAt {
		return &TargetError{PID: p.pid, Kind: ErrNotLoaded,
			Cause: "it called exec while it was opened", Help: "Try again in a moment."}
	}
	return nil
}

// openPIDFD opens a pidfd, which becomes readable when the last thread of the process has ended. There is no pidfd
// before Linux 5.3, if a seccomp filter refuses it, or if ddtop has no descriptors left. Then Exited reads /proc
// instead.
func (p *procFolder) openPIDFD() {
	fd, err := unix.PidfdOpen(p.pid, unix.O_NONBLOCK)
	if errors.Is(err, unix.EINVAL) {
		// PIDFD_NONBLOCK came with Linux 5.10. An older kernel refuses it.
		if fd, err = unix.PidfdOpen(p.pid, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	if err != nil {
		return
	}
	if _, err := p.readProc("stat"); isGone(err) {
		unix.Close(fd) // the PID may be another process's by now
		return
	}
	p.pidfd = os.NewFile(uintptr(fd), "pidfd")
}

// findRandom returns the value of AT_RANDOM in the auxiliary vector. The vector has pairs of words, a type and a value,
// and ends with a zero (getauxval(3)).
func (p *procFolder) findRandom() (Address, error) {
	const atRandom, pair = 25, 16
	text, err := p.readProc("auxv")
	if err != nil {
		return 0, err
	}
	for b := text; len(b) >= pair; b = b[pair:] {
		if binary.NativeEndian.Uint64(b) == atRandom {
			return Address(binary.NativeEndian.Uint64(b[8:])), nil
		}
	}
	if len(text) > pair {
		return 0, &TargetError{PID: p.pid, Kind: ErrNotRuby, Cause: "it is a 32-bit program, which ddtop can't read"}
	}
	// The auxiliary vector is empty, so the process has either ended, or is in the middle of exec. Find out which.
	if gone := p.stillThere(); gone != nil {
		return 0, gone
	}
	return 0, &TargetError{PID: p.pid, Kind: ErrNotLoaded, Cause: "it is just starting or ending", Help: "Try again in a moment."}
}

// Path returns the path of a file of the process in /proc: Path("task") is /proc/PID/task.
func (p *procFolder) Path(elem ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(p.pid)}, elem...)...)
}

// exitFD returns a pidfd of the process (pidfd_open(2)). It is -1 if the kernel gave none. Close closes it.
func (p *procFolder) exitFD() int {
	if p.pidfd == nil {
		return -1
	}
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return -1
	}
	out := -1
	if err := raw.Control(func(fd uintptr) { out = int(fd) }); err != nil {
		return -1
	}
	return out
}

// Close closes the process's descriptors. If Exited was called, the goroutine that it has started ends, and the channel
// is not closed.
func (p *Process) Close() error {
	p.once.Do(func() { close(p.closed) })
	p.liveMemory.close()
	if p.pidfd != nil {
		p.pidfd.Close()
	}
	return p.dir.Close()
}

// isGone reports whether an error means that a process has ended.
func isGone(err error) bool {
	return errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrGone)
}

// openProc opens a file in the folder of the process, or of one of its living tasks (see folder). The file belongs to
// this process even if the PID is used again.
func (p *procFolder) openProc(name string) (*os.File, error) {
	dir, done := p.folderOf(name)
	defer done()
	path := filepath.Join(dir.Name(), name)
	fd, err := openAt(int(dir.Fd()), name, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// errTooLong means that a file in /proc is longer than the limit for it.
var errTooLong = errors.New("it is too long")

// readProc reads a file of the process's folder. If the file is longer than its limit, readProc returns the first part,
// and an error that wraps errTooLong.
func (p *procFolder) readProc(name string) ([]byte, error) {
	f, err := p.openProc(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limit := maxProcFile
	switch name {
	case "maps":
		limit = maxMapsFile
	case "cmdline":
		limit = maxArguments
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if len(text) > limit {
		return text[:limit], fmt.Errorf("%w: %d bytes of %s are the most that is read", errTooLong, limit, p.Path(name))
	}
	return text, err
}

// askProc calls readProc within Ask. It is for files whose reading can block.
func (p *procFolder) askProc(name string) ([]byte, error) {
	return Ask(p.pid, "reading "+p.Path(name), func() ([]byte, error) { return p.readProc(name) })
}

func (p *procFolder) readlink(name string) (string, error) {
	dir, done := p.folderOf(name)
	defer done()
	return readlinkIn(dir, name)
}

func readlinkIn(dir *os.File, name string) (string, error) {
	buf := make([]byte, 4096)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return string(buf[:n]), nil
}

func (p *procFolder) fileID(name string) (fileID, error) {
	dir, done := p.folderOf(name)
	defer done()
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, 0); err != nil {
		return fileID{}, &os.PathError{Op: "stat", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return fileID{uint64(st.Dev), st.Ino}, nil
}

// lost returns ErrGone if an error of reading /proc means that the process has ended since Open. A missing file alone
// is no proof. The file may belong to a thread that has just ended while the process continues, or to a process that is
// about to end.
func (p *procFolder) lost(err error) error {
	if isGone(err) {
		if gone := p.stillThere(); gone != nil {
			return gone
		}
		return &TargetError{PID: p.pid, Kind: ErrNotLoaded, Cause: "a thread of it ended while we looked", Help: "Try again in a moment.", Err: err}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && (errno == unix.EACCES || errno == unix.EPERM) {
		if gone := p.stillThere(); gone != nil {
			return gone
		}
		return &TargetError{PID: p.pid, Kind: ErrPermission, Cause: "it could be read before: it has changed its user or its privileges", Err: errno}
	}
	return err
}
