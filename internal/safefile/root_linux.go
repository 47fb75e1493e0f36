package safefile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is an open folder, such as a process's root directory. Paths that are opened in a Root cannot leave it, neither
// by a link nor by "..".
type Root struct {
	dir    int // a descriptor of the folder (O_PATH)
	name   string
	rights *Rights
	gate   *Gate
	// old is true if openat2 is not available. Then the kernel is older than Linux 5.6, or an old seccomp filter
	// refuses the call.
	old bool
}

// OpenRoot opens a folder as a root. path is a path of ddtop's own file system. If it is a link of /proc, OpenRoot
// follows it. Files below the root are opened with the given rights, or with ddtop's own if rights is nil.
//
// Roots can share a gate. Use one gate for all roots of an owner who could make reads hang. These roots can then
// together block only a few threads.
func OpenRoot(path string, rights *Rights, gate *Gate) (*Root, error) {
	return rootAt(unix.AT_FDCWD, path, path, rights, gate)
}

// OpenRootAt is like OpenRoot, but opens a subfolder of a folder that is already open.
func OpenRootAt(folder *os.File, name string, rights *Rights, gate *Gate) (*Root, error) {
	return rootAt(int(folder.Fd()), name, folder.Name()+"/"+name, rights, gate)
}

func rootAt(folder int, name, full string, rights *Rights, gate *Gate) (*Root, error) {
	dir, err := unix.Openat(folder, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: full, Err: err}
	}
	return &Root{dir: dir, name: full, rights: rights, gate: gate}, nil
}

// Close closes the folder. Files that were opened in it stay open.
func (r *Root) Close() error { return unix.Close(r.dir) }

// tries limits how often openat2 is called for one path. openat2 fails if a folder is renamed at the moment when it
// follows "..".
const tries = 16

// Open opens a regular file of at most limit bytes for reading. Its errors are ErrNotRegular, ErrTooLarge, errHung, and
// errors of the kernel.
func (r *Root) Open(path string, limit int64) (*File, error) {
	name := strings.TrimSuffix(r.name, "/") + "/" + strings.TrimLeft(path, "/")
	// a copy of the descriptor, because the call below may still use it after Close
	root, err := unix.FcntlInt(uintptr(r.dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return within(r.gate, name, func() (f *File, err error) {
		defer unix.Close(root)
		own := *r
		own.dir = root
		err = r.rights.do(func() error { f, err = own.open(path, name, limit, nil); return err })
		if errors.Is(err, errRights) {
			// ddtop may not switch to the rights of the process, so the kernel cannot check them. Therefore ddtop
			// itself checks the mode of every folder and file on the way.
			own.old = true
			f, err = own.open(path, name, limit, r.rights)
		}
		return f, err
	}, func(f *File) { f.Close() })
}

func (r *Root) open(path, name string, limit int64, asked *Rights) (*File, error) {
	fd, err := r.find(path, asked)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	return reopen(fd, name, limit, r.gate)
}

// find returns a descriptor of the file at a path, without opening the file for reading or writing (O_PATH). So this
// has no effect on a device or a pipe.
func (r *Root) find(path string, asked *Rights) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for range tries {
		if r.old {
			break
		}
		fd, err := unix.Openat2(r.dir, path, &how)
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		// filters of old container runtimes return EPERM, not ENOSYS
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			r.old = true
		default:
			return -1, err
		}
	}
	at, err := walk(r.dir, path, func(st *unix.Stat_t) error {
		right := uint32(1)
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			right = 4
		}
		if asked != nil && st.Mode&unix.S_IFMT != unix.S_IFLNK && !asked.may(st, right) {
			return unix.EACCES
		}
		return nil
	})
	if err != nil {
		return -1, err
	}
	unix.Close(at.dir)
	if at.file < 0 {
		return -1, unix.ENOENT
	}
	return at.file, nil
}

// OpenLink opens the regular file behind a link of /proc, such as /proc/PID/map_files/…, with ddtop's own rights. Such
// a link leads to an open file and not to a path. So it works even if the file was deleted.
func OpenLink(folder *os.File, name string, limit int64, gate *Gate) (*File, error) {
	full := folder.Name() + "/" + name
	return within(gate, full, func() (*File, error) {
		fd, err := unix.Openat(int(folder.Fd()), name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: full, Err: err}
		}
		defer unix.Close(fd)
		return reopen(fd, full, limit, gate)
	}, func(f *File) { f.Close() })
}

// Open opens a regular file that the user has named. It uses ddtop's own rights, and waits for the file system without
// a time limit.
func Open(path string, limit int64) (*File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return reopen(fd, path, limit, nil)
}

// reopen opens the file of an O_PATH descriptor for reading, if it is a regular file of at most limit bytes. It uses
// the descriptor and not the name, which may now belong to another file.
func reopen(fd int, name string, limit int64, gate *Gate) (*File, error) {
	fail := func(err error) (*File, error) { return nil, fmt.Errorf("%s: %w", name, err) }
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fail(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fail(fmt.Errorf("%w: it is %s", ErrNotRegular, kindOf(st.Mode)))
	}
	if st.Size > limit {
		return fail(fmt.Errorf("%w: %d bytes, and %d are the most", ErrTooLarge, st.Size, limit))
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fail(err)
	}
	if madeUp[int64(fs.Type)] {
		return fail(fmt.Errorf("%w: the kernel makes it up as it is read", ErrNotRegular))
	}
	// O_NONBLOCK avoids a wait. A process can have a lease on the file, and the kernel would otherwise wait for this
	// process (fcntl(2), F_SETLEASE).
	in, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	file := os.NewFile(uintptr(in), name)
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return fail(err)
	}
	return &File{file: file, name: name, info: info, gate: gate}, nil
}

// Duplicate returns a second descriptor of the file, which can be passed to the kernel.
func (f *File) Duplicate() (*os.File, error) {
	return duplicate(f.file, f.name)
}

// madeUp are file systems whose files the kernel makes up. The files look regular, but a read is a call into the
// kernel. It can wait (kmsg, trace_pipe), or take data away from other readers. With /proc/self, it returns data about
// ddtop, not about the process that named the file. The keys are the numbers by which statfs(2) reports file systems.
var madeUp = map[int64]bool{
	unix.PROC_SUPER_MAGIC: true, unix.SYSFS_MAGIC: true, unix.DEBUGFS_MAGIC: true, unix.TRACEFS_MAGIC: true,
	unix.SECURITYFS_MAGIC: true, unix.CGROUP_SUPER_MAGIC: true, unix.CGROUP2_SUPER_MAGIC: true, unix.BPF_FS_MAGIC: true,
	unix.PSTOREFS_MAGIC: true, unix.EFIVARFS_MAGIC: true, unix.NSFS_MAGIC: true, unix.SELINUX_MAGIC: true,
	unix.SMACK_MAGIC: true, unix.DEVPTS_SUPER_MAGIC: true, unix.BINFMTFS_MAGIC: true, unix.SOCKFS_MAGIC: true,
	unix.RDTGROUP_SUPER_MAGIC: true, configFS: true, fuseControl: true,
}

// These numbers of made-up file systems are missing in package unix (fs/configfs/mount.c, fs/fuse/control.c).
const (
	configFS    = 0x62656570
	fuseControl = 0x65735543
)

func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "a folder"
	case unix.S_IFIFO:
		return "a pipe"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "a device"
	case unix.S_IFLNK:
		return "a link"
	}
	return "of an unknown kind"
}
