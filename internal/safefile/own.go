package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// othersWrite are the mode bits that let users other than the owner write.
const othersWrite = 0o022

// OpenOwn opens a regular file in one of ddtop's own folders (OwnFolder). It follows no link and never waits for a
// pipe. The error is ErrNotRegular if the name is not a regular file. It is ErrUntrusted if another user has made the
// file or may write to it, or if it has a second name (a hard link).
func OpenOwn(folder *os.Root, name string, flags int) (*os.File, error) {
	// Check for a link before opening the file. os.Root follows links within the folder, even with O_NOFOLLOW.
	there, err := folder.Lstat(name)
	if err == nil {
		err = OwnFile(there)
	} else if errors.Is(err, fs.ErrNotExist) && flags&os.O_CREATE != 0 {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f, err := folder.OpenFile(name, flags|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = OwnFile(info)
	}
	if err == nil && there != nil && !os.SameFile(there, info) {
		err = ErrUntrusted // the file was replaced between the check and the open
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return f, nil
}

// ReadOwn opens a file for reading, with the same checks as OpenOwn. The error is ErrTooLarge if the file has more than
// limit bytes.
func ReadOwn(folder *os.Root, name string, limit int64, gate *Gate) (*File, error) {
	f, err := OpenOwn(folder, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > limit {
		err = fmt.Errorf("%s: %w: %d bytes, and %d are the most", name, ErrTooLarge, info.Size(), limit)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{file: f, name: name, info: info, gate: gate}, nil
}

// OwnFile checks that a file can be one that ddtop has written itself. Such a file is regular and has only one name. It
// belongs to a trusted user, and no other user may write to it. For any other file OwnFile returns ErrNotRegular or
// ErrUntrusted.
func OwnFile(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return ErrNotRegular
	case !ok:
		return ErrUntrusted
	case !trusted(int(st.Uid)):
		return fmt.Errorf("%w: it is user %d's", ErrUntrusted, st.Uid)
	case st.Mode&othersWrite != 0:
		return fmt.Errorf("%w: its mode is %#o", ErrUntrusted, st.Mode&0o7777)
	case st.Nlink > 1:
		return fmt.Errorf("%w: it has %d names", ErrUntrusted, st.Nlink)
	}
	return nil
}

// trusted reports whether a user is root, ddtop's own user, or the user who started ddtop by sudo or pkexec. ddtop
// knows this user by the variables SUDO_UID and PKEXEC_UID. If another user can set these variables for a ddtop that
// runs as root, that user already has root's rights.
func trusted(uid int) bool {
	if uid == 0 || uid == os.Geteuid() {
		return true
	}
	if os.Geteuid() != 0 {
		return false
	}
	for _, name := range []string{"SUDO_UID", "PKEXEC_UID"} {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n == uid {
			return true
		}
	}
	return false
}
