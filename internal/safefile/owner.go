package safefile

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// HandOver gives a new file or empty folder to the user who started ddtop by sudo or pkexec. A new file belongs to root
// and has mode 0600, so without HandOver this user could not read it. HandOver does so only if the folder around the
// file belongs to this user. It works with open descriptors, so that no other file can take the place of the new one.
// It changes only files of root. If it fails, the new file still belongs to root.
func HandOver(folder *os.Root, made *os.File) {
	uid, gid, ok := starter()
	if !ok {
		return
	}
	dir, err := folder.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	var in, st unix.Stat_t
	if unix.Fstat(int(dir.Fd()), &in) != nil || unix.Fstat(int(made.Fd()), &st) != nil || int(in.Uid) != uid || st.Uid != 0 {
		return
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if st.Nlink > 1 || st.Size > 0 {
			return
		}
	case unix.S_IFDIR: // the folder's owner could have put another folder at this place; accept only an empty one
		if _, err := made.Readdirnames(1); !errors.Is(err, io.EOF) || st.Mode&0o077 != 0 {
			return
		}
	default:
		return
	}
	if uint32(in.Mode)&unix.S_ISGID != 0 {
		gid = -1 // -1 does not change the group: new files have the folder's group
	}
	_ = unix.Fchown(int(made.Fd()), uid, gid) // fails if the file system has no owners, or belongs to another machine
}

// handOverFolder gives a new folder to the user who started ddtop by sudo or pkexec (HandOver).
func handOverFolder(folder *os.Root, name string) {
	if _, _, ok := starter(); !ok {
		return
	}
	if info, err := folder.Lstat(name); err != nil || info.Mode().Type() != fs.ModeDir {
		return
	}
	made, err := folder.Open(name)
	if err != nil {
		return
	}
	defer made.Close()
	HandOver(folder, made)
}

// starter returns the user and group that started ddtop as root by sudo or pkexec. gid is -1 if the group is unknown.
// ok is false if ddtop does not run as root, or if no other user started it by sudo or pkexec. sudo sets SUDO_UID, and
// pkexec sets PKEXEC_UID. If another user can set these variables for a ddtop that runs as root, that user already has
// root's rights.
func starter() (uid, gid int, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	number := func(name string) int {
		n, err := strconv.ParseUint(os.Getenv(name), 10, 32)
		if err != nil || n >= math.MaxUint32 {
			return -1
		}
		return int(n)
	}
	if uid = number("SUDO_UID"); uid > 0 {
		return uid, number("SUDO_GID"), true
	}
	uid = number("PKEXEC_UID")
	return uid, -1, uid > 0
}
