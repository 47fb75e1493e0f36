package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxEndedTasks limits how many ended threads are skipped in the search for a living one. There are usually few,
// because most threads leave the list when they end. Only two kinds stay in the list: the first thread, and threads
// whose exit a tracer has not read yet.
const maxEndedTasks = 256

// OpenLiving opens the folder in /proc of a thread that has not ended. The parameter dir is the folder /proc/PID of the
// process, which belongs to its first thread. While the first thread lives, tid is pid and fd is a copy of dir. If the
// first thread ends by pthread_exit while others continue, its folder loses the memory, the descriptors and the root
// (kernel/exit.c, do_exit, Linux 6.18). In this case OpenLiving returns the folder and the tid of another thread. The
// error is ESRCH or ENOENT if no thread lives.
func OpenLiving(dir, pid int) (fd, tid int, err error) {
	first, err := statIn(dir, "stat")
	if err != nil {
		return -1, 0, err
	}
	if !first.ended() {
		fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
		return fd, pid, err
	}
	tids, err := tasksOf(dir, nil)
	if err != nil {
		return -1, 0, err
	}
	passed := 0
	for _, id := range tids {
		if int(id) == pid {
			continue
		}
		switch s, err := statIn(dir, "task/"+strconv.Itoa(int(id))+"/stat"); {
		case err != nil && !isGone(err):
			return -1, 0, err
		case err != nil || s.ended():
			if passed++; passed > maxEndedTasks {
				return -1, 0, unix.ESRCH
			}
			continue
		}
		switch fd, err := openTaskOf(dir, pid, int(id)); {
		case err == nil:
			return fd, int(id), nil
		case !isGone(err):
			return -1, 0, err
		}
	}
	return -1, 0, unix.ESRCH
}

// openTaskOf opens /proc/TID, which unlike /proc/PID/task/TID has map_files. It makes sure that the task belongs to
// the process of dir, because the number can be reused.
func openTaskOf(dir, pid, tid int) (int, error) {
	fd, err := openAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(tid), unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	text, err := readAt(fd, "status", maxProcFile)
	if err == nil && parseStatus(text).TGID != pid {
		err = unix.ESRCH
	}
	if err == nil {
		_, err = statIn(dir, "stat") // while dir can be read, no other process has the PID
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// statIn reads the stat of a process or a task. The error is ESRCH or ENOENT if the task has ended. Other errors prove
// nothing about the task.
func statIn(dir int, name string) (processStat, error) {
	text, err := readAt(dir, name, maxProcFile)
	if err != nil {
		return processStat{}, err
	}
	return parseStat(text)
}

// openAt opens a file below a folder for reading.
func openAt(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// readAt reads at most limit bytes of a file below a folder.
func readAt(dir int, name string, limit int) ([]byte, error) {
	fd, err := openAt(dir, name, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(limit)))
}

// tasksOf appends the tids of a process, in the kernel's order: oldest first.
func tasksOf(dir int, buf []int32) ([]int32, error) {
	fd, err := openAt(dir, "task", unix.O_DIRECTORY)
	if err != nil {
		return buf, err
	}
	d := os.NewFile(uintptr(fd), "task")
	defer d.Close()
	names, err := d.Readdirnames(maxThreads)
	if err != nil && !errors.Is(err, io.EOF) {
		return buf, err
	}
	for _, name := range names {
		if n, err := strconv.ParseInt(name, 10, 32); err == nil {
			buf = append(buf, int32(n))
		}
	}
	return buf, nil
}

// folder returns the folder in /proc of a living thread, which has the process's memory, files and root (see
// OpenLiving). The caller calls done after its last use. If no living thread can be found, folder returns the first
// thread's folder. Opening a file in it then returns an error that explains the cause.
func (p *procFolder) folder() (dir *os.File, done func()) {
	fd, tid, err := OpenLiving(int(p.dir.Fd()), p.pid)
	if err != nil {
		return p.dir, func() {}
	}
	dir = os.NewFile(uintptr(fd), "/proc/"+strconv.Itoa(tid))
	return dir, func() { dir.Close() }
}

// FirstEnded reports whether the process's first thread has ended while other threads continue.
func (p *procFolder) FirstEnded() bool {
	fd, tid, err := OpenLiving(int(p.dir.Fd()), p.pid)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return tid != p.pid
}

// LivingPath returns the path of a file in the /proc folder of a living thread. For example, LivingPath("root") returns
// /proc/TID/root. TID is the PID, unless the first thread has ended.
func (p *procFolder) LivingPath(elem ...string) string {
	dir, done := p.folder()
	defer done()
	return filepath.Join(append([]string{dir.Name()}, elem...)...)
}

// ofFirst are the files in the first thread's folder /proc/PID that can still be read after this thread has ended. They
// describe the whole process, or a thread that their path names.
var ofFirst = []string{"stat", "status", "task", "comm"}

// folderOf returns the folder in which to open a file. This is the first thread's folder for the files in ofFirst, and
// the folder of a living thread (folder) for all others.
func (p *procFolder) folderOf(name string) (dir *os.File, done func()) {
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(ofFirst, first) {
		return p.dir, func() {}
	}
	return p.folder()
}

// openMemory opens the memory that the process has now. If the process calls exec, it gets new memory, but the
// descriptor stays with the old memory. Once no thread uses the old memory, reads return no bytes (fs/proc/base.c,
// mem_rw).
func (p *procFolder) openMemory() (*os.File, error) {
	dir, done := p.folder()
	defer done()
	fd, err := openAt(int(dir.Fd()), "mem", 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(dir.Name(), "mem"), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), "mem")), nil
}

// isExhausted reports whether an error means that ddtop, or the machine, has no descriptors or no memory left. Such an
// error proves nothing about the process.
func isExhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// exhausted explains an error for which isExhausted is true. doing names the step that failed, such as "reading its
// command line".
func exhausted(pid int, doing string, err error) error {
	help := "Raise ddtop's limit of open files: `ulimit -n 4096`."
	switch {
	case errors.Is(err, unix.ENFILE):
		help = "The machine has reached fs.file-max: `sysctl fs.file-nr` shows how many files are open."
	case errors.Is(err, unix.ENOMEM):
		help = "The machine is short of memory: try again in a moment."
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = errno
	}
	return &TargetError{PID: pid, Kind: ErrExhausted, Cause: doing, Help: help, Err: fmt.Errorf("%w", err)}
}
