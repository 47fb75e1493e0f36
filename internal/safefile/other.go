//go:build !linux

package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// Rights are the user, groups and capabilities of the process that named a file. Only Linux uses them.
type Rights struct {
	UID, GID     int
	Groups       []int
	Capabilities uint64
}

// Root is a folder. Paths that are opened in a Root cannot lead out of the folder.
type Root struct {
	dir  *os.Root
	gate *Gate
}

// OpenRoot opens a folder as a root. If a path is opened in this root later, links that lead out of it are refused.
func OpenRoot(path string, _ *Rights, gate *Gate) (*Root, error) {
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Root{dir, gate}, nil
}

// Close closes the folder.
func (r *Root) Close() error { return r.dir.Close() }

// Open opens a regular file of at most limit bytes for reading. The path is relative to the root.
func (r *Root) Open(path string, limit int64) (*File, error) {
	path, err := filepath.Rel("/", filepath.Join("/", path))
	if err != nil {
		return nil, err
	}
	info, err := r.dir.Stat(path)
	if err != nil {
		return nil, err
	}
	return opened(path, info, limit, r.gate, func() (*os.File, error) { return r.dir.Open(path) })
}

// Open opens a regular file that the user has named, if it has at most limit bytes.
func Open(path string, limit int64) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return opened(path, info, limit, new(Gate), func() (*os.File, error) { return os.Open(path) })
}

func opened(name string, info os.FileInfo, limit int64, gate *Gate, open func() (*os.File, error)) (*File, error) {
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w", name, ErrNotRegular)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s: %w: %d bytes, and %d are the most", name, ErrTooLarge, info.Size(), limit)
	}
	file, err := open()
	if err != nil {
		return nil, err
	}
	return &File{file: file, name: name, info: info, gate: gate}, nil
}

// OwnFolder opens a folder into which ddtop writes without being asked by a user, and makes the folder if it is
// missing.
func OwnFolder(path string) (*os.Root, error) { return MakeFolder(path) }

// Free returns the free bytes of a file system on Linux. Here it returns a number that is larger than the size of any
// file system.
func Free(*os.Root) int64 { return math.MaxInt64 }

// MakeFolder opens a folder. It makes missing folders on the path (with mode 0700).
func MakeFolder(path string) (*os.Root, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return os.OpenRoot(path)
}

// Locate finds the file or folder to which a path leads, and follows links.
func Locate(path string) (*Destination, error) {
	full := path
	if end, err := filepath.EvalSymlinks(path); err == nil {
		full = end
	}
	dir, err := os.OpenRoot(filepath.Dir(full))
	if err != nil {
		return nil, fmt.Errorf("%s can't be written: %w", path, err)
	}
	info, err := os.Stat(full)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("%s can't be written: %w", path, err), dir.Close())
	}
	return &Destination{dir: dir, name: filepath.Base(full), Path: path, Info: info}, nil
}

// ReadTrusted reads a file of at most limit bytes whose content decides what ddtop does, such as its settings.
func ReadTrusted(path string, limit int64) ([]byte, error) {
	f, err := Open(path, limit)
	if err != nil {
		return nil, err
	}
	content, err := f.ReadAll(limit)
	return content, errors.Join(err, f.Close())
}

// WriteTrusted writes a file that ReadTrusted accepts. If writing fails, the file stays as it was.
func WriteTrusted(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return WriteFile(path, Waiting{}, write)
}
