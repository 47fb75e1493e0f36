package safefile

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// These limits of one path are the same as the kernel's: 40 links and 4,096 bytes.
const (
	maxLinks = 40
	maxPath  = 4096
	maxDepth = 256
)

// location is the place to which a path leads. dir is a descriptor of the folder that contains the file, and name is
// the file's name in this folder. file is an O_PATH descriptor of the file, or -1 if only the folder exists. If the
// path leads to a folder, dir is this folder itself, and name is ".".
type location struct {
	dir, file int
	name      string
	st        unix.Stat_t
}

// walkFull follows a path from the machine's root folder, as walk does. A relative path begins in the working folder.
func walkFull(path string, visit func(st *unix.Stat_t) error) (location, error) {
	full, root, err := fromRoot(path)
	if err != nil {
		return location{}, err
	}
	defer unix.Close(root)
	return walk(root, full, visit)
}

// fromRoot returns the absolute form of a path, and a descriptor of the machine's root folder. The caller must close
// the descriptor.
func fromRoot(path string) (full string, root int, err error) {
	if full, err = filepath.Abs(path); err != nil {
		return "", -1, err
	}
	root, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return full, root, err
}

// openRoot opens the folder of an O_PATH descriptor. It does not use the folder's path, which could already lead to
// another folder.
func openRoot(fd int) (*os.Root, error) { return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(fd)) }

// walk follows a path below a root, one name at a time. It follows links by the same rules as openat2 with
// RESOLVE_IN_ROOT and RESOLVE_NO_MAGICLINKS. Before walk uses the root, or a folder, link or file on the way, it calls
// the function visit for it.
func walk(root int, path string, visit func(st *unix.Stat_t) error) (at location, err error) {
	if path == "" {
		return at, unix.ENOENT
	}
	if len(path) > maxPath {
		return at, unix.ENAMETOOLONG
	}
	first, err := unix.FcntlInt(uintptr(root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return at, err
	}
	dirs := []int{first}
	leave := func(n int) {
		for len(dirs) > n {
			unix.Close(dirs[len(dirs)-1])
			dirs = dirs[:len(dirs)-1]
		}
	}
	defer func() { leave(0) }()
	var st unix.Stat_t
	if err := unix.Fstat(first, &st); err != nil {
		return at, err
	}
	if err := visit(&st); err != nil {
		return at, err
	}
	links := 0
	for todo := names(path); len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		dir := dirs[len(dirs)-1]
		if name == "." || name == ".." {
			// This lookup only checks that the kernel allows "." or ".." here. walk does not use the result: to go
			// back, it uses its own list of folders.
			probe, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				return at, err
			}
			unix.Close(probe)
			if name == ".." {
				leave(max(1, len(dirs)-1))
			}
			continue
		}
		fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT && len(todo) == 0 {
			dirs = dirs[:len(dirs)-1]
			return location{dir: dir, file: -1, name: name}, nil
		}
		if err != nil {
			return at, err
		}
		if err = unix.Fstat(fd, &st); err == nil {
			err = visit(&st)
		}
		kind := st.Mode & unix.S_IFMT
		switch {
		case err != nil:
		case kind == unix.S_IFLNK:
			var target string
			if target, err = readLink(fd); err == nil {
				if links++; links > maxLinks || len(target) > maxPath {
					err = unix.ELOOP
				}
				if strings.HasPrefix(target, "/") {
					leave(1)
				}
				todo = append(names(target), todo...)
			}
		case kind == unix.S_IFDIR:
			if len(dirs) < maxDepth {
				dirs = append(dirs, fd)
				continue
			}
			err = unix.ENAMETOOLONG
		case len(todo) > 0:
			err = unix.ENOTDIR
		default:
			dirs = dirs[:len(dirs)-1]
			return location{dir: dir, file: fd, name: name, st: st}, nil
		}
		unix.Close(fd)
		if err != nil {
			return at, err
		}
	}
	dir := dirs[len(dirs)-1]
	if err := unix.Fstat(dir, &st); err != nil {
		return at, err
	}
	file, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return at, err
	}
	dirs = dirs[:len(dirs)-1]
	return location{dir: dir, file: file, name: ".", st: st}, nil
}

// names splits a path into its names, and drops empty names. A slash at the end becomes ".", because the path must then
// lead to a folder.
func names(path string) []string {
	var out []string
	for name := range strings.SplitSeq(path, "/") {
		if name != "" {
			out = append(out, name)
		}
	}
	if strings.HasSuffix(path, "/") {
		out = append(out, ".")
	}
	return out
}

// readLink returns the path in the link that an O_PATH descriptor refers to. It refuses links of /proc, because these
// do not contain paths.
func readLink(fd int) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return "", err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC {
		return "", unix.ELOOP
	}
	buf := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
