package kernel

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noFD stands for "no descriptor open".
const noFD = -1

// openDir opens a directory of /proc. The descriptor belongs to the same process forever. After this process has
// ended, opening files in the directory fails, even if its PID is used again.
func openDir(path string) (int, error) { return openWith(noFD, path, unix.O_DIRECTORY) }

// openAt opens a file below a directory for reading.
func openAt(dir int, name string) (int, error) { return openWith(dir, name, 0) }

func openWith(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// pread reads a /proc file from its beginning.
func pread(fd int, buf []byte) (int, error) { return readMore(fd, buf, 0) }

// readMore reads a file from the position off on. It is for files that are longer than one buffer.
func readMore(fd int, buf []byte, off int64) (int, error) {
	for {
		n, err := unix.Pread(fd, buf, off)
		if err != unix.EINTR {
			return n, err
		}
	}
}

func closeFD(fd int) {
	if fd >= 0 {
		// An error of close does not matter: the kernel frees the descriptor anyway, and nothing was written to it.
		_ = unix.Close(fd)
	}
}

// readlinkAt calls readlinkat(2). name must end in a zero byte. unix.Readlinkat would allocate a copy of the name.
func readlinkAt(dir int, name []byte, buf []byte) (int, error) {
	if len(name) == 0 || name[len(name)-1] != 0 || len(buf) == 0 {
		return 0, unix.EINVAL
	}
	n, _, e := unix.Syscall6(unix.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// fileType returns the S_IFMT part of a file's mode, and its major device number, which is 0 if the file is no device.
// fileType does not ask the server of a network file system, because such a call could hang.
func fileType(dir int, name string) (mode uint32, major uint32, err error) {
	var st unix.Statx_t
	err = unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st)
	return uint32(st.Mode) & unix.S_IFMT, st.Rdev_major, err
}

// inodeOf returns the inode number of a file below a folder. The number is zero if it cannot be read.
func inodeOf(dir int, name string) uint64 {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, 0) != nil {
		return 0
	}
	return st.Ino
}

// OpenFileLimit returns how many descriptors ddtop may have open at the same time.
func OpenFileLimit() int {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 1024
	}
	return int(min(lim.Cur, 1<<20))
}

// machine returns the kernel's architecture, x86_64 or aarch64, which decides what system call numbers mean.
func machine() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Machine[:])
}

// monotonic returns CLOCK_MONOTONIC in ns.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// listNumbers appends the entries of a directory that are numbers (tids, pids, descriptors), in the kernel's order.
// name is relative to dir and must not contain a symbolic link whose target can be replaced.
func listNumbers(dir int, name, path string, buf []int32) ([]int32, error) {
	fd, err := openWith(dir, name, unix.O_DIRECTORY)
	if err != nil {
		return buf, &Error{"open", path, err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return buf, &Error{"read", path, unwrapErrno(err)}
	}
	for _, s := range names {
		if n, ok := parseInt32(s); ok {
			buf = append(buf, n)
		}
	}
	return buf, nil
}
