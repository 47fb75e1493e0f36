package safefile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// OwnFolder opens a folder into which ddtop writes without being asked by a user. It makes missing folders on the path
// (with mode 0700). The folder must belong to a trusted user: root, ddtop's user, or the user who called sudo. No other
// user may write to it, even if it is sticky.
//
// Each folder above it, and each link on the way, must also belong to a trusted user. If other users may write to a
// folder above it, that folder must be sticky, so that they cannot replace what is in it. Otherwise the error is
// ErrUntrusted.
func OwnFolder(path string) (*os.Root, error) {
	full, root, err := fromRoot(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	fail := func(err error) (*os.Root, error) { return nil, fmt.Errorf("folder %s: %w", path, err) }
	at, err := walkToFolder(root, full)
	if errors.Is(err, fs.ErrNotExist) {
		var made *os.Root
		if made, err = makeBelow(root, full, trustedInode, nil); err == nil {
			// Another user may have created one of the folders in the meantime. So check all folders again.
			if err = made.Close(); err == nil {
				at, err = walkToFolder(root, full)
			}
		}
	}
	if err != nil {
		return fail(err)
	}
	defer unix.Close(at.dir)
	defer unix.Close(at.file)
	if err := own(&at); err != nil {
		return fail(err)
	}
	dir, err := openRoot(at.file)
	if err != nil {
		return fail(err)
	}
	return dir, nil
}

// walkToFolder walks to an existing folder and checks each folder on the way. Its error is fs.ErrNotExist if the folder
// does not exist.
func walkToFolder(root int, full string) (location, error) {
	// visit remembers what is wrong with a folder, and reports it only when the walk continues below this folder. So
	// visit never reports the last folder. The function own checks that folder, by stricter rules.
	var before error
	at, err := walk(root, full, func(st *unix.Stat_t) error {
		if before != nil {
			return before
		}
		before = trustedInode(st)
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return before // report a link or a file at once
		}
		return nil
	})
	switch {
	case err != nil:
		return at, err
	case at.file < 0:
		unix.Close(at.dir)
		return at, cmp.Or(before, error(fs.ErrNotExist))
	case at.st.Mode&unix.S_IFMT != unix.S_IFDIR:
		unix.Close(at.dir)
		unix.Close(at.file)
		return at, unix.ENOTDIR
	}
	return at, nil
}

// own returns an error unless a trusted user owns the folder and no other user may write to it. There is one exception:
// if the folder is an empty volume of a container, own closes it to other users instead. Kubernetes lets all users
// write to the root of a new emptyDir.
func own(at *location) error {
	st := &at.st
	if !trusted(int(st.Uid)) {
		return fmt.Errorf("%w: it is user %d's: give a folder of your own, or one that is not there yet",
			ErrUntrusted, st.Uid)
	}
	if st.Mode&othersWrite == 0 {
		return nil
	}
	name := "/proc/self/fd/" + strconv.Itoa(at.file)
	if int(st.Uid) == os.Geteuid() && isMountRoot(at.file) && !isShared(name) {
		closed, err := closeEmpty(name, st.Mode&0o7777)
		if closed || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: its mode is %#o: look at its content, and take the right to write from others (chmod go-w)",
		ErrUntrusted, st.Mode&0o7777)
}

// sharedFolders are folders that all users of a machine share, even when they are empty. ddtop must not close them to
// other users, because this would break other programs. Only tests change the list.
var sharedFolders = []string{"/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/shm", "/run/lock", "/run/user", "/var/lock", "/var/crash"}

// isShared reports whether a folder is one of sharedFolders. It compares the folders themselves, because several paths
// can lead to the same folder.
func isShared(name string) bool {
	is, err := os.Stat(name)
	if err != nil {
		return true
	}
	for _, path := range sharedFolders {
		if shared, err := os.Stat(path); err == nil && os.SameFile(is, shared) {
			return true
		}
	}
	return false
}

// closeEmpty closes a folder to other users if the folder is empty, and reports whether it did so. mode is the folder's
// present mode. If closeEmpty does not close the folder, the folder keeps this mode.
func closeEmpty(name string, mode uint32) (closed bool, err error) {
	if list, err := os.ReadDir(name); err != nil || len(list) > 0 {
		return false, err
	}
	if err := unix.Chmod(name, 0o700); err != nil {
		return false, nil // the caller says why the folder is refused
	}
	// Check again. Another user may have put a file into the folder just before it was closed.
	list, err := os.ReadDir(name)
	if err != nil || len(list) > 0 {
		return false, errors.Join(err, unix.Chmod(name, mode))
	}
	return true, nil
}

// isMountRoot reports whether a file system is mounted at a folder. It returns false on kernels before 5.8, which do
// not report this.
func isMountRoot(fd int) bool {
	var x unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &x)
	return err == nil && x.Attributes_mask&x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// Free returns how many bytes ddtop may still write to the file system of a folder. It is zero if the kernel does not
// report the number.
func Free(folder *os.Root) int64 {
	f, err := folder.Open(".")
	if err != nil {
		return 0
	}
	defer f.Close()
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil || st.Bsize <= 0 {
		return 0
	}
	return int64(min(st.Bavail, math.MaxInt64/uint64(st.Bsize))) * st.Bsize
}
