//go:build !linux

package safefile

import (
	"io/fs"
	"os"
)

// OwnFolder opens a folder into which ddtop writes while nobody looks, and makes it if it is missing.
func OwnFolder(path string) (*os.Root, error) { return MakeFolder(path) }

// OpenOwn opens a regular file of an own folder.
func OpenOwn(folder *os.Root, name string, flags int) (*os.File, error) {
	info, err := folder.Lstat(name)
	if err == nil {
		err = OwnFile(info)
	} else if flags&os.O_CREATE != 0 {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return folder.OpenFile(name, flags, 0o600)
}

// OwnFile says why a file is not one that ddtop has written: ErrNotRegular.
func OwnFile(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return ErrNotRegular
	}
	return nil
}
