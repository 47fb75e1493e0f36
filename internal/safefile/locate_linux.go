package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Locate finds the file or folder to which a path leads, and follows links. If ddtop runs as root, it follows no link
// that belongs to another user, who could let the link point to root's files. It does follow links of the user who
// started ddtop by sudo.
func Locate(path string) (*Destination, error) {
	fail := func(err error) (*Destination, error) { return nil, fmt.Errorf("%s can't be written: %w", path, err) }
	at, err := walkFull(path, noStrangersLink)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(at.dir)
	if at.file >= 0 {
		defer unix.Close(at.file)
	}
	dir, err := openRoot(at.dir)
	if err != nil {
		return fail(err)
	}
	p := &Destination{dir: dir, name: at.name, Path: path}
	if at.file >= 0 {
		if p.Info, err = os.Stat("/proc/self/fd/" + strconv.Itoa(at.file)); err != nil {
			return fail(errors.Join(err, dir.Close()))
		}
	}
	return p, nil
}

// noStrangersLink returns an error if ddtop runs as root, and the link was made by a user that ddtop does not trust.
func noStrangersLink(st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK && os.Geteuid() == 0 && !trusted(int(st.Uid)) {
		return fmt.Errorf("a link on the way was made by user %d, and as root ddtop follows no other user's links: give the path that it leads to: %w",
			st.Uid, fs.ErrPermission)
	}
	return nil
}

// MakeFolder opens a folder. It makes missing folders on the path (with mode 0700). It follows the same links as
// Locate.
func MakeFolder(path string) (*os.Root, error) {
	full, root, err := fromRoot(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	dir, err := makeBelow(root, full, noStrangersLink, nil)
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", path, err)
	}
	return dir, nil
}

// makeBelow opens a folder below a root, and makes missing folders on the way. Like walk, it calls the function visit
// for everything on the way. Before it makes the first folder, it calls the function found with the innermost folder
// that already exists. found may be nil. If found returns an error, makeBelow ends.
func makeBelow(root int, folder string, visit, found func(*unix.Stat_t) error) (*os.Root, error) {
	var missing []string
	at, err := walk(root, folder, visit)
	for err == nil && at.file < 0 || errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			unix.Close(at.dir)
		}
		missing = append([]string{filepath.Base(folder)}, missing...)
		folder = filepath.Dir(folder)
		at, err = walk(root, folder, visit)
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(at.dir)
	defer unix.Close(at.file)
	if at.st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, unix.ENOTDIR
	}
	if found != nil {
		if err := found(&at.st); err != nil {
			return nil, err
		}
	}
	dir, err := openRoot(at.file)
	if err != nil {
		return nil, err
	}
	for _, name := range missing {
		err := dir.Mkdir(name, 0o700)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, errors.Join(err, dir.Close())
		}
		if err == nil {
			handOverFolder(dir, name)
		}
		inner, err := dir.OpenRoot(name)
		if err := errors.Join(err, dir.Close()); err != nil {
			return nil, err
		}
		dir = inner
	}
	return dir, nil
}
