package safefile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ReadTrusted reads a file of at most limit bytes whose content decides what ddtop does, such as its settings or its
// cache. The file, and every folder and link on its path, must belong to root or to ddtop's own user. Under sudo they
// may also belong to the user who started ddtop. No other user may have the right to write to them (see trustedInode
// for exceptions). Otherwise the error is ErrUntrusted and says what is not trusted. ReadTrusted reads the same open
// file that it has checked.
func ReadTrusted(path string, limit int64) ([]byte, error) {
	at, err := walkFull(path, trustedInode)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(at.dir)
	if at.file < 0 {
		return nil, &os.PathError{Op: "open", Path: path, Err: unix.ENOENT}
	}
	defer unix.Close(at.file)
	f, err := reopen(at.file, path, limit, nil)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadAll(limit)
}

// WriteTrusted writes a file that ReadTrusted accepts. It writes the whole file or nothing. It makes missing folders
// with mode 0700. It writes only into a folder of ddtop's own user. So if ddtop runs as root, it writes nothing into
// another user's folder, even if HOME names that folder.
func WriteTrusted(path string, write func(io.Writer) error) error {
	full, root, err := fromRoot(path)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	dir, err := makeBelow(root, filepath.Dir(full), trustedInode, func(st *unix.Stat_t) error {
		if int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("%w: the folder, or the one that it is to be made in, is user %d's", ErrUntrusted, st.Uid)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer dir.Close()
	p := &Destination{dir: dir, name: filepath.Base(full), Path: path}
	return p.Write(write)
}

// trustedInode returns why ddtop cannot trust a file, or a folder or link on its path. If ddtop is not root, a group
// may have the right to write: the owner has allowed this, and often the group has only one user.
func trustedInode(st *unix.Stat_t) error {
	kind := st.Mode & unix.S_IFMT
	if !trusted(int(st.Uid)) {
		return fmt.Errorf("%w: %s on its path, or itself, is user %d's", ErrUntrusted, kindOrFile(kind), st.Uid)
	}
	others := uint32(0o022)
	if os.Geteuid() != 0 {
		others = 0o002
	}
	if kind == unix.S_IFLNK || kind == unix.S_IFDIR && st.Mode&unix.S_ISVTX != 0 || st.Mode&others == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s on its path, or itself, has mode %#o: take the right to write from others (chmod go-w)",
		ErrUntrusted, kindOrFile(kind), st.Mode&0o7777)
}

func kindOrFile(kind uint32) string {
	if kind == unix.S_IFREG {
		return "a file"
	}
	return kindOf(kind)
}
